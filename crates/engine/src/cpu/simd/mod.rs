//! Elementwise mathematics that the compiler can vectorise, run with the widest registers the CPU has.
//!
//! The loops are plain Rust without calls into a mathematics library. The macro `vectorised!` compiles a function once
//! per instruction set and picks one at run time, so one binary serves every x86-64 machine. Multiplications and additions
//! are fused by name (`mul_add`) or not at all: all instruction sets give the same bits.

pub(crate) mod lanes;

use std::sync::OnceLock;

use pulp::Arch;

/// SIMD lanes: values that a 512-bit register holds; sums keep as many partial sums, on every machine.
pub const LANES: usize = 16;

/// The instruction set of this CPU.
pub(crate) fn arch() -> Arch {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    *ARCH.get_or_init(Arch::new)
}

/// Defines functions that are compiled once per instruction set. What they call should be `#[inline(always)]`, or it
/// is compiled for the oldest CPU alone. (Closures cannot be marked so, hence the macro.) In a function that is written
/// `fn name[simd](…)`, `simd` stands for the instruction set.
macro_rules! vectorised {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident$([$simd:ident])?($($arg:ident: $type:ty),* $(,)?) -> $out:ty $body:block)*) => {$(
        $(#[$meta])*
        $vis fn $name($($arg: $type),*) -> $out {
            #[allow(non_camel_case_types)]
            struct Work<$($arg),*>($($arg),*);
            impl pulp::WithSimd for Work<$($type),*> {
                type Output = $out;
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _simd: S) -> $out {
                    $(let $simd = _simd;)?
                    let Work($($arg),*) = self;
                    $body
                }
            }
            $crate::cpu::simd::arch().dispatch(Work($($arg),*))
        }
    )*};
}
pub(crate) use vectorised;

/// Caches for [`prefetch`], as the instruction numbers them.
pub(crate) const L1: i32 = 3;
pub(crate) const L2: i32 = 2;

/// Prefetches the cache line of a value.
#[inline(always)]
pub(crate) fn prefetch<const CACHE: i32>(value: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of every x86-64 CPU, reads nothing and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<CACHE>(value.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Prefetches `len` values from `from` on; they need not exist.
#[inline(always)]
pub(crate) fn prefetch_row<const CACHE: i32>(values: &[f32], from: usize, len: usize) {
    let row = values.as_ptr().wrapping_add(from);
    (0..len).step_by(LANES).for_each(|i| prefetch::<CACHE>(row.wrapping_add(i)));
}

/// e^x, accurate to about 1e-7 relative; saturates at e^±87 and passes NaN on.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts; the product of the first with a small integer is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding 1.5·2^23 rounds to an integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x > 87.0 { 87.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.987_569_1e-4_f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_6e-1);
    p = p.mul_add(r, 0.5);
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    ((p * r).mul_add(r, r) + 1.0) * scale
}

/// The logistic function 1/(1+e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent, accurate to about 1e-7 relative also near 0.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let z = x * x;
    let mut p = -5.704_988_7e-3_f32;
    p = p.mul_add(z, 2.063_909e-2);
    p = p.mul_add(z, -5.373_971_5e-2);
    p = p.mul_add(z, 1.333_144_2e-1);
    p = p.mul_add(z, -3.333_328e-1);
    let near = (p * z).mul_add(x, x);
    let far = 1.0 - 2.0 / (exp(2.0 * x) + 1.0);
    if x.abs() < 0.625 { near } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deviation::worst;

    fn error(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, from: f32, to: f32) -> f64 {
        let n = 200_000;
        let xs = (0..=n).map(|i| from + (to - from) * i as f32 / n as f32).filter(|x| x.abs() > 1e-6);
        worst(xs.map(|x| ((f64::from(f(x)) - exact(f64::from(x))) / exact(f64::from(x))).abs()))
    }

    #[test]
    fn functions_are_accurate() {
        assert!(error(exp, f64::exp, -86.0, 86.0) < 2e-7);
        assert!(error(tanh, f64::tanh, -12.0, 12.0) < 3e-7);
        assert!(error(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), -20.0, 20.0) < 3e-7);
    }

    #[test]
    fn nan_is_passed_on() {
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
    }

    vectorised! {
        fn tanh_all(x: &mut [f32]) -> () {
            for x in x {
                *x = tanh(*x);
            }
        }
    }

    #[test]
    fn vectorised_equals_plain() {
        let x: Vec<f32> = (0..100).map(|i| (i as f32 - 50.0) * 0.3).collect();
        let plain: Vec<f32> = x.iter().map(|&x| tanh(x)).collect();
        let mut wide = x.clone();
        tanh_all(&mut wide);
        assert_eq!(plain, wide);
    }
}
