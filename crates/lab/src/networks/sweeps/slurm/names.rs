//! What the jobs of a sweep, their scripts and their logs are called, so that a task's point is known wherever one is met.
//!
//! Tasks of an array are numbered from 0 up to a limit of the cluster. Where a sweep has more points, an array has a first
//! point that is added to its tasks' numbers; names carry it: `NAME+4000`, `task+4000.sh`, `12_7+4000.txt`.

use std::path::{Path, PathBuf};

use super::super::folder::SweepFolder;
use super::LOGS;
use crate::data::seed::stable_id;

/// The names of a sweep's jobs, by which they are found again even if this program died between submitting and writing that
/// down.
#[derive(Clone, Debug, PartialEq)]
pub struct JobNames {
    base: String,
    /// Of all arrays that were ever about to be submitted: an array's script is written before.
    firsts: Vec<usize>,
}

impl JobNames {
    /// Of a sweep.
    pub fn of(folder: &SweepFolder) -> JobNames {
        let place = std::path::absolute(&folder.dir).unwrap_or_else(|_| folder.dir.clone());
        let base = format!("iclab-{}-{:016x}", folder.sweep.name, stable_id(&place.to_string_lossy()));
        let mut firsts: Vec<usize> = entries(&folder.dir).iter().filter_map(|name| script_of(name)).collect();
        firsts.sort_unstable();
        JobNames { base, firsts }
    }

    /// Of one array, which is called so.
    pub fn named(base: &str) -> JobNames {
        JobNames { base: base.into(), firsts: vec![0] }
    }

    /// Of the job whose tasks begin with a point.
    pub(super) fn name(&self, first: usize) -> String {
        format!("{}{}", self.base, ending(first))
    }

    /// All of them.
    pub(super) fn each(&self) -> impl Iterator<Item = String> {
        self.firsts.iter().map(|&first| self.name(first))
    }

    /// All of them, as SLURM's commands take them; never nothing, which would ask for the jobs of everybody.
    pub(super) fn list(&self) -> String {
        if self.firsts.is_empty() { self.base.clone() } else { self.each().collect::<Vec<_>>().join(",") }
    }

    /// The points of tasks, from a job's name and `12_3`, or `12_[4-6,9%2]` for those that never began; none for steps and
    /// for jobs of others.
    pub(super) fn points(&self, name: &str, id: &str) -> Vec<usize> {
        let first = name.trim().strip_prefix(&self.base).and_then(first_of);
        let Some((first, (_, tasks))) = first.zip(id.trim().split_once('_')) else { return Vec::new() };
        tasks_of(tasks).into_iter().filter_map(|task| first.checked_add(task)).collect()
    }
}

/// The most tasks that an array is given, whatever a cluster would take: a line that claims more is not about one of ours.
pub(super) const MOST_TASKS: usize = 1 << 16;

/// The numbers in `3` or `[4-6,9%2]`; lists that SLURM cut short (`…,...`) as far as they go.
fn tasks_of(text: &str) -> Vec<usize> {
    let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return text.parse().into_iter().collect();
    };
    let list = list.split('%').next().unwrap_or_default();
    let range = |word: &str| {
        let (from, to) = word.split_once('-').unwrap_or((word, word));
        Some(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(MOST_TASKS).collect()
}

/// What names end with: nothing for the usual array, whose tasks are numbered as their points.
fn ending(first: usize) -> String {
    if first == 0 { String::new() } else { format!("+{first}") }
}

fn first_of(ending: &str) -> Option<usize> {
    if ending.is_empty() { Some(0) } else { ending.strip_prefix('+')?.parse().ok() }
}

/// The script of the tasks that begin with a point.
pub(super) fn script(first: usize) -> String {
    format!("task{}.sh", ending(first))
}

fn script_of(name: &str) -> Option<usize> {
    first_of(name.strip_prefix("task")?.strip_suffix(".sh")?)
}

/// The logs of those tasks, as a pattern for sbatch.
pub(super) fn log_pattern(first: usize) -> String {
    format!("%A_%a{}.txt", ending(first))
}

fn point_of_log(name: &str) -> Option<usize> {
    let task = name.strip_suffix(".txt")?.split_once('_')?.1;
    let (task, first) = task.split_once('+').unwrap_or((task, "0"));
    task.parse::<usize>().ok()?.checked_add(first.parse().ok()?)
}

/// The newest log of a point's tasks, if it ever had one.
pub fn newest_log(dir: &Path, point: usize) -> Option<PathBuf> {
    let logs = dir.join(LOGS);
    let own = entries(&logs).into_iter().filter(|name| point_of_log(name) == Some(point));
    own.map(|name| logs.join(name)).max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_known_from_every_name() {
        let names = JobNames { base: "iclab-x".into(), firsts: vec![0, 4] };
        assert_eq!(names.list(), "iclab-x,iclab-x+4");
        for (name, id, points) in [
            ("iclab-x", "12_3", &[3][..]),
            ("iclab-x+4", "12_3", &[7]),
            ("iclab-x+4", "12_[1-3,8%2]", &[5, 6, 7, 12]),
            ("iclab-x", "12_[2]", &[2]),
            ("iclab-x", "12_[1,3,...]", &[1, 3]),
            ("iclab-x+4", "12_3.batch", &[]),
            ("iclab-x", "12", &[]),
            ("iclab-xy", "12_3", &[]),
            ("batch", "12_3", &[]),
        ] {
            assert_eq!(names.points(name, id), points, "{name} {id}");
        }
        assert_eq!(
            ["task.sh", "task+4.sh", "task-4.sh", "plan.toml"].map(script_of),
            [Some(0), Some(4), None, None]
        );
        assert_eq!(["12_3.txt", "12_3+4.txt", "12.txt"].map(point_of_log), [Some(3), Some(7), None]);
        assert_eq!(
            (script(0), script(4), log_pattern(4)),
            ("task.sh".into(), "task+4.sh".into(), "%A_%a+4.txt".into())
        );
    }
}
