//! One process at a time, of however many machines that share a file system.
//!
//! The kernel's lock (`flock`) on the file `lock` comes first: it ends with its process, however that ends. Whether it holds
//! between machines depends on how a file system is mounted, and nobody can tell. So the owner also signs `lock.N` and beats:
//! every ten seconds it counts on in that file. Who comes and finds a signature
//!
//! - of a process of this machine that is no more, knows that the owner is dead;
//! - of any other one waits: as long as the file was written within the last minute, by the clock of the file server, the owner
//!   lives; otherwise it watches for half a minute by its own stopwatch, and takes over if nothing was counted. So a clock that
//!   jumps, whichever it is, costs that half minute at most.
//!
//! To take over is to make `lock.N+1`, which only one of many can (a hard link, atomic on every NFS). The newest signature is
//! never removed, only marked as free, so that whoever decided long ago cannot win later. An owner that slept too long finds
//! the newer one before it writes ([`Lock::check`]).

mod owner;
mod signature;
#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

use owner::Note;
pub use owner::Owner;
use signature::Place;

/// How long things take.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Between two beats.
    beat: Duration,
    /// After so long without a beat, by the file server's clock, an owner is watched.
    stale: Duration,
    /// So long it is watched: several beats.
    watch: Duration,
}

const PACE: Pace =
    Pace { beat: Duration::from_secs(10), stale: Duration::from_secs(60), watch: Duration::from_secs(30) };

/// A lock that this process holds, until it is dropped.
pub struct Lock {
    place: Place,
    me: Owner,
    number: u64,
    /// Whose it was, where that process is dead.
    pub taken_from: Option<Owner>,
    file: File,
    heart: Option<(Sender<()>, JoinHandle<()>)>,
    /// Ends with it, after the signature is marked as free.
    _kernel: File,
}

/// What came of asking for a lock.
pub enum Attempt {
    /// It is this process's.
    Taken(Lock),
    /// It is held, and by whom as far as that is known.
    Busy(Option<Owner>),
}

/// Asks for the lock at a path, whose folder must be there.
pub fn take(path: &Path) -> Result<Attempt> {
    Asker { me: Owner::this(), pace: PACE, kernel: true }.take(path)
}

/// Whether the lock at a path is held, and by whom as far as that is known. Leaves nothing behind.
pub fn holder(path: &Path) -> Option<Option<Owner>> {
    Asker { me: Owner::this(), pace: PACE, kernel: true }.holder(path)
}

/// Who asks, and how; tests pretend to be other machines.
struct Asker {
    me: Owner,
    pace: Pace,
    /// Whether the kernel's lock is asked for. Between machines that do not share it, it is as if it were not there.
    kernel: bool,
}

/// What the kernel says about its lock.
#[derive(PartialEq)]
enum Kernel {
    Ours,
    Theirs,
    /// A file system that has none.
    Absent,
}

impl Asker {
    fn take(&self, path: &Path) -> Result<Attempt> {
        const ROUNDS: usize = 8;
        let place = Place::new(path);
        let kernel = File::options().create(true).truncate(false).read(true).write(true).open(path);
        let kernel = kernel.map_err(Error::file("create", path))?;
        let ours = match self.ask_kernel(&kernel) {
            Kernel::Theirs => return Ok(Attempt::Busy(place.newest().and_then(|(_, note)| note.owner()))),
            answer => answer == Kernel::Ours,
        };
        for _ in 0..ROUNDS {
            let (last, taken_from) = match place.newest() {
                None => (0, None),
                Some((number, Note::Free)) => (number, None),
                Some((number, note)) => match self.is_dead(&place, number, &note, ours) {
                    Some(true) => (number, note.owner()),
                    Some(false) => return Ok(Attempt::Busy(note.owner())),
                    None => continue,
                },
            };
            let number = last + 1;
            if !place.claim(number, &Note::text(&self.me, 0)).map_err(Error::file("lock", path))? {
                continue;
            }
            if place.newest_number() != Some(number) {
                // Decided long ago: others have come and gone meanwhile.
                place.remove(number);
                continue;
            }
            place.remove_before(number);
            let file = File::options().write(true).open(place.file(number));
            let file = file.map_err(Error::file("lock", path))?;
            let me = self.me.clone();
            let mut lock = Lock { place, me, number, taken_from, file, heart: None, _kernel: kernel };
            lock.begin_beating(self.pace.beat).map_err(Error::file("lock", path))?;
            return Ok(Attempt::Taken(lock));
        }
        Ok(Attempt::Busy(place.newest().and_then(|(_, note)| note.owner())))
    }

