//! The signatures beside a lock, `lock.N`, by means that every NFS has: hard links, and files that are opened anew.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use engine::host;

use super::beside;
use super::owner::Note;

/// Where a lock is.
#[derive(Clone, Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    pub fn new(path: &Path) -> Place {
        Place(path.into())
    }

    /// The file of a signature.
    pub fn file(&self, number: u64) -> PathBuf {
        beside(&self.0, &format!(".{number}"))
    }

    /// A file for a moment; `.part` marks what may be removed at any time.
    fn passing(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        beside(&self.0, &format!(".{}-{count}.part", host::process_tag()))
    }

    /// What lies beside the lock, with what follows its name and a dot.
    fn beside(&self) -> impl Iterator<Item = (fs::DirEntry, String)> {
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
        let name = self.0.file_name().unwrap_or_default().to_string_lossy().into_owned();
        entries.filter_map(move |entry| {
            let found = entry.file_name().into_string().ok()?;
            let more = found.strip_prefix(&name)?.strip_prefix('.')?.to_string();
            Some((entry, more))
        })
    }

    /// The numbers of all signatures, and nothing else that lies there: what NFS keeps of removed files is called `.nfs…`.
    fn numbers(&self) -> Vec<u64> {
        self.beside().filter_map(|(_, more)| more.parse().ok()).collect()
    }

    pub fn newest_number(&self) -> Option<u64> {
        self.numbers().into_iter().max()
    }

    /// The newest signature. The file is opened anew each time: that is when NFS asks its server.
    pub fn newest(&self) -> Option<(u64, Note)> {
        let number = self.newest_number()?;
        Some((number, self.read(number).unwrap_or(Note::Unknown)))
    }

    /// What a signature says, if it is there.
    pub fn read(&self, number: u64) -> Option<Note> {
        let text = fs::read(self.file(number)).ok()?;
        Some(Note::parse(&String::from_utf8_lossy(&text)))
    }

    /// When a signature was last written, by the clock of whoever keeps the files.
    pub fn written(&self, number: u64) -> Option<SystemTime> {
        File::open(self.file(number)).and_then(|file| file.metadata()?.modified()).ok()
    }

    /// What that clock shows now; `None` where nothing can be written.
    pub fn server_clock(&self) -> Option<SystemTime> {
        let path = self.passing();
        let written = write_new(&path, "now");
        let now = written.and_then(|()| File::open(&path)?.metadata()?.modified());
        let _ = fs::remove_file(&path);
        now.ok()
    }

    /// Makes a signature, whole, unless there is one of its number: of many who try, one does.
    pub fn claim(&self, number: u64, text: &str) -> io::Result<bool> {
        let (part, target) = (self.passing(), self.file(number));
        if let Err(error) = write_new(&part, text) {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        let claimed = match fs::hard_link(&part, &target) {
            Ok(()) => Ok(true),
            // An answer of NFS may be lost and the request repeated; the count of links tells.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(links(&part) == 2),
            // The owner of the lock clears away what is half-written.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            // A file system without links.
            Err(_) => match write_new(&target, text) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
                written => written.map(|()| true),
            },
        };
        let _ = fs::remove_file(&part);
        claimed
    }

    pub fn remove(&self, number: u64) {
        let _ = fs::remove_file(self.file(number));
    }

    /// Removes the signatures before one that is held, the oldest first: the newest of those that are there tells.
    pub fn remove_before(&self, number: u64) {
        let mut old: Vec<u64> = self.numbers().into_iter().filter(|old| *old < number).collect();
        old.sort_unstable();
        old.into_iter().for_each(|old| self.remove(old));
    }

    /// Removes what those leave for a moment who are killed in it, and the lock itself.
    pub fn remove_rest(&self) {
        for (entry, _) in self.beside().filter(|(_, more)| more.ends_with(".part")) {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file that was not there.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(unix)]
fn links(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map_or(0, |file| file.nlink())
}

#[cfg(not(unix))]
fn links(_: &Path) -> u64 {
    0
}
