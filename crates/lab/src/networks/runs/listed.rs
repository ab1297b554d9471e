//! All runs of a folder, for who wants to know what there is.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{CHECKPOINT, PLAN, RunProgress, inspect};
use crate::networks::experiment::Experiment;
use crate::networks::run_names;

/// A run among others.
#[derive(Clone, Debug)]
pub struct ListedRun {
    /// The name of its directory.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// What is trained.
    pub experiment: Experiment,
    /// How far it is.
    pub progress: RunProgress,
    /// When it was last written to.
    pub written: Option<SystemTime>,
}

impl ListedRun {
    /// The run in a directory, if there is one that can be read.
    pub fn read(dir: &Path) -> Option<ListedRun> {
        let experiment = Experiment::read(&dir.join(PLAN)).ok()?;
        let written = |file: &str| dir.join(file).metadata().and_then(|file| file.modified()).ok();
        Some(ListedRun {
            name: dir.file_name()?.to_string_lossy().into_owned(),
            dir: dir.into(),
            progress: inspect(dir, &experiment),
            experiment,
            written: [CHECKPOINT, "metrics.jsonl", PLAN].into_iter().filter_map(written).max(),
        })
    }
}

/// The runs under `root`, the newest first.
pub fn list(root: &Path) -> Vec<ListedRun> {
    let names = run_names(root);
    let mut found: Vec<ListedRun> =
        names.iter().filter_map(|name| ListedRun::read(&root.join(name))).collect();
    found.sort_by(|one, other| other.written.cmp(&one.written).then_with(|| one.name.cmp(&other.name)));
    found
}