    /// Takes the kernel's lock. Who only looks holds it for a moment, which is waited for.
    fn ask_kernel(&self, file: &File) -> Kernel {
        const TRIES: u32 = 10;
        if !self.kernel {
            return Kernel::Absent;
        }
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Kernel::Ours,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
                Err(TryLockError::Error(_)) => return Kernel::Absent,
            }
        }
        Kernel::Theirs
    }

    /// Whether the owner of a signature is dead; `None` where there is another by now.
    fn is_dead(&self, place: &Place, number: u64, note: &Note, kernel_is_ours: bool) -> Option<bool> {
        if let Note::Held(owner, _) = note
            && self.is_known_dead(owner, kernel_is_ours)
        {
            return Some(true);
        }
        if self.is_fresh(place, number, place.server_clock()) {
            return Some(false);
        }
        let begun = Instant::now();
        while begun.elapsed() < self.pace.watch {
            std::thread::sleep(self.pace.beat / 4);
            match place.newest() {
                Some((newest, found)) if newest == number && found == *note => {}
                Some((newest, Note::Held(..))) if newest == number => return Some(false),
                _ => return None,
            }
        }
        Some(true)
    }

    /// Whether an owner is dead for sure: a process of this machine that is no more. Of all others their beats tell, also of
    /// one that runs here: the kernel's lock may be free because a file system is mounted twice, or the beats have ended
    /// because the process has other things to do by now.
    fn is_known_dead(&self, owner: &Owner, kernel_is_ours: bool) -> bool {
        match owner.is_running(&self.me) {
            Some(running) => !running,
            // Systems that cannot tell, and have no containers with numbers of their own.
            None => kernel_is_ours && owner.space.is_empty() && owner.shares_kernel(&self.me),
        }
    }

    /// Whether a signature was written within the last minute, by the clock that dates files there.
    fn is_fresh(&self, place: &Place, number: u64, now: Option<std::time::SystemTime>) -> bool {
        let age = now.zip(place.written(number)).and_then(|(now, then)| now.duration_since(then).ok());
        age.is_some_and(|age| age < self.pace.stale)
    }

    fn holder(&self, path: &Path) -> Option<Option<Owner>> {
        let place = Place::new(path);
        let kernel = File::open(path).ok()?;
        let answer = if self.kernel { kernel.try_lock_shared() } else { Ok(()) };
        let (number, note) = match (place.newest(), &answer) {
            (newest, Err(TryLockError::WouldBlock)) => {
                return Some(newest.and_then(|(_, note)| note.owner()));
            }
            (None | Some((_, Note::Free)), _) => return None,
            (Some(newest), _) => newest,
        };
        let owner = note.owner();
        if owner.as_ref().is_some_and(|owner| self.is_known_dead(owner, self.kernel && answer.is_ok())) {
            return None;
        }
        // Who may not write there has no clock but this machine's, and changes nothing by a wrong answer.
        let now = place.server_clock().or_else(|| Some(std::time::SystemTime::now()));
        self.is_fresh(&place, number, now).then_some(owner)
    }
}

impl Lock {
    /// Whether the lock is still this process's: one that did not beat for long may have lost it.
    pub fn check(&self) -> bool {
        !is_taken_over(&self.place, self.number)
    }

    fn begin_beating(&mut self, pause: Duration) -> std::io::Result<()> {
        let (stop, stopped) = channel::<()>();
        let (place, number, owner) = (self.place.clone(), self.number, self.me.clone());
        let mut file = self.file.try_clone()?;
        let beats = move || {
            for beat in 1.. {
                let asked_to_stop = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
                if asked_to_stop || is_taken_over(&place, number) {
                    return;
                }
                // A beat that cannot be written is missed; there are several before anybody takes over.
                let _ = write_over(&mut file, &Note::text(&owner, beat));
            }
        };
        let thread = std::thread::Builder::new().name("lock".into()).spawn(beats)?;
        self.heart = Some((stop, thread));
        Ok(())
    }

    fn stop_beating(&mut self) {
        if let Some((stop, thread)) = self.heart.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.stop_beating();
        if self.check() {
            let _ = write_over(&mut self.file, &Note::free(&self.me));
        }
    }
}

/// Whether there is a newer signature; not where a folder cannot be listed at the moment.
fn is_taken_over(place: &Place, number: u64) -> bool {
    place.newest_number().is_some_and(|newest| newest > number)
}

/// Writes a note in place of another of the same length, and has it sent to the file server.
fn write_over(file: &mut File, text: &str) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A path beside another: its name and more.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(more);
    path.with_file_name(name)
}
