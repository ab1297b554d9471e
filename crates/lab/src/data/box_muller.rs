//! Many normal numbers at once, by Box and Muller, with the bits of `libm`'s logarithm and cosine.
//!
//! The formulas are those of `libm` (FreeBSD's msun) for the arguments that occur here, without their branches: the same
//! operations in the same order on every number, so that the compiler takes several side by side. An angle next to a
//! multiple of π/2, one in a million, is left to `libm` itself.

use std::f64::consts::TAU;

use super::seed::{philox, unit};
use crate::linalg::vectorised;

/// Numbers drawn together.
const BLOCK: usize = 64;

/// The first normal number of each of the items `first`, `first` + 1, … under a key.
pub(super) fn first_normals(key: [u32; 2], first: u64, out: &mut [f32]) {
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let first = first + (block * BLOCK) as u64;
        let mut normals = [0.0; BLOCK];
        let mut angles = [0.0; BLOCK];
        vectorised(
            #[inline(always)]
            || draw(key, first, &mut normals, &mut angles),
        );
        for (out, normal) in out.iter_mut().zip(normals) {
            *out = normal as f32;
        }
        if angles.iter().fold(false, |any, &angle| any | cancels(angle)) {
            for ((index, out), angle) in (first..).zip(out).zip(angles).filter(|(_, angle)| cancels(*angle)) {
                let [u, ..] = words(key, index);
                *out = (radius(unit(u)) * libm::cos(angle)) as f32;
            }
        }
    }
}

/// The random words of an item.
#[inline(always)]
fn words(key: [u32; 2], index: u64) -> [u32; 4] {
    philox([0, 0, index as u32, (index >> 32) as u32], key)
}

/// Normal numbers, and the angles they come from.
#[inline(always)]
fn draw(key: [u32; 2], first: u64, normals: &mut [f64; BLOCK], angles: &mut [f64; BLOCK]) {
    let (mut u, mut v) = ([0; BLOCK], [0; BLOCK]);
    for i in 0..BLOCK {
        [u[i], v[i], ..] = words(key, first + i as u64);
    }
    for i in 0..BLOCK {
        normals[i] = radius(unit(u[i]));
    }
    for i in 0..BLOCK {
        angles[i] = TAU * unit(v[i]);
        normals[i] *= cosine(angles[i]);
    }
}

/// How far from the origin Box and Muller go.
#[inline(always)]
fn radius(uniform: f64) -> f64 {
    (-2.0 * logarithm(uniform)).sqrt()
}

/// `libm::log` of a normal number that is positive and not 1.
#[inline(always)]
fn logarithm(x: f64) -> f64 {
    const LN2_HI: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN2_LO: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    const LG1: f64 = f64::from_bits(0x3fe5_5555_5555_5593);
    const LG2: f64 = f64::from_bits(0x3fd9_9999_9997_fa04);
    const LG3: f64 = f64::from_bits(0x3fd2_4924_9422_9359);
    const LG4: f64 = f64::from_bits(0x3fcc_71c5_1d8e_78af);
    const LG5: f64 = f64::from_bits(0x3fc7_4664_96cb_03de);
    const LG6: f64 = f64::from_bits(0x3fc3_9a09_d078_c69f);
    const LG7: f64 = f64::from_bits(0x3fc2_f112_df3e_5244);
    // √½, to the precision of the upper word
    const ROOT: u64 = 0x3fe6_a09e << 32;
    const ONE: u64 = 0x3ff0_0000 << 32;
    const FRACTION: u64 = (1 << 52) - 1;
    // x = 2^k (1 + f) with 1 + f between √½ and √2
    let bits = x.to_bits() + (ONE - ROOT);
    let k = f64::from((bits >> 52) as i32 - 0x3ff);
    let f = f64::from_bits((bits & FRACTION) + ROOT) - 1.0;
    let half_square = 0.5 * f * f;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (LG2 + w * (LG4 + w * LG6));
    let odd = z * (LG1 + w * (LG3 + w * (LG5 + w * LG7)));
    s * (half_square + (odd + even)) + k * LN2_LO - half_square + f + k * LN2_HI
}

/// Multiples of π/2 to the precision of the upper word, near which `libm` reduces an angle with more digits.
const CANCELLING: [u64; 4] = [0x3ff9_21fb, 0x4009_21fb, 0x4012_d97c, 0x4019_21fb];

#[inline(always)]
fn cancels(angle: f64) -> bool {
    let upper = angle.to_bits() >> 32;
    CANCELLING.iter().fold(false, |any, &multiple| any | (upper == multiple))
}

