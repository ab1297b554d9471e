//! Parts: files and folders under a temporary name beside their target, `NAME.MACHINE-PROCESS.part`, until they are whole.
//!
//! A part is locked while it is filled. The lock is the operating system's and ends with the process, however that ends: a
//! part that can be locked was left by one that was killed, and whoever next writes to the same target removes it. Where the
//! file system has no locks, parts are left alone, and so are those of other machines, whose locks NFS need not show.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::host;

/// Names that are tried: another thread may be filling a part for the same target.
const TRIES: u32 = 1000;

/// A part, locked as long as this is kept.
pub(crate) struct Part {
    pub path: PathBuf,
    pub handle: File,
}

/// Begins a file that is to become `target`.
pub(crate) fn file(target: &Path) -> io::Result<Part> {
    begin(target, |path| File::options().write(true).create_new(true).open(path))
}

/// Begins a folder that is to become `target`.
pub(crate) fn folder(target: &Path) -> io::Result<Part> {
    begin(target, |path| fs::create_dir(path).and_then(|()| File::open(path)))
}

fn begin(target: &Path, create: impl Fn(&Path) -> io::Result<File>) -> io::Result<Part> {
    remove_abandoned(target);
    for attempt in 0..TRIES {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}", host::process_tag()));
        if attempt > 0 {
            name.push(format!("-{attempt}"));
        }
        name.push(".part");
        let path = target.with_file_name(name);
        match create(&path) {
            Ok(handle) => {
                let _ = handle.try_lock();
                // Before it was locked it looked abandoned, and may have been removed.
                if path.exists() {
                    return Ok(Part { path, handle });
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Removes the parts of a target that nobody is filling.
fn remove_abandoned(target: &Path) {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = target.file_name().and_then(|name| name.to_str()) else { return };
    let own = format!("{name}.{}-", host::machine_tag());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let number = found.to_str().and_then(|found| found.strip_prefix(&own)?.strip_suffix(".part"));
        if !number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'-')) {
            continue;
        }
        let path = entry.path();
        // A folder cannot be opened for writing, and is locked all the same.
        let opened = File::options().write(true).open(&path).or_else(|_| File::open(&path));
        let Some(handle) = opened.ok().filter(|handle| handle.try_lock().is_ok()) else { continue };
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        drop(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_abandoned_goes_and_what_is_being_filled_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a.npz");
        let names = || {
            let mut names: Vec<String> = fs::read_dir(dir.path())
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let here = host::machine_tag();
        let others = ["a.npz".to_string(), format!("b.npz.{here}-7.part"), "a.npz.elsewhere-7.part".into()];
        let abandoned = [format!("a.npz.{here}-7.part"), format!("a.npz.{here}-8-2.part")];
        for name in others.iter().chain(&abandoned) {
            fs::write(dir.path().join(name), "old").unwrap();
        }
        fs::create_dir_all(dir.path().join(format!("a.npz.{here}-9.part/inside"))).unwrap();
        let first = file(&target).unwrap();
        let second = file(&target).unwrap();
        assert_ne!(first.path, second.path, "two at a time, one process");
        let own = |part: &Part| part.path.file_name().unwrap().to_str().unwrap().to_string();
        let with_others = |parts: &[&Part]| {
            let mut all: Vec<String> =
                others.iter().cloned().chain(parts.iter().map(|part| own(part))).collect();
            all.sort();
            all
        };
        assert_eq!(names(), with_others(&[&first, &second]));
        drop((first, second));
        let third = folder(&target).unwrap();
        assert!(third.path.is_dir());
        assert_eq!(names(), with_others(&[&third]));
    }
}
