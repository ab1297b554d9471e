//! Sizes of files as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, read from texts such as `500KB`, `14MiB` or `1GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units, largest first.
const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let lower = trimmed.to_ascii_lowercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|&(unit, factor)| Some((lower.strip_suffix(&unit.to_ascii_lowercase())?, factor)))
            .unwrap_or((&lower, 1));
        let number: Option<u64> = digits.trim().parse().ok();
        match number.and_then(|number| number.checked_mul(factor)) {
            Some(bytes) if bytes > 0 => Ok(ByteSize(bytes)),
            _ => Err(format!(
                "`{trimmed}` is no size; accepted: a whole number with B, KB, KiB, MB, MiB, GB or GiB"
            )),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (unit, factor) in UNITS {
            if self.0 > 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units() {
        for (text, bytes) in
            [("500KB", 500_000), ("14MiB", 14 << 20), ("1GB", 1_000_000_000), ("7", 7), (" 2 kib", 2048)]
        {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size, ByteSize(bytes));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["", "MB", "0", "-1KB", "1.5GB", "99999999999GiB", "12 parsecs"] {
            assert!(text.parse::<ByteSize>().unwrap_err().contains("accepted"), "{text}");
        }
    }
}
