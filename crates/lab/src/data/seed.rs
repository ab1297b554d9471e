//! Random numbers as a pure function of (seed, stream name, index).
//!
//! A stream is a Philox4x32-10 counter generator (Salmon et al. 2011) keyed by the seed and the stream's name.
//! Item `index` of a stream owns the counters (block, index): which batch it is drawn in, on which thread, or
//! after how many other items, changes nothing. Logarithm and cosine come from `libm`, so that the bits do not
//! depend on the C library of the machine either.

use engine::hash::mix;
pub use engine::hash::stable_id;

use super::box_muller::first_normals;

/// The one number from which a whole experiment follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The draws that belong to item `index` of the stream `stream`.
    pub fn at(self, stream: &str, index: u64) -> Draws {
        Draws::new(self.key(stream), index)
    }

    /// The first normal number of each of the items `first`, `first` + 1, … of a stream: as [`Draws::normal`] draws it,
    /// without the second that comes with it.
    pub(crate) fn first_normals(self, stream: &str, first: u64, out: &mut [f32]) {
        first_normals(self.key(stream), first, out);
    }

    /// Philox key of a stream: FNV-1a over the name, mixed with the seed.
    pub fn key(self, stream: &str) -> [u32; 2] {
        let mixed = mix(stable_id(stream) ^ mix(self.0));
        [mixed as u32, (mixed >> 32) as u32]
    }
}

/// Numbers of one item, in a fixed order.
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    index: u64,
    block: u64,
    words: [u32; 4],
    used: usize,
    spare: Option<f64>,
}

impl Draws {
    /// Those of an item of the stream with this key.
    pub(crate) fn new(key: [u32; 2], index: u64) -> Draws {
        Draws { key, index, block: 0, words: [0; 4], used: 4, spare: None }
    }

    /// The next 32 random bits.
    pub fn word(&mut self) -> u32 {
        if self.used == 4 {
            let (block, index) = (self.block, self.index);
            self.words =
                philox([block as u32, (block >> 32) as u32, index as u32, (index >> 32) as u32], self.key);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Uniform on (0, 1), never 0 or 1, from one word.
    pub fn uniform(&mut self) -> f64 {
        unit(self.word())
    }

    /// Uniform on 0…n−1.
    pub fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.word()) * n as u64) >> 32) as usize
    }

    /// Standard normal, by Box and Muller: words 2i and 2i+1 give numbers 2i (cosine) and 2i+1 (sine).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = radius(self.uniform());
        let (sin, cos) = libm::sincos(angle(self.uniform()));
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Fills `out` with standard normals.
    pub fn fill_normal(&mut self, out: &mut [f64]) {
        out.iter_mut().for_each(|v| *v = self.normal());
    }

    /// `n` standard normals.
    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }
}

/// A word as a number in (0, 1), never 0 or 1.
#[inline(always)]
pub(super) fn unit(word: u32) -> f64 {
    (f64::from(word) + 0.5) * 2f64.powi(-32)
}

/// How far from the origin Box and Muller go.
fn radius(uniform: f64) -> f64 {
    (-2.0 * libm::log(uniform)).sqrt()
}

/// In which direction.
fn angle(uniform: f64) -> f64 {
    std::f64::consts::TAU * uniform
}

/// Philox4x32 with ten rounds.
#[inline(always)]
pub(super) fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = u64::from(c[0]) * 0xd251_1f53;
        let p1 = u64::from(c[2]) * 0xcd9e_8d57;
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers from the reference implementation (Random123, kat_vectors).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn first_normals_are_those_of_the_items() {
        let mut together = vec![0.0; 5000];
        Seed(3).first_normals("w", 70, &mut together);
        let alone = (70..).map(|index| Seed(3).at("w", index).normal() as f32);
        assert!(together.iter().zip(alone).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn streams_and_items_are_distinct_and_repeatable() {
        let first = |seed, stream: &str, index| Seed(seed).at(stream, index).word();
        assert_eq!(first(7, "a", 3), first(7, "a", 3));
        let all = [first(7, "a", 3), first(8, "a", 3), first(7, "b", 3), first(7, "a", 4)];
        for i in 0..4 {
            for j in 0..i {
                assert_ne!(all[i], all[j]);
            }
        }
    }

    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let n = 200_000;
        let z = Seed(1).at("moments", 0).normals(n);
        let moment = |p: i32| z.iter().map(|v| v.powi(p)).sum::<f64>() / n as f64;
        // Five standard errors of each sample moment.
        assert!(moment(1).abs() < 5.0 * (1.0 / n as f64).sqrt());
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt());
        assert!(moment(3).abs() < 5.0 * (15.0 / n as f64).sqrt());
        assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n as f64).sqrt());
    }

    #[test]
    fn below_is_uniform() {
        let mut draws = Seed(2).at("below", 0);
        let mut counts = [0usize; 7];
        (0..70_000).for_each(|_| counts[draws.below(7)] += 1);
        assert!(counts.iter().all(|&c| (c as f64 - 1e4).abs() < 500.0), "{counts:?}");
    }
}
