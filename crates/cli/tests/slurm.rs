//! Sweeps on a real SLURM cluster; every test says `skipped` where there is none and none can be installed.
#![cfg(target_os = "linux")]

#[path = "slurm/cluster.rs"]
mod cluster;
mod common;
#[path = "slurm/site.rs"]
mod site;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

use cluster::Cluster;
use common::{TINY, checkpoints, complaints, done, entries, read, says};
use lab::findings::numbers::counted;
use serde_json::Value;
use site::Site;

/// Six runs of a few seconds each.
const PLAN: &str = r#"
name = "small"
base = "tiny.toml"
[set]
training.steps = 3000
training.log_every = 50
training.checkpoint_every = 100
training.keep = 0
[axes]
network.width = [8, 16]
training.seed = { from = 0, to = 2 }
[slurm]
partition = "main"
time = "00:30:00"
cpus = 1
setup = ["echo prepared"]
directives = ["--comment=a sweep"]
"#;

/// The sweep that is shipped for a first try, a little shorter and saving often enough to be interrupted, for this cluster.
fn miniature() -> String {
    let plan = include_str!("../../../experiments/sweeps/miniature.toml");
    let plan = plan.replace("base = \"../", "base = \"").replace("steps = 1500", "steps = 1000");
    let plan = plan.replace("[axes]", "training.log_every = 50\ntraining.checkpoint_every = 100\n[axes]");
    plan + "partition = \"main\"\nsetup = [\"echo prepared\"]\ndirectives = [\"--comment=a sweep\"]\n"
}

/// A cluster, started in this way, where one can be.
fn cluster(start: impl Fn() -> Cluster) -> Option<Cluster> {
    let wish = std::env::var("ICLAB_SLURM").unwrap_or_default();
    let missing = cluster::missing();
    if missing.is_none() && wish != "no" {
        return Some(start());
    }
    assert!(
        wish != "required",
        "there is no {} (scripts/install-slurm installs it)",
        missing.unwrap_or_default()
    );
    // Past the capture of output, or nobody would see it; once is enough.
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let _ = writeln!(std::io::stderr(), "skipped: no SLURM (scripts/install-slurm installs it)");
    });
    None
}

#[test]
fn killed_requeued_and_orphaned_tasks_end_with_the_same_bits_and_none_runs_twice() {
    let Some(mut cluster) = cluster(Cluster::start) else { return };
    let site = Site::new(&cluster, &miniature());
    let said = site.submit();
    says(&said, &["6 points submitted as job 1"]);
    // What is queued is not submitted again, and not trained here either.
    let again = site.submit();
    says(&again, &["nothing to submit"]);

    let killed = site.held(&[]);
    assert!(site.signal(killed, "-KILL"));
    let requeued = site.held(&[killed]);
    cluster.say("scontrol", &["requeue", &site.task(requeued)]);
    // The cluster says that the time is nearly up: the task saves and queues itself again.
    let timed = site.held(&[killed, requeued]);
    let timed_task = site.task(timed);
    assert!(site.signal(timed, "-USR1") && site.signal(timed, "-CONT"));
    let dir = site.dir;
    cluster.stop_node();
    std::thread::sleep(std::time::Duration::from_secs(1));
    cluster.start_node();
    let site = Site { cluster: &cluster, dir };
    site.drain();

    // One is missing: SLURM does not repeat what was killed, and the status says how to.
    assert_eq!(site.finished(), 5, "{:?}", site.status());
    let shown = site.done("sweep status plan.toml");
    says(&shown, &["interrupted", "submits them again"]);
    let said = site.submit();
    says(&said, &["1 point submitted as job"]);
    site.drain();
    assert_eq!(site.finished(), 6);
    assert!(site.submit().contains("nothing to submit"));

    let stories: Vec<String> = (0..6).map(|point| site.story(point)).collect();
    let interrupted = [killed, requeued, timed];
    for (point, story) in stories.iter().enumerate() {
        assert_eq!(story.matches("finished").count(), 1, "point {point}: {story}");
        assert!(story.ends_with("step 1000: finished"), "point {point}: {story}");
        let times = if interrupted.contains(&point) { 2 } else { 1 };
        assert_eq!(story.matches("taken up").count(), times, "point {point}: {story}");
    }
    for point in &interrupted[1..] {
        assert!(stories[*point].contains("saved and left, as asked"), "{}", stories[*point]);
    }
    let log = read(sweep_dir(site.dir.path()).join(format!("logs/{timed_task}.txt")));
    assert!(log.contains("prepared") && log.contains(&format!("queued again as {timed_task}")), "{log}");

    done(site.dir.path(), "sweep plan.toml --runs local");
    let (here, there) =
        ["local", "runs"].map(|runs| checkpoints(&site.dir.path().join(runs), "miniature-sweep-")).into();
    assert_eq!(here.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>());
    assert!(here == there, "the cluster's checkpoints have other bytes");
}

