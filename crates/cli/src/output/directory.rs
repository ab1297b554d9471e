//! A folder that a command fills. What is in it that iclab did not write stays as it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use engine::host;
use lab::files::is_remnant;
use lab::lock::{self, Attempt, Lock};

use super::owned::{self, Files, LIST};
use super::write_file;
use crate::error::{Error, Result};

/// What is locked: one process at a time fills a folder, of however many machines. With it lie the owner's signature and,
/// for moments, more files whose names begin so.
const LOCK: &str = ".iclab-lock";
/// Where files are written, inside the folder, by each process in a folder of its own: one that slept while another took over
/// does not write among that one's files.
const NEW: &str = ".iclab-new";
/// The same when all of them are: from then on they replace the old ones, if need be by the next command that comes.
const READY: &str = ".iclab-ready";
/// Pages that every output has; a user's file of such a name is refused before any work.
const ALWAYS: [&str; 3] = ["index.html", "ledger.json", "plan.toml"];

/// Folders that this process has open: for [`tidy`].
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

struct Open {
    target: PathBuf,
    /// Whether this process made it.
    created: bool,
    lock: Lock,
}

/// A directory being filled, by this process alone.
///
/// What a kill leaves, at each moment of [`Directory::publish`]:
///
/// | killed while | the folder has |
/// |---|---|
/// | `.iclab-new` is being filled | the old output; the next command removes `.iclab-new` |
/// | the list grows by the new names | the old output, and a list with names that are not there |
/// | after `.iclab-new` became `.iclab-ready`, a rename | files of both; the next command moves the rest: nothing is lost |
/// | old files are removed that are not new | the new output and some of them; the next command removes the rest |
///
/// `index.html` is the last file that moves: who opens the page sees an old or a new one, whole.
pub struct Directory {
    target: PathBuf,
    owned: Files,
}

impl Directory {
    /// Checks that the target is ours to write and locks it, before any work is done.
    pub fn begin(target: &Path) -> Result<Directory> {
        if target.exists() && !target.is_dir() {
            return Err(Error::content(target, "is a file; accepted: a new directory, or one made by iclab"));
        }
        let created = !target.exists();
        fs::create_dir_all(target).map_err(Error::file("create", target))?;
        let begun = Directory::lock(target, created);
        if begun.is_err() && created {
            let _ = fs::remove_dir(target);
        }
        begun
    }

    fn lock(target: &Path, created: bool) -> Result<Directory> {
        let failed = || Error::file("read", target);
        let listed = owned::of(target).map_err(failed())?;
        if listed.is_none() && !is_empty(target).map_err(failed())? {
            let why = "holds something else than an iclab output; accepted: a new or empty directory, or one made by iclab";
            return Err(Error::content(target, why));
        }
        let lock = match lock::take(&target.join(LOCK))? {
            Attempt::Taken(lock) => lock,
            Attempt::Busy(owner) => {
                let who = owner.map_or("another process".into(), |owner| owner.to_string());
                let why = format!("is being written by {who}; accepted: another directory, or wait for it");
                return Err(Error::content(target, why));
            }
        };
        let mut directory = Directory { target: target.to_path_buf(), owned: Files::new() };
        open().push(Open { target: target.to_path_buf(), created, lock });
        roll_forward(target)?;
        directory.owned = owned::of(target).map_err(failed())?.unwrap_or_default();
        let taken =
            |name: &&str| !directory.owned.contains(*name) && target.join(name).symlink_metadata().is_ok();
        if let Some(name) = ALWAYS.iter().find(|name| taken(name)) {
            let why = "was not written by iclab and would be replaced; accepted: another directory, or another name for it";
            return Err(Error::content(target.join(name), why));
        }
        directory.clear()?;
        Ok(directory)
    }

    /// Where to write meanwhile.
    pub fn path(&self) -> PathBuf {
        self.target.join(NEW).join(host::process_tag())
    }

