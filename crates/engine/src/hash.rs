//! A hash that is the same on every machine: it names plans, streams and compiled kernels.

/// FNV-1a, 64 bits.
pub fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
