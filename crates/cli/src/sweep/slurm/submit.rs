//! One array job for all points that are left.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::networks::sweeps::Slurm;

use super::{JOBS, LOGS, job_name};
use crate::error::{Error, Result};
use crate::output;
use crate::sweep::survey::{counts, survey};
use crate::sweep::{Opened, RunArgs};

/// Seconds before the time limit at which tasks are told, when nobody says.
const GRACE: u32 = 120;

/// Submits what is left of a sweep.
pub fn run(args: &RunArgs, opened: &Opened) -> Result<()> {
    args.device.devices()?; // arguments that do not go together are refused here, not on another machine
    let sbatch = Command::new("sbatch").arg("--version").output();
    if sbatch.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return Err(Error::Usage(
            "there is no sbatch on this machine; accepted: a machine of a SLURM cluster, or --on local"
                .into(),
        ));
    }
    opened.create()?;
    let (seen, notes) = survey(opened);
    if let Some(note) = notes.first() {
        return Err(Error::Usage(format!(
            "{note}, so nobody can tell what is queued already; nothing was submitted"
        )));
    }
    let busy = |i: &usize| seen[*i].task.is_some() || seen[*i].is_running();
    let wanted = |i: &usize| !seen[*i].is_finished() && (args.retry || !seen[*i].is_failed());
    let left: Vec<usize> = (0..seen.len()).filter(|i| wanted(i) && !busy(i)).collect();
    println!("{}: {}", opened.dir.display(), counts(&seen));
    if left.is_empty() {
        println!(
            "nothing to submit{}",
            if seen.iter().any(|s| s.is_failed()) { " (--retry submits failed points)" } else { "" }
        );
        return Ok(());
    }
    let job = submit(args, opened, &left)?;
    println!("{} submitted as job {job}", points(left.len()));
    println!("iclab sweep status {} tells how far they are", opened.plan.display());
    Ok(())
}

fn points(count: usize) -> String {
    if count == 1 { "1 point".into() } else { format!("{count} points") }
}

fn submit(args: &RunArgs, opened: &Opened, left: &[usize]) -> Result<String> {
    let dir = std::path::absolute(&opened.dir).map_err(Error::file("find", &opened.dir))?;
    let logs = dir.join(LOGS);
    fs::create_dir_all(&logs).map_err(Error::file("create", &logs))?;
    let program = copy_of_this_program(&dir)?;
    let slurm = &opened.sweep.slurm;
    let script = dir.join("task.sh");
    let arguments: Vec<String> = args.device.arguments();
    output::write_file(&script, text(slurm, &program, &dir, &arguments).as_bytes())?;
    let throttle = args.jobs.or(slurm.throttle);
    let mut command = Command::new("sbatch");
    command.args(directives(slurm, &job_name(opened), left, throttle, &logs)).arg(&script);
    let output = command.output().map_err(|e| Error::Usage(format!("sbatch cannot be run: {e}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let said: Vec<&str> = said.lines().map(|line| line.trim_start_matches("sbatch: ").trim()).collect();
        return Err(Error::content(
            &opened.plan,
            format!(
                "sbatch refused the job: {}; accepted: a [slurm] table that suits the cluster (nothing was submitted)",
                said.join("; ")
            ),
        ));
    }
    // `12`, or `12;cluster` where there are several.
    let answer = String::from_utf8_lossy(&output.stdout);
    let job = answer.trim().split(';').next().unwrap_or_default().to_string();
    let path = dir.join(JOBS);
    let line = format!("{job} points {}: {}\n", array(left), words(&command));
    let file = fs::File::options().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(Error::file("write", &path))?;
    Ok(job)
}

/// The arguments of sbatch; the author's own come last and so have the last word.
fn directives(slurm: &Slurm, name: &str, left: &[usize], throttle: Option<u32>, logs: &Path) -> Vec<String> {
    let throttle = throttle.map_or(String::new(), |n| format!("%{n}"));
    // % begins a pattern in the names of logs.
    let logs = logs.to_string_lossy().replace('%', "%%");
    let mut all = vec![
        "--parsable".to_string(),
        format!("--job-name={name}"),
        format!("--array={}{throttle}", array(left)),
        format!("--output={logs}/%A_%a.txt"),
        "--open-mode=append".into(),
        "--requeue".into(),
        format!("--signal=B:USR1@{}", grace(slurm)),
    ];
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
fn seconds(text: &str) -> Option<u32> {
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

/// Points as sbatch writes arrays: `0-3,7,9-10`.
fn array(points: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &point in points {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == point => *last = point,
            _ => ranges.push((point, point)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The script of a task. `exec`, so that signals for the script reach the program.
fn text(slurm: &Slurm, program: &Path, dir: &Path, arguments: &[String]) -> String {
    let setup: String = slurm.setup.iter().map(|line| format!("{line}\n")).collect();
    let (program, dir) = (quoted(&program.to_string_lossy()), quoted(&dir.to_string_lossy()));
    format!(
        "#!/bin/sh\n\
         # Trains one point of the sweep; its number is that of the task in the array.\n\
         {setup}\
         # Not every cluster confines a task to the processors it was given.\n\
         if [ -n \"${{SLURM_CPUS_PER_TASK-}}\" ]; then export RAYON_NUM_THREADS=\"$SLURM_CPUS_PER_TASK\"; fi\n\
         exec {program} sweep task {dir} \"$SLURM_ARRAY_TASK_ID\" {}\n",
        arguments.join(" ")
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A command as it could be typed.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// This program, in the sweep's directory: nothing else needs to be installed on other machines, and a program that is
/// built anew meanwhile does not change runs half-way.
fn copy_of_this_program(dir: &Path) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|e| Error::Usage(format!("cannot find this program: {e}")))?;
    let bytes = fs::read(&own).map_err(Error::file("read", &own))?;
    let folder = dir.join("bin");
    let path = folder.join(format!("iclab-{:016x}", engine::hash::fnv1a_of(bytes.iter().copied())));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    output::write_file(&path, &bytes)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let permissions = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, permissions).map_err(Error::file("write", &path))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_short() {
        assert_eq!(array(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(array(&[5]), "5");
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
        let all = directives(&slurm, "n", &[0, 1], Some(2), Path::new("/a b/50%"));
        assert!(
            all.contains(&"--array=0-1%2".to_string())
                && all.contains(&"--output=/a b/50%%/%A_%a.txt".to_string())
        );
        assert_eq!(all.last().unwrap(), "--partition=long");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
