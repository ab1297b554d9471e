//! How far every point of a sweep is, from the run directories.

use lab::runs::{self, LOG, Standing, State, last_lines};

use super::Opened;

/// Lines of a failed point's log that are shown.
const LINES: usize = 5;

/// How far one point is.
pub struct Seen {
    /// What its directory says.
    pub standing: Standing,
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

    /// In one word.
    pub fn word(&self) -> String {
        self.standing.state.word().to_string()
    }
}

/// Looks at every point.
pub fn survey(opened: &Opened) -> Vec<Seen> {
    let points = opened.sweep.points.iter();
    points.map(|point| Seen { standing: runs::look(&point.dir(&opened.runs), &point.experiment) }).collect()
}

/// A point that failed, with the last lines of its log.
pub fn story(opened: &Opened, point: usize) -> String {
    let dir = opened.point_dir(point);
    let mut text = format!("{} ({}):", opened.label(point), dir.display());
    for line in last_lines(&dir.join(LOG), LINES) {
        text += &format!("\n    {line}");
    }
    text
}

/// `7 finished, 1 failed, 4 not begun`
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
    words.join(", ")
}
