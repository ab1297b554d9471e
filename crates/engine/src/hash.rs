//! A hash that is the same on every machine: it names plans, streams and compiled kernels.

/// The finaliser of splitmix64: every input bit reaches every output bit.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a of a text, 64 bits.
pub fn fnv1a(text: &str) -> u64 {
    fnv1a_of(text.bytes())
}

/// FNV-1a of bytes, 64 bits.
pub fn fnv1a_of(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