/// 1 or 0. A function and not a closure, which need not be compiled for the same instruction set.
#[inline(always)]
fn one(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

/// `libm::cos` of an angle between 0 and 2π that does not cancel.
#[inline(always)]
fn cosine(x: f64) -> f64 {
    const PIO2: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const PIO2_REST: f64 = f64::from_bits(0x3dd0_b461_1a62_6331);
    // from π/4, 3π/4, 5π/4 and 7π/4 on, the next multiple of π/2 is the nearest
    const OCTANTS: [f64; 4] = [
        f64::from_bits(0x3fe9_21fc << 32),
        f64::from_bits(0x4002_d97d << 32),
        f64::from_bits(0x400f_6a7b << 32),
        f64::from_bits(0x4015_fdbd << 32),
    ];
    let [a, b, c, d] = [x >= OCTANTS[0], x >= OCTANTS[1], x >= OCTANTS[2], x >= OCTANTS[3]];
    let n = one(a) + one(b) + one(c) + one(d);
    let z = x - n * PIO2;
    let rest = n * PIO2_REST;
    let y = z - rest;
    let tail = (z - y) - rest;
    let value = if a ^ b ^ c ^ d { near_sine(y, tail) } else { near_cosine(y, tail) };
    if a & !c { -value } else { value }
}

/// cos(x + y) for |x| up to π/4 and a tiny y.
#[inline(always)]
fn near_cosine(x: f64, y: f64) -> f64 {
    const C1: f64 = f64::from_bits(0x3fa5_5555_5555_554c);
    const C2: f64 = f64::from_bits(0xbf56_c16c_16c1_5177);
    const C3: f64 = f64::from_bits(0x3efa_01a0_19cb_1590);
    const C4: f64 = f64::from_bits(0xbe92_7e4f_809c_52ad);
    const C5: f64 = f64::from_bits(0x3e21_ee9e_bdb4_b1c4);
    const C6: f64 = f64::from_bits(0xbda8_fae9_be88_38d4);
    let z = x * x;
    let w = z * z;
    let r = z * (C1 + z * (C2 + z * C3)) + w * w * (C4 + z * (C5 + z * C6));
    let half = 0.5 * z;
    let w = 1.0 - half;
    w + (((1.0 - w) - half) + (z * r - x * y))
}

/// sin(x + y) for |x| up to π/4 and a tiny y.
#[inline(always)]
fn near_sine(x: f64, y: f64) -> f64 {
    const S1: f64 = f64::from_bits(0xbfc5_5555_5555_5549);
    const S2: f64 = f64::from_bits(0x3f81_1111_1110_f8a6);
    const S3: f64 = f64::from_bits(0xbf2a_01a0_19c1_61d5);
    const S4: f64 = f64::from_bits(0x3ec7_1de3_57b1_fe7d);
    const S5: f64 = f64::from_bits(0xbe5a_e5e6_8a2b_9ceb);
    const S6: f64 = f64::from_bits(0x3de5_d93a_5acf_d57c);
    let z = x * x;
    let w = z * z;
    let r = S2 + z * (S3 + z * S4) + z * w * (S5 + z * S6);
    let v = z * x;
    x - ((z * (0.5 * y - v * r) - y) - v * S1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words from everywhere, and all those next to the places where `libm` branches.
    fn every_kind_of_word() -> impl Iterator<Item = u32> {
        let eighths = (0..=8u64).map(|eighth| (eighth << 29).min(u64::from(u32::MAX)) as u32);
        let near = eighths.flat_map(|at| at.saturating_sub(3000)..=at.saturating_add(3000));
        let root = (f64::from(u32::MAX) * std::f64::consts::FRAC_1_SQRT_2) as u32;
        near.chain(root - 3000..root + 3000).chain((0..1 << 20).map(|i: u32| i.wrapping_mul(4097)))
    }

    #[test]
    fn logarithms_have_the_bits_of_libm() {
        for word in every_kind_of_word() {
            let x = unit(word);
            assert_eq!(logarithm(x).to_bits(), libm::log(x).to_bits(), "{x}");
        }
    }

    #[test]
    fn cosines_have_the_bits_of_libm() {
        let mut cancelling = 0;
        for word in every_kind_of_word() {
            let x = TAU * unit(word);
            cancelling += usize::from(cancels(x));
            assert!(cancels(x) || cosine(x).to_bits() == libm::cos(x).to_bits(), "{x}");
        }
        assert!((1000..60_000).contains(&cancelling), "{cancelling} words are left to libm");
    }

    #[test]
    fn normals_are_those_of_libm_in_every_block() {
        let key = [7, 9];
        let mut together = vec![0.0; 200_003];
        first_normals(key, 1 << 33, &mut together);
        for (index, &normal) in (1 << 33..).zip(&together) {
            let [u, v, ..] = words(key, index);
            let expected = (-2.0 * libm::log(unit(u))).sqrt() * libm::cos(TAU * unit(v));
            assert_eq!(normal.to_bits(), (expected as f32).to_bits(), "item {index}");
        }
    }
}
