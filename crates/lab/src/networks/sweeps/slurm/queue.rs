//! What the cluster knows about the tasks of a sweep.

use std::collections::HashMap;

use super::ask;
use super::names::JobNames;
use crate::error::Result;

/// A task in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    /// `12_3`
    pub id: String,
    /// `PENDING`, `RUNNING`, …
    pub state: String,
    /// Why it waits, if it does.
    pub reason: String,
}

impl Queued {
    /// In a few words.
    pub fn words(&self) -> String {
        match self.state.as_str() {
            "PENDING" if !matches!(self.reason.as_str(), "None" | "Resources" | "Priority" | "") => {
                format!("queued ({})", self.reason)
            }
            "PENDING" => "queued".into(),
            "RUNNING" => "running".into(),
            other => other.to_lowercase(),
        }
    }
}

/// The tasks of a sweep that are queued or running, by their points; `None` where there is no SLURM.
pub fn queued(names: &JobNames) -> Result<Option<HashMap<usize, Queued>>> {
    let arguments = ["--noheader", "--array", &format!("--name={}", names.list()), "--format=%i|%j|%T|%r"];
    Ok(ask("squeue", &arguments)?.map(|text| parse_queue(&text, names)))
}

/// What `squeue` says, by points; lines that are none are passed over.
pub fn parse_queue(text: &str, names: &JobNames) -> HashMap<usize, Queued> {
    let mut found = HashMap::new();
    for line in text.lines() {
        let mut parts = line.trim().splitn(4, '|');
        let (Some(id), Some(name), Some(state)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let &[point] = &names.points(name, id)[..] else { continue };
        let task = Queued {
            id: id.to_string(),
            state: state.to_string(),
            reason: parts.next().unwrap_or_default().to_string(),
        };
        // Of two tasks for one point, the one that runs is the one to tell of.
        if found.get(&point).is_none_or(|known: &Queued| known.state != "RUNNING") {
            found.insert(point, task);
        }
    }
    found
}

/// Cancels all tasks of a sweep, of however many arrays; says how many there were.
pub fn cancel(names: &JobNames) -> Result<usize> {
    let Some(tasks) = queued(names)? else { return Ok(0) };
    if !tasks.is_empty() {
        // scancel takes one name at a time, and finds nothing wrong with one that has no tasks any more.
        names.each().try_for_each(|name| ask("scancel", &[&format!("--name={name}")]).map(|_| ()))?;
    }
    Ok(tasks.len())
}

/// Queues this task again, unless the cluster ended it: a task that was cancelled must stay so, and one that was requeued or
/// pre-empted is usually queued by the cluster itself. In both cases it does not count as running any more.
pub fn queue_again(tell: &dyn Fn(&str)) -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some((job, task)) = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID")) else {
        return Ok(());
    };
    let id = format!("{job}_{task}");
    let state = ask("squeue", &["--noheader", &format!("--jobs={id}"), "--format=%T"])?.unwrap_or_default();
    if state.trim() != "RUNNING" && !was_preempted(&id)? {
        let state = state.trim().to_lowercase();
        tell(&format!("the cluster ended this task ({state}) and decides what comes next"));
        return Ok(());
    }
    tell(&format!("queued again as {id}")); // before it is: that ends this process
    ask("scontrol", &["requeue", &id])?;
    Ok(())
}

/// Whether the cluster took a task's place for another job without queueing it again: partitions may be set up so.
fn was_preempted(id: &str) -> Result<bool> {
    let text = ask("scontrol", &["show", "job", "--oneliner", id])?.unwrap_or_default();
    // A task that is queued again has been counted as restarted.
    let restarts = std::env::var("SLURM_RESTART_COUNT").unwrap_or_else(|_| "0".into());
    Ok(parse_preempted(&text, &restarts))
}

/// Whether what `scontrol` says of a job means that, for a task that was begun so many times before.
pub fn parse_preempted(text: &str, restarts: &str) -> bool {
    let field = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    let queued = field("Restarts=").is_some_and(|count| count != restarts);
    !queued && field("PreemptTime=").is_some_and(|time| time != "None")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_read() {
        let found = parse_queue(
            "12_0|x|PENDING|Resources\n12_1|x|RUNNING|None\n15_1|x|PENDING|BeginTime\n13|x|RUNNING|None\n\
             16_1|x+1001|PENDING|Dependency\n17_5|y|RUNNING|None\n",
            &JobNames::named("x"),
        );
        assert_eq!(found.len(), 3);
        assert_eq!(found[&1002].words(), "queued (Dependency)");
        assert_eq!(found[&1].id, "12_1");
        assert_eq!(found[&0].words(), "queued");
        let held = Queued { id: "1_1".into(), state: "PENDING".into(), reason: "JobHeldUser".into() };
        assert_eq!(held.words(), "queued (JobHeldUser)");
    }
}
