//! One process at a time, of however many machines that share a file system.
//!
//! The kernel's lock (`flock`) on the file `lock` comes first: it ends with its process, however that ends. Whether it holds
//! between machines depends on how a file system is mounted, and nobody can tell. So the owner also signs `lock.N` and beats:
//! every ten seconds it counts on in that file. Who comes and finds a signature
//!
//! - of a process of this machine that is no more, knows that the owner is dead; so it does where it has the kernel's lock of
//!   the very file that the owner had it of, and where this machine has been booted since the owner's last beat;
//! - of any other one waits: as long as the file was written within the last minute, by the clock of the file server, the owner
//!   lives; otherwise it watches for half a minute by its own stopwatch, and takes over if nothing was counted. So a clock that
//!   jumps, whichever it is, costs that half minute at most.
//!
//! To take over is to make `lock.N+1`, which only one of many can (a hard link, atomic on every NFS). The newest signature is
//! not removed, only marked as free, so that whoever decided long ago cannot win later. Where nothing may stay
//! ([`Lock::remove`]) its owner alone removes it; who decided by a signature that is no longer there begins again. An owner
//! that slept too long finds the newer one before it writes ([`Lock::check`]).

mod kernel;
mod owner;
mod signature;
#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use engine::host;

use crate::error::{Error, Result};

use kernel::Kernel;
pub use owner::Owner;
use owner::{Held, Note};
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
    held: Box<Held>,
    number: u64,
    /// Whose it was, where that process is dead.
    pub taken_from: Option<Owner>,
    /// The signature; none when nothing more is to be written.
    file: Option<File>,
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
    Asker::usual().take(path)
}

/// Whether the lock at a path is held, and by whom as far as that is known. Leaves nothing behind.
pub fn holder(path: &Path) -> Option<Option<Owner>> {
    Asker::usual().holder(path)
}

/// Who asks, and how; tests pretend to be other machines.
struct Asker {
    me: Owner,
    pace: Pace,
    /// Whether the kernel's lock is asked for. Between machines that do not share it, it is as if it were not there.
    kernel: bool,
}

impl Asker {
    /// This process, at the usual pace.
    fn usual() -> Asker {
        Asker { me: Owner::this(), pace: PACE, kernel: true }
    }

    fn take(&self, path: &Path) -> Result<Attempt> {
        let place = Place::new(path);
        let (file, answer) = kernel::open(path, self.kernel).map_err(Error::file("create", path))?;
        if answer == Kernel::Theirs {
            return Ok(Attempt::Busy(place.newest().and_then(|(_, note)| note.owner())));
        }
        let signed = self.sign(&place, answer, file);
        if signed.is_err() && place.newest_number().is_none() {
            place.remove_rest(); // a lock that nobody has, made for nothing
        }
        signed.map_err(Error::file("lock", path))
    }

    /// Makes the next signature, if the last one is of nobody or of the dead.
    fn sign(&self, place: &Place, answer: Kernel, kernel: File) -> std::io::Result<Attempt> {
        const ROUNDS: usize = 8;
        let ours = (answer == Kernel::Ours).then(|| kernel::identity(&kernel));
        let held = Held { owner: self.me.clone(), beat: 0, kernel: ours.clone().unwrap_or_default() };
        for _ in 0..ROUNDS {
            let last = place.newest();
            let taken_from = match &last {
                None | Some((_, Note::Free)) => None,
                Some((number, note)) => match self.is_dead(place, *number, note, ours.as_deref()) {
                    Some(true) => note.clone().owner(),
                    Some(false) => return Ok(Attempt::Busy(note.clone().owner())),
                    None => continue,
                },
            };
            let Some(number) = claim_after(place, last, &held)? else { continue };
            place.remove_before(number);
            let file = File::options().write(true).open(place.file(number))?;
            let (place, held, file) = (place.clone(), Box::new(held), Some(file));
            let mut lock = Lock { place, held, number, taken_from, file, heart: None, _kernel: kernel };
            lock.begin_beating(self.pace.beat)?;
            return Ok(Attempt::Taken(lock));
        }
        Ok(Attempt::Busy(place.newest().and_then(|(_, note)| note.owner())))
    }

    /// Whether the owner of a signature is dead; `None` where there is another by now.
    fn is_dead(&self, place: &Place, number: u64, note: &Note, kernel: Option<&str>) -> Option<bool> {
        let age = age(place, number, place.server_clock());
        if let Note::Held(held) = note
            && self.is_known_dead(held, age, kernel)
        {
            return Some(true);
        }
        if self.is_fresh(age) {
            return Some(false);
        }
        let begun = Instant::now();
        while begun.elapsed() < self.pace.watch {
            std::thread::sleep(self.pace.beat / 4);
            match place.newest() {
                Some((newest, found)) if newest == number && found == *note => {}
                Some((newest, Note::Held(_))) if newest == number => return Some(false),
                _ => return None,
            }
        }
        Some(true)
    }

