//! The kernel's lock on a file. It ends with its process, and holds for those who see the file through the same kernel.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

/// What the kernel says about its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Ours,
    Theirs,
    /// A file system that has none.
    Absent,
}

/// Opens the file of a lock and takes the kernel's, unless it is not to be `asked`.
pub(super) fn open(path: &Path, asked: bool) -> io::Result<(File, Kernel)> {
    loop {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        match if asked { ask(&file) } else { Kernel::Absent } {
            Kernel::Ours if !is_still_there(&file, path) => {} // whoever had it has just removed it
            answer => return Ok((file, answer)),
        }
    }
}

/// Takes the kernel's lock. Who only looks holds it for a moment, which is waited for.
fn ask(file: &File) -> Kernel {
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Kernel::Ours,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::Error(_)) => return Kernel::Absent,
        }
    }
    Kernel::Theirs
}

/// Whether the file that was locked is the one that others will find.
fn is_still_there(file: &File, path: &Path) -> bool {
    File::open(path).is_ok_and(|found| identity(&found) == identity(file))
}

/// Which file this is for the kernel, as long as somebody has it open: a file system that is mounted twice has two. Empty
/// where it cannot be told.
#[cfg(unix)]
pub(super) fn identity(file: &File) -> String {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or_else(|_| String::new(), |about| format!("{}:{}", about.dev(), about.ino()))
}

#[cfg(not(unix))]
pub(super) fn identity(_: &File) -> String {
    String::new() // a file that is open cannot be removed there
}
