//! Mutations that make sense for any bytes.

use crate::Random;

/// Counts and lengths at which programs err.
pub const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x2000_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Changes bytes in one way; `other` is a good file to take parts from.
pub fn bend(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let len = bytes.len();
    match random.below(12) {
        0 | 1 => {
            for _ in 0..1 + random.below(8) {
                let (at, bit) = (random.below(len), random.below(8));
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << bit);
            }
        }
        2 => bytes.truncate(random.below(len)),
        3 | 4 => overwrite(random, bytes),
        5 => drop(bytes.drain(random.range(len, 64))),
        6 => {
            let piece = bytes[random.range(len, 64)].to_vec();
            let (at, times) = (random.below(len), 1 + random.below(8));
            bytes.splice(at..at, piece.repeat(times));
        }
        7 => {
            // two stretches change places
            let (one, two) = (random.range(len, 64), random.range(len, 64));
            let (first, second) = if one.start <= two.start { (one, two) } else { (two, one) };
            if first.end <= second.start {
                let (a, b) = (bytes[first.clone()].to_vec(), bytes[second.clone()].to_vec());
                bytes.splice(second, a);
                bytes.splice(first, b);
            }
        }
        8 => {
            // the beginning of one file, the end of another
            let from = random.below(other.len());
            bytes.truncate(random.below(len));
            bytes.extend(&other[from..]);
        }
        9 => {
            let piece = &other[random.range(other.len(), 400)];
            let at = random.below(len);
            bytes.splice(at..at, piece.iter().copied());
        }
        10 => {
            let (range, value) = (random.range(len, 32), random.of(&[0, 0xff, b'\n', b' ', 0xc3]));
            bytes[range].fill(value);
        }
        _ if random.once_in(8) => bytes.clear(),
        _ => {
            let noise: Vec<u8> = (0..1 + random.below(16)).map(|_| random.number() as u8).collect();
            let at = random.below(len);
            bytes.splice(at..at, noise);
        }
    }
}

/// A length or a count, overwritten or off by one.
fn overwrite(random: &mut Random, bytes: &mut [u8]) {
    let (at, width) = (random.below(bytes.len()), random.of(&[1, 2, 4, 8]));
    let mut old = [0; 8];
    bytes.iter().skip(at).take(width).zip(&mut old).for_each(|(byte, old)| *old = *byte);
    let old = u64::from_le_bytes(old);
    let new = match random.below(4) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        _ => random.of(&NUMBERS),
    };
    for (byte, new) in bytes.iter_mut().skip(at).take(width).zip(new.to_le_bytes()) {
        *byte = new;
    }
}
