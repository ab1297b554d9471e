//! Safetensors files: the length of a header, a header of JSON, values.

use crate::{Random, bend, bend_text};

/// The header and the values of a good file.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    rest.split_at((u64::from_le_bytes(*length) as usize).min(rest.len()))
}

/// A file of a header and values.
pub fn join(header: &[u8], values: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, values].concat()
}

/// Changes a file: its header, in words that are still parsed, its offsets, its values, or any of its bytes.
pub fn bend_safetensors(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let (header, values) = split(bytes);
    let (mut header, mut values) = (header.to_vec(), values.to_vec());
    match random.below(10) {
        0..=4 => bend_text(random, &mut header, split(other).0),
        5 | 6 => offsets(random, &mut header, values.len()),
        7 => bend(random, &mut values, split(other).1),
        _ => return bend(random, bytes, other),
    }
    *bytes = join(&header, &values);
}

/// Offsets that overlap, leave gaps, end before they begin or are beyond the file.
fn offsets(random: &mut Random, header: &mut Vec<u8>, length: usize) {
    const KEY: &[u8] = b"\"data_offsets\":[";
    let places: Vec<usize> = header
        .windows(KEY.len())
        .enumerate()
        .filter(|(_, w)| *w == KEY)
        .map(|(at, _)| at + KEY.len())
        .collect();
    if places.is_empty() {
        return;
    }
    let at = random.of(&places);
    let end = at + header[at..].iter().take_while(|byte| **byte != b']').count();
    let one = |random: &mut Random| match random.below(3) {
        0 => random.of(&crate::NUMBERS),
        1 => random.below(length + 9) as u64,
        _ => (length as u64).wrapping_sub(random.below(9) as u64),
    };
    let text = format!("{},{}", one(random), one(random));
    header.splice(at..end, text.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_apart_and_together() {
        let file = join(b"{\"a\":{\"data_offsets\":[0,4]}}", &[1, 2, 3, 4]);
        let (header, values) = split(&file);
        assert_eq!((header.len(), values), (28, &[1, 2, 3, 4][..]));
        assert_eq!(join(header, values), file);
        let mut changed = header.to_vec();
        offsets(&mut Random::of_case(1, "x", 1), &mut changed, 4);
        assert!(changed.starts_with(b"{\"a\":{\"data_offsets\":[") && changed.ends_with(b"]}}"));
    }
}
