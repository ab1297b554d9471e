//! Machines that share a folder and nothing else, as threads and processes with other names that ask no kernel.

use std::fs::FileTimes;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::SystemTime;

use super::*;

const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Slow enough for a machine that is busy with other tests.
const QUICK: Pace = Pace {
    beat: Duration::from_millis(100),
    stale: Duration::from_millis(1500),
    watch: Duration::from_millis(1500),
};

/// A machine whose kernel nobody else asks.
fn machine(name: &str) -> Asker {
    let me = Owner { host: name.into(), boot: format!("boot of {name}"), ..Owner::this() };
    Asker { me, pace: QUICK, kernel: false }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    (dir, path)
}

fn taken(attempt: Attempt) -> Lock {
    match attempt {
        Attempt::Taken(lock) => lock,
        Attempt::Busy(owner) => panic!("held by {owner:?}"),
    }
}

fn busy(attempt: Attempt) -> Option<Owner> {
    match attempt {
        Attempt::Taken(_) => panic!("taken"),
        Attempt::Busy(owner) => owner,
    }
}

/// Leaves a signature as a process does that was killed.
fn sign(path: &Path, number: u64, owner: &Owner) -> PathBuf {
    let file = Place::new(path).file(number);
    std::fs::write(path, "").unwrap();
    std::fs::write(&file, Note::text(owner, 3)).unwrap();
    file
}

/// The clock of the file server jumps: what was written before is that much older, or younger.
fn jump(file: &Path, forward: bool) {
    let now = SystemTime::now();
    let then = if forward { now - YEAR } else { now + YEAR };
    let times = FileTimes::new().set_accessed(then).set_modified(then);
    File::options().write(true).open(file).unwrap().set_times(times).unwrap();
}

