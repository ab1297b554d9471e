//! The arguments of sbatch for the points of a sweep.

use std::path::Path;

use super::super::plan::Slurm;
use super::arrays::Array;
use super::names::log_pattern;

/// Seconds before the time limit at which tasks are told, when nobody says.
const GRACE: u32 = 120;

/// One array among those of a sweep.
pub(super) struct Job<'a> {
    /// What it is called.
    pub name: String,
    /// Its tasks.
    pub array: &'a Array,
    /// Tasks at once.
    pub throttle: Option<u32>,
    /// The job that it waits for.
    pub after: Option<&'a str>,
}

/// The arguments of sbatch; the author's own come last and so have the last word.
pub(super) fn directives(slurm: &Slurm, job: &Job, logs: &Path) -> Vec<String> {
    let throttle = job.throttle.map_or(String::new(), |n| format!("%{n}"));
    // % begins a pattern in the names of logs.
    let logs = logs.to_string_lossy().replace('%', "%%");
    let mut all = vec![
        "--parsable".to_string(),
        format!("--job-name={}", job.name),
        format!("--array={}{throttle}", ranges(&job.array.tasks)),
        format!("--output={logs}/{}", log_pattern(job.array.first)),
        "--open-mode=append".into(),
        "--requeue".into(),
        format!("--signal=B:USR1@{}", grace(slurm)),
    ];
    all.extend(job.after.map(|job| format!("--dependency=afterany:{job}")));
    let mut option = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| format!("--{name}={value}")));
    };
    option("partition", slurm.partition.clone());
    option("account", slurm.account.clone());
    option("time", slurm.time.clone());
    option("gres", slurm.gres.clone());
    option("cpus-per-task", slurm.cpus.map(|n| n.to_string()));
    option("mem", slurm.memory.clone());
    all.extend(slurm.directives.iter().cloned());
    all
}

/// Seconds before the time limit at which a task is told: a quarter of a short limit, so that something is done before.
fn grace(slurm: &Slurm) -> u32 {
    let usual = slurm.time.as_deref().and_then(seconds).map_or(GRACE, |limit| (limit / 4).min(GRACE));
    slurm.grace.unwrap_or(usual).max(1)
}

/// A time limit as SLURM reads it: `30`, `30:00`, `4:00:00`, `2-12`, `2-12:30`, `2-12:30:00`.
pub(super) fn seconds(text: &str) -> Option<u32> {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts = rest.split(':').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let of = |hours: u32, minutes: u32, seconds: u32| {
        let days = days.map_or(Some(0), |days| days.parse::<u32>().ok())?;
        let minutes = days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?;
        minutes.checked_mul(60)?.checked_add(seconds)
    };
    match (days.is_some(), &parts[..]) {
        (true, &[hours]) => of(hours, 0, 0),
        (true, &[hours, minutes]) => of(hours, minutes, 0),
        (false, &[minutes]) => of(0, minutes, 0),
        (false, &[minutes, seconds]) => of(0, minutes, seconds),
        (_, &[hours, minutes, seconds]) => of(hours, minutes, seconds),
        _ => None,
    }
}

/// Numbers as sbatch writes arrays: `0-3,7,9-10`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_short() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(ranges(&[5]), "5");
    }

    #[test]
    fn time_limits_are_read_as_slurm_does() {
        let cases = [("30", 1800), ("1:30", 90), ("2:00:00", 7200), ("1-1", 90_000), ("1-1:01:01", 90_061)];
        cases.iter().for_each(|(text, expected)| assert_eq!(seconds(text), Some(*expected), "{text}"));
        assert_eq!(seconds("UNLIMITED"), None);
        assert_eq!(grace(&Slurm { time: Some("1".into()), ..Slurm::default() }), 15);
        assert_eq!(grace(&Slurm::default()), GRACE);
    }

    #[test]
    fn the_author_has_the_last_word() {
        let slurm = Slurm {
            partition: Some("short".into()),
            directives: vec!["--partition=long".into()],
            ..Slurm::default()
        };
        let array = Array { first: 4, tasks: vec![0, 1] };
        let job = Job { name: "n".into(), array: &array, throttle: Some(2), after: Some("7") };
        let all = directives(&slurm, &job, Path::new("/a b/50%"));
        for one in ["--array=0-1%2", "--output=/a b/50%%/%A_%a+4.txt", "--dependency=afterany:7"] {
            assert!(all.contains(&one.to_string()), "{one}: {all:?}");
        }
        assert_eq!(all.last().unwrap(), "--partition=long");
    }
}
