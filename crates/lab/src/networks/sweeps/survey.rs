//! How far every point of a sweep is: from the run directories, and from the cluster where there is one.

use super::folder::SweepFolder;
use super::slurm::{self, Ended, JobNames, Queued};
use crate::networks::runs::{self, LOG, RunProgress, RunStatus, last_lines};

/// Lines of a failed point's log that are shown.
const LINES: usize = 5;

/// How far one point is.
pub struct PointStatus {
    /// What its directory says.
    pub standing: RunProgress,
    /// Its task in the queue of a cluster.
    pub task: Option<Queued>,
    /// How its last task on a cluster ended, where accounts are kept.
    pub ended: Option<Ended>,
}

impl PointStatus {
    /// Whether its run is done.
    pub fn is_finished(&self) -> bool {
        matches!(self.standing.status, RunStatus::Finished(_))
    }

    /// Whether its run ended with an error.
    pub fn is_failed(&self) -> bool {
        matches!(self.standing.status, RunStatus::Failed(_))
    }

    /// Whether a process is training it.
    pub fn is_running(&self) -> bool {
        matches!(self.standing.status, RunStatus::Running)
    }

    /// In a few words.
    pub fn word(&self) -> String {
        match (&self.standing.status, &self.task, &self.ended) {
            (RunStatus::Finished(_) | RunStatus::Running, ..) => self.standing.status.word().to_string(),
            (_, Some(task), _) => task.words(),
            (RunStatus::Interrupted | RunStatus::NotBegun, None, Some(ended)) if !ended.is_complete() => {
                format!("{} ({})", self.standing.status.word(), ended.words())
            }
            (state, ..) => state.word().to_string(),
        }
    }
}

/// Looks at every point, and asks the cluster if the sweep was ever given to one. Also returns what could not be asked.
pub fn survey(folder: &SweepFolder) -> (Vec<PointStatus>, Vec<String>) {
    let mut notes = Vec::new();
    let (mut tasks, mut ended) = (None, Default::default());
    if slurm::was_submitted(&folder.dir) {
        let names = JobNames::of(folder);
        match slurm::queued(&names) {
            Ok(found) => tasks = found,
            Err(error) => notes.push(error.to_string()),
        }
        ended = slurm::ended(&names);
    }
    let points = folder.sweep.points.iter().enumerate();
    let seen = points.map(|(i, point)| PointStatus {
        standing: runs::inspect(&point.dir(&folder.runs), &point.experiment),
        task: tasks.as_mut().and_then(|tasks| tasks.remove(&i)),
        ended: ended.remove(&i),
    });
    (seen.collect(), notes)
}

/// Points that nobody holds, failed ones aside: killed, out of memory, cancelled, forgotten by the cluster, or not begun.
pub fn abandoned(seen: &[PointStatus]) -> Vec<usize> {
    let held = |seen: &PointStatus| {
        seen.is_finished() || seen.is_failed() || seen.is_running() || seen.task.is_some()
    };
    (0..seen.len()).filter(|&i| !held(&seen[i])).collect()
}

/// A point with how its last task ended, where accounts are kept, and the last lines of its logs.
pub fn story(folder: &SweepFolder, point: usize, seen: &PointStatus) -> String {
    let dir = folder.point_dir(point);
    let mut text = format!("{} ({}):", folder.label(point), dir.display());
    text.extend(seen.ended.iter().map(|ended| format!("\n    {}", ended.story())));
    let job = slurm::newest_log(&folder.dir, point);
    for log in std::iter::once(dir.join(LOG)).chain(job) {
        let lines = last_lines(&log, LINES);
        text.extend(lines.iter().map(|line| format!("\n    {line}")));
    }
    text
}

/// `12 points: 7 finished, 1 failed, 4 not begun`
pub fn counts(seen: &[PointStatus]) -> String {
    let mut words: Vec<(String, usize)> = Vec::new();
    for seen in seen {
        let word = seen.word();
        match words.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => words.push((word, 1)),
        }
    }
    words.sort_by_key(|(word, _)| word != "finished");
    let words: Vec<String> = words.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let points = if seen.len() == 1 { "1 point".into() } else { format!("{} points", seen.len()) };
    format!("{points}: {}", words.join(", "))
}
