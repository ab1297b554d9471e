//! Parameters as a pass takes them: the flat buffer, and its matrices packed where many passes use the same ones.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::cpu::arena::Buffer;
use crate::cpu::gemm::Packed;
use crate::cpu::gemm::general::Mat;
use crate::cpu::ops::Op;
use crate::model::parameters::Param;
use crate::model::plan::Plan;

/// A matrix among the parameters that rows are multiplied by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub param: Param,
    /// Sizes of the map: from `inner` values to `outer`.
    pub inner: usize,
    pub outer: usize,
    /// Whether it is stored `[outer, inner]`, as PyTorch's `nn.Linear` does.
    pub transposed: bool,
}

impl Matrix {
    /// As a product takes it, `[inner, outer]`.
    fn of<'a>(&self, params: &'a [f32]) -> Mat<'a> {
        match self.transposed {
            false => Mat::dense(self.param.of(params), self.inner, self.outer),
            true => Mat::dense(self.param.of(params), self.outer, self.inner).t(),
        }
    }
}

/// Which way rows pass through a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    /// From the gradients of the result to those of the rows.
    Back,
}

/// The matrices of a network, or of some of its layers, packed for passes in one direction.
#[derive(Debug, Default)]
pub struct PackedParams {
    /// By their place in the flat buffer: sizes, and where in `values` they are.
    matrices: HashMap<usize, ([usize; 2], Range<usize>)>,
    /// One after the other, in one piece: large enough for large pages when all matrices are here, and in the caches when
    /// one layer after the other is packed into it.
    values: Buffer,
}

impl PackedParams {
    /// Packs the matrices that a plan multiplies by on the way forward.
    pub(crate) fn new(plan: &Plan, params: &[f32]) -> Self {
        let mut packed = Self::default();
        packed.pack(plan.ops(), params, Way::Forward);
        packed
    }

    /// Packs the matrices of some operations, in place of those that were here.
    pub(crate) fn pack(&mut self, ops: &[Op], params: &[f32], way: Way) {
        let (mut sources, mut end) = (Vec::new(), 0);
        self.matrices.clear();
        for matrix in ops.iter().flat_map(Op::matrices) {
            let mat = matrix.of(params);
            let mat = if way == Way::Forward { mat } else { mat.t() };
            self.matrices.entry(matrix.param.offset).or_insert_with(|| {
                let start = end;
                end += Packed::len_of(mat.rows, mat.cols);
                sources.push((mat, end - start));
                ([mat.rows, mat.cols], start..end)
            });
        }
        if self.values.len() < end {
            self.values = Buffer::zeros(end);
        }
        let mut rest = &mut self.values[..];
        let mut place = |(mat, len)| {
            let (place, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            (mat, place)
        };
        let places: Vec<(Mat, &mut [f32])> = sources.into_iter().map(&mut place).collect();
        places.into_par_iter().for_each(|(mat, place)| {
            Packed::new(place, mat);
        });
    }

    /// The packed matrix of a parameter.
    ///
    /// # Panics
    /// If the matrix was not packed.
    pub(crate) fn of(&self, param: Param) -> Packed<'_> {
        let (sizes, place) = self.matrices.get(&param.offset).expect("matrices are packed before a pass");
        Packed::view(&self.values[place.clone()], *sizes)
    }
}

/// The parameters of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'a> {
    /// All of them, one after the other.
    pub flat: &'a [f32],
    /// The same values as packed matrices; without them, a pass packs them itself.
    pub packed: Option<&'a PackedParams>,
}

impl<'a> From<&'a [f32]> for Parameters<'a> {
    fn from(flat: &'a [f32]) -> Self {
        Self { flat, packed: None }
    }
}

impl<'a> From<&'a Vec<f32>> for Parameters<'a> {
    fn from(flat: &'a Vec<f32>) -> Self {
        Self { flat, packed: None }
    }
}