    /// Whether an owner is dead for sure; `kernel` is the file whose kernel's lock we have. Of all others their beats tell,
    /// also of one that runs here: the kernel's lock may be free because a file system is mounted twice, or the beats have
    /// ended because the process has other things to do by now.
    fn is_known_dead(&self, held: &Held, age: Option<Duration>, kernel: Option<&str>) -> bool {
        let owner = &held.owner;
        match owner.is_running(&self.me) {
            Some(running) => !running,
            // In another container. A living owner's lock of the same file would be in the way of ours; and systems that
            // cannot tell files apart have no containers with numbers of their own.
            None if owner.shares_kernel(&self.me) => {
                kernel.is_some_and(|ours| owner.space.is_empty() || !ours.is_empty() && ours == held.kernel)
            }
            None => self.is_of_earlier_boot(owner, age),
        }
    }

    /// Whether this machine has been booted since an owner's last beat. Copies of one image may share their names, but one
    /// that lives has beaten while this one was up; which is why two beats at least must be missing.
    fn is_of_earlier_boot(&self, owner: &Owner, age: Option<Duration>) -> bool {
        let silent = |up: Duration| age.is_some_and(|age| age > up && age >= 2 * self.pace.beat);
        owner.is_of_earlier_boot(&self.me) && host::uptime().is_some_and(silent)
    }

    /// Whether a signature was written within the last minute.
    fn is_fresh(&self, age: Option<Duration>) -> bool {
        age.is_some_and(|age| age < self.pace.stale)
    }

    fn holder(&self, path: &Path) -> Option<Option<Owner>> {
        let place = Place::new(path);
        let file = File::open(path).ok()?;
        let answer = if self.kernel { file.try_lock_shared() } else { Ok(()) };
        let (number, note) = match (place.newest(), &answer) {
            (newest, Err(TryLockError::WouldBlock)) => {
                return Some(newest.and_then(|(_, note)| note.owner()));
            }
            (None | Some((_, Note::Free)), _) => return None,
            (Some(newest), _) => newest,
        };
        // Who may not write there has no clock but this machine's, and changes nothing by a wrong answer.
        let age = age(&place, number, place.server_clock().or_else(|| Some(SystemTime::now())));
        let kernel = (self.kernel && answer.is_ok()).then(|| kernel::identity(&file));
        match &note {
            Note::Held(held) if self.is_known_dead(held, age, kernel.as_deref()) => None,
            _ => self.is_fresh(age).then(|| note.owner()),
        }
    }
}

/// Makes the signature after the last one that was seen; `None` where that was long ago: others have come meanwhile, or have
/// come and gone and left nothing.
fn claim_after(place: &Place, last: Option<(u64, Note)>, held: &Held) -> std::io::Result<Option<u64>> {
    let number = last.as_ref().map_or(0, |(number, _)| *number) + 1;
    if !place.claim(number, &held.text())? {
        return Ok(None);
    }
    let gone = last.is_some_and(|(last, note)| place.read(last) != Some(note));
    if gone || place.newest_number() != Some(number) {
        place.remove(number);
        return Ok(None);
    }
    Ok(Some(number))
}

/// Since when a signature was not written, by the clock that dates files there.
fn age(place: &Place, number: u64, now: Option<SystemTime>) -> Option<Duration> {
    now.zip(place.written(number)).and_then(|(now, then)| now.duration_since(then).ok())
}

impl Lock {
    /// Whether the lock is still this process's: one that did not beat for long may have lost it.
    pub fn check(&self) -> bool {
        !is_taken_over(&self.place, self.number)
    }

    /// Gives the lock back and leaves nothing where it was. It is not marked as free before: nobody should decide by what is
    /// about to go.
    pub fn remove(mut self) {
        self.stop_beating();
        self.file = None; // NFS keeps what is removed while it is open
        if self.check() {
            self.place.remove_before(self.number + 1);
            self.place.remove_rest();
        }
    }

    fn begin_beating(&mut self, pause: Duration) -> std::io::Result<()> {
        let (stop, stopped) = channel::<()>();
        let (place, number, held) = (self.place.clone(), self.number, self.held.clone());
        let Some(mut file) = self.file.as_ref().map(File::try_clone).transpose()? else { return Ok(()) };
        let beats = move || {
            for beat in 1.. {
                let asked_to_stop = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
                if asked_to_stop || is_taken_over(&place, number) {
                    return;
                }
                // A beat that cannot be written is missed; there are several before anybody takes over.
                let _ = write_over(&mut file, &Held { beat, ..(*held).clone() }.text());
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
        if let Some(mut file) = self.file.take()
            && self.check()
        {
            let _ = write_over(&mut file, &self.held.free());
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
