//! A hash that is the same on every machine: it names plans, streams and compiled kernels.

/// FNV-1a of a text, 64 bits.
pub fn fnv1a(text: &str) -> u64 {
    fnv1a_of(text.bytes())
}

/// FNV-1a of bytes, 64 bits.
pub fn fnv1a_of(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
