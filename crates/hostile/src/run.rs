//! Runs the cases of a reader.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Random, measured};

/// Cases of all readers together, unless `ICLAB_HOSTILE_CASES` says otherwise.
const CASES: u64 = 100_000;
/// Of the processor, not of the clock: a machine may be busy, or a process stopped for a while.
const MOST_TIME: Duration = Duration::from_secs(5);
/// Characters of a sentence.
const LONGEST: usize = 2_000;

/// Every reader of outside bytes, with its share of all cases in thousandths.
pub const READERS: [(&str, u64); 27] = [
    ("pickle", 200),
    ("pickle-opcodes", 100),
    ("pt", 80),
    ("safetensors", 60),
    ("shards", 20),
    ("checkpoint", 60),
    ("network-json", 20),
    ("npz-prompts", 80),
    ("npz-predictions", 50),
    ("predictions", 20),
    ("patches", 10),
    ("induced-weights", 10),
    ("construction", 20),
    ("read-outs", 30),
    ("experiment", 50),
    ("change", 20),
    ("sweep", 10),
    ("stored-sweep", 10),
    ("card", 30),
    ("metrics", 25),
    ("run", 25),
    ("slurm", 20),
    ("cache", 20),
    ("findings", 5),
    ("plan", 10),
    ("ledger", 10),
    ("owned-files", 5),
];

/// What reading may cost: so many times the bytes of the input, and so many more.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Times the input.
    pub times: usize,
    /// Bytes in any case.
    pub plus: usize,
}

/// A reader under test.
pub struct Reader<'a> {
    /// Its name in [`READERS`].
    pub name: &'a str,
    /// What it may cost.
    pub cost: Cost,
    /// Where its good inputs come from in a message: part of every sentence, if there is one.
    pub named: &'a str,
}

/// Time that this thread has had on a processor; none where Linux does not tell.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(name: &str) -> Option<u64> {
    variable(name)
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is '{text}'; accepted: a whole number")))
}

/// How many cases a reader gets.
pub fn share(name: &str) -> u64 {
    let found = READERS.iter().find(|(reader, _)| *reader == name);
    let (_, thousandths) = found.unwrap_or_else(|| panic!("'{name}' is not among the readers"));
    (number("ICLAB_HOSTILE_CASES").unwrap_or(CASES) * thousandths).div_ceil(1000)
}

/// Where inputs are written: in memory where that is a folder, as a million files would keep a disk busy.
pub fn place() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Gives a reader all of its cases. `make` makes an input from random numbers; `read` reads it, checks what it accepts, and
/// returns the sentence of a refusal. Returns how many were accepted.
pub fn check(
    reader: &Reader,
    make: impl Fn(&mut Random) -> Vec<u8>,
    read: impl Fn(Vec<u8>) -> Result<(), String>,
) -> u64 {
    run(reader, make, |_| {}, read)
}

/// The same for a reader that opens a file: each input is written to `path`, which costs the reader nothing.
pub fn check_file(
    reader: &Reader,
    path: &Path,
    make: impl Fn(&mut Random) -> Vec<u8>,
    read: impl Fn(&Path) -> Result<(), String>,
) -> u64 {
    let write = |bytes: &[u8]| std::fs::write(path, bytes).expect("a place for inputs");
    run(reader, make, write, |_| read(path))
}

fn run(
    reader: &Reader,
    make: impl Fn(&mut Random) -> Vec<u8>,
    write: impl Fn(&[u8]),
    read: impl Fn(Vec<u8>) -> Result<(), String>,
) -> u64 {
    let name = reader.name;
    let seed = number("ICLAB_HOSTILE_SEED").unwrap_or(1);
    let (all, only) = (share(name), only(name));
    let cases = only.map_or(0..all, |case| if case == u64::MAX { 0..0 } else { case..case + 1 });
    let trace = variable("ICLAB_HOSTILE_TRACE").is_some();
    let (begun, count) = (Instant::now(), cases.end - cases.start);
    let (mut accepted, mut peak, mut slowest) = (0, 0, Duration::ZERO);
    for case in cases {
        let again = format!("again: ICLAB_HOSTILE_SEED={seed} ICLAB_HOSTILE_CASE={name}:{case}");
        if trace {
            eprintln!("{name} {case}");
        }
        let bytes = make(&mut Random::of_case(seed, name, case));
        if only.is_some() {
            println!("{name} {case}: the input is {}", keep(name, case, &bytes).display());
        }
        write(&bytes);
        let (length, start) = (bytes.len(), processor_time());
        let (result, used) = measured(|| catch_unwind(AssertUnwindSafe(|| read(bytes))));
        let took = processor_time().saturating_sub(start);
        let Ok(result) = result else { panic!("{name} {case} panics; {again}") };
        let most = reader.cost.times * length + reader.cost.plus;
        assert!(used <= most, "{name} {case}: {used} bytes in use for an input of {length}; {again}");
        assert!(took < MOST_TIME, "{name} {case} takes {took:?}; {again}");
        (peak, slowest) = (used.max(peak), took.max(slowest));
        match &result {
            Ok(()) => accepted += 1,
            Err(said) => {
                let one = said.lines().count() == 1 && !said.contains(|c: char| c.is_control());
                let fine = one && said.chars().count() < LONGEST && said.contains(reader.named);
                assert!(fine, "{name} {case} is not refused in a sentence: {said:?}; {again}");
            }
        }
        if only.is_some() {
            println!("{name} {case}: {result:?}");
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "hostile | {name} | {count} | {accepted} | {:.0} | {:.1} | {:.0} |",
        count as f64 / seconds.max(1e-9),
        peak as f64 / f64::from(1 << 20),
        1e3 * slowest.as_secs_f64()
    );
    accepted
}

/// The one case that is asked for; of another reader, none.
fn only(name: &str) -> Option<u64> {
    let text = variable("ICLAB_HOSTILE_CASE")?;
    let (reader, case) = text.split_once(':').unwrap_or((&text, ""));
    let case =
        case.parse().unwrap_or_else(|_| panic!("ICLAB_HOSTILE_CASE is '{text}'; accepted: READER:NUMBER"));
    Some(if reader == name { case } else { u64::MAX })
}

fn keep(name: &str, case: u64, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("hostile-{name}-{case}"));
    std::fs::write(&path, bytes).expect("a place for the input");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_a_whole() {
        assert_eq!(READERS.iter().map(|(_, share)| share).sum::<u64>(), 1000);
    }

    #[test]
    fn a_case_is_a_function_of_its_number() {
        let bytes = |seed, case| {
            let mut bytes = b"a = 1\nb = [2, 3]\n".to_vec();
            let mut random = Random::of_case(seed, "x", case);
            (0..3).for_each(|_| crate::bend_text(&mut random, &mut bytes, b"c = 4\n"));
            bytes
        };
        assert!((0..1000).all(|case| bytes(1, case) == bytes(1, case)));
        let differ = (0..1000).filter(|case| bytes(1, *case) != bytes(2, *case)).count();
        assert!(differ > 900, "{differ}");
    }
}