fn sweep_dir(dir: &Path) -> PathBuf {
    let runs = dir.join("runs");
    let name = entries(&runs).into_iter().find(|name| name.starts_with("sweep-miniature-")).unwrap();
    runs.join(name)
}

#[test]
fn refused_cancelled_failed_and_forgotten_jobs_leave_a_state_to_go_on_from() {
    let Some(mut cluster) = cluster(Cluster::start) else { return };
    // A job that the cluster refuses.
    let site = Site::new(&cluster, &PLAN.replace("partition = \"main\"", "partition = \"nowhere\""));
    let output = site.iclab("sweep plan.toml --on slurm");
    let said = complaints(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    says(&said, &["plan.toml", "sbatch refused the job", "nowhere", "[slurm]", "nothing was submitted"]);
    assert!(site.status().iter().all(|row| row["state"] == "not begun"));

    // Cancelled: what runs is saved, and nothing is queued again by itself.
    let plan = PLAN.replace("training.steps = 3000", "training.steps = 1000000");
    std::fs::write(site.dir.path().join("plan.toml"), &plan).unwrap();
    assert!(site.submit().contains("6 points submitted"));
    let running = site.caught(&[]);
    let said = site.done("sweep cancel plan.toml");
    says(&said, &["6 tasks of the cluster are cancelled"]);
    site.drain();
    assert!(site.story(running).ends_with("saved and left, as asked"));
    assert!(site.status().iter().all(|row| row["state"] == "interrupted" || row["state"] == "not begun"));

    // Held tasks are waited for; when the cluster forgets them they can be submitted again.
    let held = plan.replace("directives = [", "directives = [\"--hold\", ");
    std::fs::write(site.dir.path().join("plan.toml"), held).unwrap();
    assert!(site.submit().contains("6 points submitted"));
    let shown = site.done("sweep status plan.toml");
    says(&shown, &["6 queued (JobHeldUser)"]);
    let dir = site.dir;
    cluster.forget();
    let site = Site { cluster: &cluster, dir };
    let shown = site.done("sweep status plan.toml");
    assert!(!shown.contains("queued (") && shown.contains("submits them again"), "{shown}");
    assert!(site.submit().contains("6 points submitted"));
    site.done("sweep cancel plan.toml");

    // A task that fails says why, and is submitted again on request only.
    let wild = PLAN.replace("[axes]", "training.rate = 1e18\n[axes]").replace("to = 2", "to = 0");
    std::fs::write(site.dir.path().join("plan.toml"), wild).unwrap();
    std::fs::write(site.dir.path().join("tiny.toml"), TINY.replace("clip = 1.0\n", "")).unwrap();
    cluster.wait("a node", |cluster| cluster.say("sinfo", &["-h", "-o", "%T"]).trim() == "idle");
    assert!(site.submit().contains("2 points submitted"));
    site.drain();
    let shown = site.done("sweep status plan.toml");
    says(&shown, &["2 failed", "the loss is"]);
    assert!(site.submit().contains("nothing to submit (--retry"));
    assert!(site.done("sweep plan.toml --on slurm --retry").contains("2 points submitted"));
    site.drain();
}

#[test]
fn more_points_than_an_array_holds_run_in_several_and_the_accounts_tell_how_they_ended() {
    let Some(cluster) = cluster(|| Cluster::accounted(4)) else { return };
    let ten = PLAN.replace("to = 2", "to = 4").replace("[slurm]", "[slurm]\naccount = \"lab\"");
    let long = ten.replace("training.steps = 3000", "training.steps = 1000000");
    // Long enough to be caught a second time.
    let ten = ten.replace("training.steps = 3000", "training.steps = 9000");
    let site = Site::new(&cluster, &long.replace("[slurm]", "[slurm]\nthrottle = 2"));
    // A task that hears nothing until its time is over, in a place that nobody takes; it is found out while the rest goes on.
    let one = long.replace("[8, 16]", "[8]").replace("to = 4", "to = 0");
    let deaf = Site::new(&cluster, &one.replace("\"main\"", "\"urgent\""));
    deaf.submit();
    let out_of_time = deaf.task(deaf.held(&[]));
    cluster.end_time_of(&out_of_time);
    // One that is larger than what it asked for.
    let huge = one
        .replace("[slurm]", "[slurm]\nmemory = \"48M\"")
        .replace("[axes]", "training.batch = 30000\n[axes]");
    let huge = Site::new(&cluster, &huge);
    if cluster.limits_memory {
        huge.submit();
        huge.drain_but(&out_of_time);
    }

    // A user may have so many tasks in the queue: what found no room is submitted later.
    cluster.let_submit(Some(7));
    let output = site.iclab("sweep plan.toml --on slurm");
    let said = complaints(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    says(&said, &["plan.toml", "AssocMaxSubmitJobLimit", "4 of 10 points were submitted before as job "]);
    cluster.let_submit(None);
    let said = site.submit();
    says(&said, &["6 points submitted as jobs "]);
    let jobs = said.split_once("as jobs ").unwrap().1.lines().next().unwrap();
    assert_eq!(jobs.split(", ").count(), 2, "{said}");
    assert!(site.submit().contains("nothing to submit"));
    // So many tasks at once, of all arrays together: the last begins when the one before has ended.
    cluster.wait("reasons", |_| site.done("sweep status plan.toml").contains("2 queued (Dependency)"));
    let point = site.caught(&[]);
    let said = site.done("sweep cancel plan.toml");
    says(&said, &["10 tasks of the cluster are cancelled"]);
    site.drain_but(&out_of_time);
    // Accounts have nothing to tell of tasks that never began.
    site.ended(point, "CANCELLED by ");
    says(&site.done("sweep status plan.toml"), &["interrupted (cancelled by user ", "not begun"]);

    // One is killed and others have to make room, for which this plan does not want them queued again.
    let short = ten.replace("directives = [", "directives = [\"--no-requeue\", ");
    std::fs::write(site.dir.path().join("plan.toml"), short).unwrap();
    assert!(site.submit().contains("10 points submitted as jobs "));
    let killed = site.held(&[]);
    assert!(site.signal(killed, "-KILL"));
    let preempted = site.held(&[killed]);
    cluster.preempt();
    site.drain_but(&out_of_time);
    let ended = site.ended(killed, "FAILED");
    assert_eq!((&ended["exit_code"], &ended["signal"]), (&0.into(), &9.into()), "{ended}");
    site.ended(preempted, "PREEMPTED");
    let shown = site.done("sweep status plan.toml");
    says(&shown, &["interrupted (killed by signal 9)", "interrupted (preempted)", "submits them again"]);
    deaf.ended(0, "TIMEOUT");
    says(&deaf.done("sweep status plan.toml"), &["interrupted (timeout)", ": timeout after 0:0"]);

    // The machine of another is lost.
    let left = 10 - site.finished();
    assert!((2..=4).contains(&left), "{shown}");
    says(&site.submit(), &[&format!("{} submitted as job", counted(left, "point", "points"))]);
    let lost = site.held(&[]);
    for state in ["down", "resume"] {
        let state = format!("state={state}");
        cluster.say("scontrol", &["update", "nodename=node1", &state, "reason=test"]);
    }
    site.drain();
    site.ended(lost, "NODE_FAIL");
    let shown = site.done("sweep status plan.toml");
    says(&shown, &["interrupted (node fail)", ": node fail after 0:00:"]);

    // What is left, and only that, also in the middle of later arrays.
    let left = 10 - site.finished();
    assert!((1..=4).contains(&left), "{shown}");
    let said = site.submit();
    says(&said, &[&format!("{} submitted as job", counted(left, "point", "points"))]);
    site.drain();
    assert_eq!(site.finished(), 10, "{:?}", site.status());
    assert!(site.submit().contains("nothing to submit"));
    site.cluster.wait("the accounts of the end", |_| {
        site.status().iter().all(|row| row["ended"]["state"] == "COMPLETED")
    });
    // Memory is looked at every second, so that not every task was seen.
    let memory = |row: &Value| row["ended"]["max_rss"].as_u64();
    assert!(site.status().iter().filter_map(memory).any(|bytes| bytes > 1_000_000), "{:?}", site.status());
    for point in 0..10 {
        let story = site.story(point);
        assert_eq!(story.matches("finished").count(), 1, "{story}");
    }

    if cluster.limits_memory {
        let ended = huge.ended(0, "OUT_OF_MEMORY");
        assert_eq!((&ended["exit_code"], &ended["signal"]), (&0.into(), &125.into()), "{ended}");
        says(&huge.done("sweep status plan.toml"), &["(out of memory)", ": out of memory after 0:00:"]);
    } else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: tasks out of memory, as no control groups can be made here"
        );
    }
}
