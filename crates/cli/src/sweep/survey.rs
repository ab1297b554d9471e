//! How far every point of a sweep is: from the run directories, and from the cluster where there is one.

use lab::networks::runs::{self, LOG, Standing, State, last_lines};

use super::Opened;
use super::slurm::{self, Queued};

/// Lines of a failed point's log that are shown.
const LINES: usize = 5;

/// How far one point is.
pub struct Seen {
    /// What its directory says.
    pub standing: Standing,
    /// Its task in the queue of a cluster.
    pub task: Option<Queued>,
    /// How its last task on a cluster ended, where that is remembered.
    pub ended: Option<String>,
}

impl Seen {
    pub fn is_finished(&self) -> bool {
        matches!(self.standing.state, State::Finished(_))
    }

    pub fn is_failed(&self) -> bool {
        matches!(self.standing.state, State::Failed(_))
    }

    pub fn is_running(&self) -> bool {
        matches!(self.standing.state, State::Running)
    }

    /// In a few words.
    pub fn word(&self) -> String {
        match (&self.standing.state, &self.task, &self.ended) {
            (State::Finished(_) | State::Running, ..) => self.standing.state.word().to_string(),
            (_, Some(task), _) => task.words(),
            (State::Interrupted | State::NotBegun, None, Some(ended)) if ended != "COMPLETED" => {
                format!("{} ({})", self.standing.state.word(), ended.to_lowercase())
            }
            (state, ..) => state.word().to_string(),
        }
    }
}

/// Looks at every point, and asks the cluster if the sweep was ever given to one. Also returns what could not be asked.
pub fn survey(opened: &Opened) -> (Vec<Seen>, Vec<String>) {
    let mut notes = Vec::new();
    let (mut tasks, mut ended) = (None, Default::default());
    if slurm::was_submitted(&opened.dir) {
        let name = slurm::job_name(opened);
        match slurm::queued(&name) {
            Ok(found) => tasks = found,
            Err(error) => notes.push(error.to_string()),
        }
        ended = slurm::ended(&name);
    }
    let points = opened.sweep.points.iter().enumerate();
    let seen = points.map(|(i, point)| Seen {
        standing: runs::look(&point.dir(&opened.runs), &point.experiment),
        task: tasks.as_mut().and_then(|tasks| tasks.remove(&i)),
        ended: ended.remove(&i),
    });
    (seen.collect(), notes)
}

/// Points that nobody holds, failed ones aside: killed, out of memory, cancelled, forgotten by the cluster, or not begun.
pub fn abandoned(seen: &[Seen]) -> Vec<usize> {
    let held =
        |seen: &Seen| seen.is_finished() || seen.is_failed() || seen.is_running() || seen.task.is_some();
    (0..seen.len()).filter(|&i| !held(&seen[i])).collect()
}

/// A point with the last lines of its logs.
pub fn story(opened: &Opened, point: usize) -> String {
    let dir = opened.point_dir(point);
    let mut text = format!("{} ({}):", opened.label(point), dir.display());
    let job = slurm::newest_log(&opened.dir, point);
    for log in std::iter::once(dir.join(LOG)).chain(job) {
        let lines = last_lines(&log, LINES);
        text.extend(lines.iter().map(|line| format!("\n    {line}")));
    }
    text
}

/// `12 points: 7 finished, 1 failed, 4 not begun`
pub fn counts(seen: &[Seen]) -> String {
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
