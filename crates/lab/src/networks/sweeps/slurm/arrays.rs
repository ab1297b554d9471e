//! How many tasks a cluster takes in one array, and points in as many arrays as that needs.

use super::ask;
use super::names::MOST_TASKS;

/// What a cluster takes. Both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Numbers of tasks are below this.
    pub numbers: usize,
    /// Tasks in one array.
    pub tasks: usize,
}

/// One array job.
#[derive(Debug, PartialEq)]
pub(super) struct Array {
    /// What is added to a task's number.
    pub first: usize,
    /// The numbers of its tasks, in order.
    pub tasks: Vec<usize>,
}

impl Limits {
    /// SLURM's own, for a cluster that does not say: `MaxArraySize` is 1001.
    const USUAL: Limits = Limits { numbers: 1001, tasks: 1001 };

    /// Of this machine's cluster.
    pub fn ask() -> Limits {
        let said = ask("scontrol", &["show", "config"]).ok().flatten();
        said.map_or(Limits::USUAL, |text| Limits::parse(&text))
    }

    fn parse(config: &str) -> Limits {
        let field = |name: &str| {
            let fields = config.lines().filter_map(|line| line.split_once('='));
            fields.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let number = |text: Option<&str>| text?.parse::<usize>().ok().filter(|n| *n > 0);
        let numbers = number(field("MaxArraySize")).unwrap_or(Limits::USUAL.numbers);
        // The controller keeps that many jobs of all users, each task being one; it never takes the last place.
        let jobs = number(field("MaxJobCount")).map(|jobs| jobs.saturating_sub(1));
        let parameters = field("SchedulerParameters").unwrap_or_default();
        let tasks = parameters.split(',').find_map(|word| word.trim().strip_prefix("max_array_tasks="));
        let tasks = [jobs, number(tasks)].into_iter().flatten().fold(numbers, usize::min);
        Limits { numbers, tasks: tasks.clamp(1, MOST_TASKS) }
    }

    /// Points in arrays, none larger than the cluster takes. As long as points fit, tasks are numbered as they are.
    pub fn arrays(&self, points: &[usize]) -> Vec<Array> {
        let blocks = points.chunk_by(|one, other| one / self.numbers == other / self.numbers);
        let pieces = blocks.flat_map(|block| block.chunks(self.tasks));
        pieces
            .map(|points| {
                let first = points[0] / self.numbers * self.numbers;
                Array { first, tasks: points.iter().map(|point| point - first).collect() }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_configuration() {
        let text = |parameters: &str, jobs: &str| {
            format!(
                "Configuration data as of 2026-11-17\nMaxArraySize            = 4\nMaxJobCount             = {jobs}\n\
                 SchedulerParameters     = {parameters}\n"
            )
        };
        let of = |parameters: &str, jobs: &str| Limits::parse(&text(parameters, jobs));
        assert_eq!(of("bf_interval=1", "10000"), Limits { numbers: 4, tasks: 4 });
        assert_eq!(of("bf_interval=1,max_array_tasks=2", "10000"), Limits { numbers: 4, tasks: 2 });
        assert_eq!(of("(null)", "4"), Limits { numbers: 4, tasks: 3 });
        assert_eq!(Limits::parse(""), Limits::USUAL);
    }

    #[test]
    fn every_point_has_one_task_and_no_array_is_too_large() {
        let all: Vec<usize> = (0..10).collect();
        for (points, numbers, tasks, firsts) in [
            (&all[..], 4, 4, vec![0, 4, 8]),
            (&all[..], 4, 3, vec![0, 0, 4, 4, 8]),
            (&all[..], 1001, 1001, vec![0]),
            (&[5, 9][..], 4, 4, vec![4, 8]),
            (&[][..], 4, 4, vec![]),
        ] {
            let arrays = Limits { numbers, tasks }.arrays(points);
            assert_eq!(arrays.iter().map(|array| array.first).collect::<Vec<_>>(), firsts);
            assert!(arrays.iter().all(|array| array.tasks.len() <= tasks));
            assert!(arrays.iter().flat_map(|array| &array.tasks).all(|task| *task < numbers));
            let met = arrays.iter().flat_map(|array| array.tasks.iter().map(|task| array.first + task));
            assert_eq!(met.collect::<Vec<_>>(), points);
        }
    }
}
