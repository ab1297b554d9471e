//! Parameters as a pass takes them: the flat buffer, and its matrices packed where many passes use the same ones.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::cpu::arena::Buffer;
use crate::cpu::gemm::PackedB;
use crate::cpu::gemm::general::Mat;
use crate::model::ops::{Op, WeightMatrix};
use crate::model::parameters::Param;
use crate::model::plan::Plan;

/// A weight matrix as a product takes it, `[inner, outer]`.
fn matrix_of(matrix: WeightMatrix, params: &[f32]) -> Mat<'_> {
    let WeightMatrix { param, inner, outer, transposed } = matrix;
    match transposed {
        false => Mat::dense(param.of(params), inner, outer),
        true => Mat::dense(param.of(params), outer, inner).t(),
    }
}

/// Which way rows pass through a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    /// From the gradients of the result to those of the rows.
    Backward,
}

/// The matrices of a network, or of some of its layers, packed for passes in one direction.
#[derive(Debug, Default)]
pub struct PackedWeights {
    /// By their place in the flat buffer: sizes, and where in `values` they are.
    matrices: HashMap<usize, ([usize; 2], Range<usize>)>,
    /// One after the other, in one piece: large enough for huge pages when all matrices are here, and in the caches when
    /// one layer after the other is packed into it.
    values: Buffer,
}

impl PackedWeights {
    /// Packs the matrices that a plan multiplies by in the forward pass.
    pub(crate) fn new(plan: &Plan, params: &[f32]) -> Self {
        let mut packed = Self::default();
        packed.pack(plan.ops(), params, Direction::Forward);
        packed
    }

    /// Packs the matrices of some operations, in place of those that were here.
    pub(crate) fn pack(&mut self, ops: &[Op], params: &[f32], direction: Direction) {
        let (mut sources, mut end) = (Vec::new(), 0);
        self.matrices.clear();
        for matrix in ops.iter().flat_map(Op::weights) {
            let mat = matrix_of(matrix, params);
            let mat = if direction == Direction::Forward { mat } else { mat.t() };
            self.matrices.entry(matrix.param.offset).or_insert_with(|| {
                let start = end;
                end += PackedB::len_of(mat.rows, mat.cols);
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
            PackedB::new(place, mat);
        });
    }

    /// The packed matrix of a parameter.
    ///
    /// # Panics
    /// If the matrix was not packed.
    pub(crate) fn of(&self, param: Param) -> PackedB<'_> {
        let (sizes, place) = self.matrices.get(&param.offset).expect("matrices are packed before a pass");
        PackedB::view(&self.values[place.clone()], *sizes)
    }
}

/// The parameters of a pass.
#[derive(Debug, Clone, Copy)]
pub struct ForwardParams<'a> {
    /// All of them, one after the other.
    pub flat: &'a [f32],
    /// The same values as packed matrices; without them, a pass packs them itself.
    pub packed: Option<&'a PackedWeights>,
}

impl<'a> From<&'a [f32]> for ForwardParams<'a> {
    fn from(flat: &'a [f32]) -> Self {
        Self { flat, packed: None }
    }
}

impl<'a> From<&'a Vec<f32>> for ForwardParams<'a> {
    fn from(flat: &'a Vec<f32>) -> Self {
        Self { flat, packed: None }
    }
}