#[test]
fn of_many_machines_one_has_the_lock_and_the_next_has_it_as_soon_as_it_is_free() {
    let (_dir, path) = folder();
    for round in 0..20 {
        let start = Barrier::new(8);
        let attempts: Vec<Attempt> = std::thread::scope(|scope| {
            let ask = |name: usize| {
                let (start, path) = (&start, &path);
                scope.spawn(move || {
                    start.wait();
                    machine(&name.to_string()).take(path).unwrap()
                })
            };
            let all: Vec<_> = (0..8).map(ask).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let holders = attempts.iter().filter(|attempt| matches!(attempt, Attempt::Taken(_))).count();
        assert_eq!(holders, 1, "round {round}");
    }
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 2, "the lock and its last signature: {names:?}");
}

/// Another machine, for the test below: holds the lock until it is killed.
#[test]
fn hold_as_another_machine() {
    let Some(path) = std::env::var_os("ICLAB_TEST_LOCK") else { return };
    let _lock = taken(machine("far").take(Path::new(&path)).unwrap());
    println!("\nholding");
    std::thread::sleep(Duration::from_secs(120));
}

#[test]
fn a_process_of_another_machine_loses_the_lock_only_when_it_beats_no_more_whatever_clocks_do() {
    let (_dir, path) = folder();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock::tests::hold_as_another_machine", "--nocapture"])
        .env("ICLAB_TEST_LOCK", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"));
    let near = machine("near");
    let signature = Place::new(&path).file(1);
    for forward in [true, false, true] {
        assert_eq!(busy(near.take(&path).unwrap()).unwrap().host, "far");
        jump(&signature, forward);
        assert_eq!(busy(near.take(&path).unwrap()).unwrap().host, "far", "forward: {forward}");
    }
    assert_eq!(near.holder(&path).unwrap().unwrap().process, other.id());
    other.kill().unwrap();
    other.wait().unwrap();
    // Nobody here can know that it is dead.
    let killed = Instant::now();
    while let Attempt::Busy(owner) = near.take(&path).unwrap() {
        assert_eq!(owner.unwrap().host, "far");
        std::thread::sleep(QUICK.beat);
    }
    assert!(killed.elapsed() > QUICK.watch, "{:?}", killed.elapsed());
    assert!(killed.elapsed() < 4 * (QUICK.stale + QUICK.watch), "{:?}", killed.elapsed());
}

#[test]
fn clocks_that_jump_do_not_keep_a_lock_of_the_dead() {
    for forward in [true, false] {
        let (_dir, path) = folder();
        let dead = machine("far").me;
        jump(&sign(&path, 7, &dead), forward);
        assert!(machine("near").holder(&path).is_none());
        let lock = taken(machine("near").take(&path).unwrap());
        assert_eq!((lock.number, lock.taken_from.as_ref()), (8, Some(&dead)));
        assert!(!Place::new(&path).file(7).exists());
    }
}

#[test]
fn numbers_of_processes_say_nothing_about_other_machines() {
    let (_dir, path) = folder();
    // There is none of that number here.
    let far = Owner { process: u32::MAX, started: "1".into(), ..machine("far").me };
    sign(&path, 1, &far);
    assert_eq!(busy(machine("near").take(&path).unwrap()), Some(far.clone()));
    assert_eq!(busy(take(&path).unwrap()), Some(far.clone()));
    // Two machines of one name are two machines, and an unknown boot is that of another machine.
    for boot in ["boot of another", ""] {
        sign(&path, 1, &Owner { boot: boot.into(), process: u32::MAX, ..Owner::this() });
        assert!(busy(take(&path).unwrap()).is_some());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_dead_process_of_this_machine_is_known_at_once() {
    let (_dir, path) = folder();
    let me = Owner::this();
    let without_kernel = || Asker { me: me.clone(), pace: QUICK, kernel: false };
    // Its number is another process's by now, whether the kernel's locks are there or not.
    let dead = Owner { started: "1".into(), ..me.clone() };
    sign(&path, 1, &dead);
    assert_eq!(holder(&path), None);
    let lock = taken(take(&path).unwrap());
    assert_eq!((lock.number, lock.taken_from.as_ref()), (2, Some(&dead)));
    assert!(busy(take(&path).unwrap()).is_some());
    assert_eq!(holder(&path), Some(Some(me.clone())));
    // The kernel's lock may not be there for all: a file system that is mounted twice.
    assert_eq!(busy(without_kernel().take(&path).unwrap()), Some(me.clone()));
    drop(lock);
    assert_eq!(holder(&path), None);
    sign(&path, 9, &dead);
    assert_eq!(without_kernel().holder(&path), None);
    assert_eq!(taken(without_kernel().take(&path).unwrap()).number, 10);
    // Not so where numbers are those of another container.
    sign(&path, 11, &Owner { space: "another".into(), ..dead });
    assert!(busy(without_kernel().take(&path).unwrap()).is_some());
    assert!(busy(take(&path).unwrap()).is_some());
}

#[test]
fn an_owner_that_slept_finds_that_it_was_taken_over_and_leaves_the_lock_alone() {
    let (_dir, path) = folder();
    let hour = Pace { beat: Duration::from_secs(3600), ..QUICK };
    let slept = taken(Asker { pace: hour, ..machine("far") }.take(&path).unwrap());
    assert!(slept.check());
    jump(&Place::new(&path).file(1), true);
    let lock = taken(machine("near").take(&path).unwrap());
    assert!(!slept.check() && lock.check());
    drop(slept);
    assert_eq!(machine("third").holder(&path).unwrap().unwrap().host, "near");
    assert!(busy(machine("third").take(&path).unwrap()).is_some());
}

#[test]
fn what_is_half_written_counts_as_held_until_nothing_comes() {
    let (dir, path) = folder();
    let signature = sign(&path, 2, &machine("far").me);
    for name in [".nfs000000000000abcd", "lock.9.part", "lock.x", "other.12"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    std::fs::write(&signature, "proc").unwrap();
    assert_eq!(busy(machine("near").take(&path).unwrap()), None);
    jump(&signature, true);
    assert_eq!(taken(machine("near").take(&path).unwrap()).number, 3);
}

#[test]
fn notes_are_read_back_and_have_one_length() {
    let me = Owner::this();
    let text = Note::text(&me, 0);
    assert_eq!(Note::parse(&text), Note::Held(me.clone(), 0));
    assert_eq!(Note::text(&me, u64::MAX).len(), text.len());
    assert_eq!(Note::free(&me).len(), text.len());
    assert_eq!(Note::parse(&Note::free(&me)), Note::Free);
    for text in ["", "process", "process 1 on x\n", "process x on y\nboot\nspace\nstarted\nbeat 1\n"] {
        assert_eq!(Note::parse(text), Note::Unknown, "{text:?}");
    }
}
