//! A run's own log: a line whenever a process takes it up or leaves it, so that its story can be told afterwards.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::host;

/// File in a run's directory.
pub const LOG: &str = "log.txt";
/// How the line of a failure begins, after the time.
const FAILED: &str = "failed: ";

/// Adds a line. A log that cannot be written must not end a run that can be trained, so nobody hears of it.
pub(super) fn note(dir: &Path, words: &str) {
    let line = format!("{} {}\n", utc(SystemTime::now()), words.replace('\n', " "));
    let file = File::options().create(true).append(true).open(dir.join(LOG));
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Notes that a run failed, and why; it then counts as failed until it is taken up again.
pub fn note_failure(dir: &Path, why: &str) {
    if dir.is_dir() {
        note(dir, &format!("{FAILED}{why}"));
    }
}

/// Why a run failed, if that is the last thing its log says.
pub fn failure(dir: &Path) -> Option<String> {
    let last = last_lines(&dir.join(LOG), 1).pop()?;
    Some(last.split_once(' ')?.1.strip_prefix(FAILED)?.to_string())
}

/// The last lines of a text file; none where it cannot be read.
pub fn last_lines(path: &Path, count: usize) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text.lines().rev().take(count).map(str::to_string).collect();
    lines.reverse();
    lines
}

/// This process, for a log: machine, number, and the job it belongs to on a cluster.
pub(super) fn whereabouts() -> String {
    let host = host::name();
    let process = format!("process {}", std::process::id());
    let variable = |name: &str| std::env::var(name).ok();
    match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
        (Some(job), Some(task)) => format!("{host}, {process}, job {job}_{task}"),
        _ => format!("{host}, {process}"),
    }
}

/// A time as `2026-11-15T15:20:01Z`.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years of 365.2425 days that begin in March, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_run_counts_as_failed_until_it_is_taken_up_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(failure(dir.path()), None);
        note_failure(dir.path(), "no space\nleft");
        assert_eq!(failure(dir.path()).as_deref(), Some("no space left"));
        note(dir.path(), "goes on");
        assert_eq!(failure(dir.path()), None);
        assert_eq!(last_lines(&dir.path().join(LOG), 5).len(), 2);
    }
}
