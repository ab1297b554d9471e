//! Parameters as a pass takes them: the flat buffer, and its matrices packed where many passes use the same ones.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::matmul::Mat;
use crate::ops::Op;
use crate::packed::Packed;
use crate::params::Param;
use crate::plan::Plan;

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

/// The matrices of a network, packed for passes in one direction.
#[derive(Debug, Default)]
pub struct PackedParams {
    /// By their place in the flat buffer: sizes and values.
    matrices: HashMap<usize, ([usize; 2], Vec<f32>)>,
}

impl PackedParams {
    /// Packs the matrices that a plan multiplies by on the way forward.
    pub(crate) fn new(plan: &Plan, params: &[f32]) -> Self {
        let mut packed = Self::default();
        packed.pack(plan.ops(), params, Way::Forward);
        packed
    }

    /// Packs the matrices of some operations, where they were packed before if they were.
    pub(crate) fn pack(&mut self, ops: &[Op], params: &[f32], way: Way) {
        let sized = |matrix: Matrix| {
            let mat = matrix.of(params);
            let mat = if way == Way::Forward { mat } else { mat.t() };
            let (sizes, mut place) = self.matrices.remove(&matrix.param.offset).unwrap_or_default();
            if sizes != [mat.rows, mat.cols] {
                place = vec![0.0; Packed::len_of(mat.rows, mat.cols)];
            }
            (matrix.param.offset, mat, place)
        };
        let mut matrices: Vec<_> = ops.iter().flat_map(Op::matrices).map(sized).collect();
        matrices.par_iter_mut().for_each(|(_, mat, place)| {
            Packed::new(place, *mat);
        });
        let packed = matrices.into_iter().map(|(offset, mat, place)| (offset, ([mat.rows, mat.cols], place)));
        self.matrices.extend(packed);
    }

    /// The packed matrix of a parameter.
    ///
    /// # Panics
    /// If the matrix was not packed.
    pub(crate) fn of(&self, param: Param) -> Packed<'_> {
        let (sizes, place) = self.matrices.get(&param.offset).expect("matrices are packed before a pass");
        Packed::view(place, *sizes)
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
