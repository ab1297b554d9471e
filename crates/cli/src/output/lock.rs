//! One process at a time writes into a folder. The lock is the operating system's: it ends with the process, however that
//! ends, so that a killed one leaves a file and no lock.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use engine::host;

use crate::error::{Error, Result};

/// The file that is locked, and says by whom.
pub const LOCK: &str = ".iclab-lock";

/// A lock that this process holds.
///
/// Its file is removed by who leaves the folder, while the lock is held: so that nobody else's is.
pub struct FolderLock(#[expect(dead_code, reason = "held as long as it is open")] File);

impl FolderLock {
    /// Takes the lock of a folder, or says who has it.
    pub fn take(dir: &Path) -> Result<FolderLock> {
        let path = dir.join(LOCK);
        loop {
            let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
            let mut file = file.map_err(Error::file("create", &path))?;
            match file.try_lock() {
                Ok(()) if still_there(&file, &path) => {
                    let _ = file.set_len(0);
                    let _ = write!(file, "process {} on {}", std::process::id(), host::name());
                    return Ok(FolderLock(file));
                }
                Ok(()) => {} // whoever had it has just removed it: there may be another by now
                Err(TryLockError::WouldBlock) => {
                    let mut who = String::new();
                    let _ = file.read_to_string(&mut who);
                    let who = if who.is_empty() { "another process" } else { &who };
                    let why =
                        format!("is being written by {who}; accepted: another directory, or wait for it");
                    return Err(Error::content(dir, why));
                }
                // A file system without locks: then there is none, as in earlier versions.
                Err(TryLockError::Error(_)) => return Ok(FolderLock(file)),
            }
        }
    }
}

/// Whether the file that was locked is the one that others will find.
#[cfg(unix)]
fn still_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(|(one, other)| same(one, other))
}

#[cfg(not(unix))]
fn still_there(_: &File, _: &Path) -> bool {
    true // a file that is open cannot be removed there
}
