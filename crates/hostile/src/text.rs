//! Mutations that know the words of JSON, TOML and tables of text: right keys with wrong values and types.

use std::ops::Range;

use crate::{Random, bend};

/// What is put in place of a value.
const VALUES: [&str; 34] = [
    "NaN",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1e999",
    "1e308",
    "5e-324",
    "-0",
    "-0.0",
    "0",
    "-1",
    "0.5",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "100000000000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "true",
    "null",
    "\"\"",
    "\"1\"",
    "\"../../x\"",
    "\"a\\nb\\u001b[31m\"",
    "\"𝟙ü\\u0000\"",
    "[]",
    "{}",
    "[[1],[2,3]]",
];

/// What opens a level, again and again.
const NESTS: [&str; 6] = ["[", "{\"a\":", "{a=", "(", "[[", "a."];

/// Changes a text in one way; now and then as if it were any bytes.
pub fn bend_text(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    match random.below(16) {
        0..=5 => {
            let range = word(random, text);
            text.splice(range, random.of(&VALUES).bytes());
        }
        6 => {
            // a value of another place
            let (from, to) = (word(random, text), word(random, text));
            let value = text[from].to_vec();
            text.splice(to, value);
        }
        7 => {
            let range = word(random, text);
            let digits = 1 + random.below(400);
            text.splice(range, (0..digits).map(|_| b'0' + random.below(10) as u8));
        }
        8 => {
            let (at, times) = (random.below(text.len()), 1usize << random.below(13));
            let nest = random.of(&NESTS).repeat(times);
            text.splice(at..at, nest.bytes());
        }
        9 => drop(text.drain(line(random, text))),
        10 => {
            let copy = text[line(random, text)].to_vec();
            let at = line(random, text).start;
            text.splice(at..at, copy);
        }
        11 => {
            let range = word(random, text);
            let long = random.of(&["x", "é", "𝟙", "\\u0001", " "]).repeat(1 << random.below(14));
            text.splice(range, long.bytes());
        }
        12 => {
            let at = random.below(text.len());
            let odd: &[u8] = random.of(&[
                &b"\xff\xfe"[..],
                b"\xc3",
                b"\0",
                b"\x1b[2J",
                b"\r",
                b"\xe2\x80\xa8",
                b"\xef\xbb\xbf",
            ]);
            text.splice(at..at, odd.iter().copied());
        }
        _ => bend(random, text, other),
    }
}

/// A number, a word or a quoted text, chosen at random; empty where there is none near.
fn word(random: &mut Random, text: &[u8]) -> Range<usize> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
    let mut start = random.below(text.len());
    // From the middle of a word go to its beginning, from between words to the next.
    while start > 0 && text.get(start - 1).is_some_and(plain) {
        start -= 1;
    }
    start += text.iter().skip(start).take_while(|byte| !plain(byte) && **byte != b'"').count();
    if text.get(start) == Some(&b'"') {
        let inside = text.iter().skip(start + 1).take_while(|byte| **byte != b'"').count();
        return start..(start + inside + 2).min(text.len());
    }
    start..start + text.iter().skip(start).take_while(|byte| plain(byte)).count()
}

/// A line with its end.
fn line(random: &mut Random, text: &[u8]) -> Range<usize> {
    let at = random.below(text.len());
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    let length = text[start..].iter().position(|byte| *byte == b'\n').map_or(text.len() - start, |n| n + 1);
    start..start + length
}
