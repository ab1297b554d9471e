//! Random numbers of a case.

/// SplitMix64: the same numbers on every machine.
pub struct Random(u64);

impl Random {
    /// The numbers of one case of a reader.
    pub fn of_case(seed: u64, reader: &str, case: u64) -> Random {
        let mut random = Random(seed);
        for word in reader.bytes().map(u64::from).chain([case]) {
            random.0 = random.number() ^ word;
        }
        random
    }

    /// Any number of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// Whether a thing happens that does once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list.
    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// A stretch of at most `most` places among `len`; empty only where there are none.
    pub fn range(&mut self, len: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(len);
        start..(start + 1 + self.below(most)).min(len)
    }
}
