//! Networks by the words a user has for them: a path, the name of a shipped network, the name of an experiment that was
//! trained here.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::experiment;
use super::models::{self, MINIATURE, NETWORKS};
use super::runs::{CHECKPOINT, PLAN};
use crate::error::{Error, Result, hint};

/// Where runs are, below the directory that commands are run in.
pub const RUNS: &str = "runs";

/// A network that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Directory of a run or shipped network, or a checkpoint.
    pub path: PathBuf,
    /// Which it is, a sentence; `None` where the path itself was given.
    pub note: Option<String>,
}

/// Finds a network: `r1` is `models/r1`, `miniature` the newest of `runs/miniature-*`; a path is itself.
pub fn find(name: &str) -> Result<Found> {
    find_in(name, &models::folder(), Path::new(RUNS))
}

/// The same in other folders. Shipped networks come first, then a run of just this name, then the newest of the runs whose
/// experiment has this name.
pub fn find_in(name: &str, models: &Path, runs: &Path) -> Result<Found> {
    let given = Path::new(name);
    if given.exists() {
        return Ok(Found { path: given.into(), note: None });
    }
    let named = |path: PathBuf, why: &str| {
        let note = Some(format!("{name} is {}{why}", path.display()));
        Found { path, note }
    };
    let plain = !name.is_empty() && given.components().count() == 1 && !name.starts_with('.');
    let shipped = models.join(name);
    if plain && shipped.join(PLAN).is_file() {
        return Ok(named(shipped, ""));
    }
    let run = runs.join(name);
    if plain && run.join(PLAN).is_file() {
        return Ok(named(run, ""));
    }
    let mut trained = if plain { runs_of(name, runs) } else { Vec::new() };
    match (trained.pop(), trained.len()) {
        (Some(only), 0) => Ok(named(only, "")),
        (Some(newest), older) => Ok(named(newest, &format!(", the newest of {} runs", older + 1))),
        (None, _) => Err(Error::content(given, unknown(name, runs, plain))),
    }
}

/// The runs of an experiment of this name, `NAME-` and sixteen hex digits; the newest is last.
fn runs_of(name: &str, runs: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(SystemTime, PathBuf)> = run_names(runs)
        .into_iter()
        .filter(|run| experiment_of(run) == Some(name))
        .map(|run| runs.join(run))
        .map(|run| (newest_write(&run), run))
        .collect();
    found.sort();
    found.into_iter().map(|(_, run)| run).collect()
}

/// Names of the directories under `runs` that hold a plan.
pub fn run_names(runs: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().join(PLAN).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// `miniature` of `miniature-0123456789abcdef`.
fn experiment_of(run: &str) -> Option<&str> {
    let (name, hash) = run.rsplit_once('-')?;
    (hash.len() == 16 && hash.bytes().all(|c| c.is_ascii_hexdigit())).then_some(name)
}

/// When a run was last written to: its checkpoint, or its plan where there is none yet.
fn newest_write(run: &Path) -> SystemTime {
    let written = |file: &str| run.join(file).metadata().and_then(|file| file.modified()).ok();
    written(CHECKPOINT).or_else(|| written(PLAN)).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn unknown(name: &str, runs: &Path, plain: bool) -> String {
    let accepted = "accepted: a directory made by iclab train, a checkpoint, or the name of a shipped network or of \
                    an experiment that was trained here";
    let shipped = NETWORKS.iter().any(|network| network.name == name && network.name != MINIATURE);
    if plain && shipped {
        let (looked, get) = (models::looked_in(), models::how_to_get());
        return format!("this network of the paper is not here; looked in {looked}; {get}; {accepted}");
    }
    if plain && experiment::shipped::names().any(|known| known == name) {
        return format!("was not trained here yet (iclab train {name}); {accepted}");
    }
    let mut known: Vec<String> = NETWORKS.iter().map(|network| network.name.to_string()).collect();
    known.extend(run_names(runs).iter().filter_map(|run| experiment_of(run)).map(String::from));
    let close = hint(name, known.iter().map(String::as_str));
    match plain && close.starts_with("did you mean") {
        true => format!("there is no such run; {close} {accepted}"),
        false => format!("there is no such run; {accepted}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn run(folder: &Path, name: &str, age: u64) {
        fs::create_dir_all(folder.join(name)).unwrap();
        let plan = fs::File::create(folder.join(name).join(PLAN)).unwrap();
        plan.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }

    #[test]
    fn shipped_networks_come_first_then_the_newest_run() {
        let dir = tempfile::tempdir().unwrap();
        let (models, runs) = (dir.path().join("models"), dir.path().join("runs"));
        run(&models, "r1", 0);
        for (hash, age) in [("aaaaaaaaaaaaaaaa", 10), ("bbbbbbbbbbbbbbbb", 5), ("cccccccccccccccc", 20)] {
            run(&runs, &format!("tiny-{hash}"), age);
        }
        run(&runs, "r1-dddddddddddddddd", 0);
        run(&runs, "tiny-wide-eeeeeeeeeeeeeeee", 0);
        let found = |name: &str| find_in(name, &models, &runs).map(|found| (found.path, found.note.unwrap()));
        assert_eq!(found("r1").unwrap().0, models.join("r1"));
        let (path, note) = found("tiny").unwrap();
        assert_eq!(path, runs.join("tiny-bbbbbbbbbbbbbbbb"));
        assert!(note.starts_with("tiny is ") && note.ends_with("the newest of 3 runs"), "{note}");
        assert_eq!(found("tiny-cccccccccccccccc").unwrap().0, runs.join("tiny-cccccccccccccccc"));
        assert_eq!(found("tiny-wide").unwrap().0, runs.join("tiny-wide-eeeeeeeeeeeeeeee"));
        let itself = find_in(runs.to_str().unwrap(), &models, &runs).unwrap();
        assert_eq!(itself, Found { path: runs.clone(), note: None });
        let why = |name: &str| found(name).unwrap_err().to_string();
        assert!(why("tinny").contains("no such run; did you mean tiny"), "{}", why("tinny"));
        assert!(why("r1/absent").contains("no such run; accepted"));
        assert!(why("miniature").contains("not trained here yet (iclab train miniature)"));
        assert!(why("r2").contains("is not here; looked in "), "{}", why("r2"));
    }
}
