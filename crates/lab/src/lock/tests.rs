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
    let (boot, installation) = (format!("boot of {name}"), format!("installation of {name}"));
    let me = Owner { host: name.into(), boot, installation, ..Owner::this() };
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
    std::fs::write(&file, held(owner).text()).unwrap();
    file
}

fn held(owner: &Owner) -> Held {
    Held { owner: owner.clone(), beat: 3, kernel: String::new() }
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

#[cfg(target_os = "linux")]
#[test]
fn the_dead_of_another_container_are_known_by_the_kernels_lock_of_one_file() {
    let (_dir, path) = folder();
    let far = Owner { space: "another".into(), started: "1".into(), ..Owner::this() };
    let signature = sign(&path, 1, &far);
    // It had none, or one of another file: of a file system that is mounted twice.
    for kernel in ["", "1:2"] {
        std::fs::write(&signature, Held { kernel: kernel.into(), ..held(&far) }.text()).unwrap();
        assert_eq!(busy(take(&path).unwrap()), Some(far.clone()), "{kernel:?}");
    }
    let kernel = kernel::identity(&File::open(&path).unwrap());
    std::fs::write(&signature, Held { kernel, ..held(&far) }.text()).unwrap();
    assert_eq!(busy(Asker { kernel: false, ..Asker::usual() }.take(&path).unwrap()), Some(far.clone()));
    assert_eq!(holder(&path), None);
    assert_eq!(taken(take(&path).unwrap()).taken_from, Some(far));
}

/// Lets a signature seem so much older.
fn age_by(file: &Path, age: Duration) {
    let then = SystemTime::now() - age;
    let times = FileTimes::new().set_accessed(then).set_modified(then);
    File::options().write(true).open(file).unwrap().set_times(times).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn who_beat_before_this_machine_was_booted_is_dead_and_who_beat_since_may_be_its_copy() {
    let (_dir, path) = folder();
    // A minute is not over for long, so that only the boot can tell.
    let patient = Pace { stale: YEAR, ..QUICK };
    let me = Owner { installation: "this".into(), ..Owner::this() };
    let asker = || Asker { me: me.clone(), pace: patient, kernel: true };
    let up = host::uptime().unwrap();
    let before = Owner { boot: "an earlier one".into(), ..me.clone() };
    age_by(&sign(&path, 1, &before), up / 2);
    assert_eq!(busy(asker().take(&path).unwrap()), Some(before.clone()));
    for other in ["", "another"] {
        let other = Owner { installation: other.into(), ..before.clone() };
        age_by(&sign(&path, 1, &other), up + Duration::from_secs(5));
        assert_eq!(busy(asker().take(&path).unwrap()), Some(other));
    }
    age_by(&sign(&path, 1, &before), up + Duration::from_secs(5));
    assert_eq!(asker().holder(&path), None);
    let begun = Instant::now();
    assert_eq!(taken(asker().take(&path).unwrap()).taken_from, Some(before));
    assert!(begun.elapsed() < QUICK.watch);
}

#[test]
fn a_lock_that_is_removed_leaves_nothing_and_who_decided_by_it_begins_again() {
    let (dir, path) = folder();
    let names = || std::fs::read_dir(dir.path()).unwrap().count();
    for round in 0..3 {
        sign(&path, 5, &Owner { started: "1".into(), ..Owner::this() });
        std::fs::write(dir.path().join(".other"), "").unwrap();
        std::fs::write(dir.path().join("lock.a-1-2.part"), "").unwrap();
        taken(take(&path).unwrap()).remove();
        assert_eq!(names(), 1, "round {round}");
    }
    // Who saw it dead before all that, and acts only now.
    let seen = Some((5, Note::Held(held(&Owner::this()))));
    assert_eq!(claim_after(&Place::new(&path), seen, &held(&Owner::this())).unwrap(), None);
    assert_eq!(names(), 1);
    // Many at once: one has it at a time, however they come and go.
    let (inside, start) = (std::sync::atomic::AtomicUsize::new(0), Barrier::new(6));
    let had: usize = std::thread::scope(|scope| {
        let ask = |name: usize| {
            let (inside, start, path) = (&inside, &start, &path);
            scope.spawn(move || {
                start.wait();
                (0..40)
                    .filter(|_| match machine(&name.to_string()).take(path).unwrap() {
                        Attempt::Busy(_) => false,
                        Attempt::Taken(lock) => {
                            let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                            assert_eq!((others, lock.check()), (0, true));
                            std::thread::yield_now();
                            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                            lock.remove();
                            true
                        }
                    })
                    .count()
            })
        };
        let all: Vec<_> = (0..6).map(ask).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(had > 0);
}

#[test]
fn notes_are_read_back_and_have_one_length() {
    let note = Held { kernel: "8:1".into(), ..held(&Owner::this()) };
    let text = note.text();
    assert_eq!(Note::parse(&text), Note::Held(note.clone()));
    assert_eq!(Held { beat: u64::MAX, ..note.clone() }.text().len(), text.len());
    assert_eq!(note.free().len(), text.len());
    assert_eq!(Note::parse(&note.free()), Note::Free);
    // Of an earlier version, which had no more lines.
    let earlier = text.split_inclusive('\n').take(5).collect::<String>();
    let Note::Held(read) = Note::parse(&earlier) else { panic!("{earlier}") };
    let owner = Owner { installation: String::new(), ..note.owner };
    assert_eq!(read, Held { owner, beat: 3, kernel: String::new() });
    for text in ["", "process", "process 1 on x\n", "process x on y\nboot\nspace\nstarted\nbeat 1\n"] {
        assert_eq!(Note::parse(text), Note::Unknown, "{text:?}");
    }
}
