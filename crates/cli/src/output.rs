//! Outputs appear whole or not at all: written beside their place under a temporary name, then renamed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use lab::findings::Table;
use lab::findings::numbers::counted;

use crate::error::{Error, Result};

/// The file that marks a directory as one of ours.
pub const PLAN: &str = "plan.toml";

/// The directory that a path is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a file atomically.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.is_dir() {
        return Err(Error::content(path, "is a directory; accepted: the name of a file"));
    }
    let failed = || Error::file("write", path);
    let mut temporary =
        tempfile::Builder::new().prefix(".iclab-").tempfile_in(parent(path)).map_err(failed())?;
    temporary.write_all(bytes).and_then(|()| temporary.as_file().sync_all()).map_err(failed())?;
    // tempfile's own permissions are private; an output should be as readable as any other file
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        temporary.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(failed())?;
    }
    temporary.persist(path).map_err(|e| Error::file("write", path)(e.error))?;
    Ok(())
}

/// A directory being filled.
pub struct Directory {
    target: PathBuf,
    temporary: tempfile::TempDir,
}

impl Directory {
    /// Checks that the target may be (re)placed and can be written, before any work is done.
    pub fn begin(target: &Path) -> Result<Directory> {
        let empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if target.exists() && !target.is_dir() {
            return Err(Error::content(target, "is a file; accepted: a new directory, or one made by iclab"));
        }
        if target.is_dir() && !target.join(PLAN).is_file() && !empty(target) {
            let why = "holds something else than an iclab output; accepted: a new or empty directory, or one made by iclab";
            return Err(Error::content(target, why));
        }
        let failed = || Error::file("create", target);
        fs::create_dir_all(parent(target)).map_err(failed())?;
        let temporary =
            tempfile::Builder::new().prefix(".iclab-").tempdir_in(parent(target)).map_err(failed())?;
        Ok(Directory { target: target.to_path_buf(), temporary })
    }

    /// Where to write meanwhile.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Puts it in its place; an older output there is replaced.
    pub fn finish(self) -> Result<()> {
        let failed = || Error::file("write", &self.target);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(self.path(), fs::Permissions::from_mode(0o755)).map_err(failed())?;
        }
        let attic =
            tempfile::Builder::new().prefix(".iclab-").tempdir_in(parent(&self.target)).map_err(failed())?;
        let old = attic.path().join("old");
        let replaced = self.target.is_dir();
        if replaced {
            fs::rename(&self.target, &old).map_err(failed())?;
        }
        let new = self.temporary.keep();
        if let Err(error) = fs::rename(&new, &self.target) {
            if replaced {
                let _ = fs::rename(&old, &self.target); // put the old one back
            }
            let _ = fs::remove_dir_all(&new);
            return Err(Error::file("write", &self.target)(error));
        }
        Ok(())
    }
}

/// A table with columns as wide as they need to be.
pub fn print_aligned(table: &Table) {
    println!("{}", table.title);
    let rows = || std::iter::once(&table.columns).chain(&table.rows);
    let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    for row in rows() {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        println!("  {}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// A value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value).map_err(report::Error::from)?);
    Ok(())
}

/// Processor and cores, in words.
pub fn machine() -> String {
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {}", name.unwrap_or_else(|| std::env::consts::ARCH.into()), counted(cores, "core", "cores"))
}
