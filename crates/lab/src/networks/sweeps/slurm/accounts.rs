//! How tasks ended, where the cluster keeps accounts (`slurmdbd`).

use std::collections::HashMap;

use super::arguments::seconds;
use super::ask;
use super::names::JobNames;

/// How a task ended, as the accounts have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// `12_3`
    pub id: String,
    /// `OUT_OF_MEMORY`, `TIMEOUT`, `NODE_FAIL`, `PREEMPTED`, `CANCELLED by 1000`, ….
    pub state: String,
    /// Exit code and the signal that ended it, 0 where there is none.
    pub exit: (u32, u32),
    /// Seconds that it ran.
    pub seconds: Option<u32>,
    /// The most memory that it was seen to use, in bytes; not where it was never looked at.
    pub memory: Option<u64>,
    /// When it ended, for order alone.
    end: String,
}

impl Ended {
    /// In a few words, the same for all that ended alike: `out of memory`, `cancelled by user 1000`, `killed by signal 9`.
    pub fn words(&self) -> String {
        match (self.state.as_str(), self.exit) {
            ("FAILED", (0, signal)) if signal > 0 => format!("killed by signal {signal}"),
            ("FAILED", (code, _)) => format!("ended with exit code {code}"),
            (state, _) => match state.strip_prefix("CANCELLED by ") {
                Some(user) => format!("cancelled by user {user}"),
                None => state.to_lowercase().replace('_', " "),
            },
        }
    }

    /// All that is known: `task 12_3: out of memory after 0:12:03, with 15.8 GB at most`.
    pub fn story(&self) -> String {
        let mut text = format!("task {}: {}", self.id, self.words());
        if let Some(seconds) = self.seconds {
            text += &format!(" after {}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        }
        if let Some(memory) = self.memory {
            text += &format!(", with {} at most", memory_words(memory));
        }
        text
    }

    /// Whether it ended as it should.
    pub fn is_complete(&self) -> bool {
        self.state == "COMPLETED"
    }
}

fn memory_words(bytes: u64) -> String {
    let gigabytes = bytes as f64 / 1e9;
    if gigabytes < 1.0 { format!("{:.0} MB", gigabytes * 1e3) } else { format!("{gigabytes:.1} GB") }
}

/// How the last task of each point ended, where accounts are kept.
pub fn ended(names: &JobNames) -> HashMap<usize, Ended> {
    let arguments = [
        "--noheader",
        "--parsable2",
        "--starttime=now-60days",
        &format!("--name={}", names.list()),
        "--format=JobID,JobName,State,ExitCode,Elapsed,MaxRSS,End",
    ];
    // Many clusters keep no accounts; what they would say is only a comfort.
    ask("sacct", &arguments).ok().flatten().map(|text| parse_accounts(&text, names)).unwrap_or_default()
}

/// What `sacct` says, by points: the last word counts. A line is a task, or one of its steps: those alone know how much memory
/// was used, and follow their task.
pub fn parse_accounts(text: &str, names: &JobNames) -> HashMap<usize, Ended> {
    let mut tasks: Vec<(usize, Ended)> = Vec::new();
    for line in text.lines() {
        let Ok([id, name, state, exit, elapsed, memory, end]) =
            <[&str; 7]>::try_from(line.split('|').collect::<Vec<_>>())
        else {
            continue;
        };
        if let Some((task, _)) = id.split_once('.') {
            if let Some((_, last)) = tasks.last_mut().filter(|(_, last)| last.id == task) {
                last.memory = last.memory.max(bytes(memory));
            }
        } else {
            let (code, signal) = exit.split_once(':').unwrap_or((exit, "0"));
            let ended = Ended {
                id: id.into(),
                state: state.into(),
                exit: (code.parse().unwrap_or(0), signal.parse().unwrap_or(0)),
                seconds: seconds(elapsed),
                memory: bytes(memory),
                end: end.into(),
            };
            tasks.extend(names.points(name, id).into_iter().map(|point| (point, ended.clone())));
        }
    }
    // Times are written so that they sort. Numbers of jobs begin anew where a controller lost its state.
    tasks.retain(|(_, task)| task.end != "Unknown");
    tasks.sort_by(|(_, one), (_, other)| one.end.cmp(&other.end));
    tasks.into_iter().collect()
}

/// `320648K` as bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Some((number * 1024f64.powi(unit)) as u64).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HashMap<usize, Ended> {
        parse_accounts(text, &JobNames::named("x"))
    }

    #[test]
    fn the_last_word_of_the_accounts_counts() {
        let found = read(
            "12_0|x|TIMEOUT|0:0|00:30:10||2026-11-17T10:00:00\n\
             12_1|x|CANCELLED by 1000|0:0|00:00:00||2026-11-17T10:00:00\n\
             12_[2-3]|x|PENDING|0:0|00:00:00||Unknown\n\
             13_[4-5%2]|x|CANCELLED by 7|0:0|00:00:00||2026-11-17T10:00:00\n\
             14_0|x|RUNNING|0:0|00:00:01||Unknown\n\
             3_0|x|COMPLETED|0:0|1-00:00:01||2026-11-17T12:00:00\n\
             3_0.batch|batch|COMPLETED|0:0|1-00:00:01|2M|2026-11-17T12:00:00\n\
             9_0|x+1000|NODE_FAIL|0:0|00:00:01||2026-11-17T12:00:00\n\
             9_1|other|NODE_FAIL|0:0|00:00:01||2026-11-17T12:00:00\n",
        );
        assert_eq!(found.len(), 5);
        assert_eq!((&*found[&5].id, found[&5].words()), ("13_[4-5%2]", "cancelled by user 7".into()));
        assert!(found[&0].is_complete() && found[&0].id == "3_0");
        assert_eq!((found[&0].seconds, found[&0].memory), (Some(86_401), Some(2 << 20)));
        assert_eq!(found[&1].words(), "cancelled by user 1000");
        assert_eq!(found[&1000].words(), "node fail");
    }

    #[test]
    fn every_end_has_its_words() {
        for (state, exit, words) in [
            ("OUT_OF_MEMORY", "0:125", "out of memory"),
            ("TIMEOUT", "0:0", "timeout"),
            ("PREEMPTED", "0:0", "preempted"),
            ("FAILED", "0:9", "killed by signal 9"),
            ("FAILED", "2:0", "ended with exit code 2"),
            ("CANCELLED", "0:0", "cancelled"),
        ] {
            let found = read(&format!("12_0|x|{state}|{exit}|00:12:00||2026-11-17T10:00:00\n"));
            assert_eq!(found[&0].words(), words);
        }
        let found = read(
            "12_0|x|OUT_OF_MEMORY|0:125|00:12:00||2026-11-17T10:00:00\n\
             12_0.batch|batch|OUT_OF_MEMORY|0:125|00:12:00|15428222K|2026-11-17T10:00:00\n\
             12_0.extern|extern|COMPLETED|0:0|00:12:00|0|2026-11-17T10:00:00\n",
        );
        assert_eq!(found[&0].story(), "task 12_0: out of memory after 0:12:00, with 15.8 GB at most");
    }
}
