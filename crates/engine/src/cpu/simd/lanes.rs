//! SIMD lanes, [`LANES`] values at a time, by name: sums and maxima, which the compiler left alone may compute lane by lane.
//!
//! No closures: one that is not inlined is compiled for the oldest CPU alone, and takes twenty times as long.

use std::ops::{Add, Mul, Sub};

use pulp::Simd;

use crate::cpu::simd::LANES;

/// [`LANES`] values, in as many registers as they take on this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<S: Simd> {
    simd: S,
    /// The first [`Lanes::REGISTERS`] are in use.
    registers: [S::f32s; LANES],
}

/// Lane by lane.
macro_rules! each {
    ($a:ident, $b:ident, $operation:ident) => {{
        let mut all = $a;
        for v in 0..Lanes::<S>::REGISTERS {
            all.registers[v] = all.simd.$operation($a.registers[v], $b.registers[v]);
        }
        all
    }};
}

/// All lanes in one: pairwise, each with the one half of all further on, however many a register holds.
macro_rules! fold {
    ($a:ident, $operation:ident, $within:ident) => {{
        let mut all = $a.registers;
        let mut half = Lanes::<S>::REGISTERS / 2;
        while half > 0 {
            for v in 0..half {
                all[v] = $a.simd.$operation(all[v], all[v + half]);
            }
            half /= 2;
        }
        $a.simd.$within(all[0])
    }};
}

impl<S: Simd> Lanes<S> {
    const REGISTERS: usize = LANES / S::F32_LANES;

    /// The same value everywhere.
    #[inline(always)]
    pub fn splat(simd: S, value: f32) -> Self {
        Self { simd, registers: [simd.splat_f32s(value); LANES] }
    }

    #[inline(always)]
    pub fn read(simd: S, values: &[f32; LANES]) -> Self {
        let (values, _) = S::as_simd_f32s(values);
        let mut registers = [simd.splat_f32s(0.0); LANES];
        registers[..Self::REGISTERS].copy_from_slice(&values[..Self::REGISTERS]);
        Self { simd, registers }
    }

    /// Fewer values, and zeros.
    #[inline(always)]
    pub fn read_part(simd: S, values: &[f32]) -> Self {
        let mut all = [0.0; LANES];
        all[..values.len()].copy_from_slice(values);
        Self::read(simd, &all)
    }

    #[inline(always)]
    pub fn write(self, place: &mut [f32; LANES]) {
        let (place, _) = S::as_mut_simd_f32s(place);
        place[..Self::REGISTERS].copy_from_slice(&self.registers[..Self::REGISTERS]);
    }

    /// The first lanes, and zeros.
    #[inline(always)]
    pub fn first(self, lanes: usize) -> Self {
        let mut all = [0.0; LANES];
        self.write(&mut all);
        Self::read_part(self.simd, &all[..lanes])
    }

    /// The larger value of each lane; that of `other` where one is not a number.
    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        each!(self, other, max_f32s)
    }

    /// The smaller value of each lane; that of `other` where one is not a number.
    #[inline(always)]
    pub fn min(self, other: Self) -> Self {
        each!(self, other, min_f32s)
    }

    /// The sum of all lanes, in the same order on every CPU.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        fold!(self, add_f32s, reduce_sum_f32s)
    }

    /// The largest of all lanes.
    #[inline(always)]
    pub fn largest(self) -> f32 {
        fold!(self, max_f32s, reduce_max_f32s)
    }
}

macro_rules! operators {
    ($($operator:ident $name:ident $operation:ident)*) => {$(
        impl<S: Simd> $operator for Lanes<S> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                each!(self, other, $operation)
            }
        }
    )*};
}
operators! {
    Add add add_f32s
    Sub sub sub_f32s
    Mul mul mul_f32s
}

/// `sum!(simd, |x, y| x * y)` is the sum of x`[i]`·y`[i]` over slices x and y, the others at least as long as the
/// first, in [`LANES`] partial sums: an order the registers like, and the same on every CPU.
macro_rules! sum {
    ($simd:ident, |$first:ident $(, $more:ident)*| $term:expr) => {{
        use $crate::cpu::simd::lanes::Lanes;
        let (blocks, rest) = $first.as_chunks::<{ $crate::cpu::simd::LANES }>();
        $(let $more = $more[..$first.len()].as_chunks();)*
        let mut total = Lanes::splat($simd, 0.0);
        for block in 0..blocks.len() {
            let $first = Lanes::read($simd, &blocks[block]);
            $(let $more = Lanes::read($simd, &$more.0[block]);)*
            total = total + $term;
        }
        if !rest.is_empty() {
            let $first = Lanes::read_part($simd, rest);
            $(let $more = Lanes::read_part($simd, $more.1);)*
            total = total + ($term).first(rest.len());
        }
        total.sum()
    }};
}
pub(crate) use sum;

/// The largest value (NaN if any value is NaN is not promised) of whole registers; -∞ for none.
#[inline(always)]
pub(crate) fn max<S: Simd>(simd: S, blocks: &[[f32; LANES]]) -> f32 {
    let mut largest = Lanes::splat(simd, f32::NEG_INFINITY);
    for block in blocks {
        largest = Lanes::read(simd, block).max(largest);
    }
    largest.largest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::vectorised;
    use crate::model::parameters::{RandomSource, SplitMix};

    vectorised! {
        fn both[simd](x: &[f32], y: &[f32]) -> [f32; 2] {
            let offset = Lanes::splat(simd, 0.5);
            [sum!(simd, |x, y| x * y + offset), max(simd, x.as_chunks().0)]
        }
    }

    #[test]
    fn sums_are_in_the_promised_order() {
        let random = SplitMix::new(3);
        for n in [0, 1, 15, 16, 17, 32, 77, 256] {
            let [x, y] =
                ["x", "y"].map(|name| (0..n as u64).map(|i| random.normal(name, i)).collect::<Vec<_>>());
            let mut lanes = [0.0f32; LANES];
            for (i, (x, y)) in x.iter().zip(&y).enumerate() {
                lanes[i % LANES] += x * y + 0.5;
            }
            for half in [8, 4, 2, 1] {
                for i in 0..half {
                    lanes[i] += lanes[i + half];
                }
            }
            let whole = &x[..n / LANES * LANES];
            let largest = whole.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(both(&x, &y), [lanes[0], largest], "{n} values");
        }
    }
}
