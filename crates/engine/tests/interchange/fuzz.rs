//! A seeded mutation test of the readers: whatever the bytes, a value or an error comes back, soon and cheaply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use engine::interchange::hf;

use crate::allocator::measured;
use crate::{build, golden};

/// Mutations of the pickle inside, of whole files, and of safetensors.
const PICKLES: u64 = 84_000;
const FILES: u64 = 20_000;
const SAFETENSORS: u64 = 10_000;
const MOST_BYTES: usize = 64 << 20;
const MOST_TIME: Duration = Duration::from_secs(60);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn range(&mut self, len: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(len);
        start..(start + 1 + self.below(most)).min(len)
    }
}

const OPCODES: &[u8] = b"().012FIJKLMNPQRSTUVX]abcdeghijlopqrstu}GBC\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98";

const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

const PIECES: [&[u8]; 14] = [
    b"]q\x00h\x00a",
    b"}q\x00h\x00h\x00s",
    b"r\xff\xff\xff\xff",
    b"j\xff\xff\xff\xff",
    b"cos\nsystem\n",
    b"X\x02\x00\x00\x00os\x93",
    b"ccollections\nOrderedDict\n)R",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch\nFloatStorage\n",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"I99999999999999999999\n",
    b"p4294967295\ng4294967295\n",
    b"\x81R\x92b",
];

/// Mutations that make sense for any bytes.
fn bend(random: &mut Random, bytes: &mut Vec<u8>) {
    let len = bytes.len();
    match random.below(5) {
        0 => {
            for _ in 0..1 + random.below(8) {
                let (at, bit) = (random.below(len), random.below(8));
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << bit);
            }
        }
        1 => bytes.truncate(random.below(len)),
        2 => {
            // a length or a count, overwritten
            let number = random.of(&NUMBERS).to_le_bytes();
            let (at, width) = (random.below(len), random.of(&[1, 2, 4, 8]));
            for (byte, new) in bytes.iter_mut().skip(at).take(width).zip(number) {
                *byte = new;
            }
        }
        3 => drop(bytes.drain(random.range(len, 64))),
        _ => {
            let piece = bytes[random.range(len, 64)].to_vec();
            let (at, times) = (random.below(len), 1 + random.below(8));
            bytes.splice(at..at, piece.repeat(times));
        }
    }
}

/// Mutations that know pickle.
fn bend_pickle(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len());
    match random.below(9) {
        0..=3 => bend(random, bytes),
        4 => {
            let codes: Vec<u8> = (0..1 + random.below(16)).map(|_| random.of(OPCODES)).collect();
            bytes.splice(at..at, codes);
        }
        5 => {
            let end = (at + 1).min(bytes.len());
            bytes.splice(at..end, [random.of(OPCODES)]);
        }
        6 => {
            let piece = random.of(&PIECES).repeat(1 + random.below(4));
            bytes.splice(at..at, piece);
        }
        7 => {
            let piece = other[random.range(other.len(), 400)].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            // deep nesting, long runs
            let (code, times) = (random.of(b"(])}2\x85\x94"), 1 << random.below(12));
            bytes.splice(at..at, vec![code; times]);
        }
    }
}

/// Runs a case; a panic is reported with the case that caused it.
fn survives(
    what: &str,
    case: u64,
    peak: &mut usize,
    bytes: Vec<u8>,
    read: fn(Vec<u8>) -> Result<(), String>,
) -> bool {
    let (start, length) = (Instant::now(), bytes.len());
    let (result, used) = measured(|| catch_unwind(AssertUnwindSafe(|| read(bytes))));
    let result = result.unwrap_or_else(|_| panic!("{what} {case} panics"));
    assert!(used < MOST_BYTES && used < 16 * length + (1 << 20), "{what} {case}: {used} bytes for {length}");
    *peak = used.max(*peak);
    assert!(start.elapsed() < Duration::from_secs(5), "{what} {case} takes {:?}", start.elapsed());
    if let Err(sentence) = &result {
        let lines = sentence.lines().count();
        assert!(lines == 1 && sentence.len() < 3_000, "{what} {case}: {sentence}");
    }
    result.is_ok()
}

fn file(bytes: Vec<u8>) -> Result<(), String> {
    build::read_bytes(bytes).map(drop).map_err(|error| error.to_string())
}

fn safetensors(bytes: Vec<u8>) -> Result<(), String> {
    hf::parse(Path::new("x"), bytes, None).map(drop).map_err(|error| error.to_string())
}

#[test]
fn mutated_files_neither_panic_nor_hang_nor_swell() {
    let start = Instant::now();
    let files: Vec<Vec<u8>> = ["lstm.pt", "views.pt", "bare.pt", "half.pt", "module.pt"]
        .iter()
        .map(|name| std::fs::read(golden(name)).unwrap())
        .collect();
    let unpacked: Vec<_> = files.iter().map(|bytes| build::members(bytes)).collect();
    let pickle = |index: usize| {
        unpacked[index].iter().find(|(name, _)| name.ends_with("data.pkl")).map(|(_, bytes)| bytes).unwrap()
    };
    let (mut read, mut peak) = (0u64, 0);
    for case in 0..PICKLES {
        let mut random = Random(case);
        let index = random.below(files.len());
        let mut bytes = pickle(index).clone();
        let other = pickle(random.below(files.len()));
        for _ in 0..1 + random.below(3) {
            bend_pickle(&mut random, &mut bytes, other);
        }
        let members: Vec<_> = unpacked[index]
            .iter()
            .map(|(name, old)| (name, if name.ends_with("data.pkl") { &bytes } else { old }))
            .collect();
        let archive = build::zip(&members);
        read += u64::from(survives("pickle", case, &mut peak, archive, file));
    }
    // Mutations that touch nothing of importance must not count as the rule.
    assert!(read > PICKLES / 100 && read < PICKLES / 2, "{read} of {PICKLES} mutated pickles were read");
    for case in 0..FILES {
        let mut random = Random(case ^ 0xf11e_0000_0000);
        let mut bytes = files[random.below(files.len())].clone();
        for _ in 0..1 + random.below(3) {
            if random.below(2) == 0 {
                bend(&mut random, &mut bytes);
            } else {
                // the central directory at the end is what a zip reader believes first
                let tail = bytes.len().saturating_sub(1 + random.below(2_000));
                let mut end = bytes.split_off(tail);
                bend(&mut random, &mut end);
                bytes.extend(end);
            }
        }
        survives("file", case, &mut peak, bytes, file);
    }
    let plain = std::fs::read(golden("interchange.safetensors")).unwrap();
    for case in 0..SAFETENSORS {
        let mut random = Random(case ^ 0x5afe_0000_0000);
        let mut bytes = plain.clone();
        bend(&mut random, &mut bytes);
        survives("safetensors", case, &mut peak, bytes, safetensors);
    }
    let took = start.elapsed();
    println!(
        "{} cases, {read} mutated pickles still readable, {took:.1?}, peak {peak} bytes",
        PICKLES + FILES + SAFETENSORS
    );
    assert!(took < MOST_TIME, "{took:?}");
}