    /// An empty place to write to.
    fn clear(&self) -> Result<()> {
        let path = self.path();
        match fs::remove_dir_all(self.target.join(NEW)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&path),
        }
        .map_err(Error::file("create", &path))
    }

    /// An error if another process has taken over, as this one slept.
    fn check(&self) -> Result<()> {
        if open().iter().any(|open| open.target == self.target && open.lock.check()) {
            return Ok(());
        }
        let why = "was taken over by another process, as nothing was heard of this one for more than a minute; accepted: the \
                   same command again";
        Err(Error::content(&self.target, why))
    }

    /// Puts what was written into its place, instead of what iclab wrote there before; then more can be written.
    pub fn publish(&mut self) -> Result<()> {
        let (target, staged) = (&self.target, self.path());
        self.check()?;
        let new = owned::under(&staged).map_err(Error::file("read", &staged))?;
        for name in &new {
            self.spare(name)?;
        }
        write_file(&staged.join(LIST), owned::text(&new).as_bytes())?;
        let all = self.owned.union(&new).cloned().collect();
        write_file(&target.join(LIST), owned::text(&all).as_bytes())?;
        self.check()?;
        fs::rename(&staged, target.join(READY)).map_err(Error::file("write", target))?;
        roll_forward(target)?;
        self.owned = new;
        self.clear()
    }

    /// Puts what was written into its place, for good.
    pub fn finish(mut self) -> Result<()> {
        self.publish()
    }

    /// A user's file where a new one goes gets another name, and its owner is told.
    fn spare(&self, name: &str) -> Result<()> {
        let steps = name.match_indices('/').map(|(at, _)| &name[..at]);
        let folder = steps.map(|s| (s, true));
        for (part, folder) in folder.chain([(name, false)]) {
            let path = self.target.join(part);
            if path.symlink_metadata().is_err() {
                return Ok(());
            }
            if self.owned.contains(part) || folder && path.is_dir() {
                continue;
            }
            let free = (1..).map(|i| self.target.join(format!("{part}.kept{i}")));
            let free =
                free.into_iter().find(|path| path.symlink_metadata().is_err()).expect("numbers do not end");
            fs::rename(&path, &free).map_err(Error::file("rename", &path))?;
            eprintln!("note: {} is not iclab's and was renamed to {}", path.display(), free.display());
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        leave(&self.target);
    }
}

fn open() -> std::sync::MutexGuard<'static, Vec<Open>> {
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Leaves a folder whose lock this process holds as it was found, but for what was published.
fn leave(target: &Path) {
    let mut open = open();
    let Some(at) = open.iter().position(|open| open.target == target) else { return };
    let Open { created, lock, .. } = open.swap_remove(at);
    if lock.check() {
        let _ = fs::remove_dir_all(target.join(NEW));
    }
    lock.remove();
    if created {
        let _ = fs::remove_dir(target); // unless something is in it
    }
}

/// Before the process is ended: leaves every folder that it has open.
pub fn tidy() {
    let targets: Vec<PathBuf> = open().iter().map(|open| open.target.clone()).collect();
    targets.iter().for_each(|target| leave(target));
}

/// Whether there is nothing in a folder but what commands leave that were killed.
fn is_empty(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let remnant = is_remnant(&name);
        let name = name.to_string_lossy();
        let half_a_list = name.starts_with(LIST) && name.ends_with(".part");
        let lock = name.strip_prefix(LOCK).is_some_and(|more| more.is_empty() || more.starts_with('.'));
        if ![NEW, READY].contains(&&*name) && !lock && !half_a_list && !remnant {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves what is ready into its place, index.html last, and removes what was ours and is no more. Can be done again from
/// wherever it was ended.
fn roll_forward(target: &Path) -> Result<()> {
    let ready = target.join(READY);
    let list = match fs::read_to_string(ready.join(LIST)) {
        Ok(list) => owned::parse(&list),
        Err(_) => {
            // The list goes last, so that all of it is done; or there is nothing ready.
            let _ = fs::remove_dir_all(&ready);
            return Ok(());
        }
    };
    let mut left: Vec<String> =
        owned::under(&ready).map_err(Error::file("write", &ready))?.into_iter().collect();
    left.sort_by_key(|name| (name == "index.html", name.ends_with(".html")));
    for name in left.iter().filter(|name| *name != LIST) {
        let path = target.join(name);
        fs::create_dir_all(path.parent().unwrap_or(target)).map_err(Error::file("write", &path))?;
        fs::rename(ready.join(name), &path).map_err(Error::file("write", &path))?;
    }
    let old = owned::of(target).map_err(Error::file("write", target))?.unwrap_or_default();
    for name in old.difference(&list) {
        let path = target.join(name);
        let _ = fs::remove_file(&path); // gone already, or a folder of the user's by now
        if let Some(folder) = path.parent().filter(|folder| *folder != target) {
            let _ = fs::remove_dir(folder); // unless something is in it
        }
    }
    fs::rename(ready.join(LIST), target.join(LIST)).map_err(Error::file("write", target))?;
    fs::remove_dir_all(&ready).map_err(Error::file("write", &ready))
}

#[cfg(test)]
mod tests;
