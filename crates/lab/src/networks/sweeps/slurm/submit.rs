//! An array job for all points that are left, or several where one would be larger than the cluster takes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use engine::model::checkpoint::write_whole;

use super::super::folder::SweepFolder;
use super::super::plan::Slurm;
use super::arguments::{Job, directives, ranges};
use super::arrays::{Array, Limits};
use super::names::{JobNames, script};
use super::{JOBS, LOGS};
use crate::error::{Error, Result};
use crate::program::Program;

/// What is given to a cluster.
pub struct Submission<'a> {
    /// Numbers of the points.
    pub points: &'a [usize],
    /// Tasks at once; what the plan says when absent.
    pub throttle: Option<u32>,
    /// The program `iclab`; a copy of it is submitted, unless another program starts it.
    pub program: &'a Program,
    /// Arguments of `iclab sweep task` beside the directory and the point.
    pub arguments: &'a [String],
}

/// Refuses a machine without `sbatch`.
pub fn check() -> Result<()> {
    let sbatch = Command::new("sbatch").arg("--version").output();
    if sbatch.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        let why = "there is no sbatch on this machine; accepted: a machine of a SLURM cluster, or --on local";
        return Err(Error::BadData(why.into()));
    }
    Ok(())
}

/// Submits points of a sweep as one array job, or as several where the cluster takes no array of that size; returns their
/// numbers.
///
/// Arrays that may have so many tasks at once follow each other, as each counts its own.
pub fn submit(folder: &SweepFolder, submission: &Submission) -> Result<Vec<String>> {
    let dir = std::path::absolute(&folder.dir).map_err(Error::file("find", &folder.dir))?;
    let logs = dir.join(LOGS);
    fs::create_dir_all(&logs).map_err(Error::file("create", &logs))?;
    let program = match &*submission.program.starter {
        [] => vec![copy_of(&submission.program.file, &dir)?.to_string_lossy().into_owned()],
        starter => starter.to_vec(),
    };
    let (slurm, names) = (&folder.sweep.slurm, JobNames::of(folder));
    let throttle = submission.throttle.or(slurm.throttle);
    let (mut jobs, mut done) = (Vec::<String>::new(), 0);
    for array in Limits::ask().arrays(submission.points) {
        // Before it is submitted: scripts tell which jobs there may be.
        let script = dir.join(script(array.first));
        write_whole(&script, text(slurm, &program, &dir, array.first, submission.arguments).as_bytes())?;
        let after = jobs.last().filter(|_| throttle.is_some()).map(String::as_str);
        let job = Job { name: names.name(array.first), array: &array, throttle, after };
        let mut command = Command::new("sbatch");
        command.args(directives(slurm, &job, &logs)).arg(&script);
        let number = send(&mut command).map_err(|why| {
            let (jobs, of) = (jobs.join(", "), submission.points.len());
            Error::content(&folder.plan, match done {
                0 => format!(
                    "{why}; accepted: a [slurm] table that suits the cluster (nothing was submitted)"
                ),
                _ => format!(
                    "{why}; {done} of {of} points were submitted before as job {jobs}; accepted: the same command \
                     when the cluster has room for the others"
                ),
            })
        })?;
        note(&dir.join(JOBS), &number, &array, &command)?;
        done += array.tasks.len();
        jobs.push(number);
    }
    Ok(jobs)
}

/// Runs sbatch; the job's number, or why there is none.
fn send(command: &mut Command) -> std::result::Result<String, String> {
    let output = command.output().map_err(|e| format!("sbatch cannot be run: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(|line| line.trim_start_matches("sbatch: ").trim()).collect();
        return Err(format!("sbatch refused the job: {}", said.join("; ")));
    }
    // `12`, or `12;cluster` where there are several.
    let answer = String::from_utf8_lossy(&output.stdout);
    Ok(answer.trim().split(';').next().unwrap_or_default().to_string())
}

/// Writes down that a job was submitted.
fn note(path: &Path, job: &str, array: &Array, command: &Command) -> Result<()> {
    let points: Vec<usize> = array.tasks.iter().map(|task| array.first + task).collect();
    let line = format!("{job} points {}: {}\n", ranges(&points), words(command));
    let file = fs::File::options().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(Error::file("write", path))
}

/// The script of a task. `exec`, so that signals for the script reach the program.
fn text(slurm: &Slurm, program: &[String], dir: &Path, first: usize, arguments: &[String]) -> String {
    let setup: String = slurm.setup.iter().map(|line| format!("{line}\n")).collect();
    let program = program.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let dir = quoted(&dir.to_string_lossy());
    let point = match first {
        0 => "$SLURM_ARRAY_TASK_ID".to_string(),
        first => format!("$((SLURM_ARRAY_TASK_ID + {first}))"),
    };
    format!(
        "#!/bin/sh\n\
         # Trains one point of the sweep; its number is that of the task in the array, counted from the array's first.\n\
         {setup}\
         # Not every cluster confines a task to the processors it was given.\n\
         if [ -n \"${{SLURM_CPUS_PER_TASK-}}\" ]; then export RAYON_NUM_THREADS=\"$SLURM_CPUS_PER_TASK\"; fi\n\
         exec {program} sweep task {dir} \"{point}\" {}\n",
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

/// The program, in the sweep's directory: nothing else needs to be installed on other machines, and a program that is
/// built anew meanwhile does not change runs half-way.
fn copy_of(program: &Path, dir: &Path) -> Result<PathBuf> {
    let bytes = fs::read(program).map_err(Error::file("read", program))?;
    let folder = dir.join("bin");
    let path = folder.join(format!("iclab-{:016x}", engine::hash::stable_id_of(bytes.iter().copied())));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    write_whole(&path, &bytes)?;
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
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
