//! Hashes that are the same on every machine: mixed bits, short names, and checksums of files.

/// The finaliser of splitmix64: every input bit reaches every output bit.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A short name for a text (FNV-1a, 64 bits): plans, random streams, compiled kernels. Directories and files that exist
/// carry these names, so the values never change. It does not protect against alteration; [`checksum`] does.
pub fn stable_id(text: &str) -> u64 {
    stable_id_of(text.bytes())
}

/// A short name for bytes, as [`stable_id`].
pub fn stable_id_of(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// BLAKE3 of bytes, 64 hex digits: whether a file is what it was.
pub fn checksum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        assert_eq!(stable_id(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_id("foobar"), 0x8594_4171_f739_67e8);
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(checksum(b""), empty);
    }
}
