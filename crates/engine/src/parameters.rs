//! Parameters as a pass takes them: the flat buffer, and its matrices packed where many passes use the same ones.

use std::collections::HashMap;

use crate::ops::Op;
use crate::packed::Packed;
use crate::params::Param;
use crate::plan::Plan;

/// The matrices of a network's linear maps, packed for forward passes.
#[derive(Debug, Default)]
pub struct PackedParams {
    /// By their place in the flat buffer: sizes and values.
    matrices: HashMap<usize, ([usize; 2], Vec<f32>)>,
}

impl PackedParams {
    /// Packs the matrices that a plan multiplies by.
    pub(crate) fn new(plan: &Plan, params: &[f32]) -> Self {
        let linear = plan.ops().iter().filter_map(|op| if let Op::Linear(op) = op { Some(op) } else { None });
        let packed = linear.map(|op| {
            let mut place = vec![0.0; Packed::len_of(op.inner, op.outer)];
            Packed::new(&mut place, op.weights(params));
            (op.w.offset, ([op.inner, op.outer], place))
        });
        Self { matrices: packed.collect() }
    }

    /// The packed matrix of a parameter.
    pub(crate) fn of(&self, param: Param) -> Option<Packed<'_>> {
        self.matrices.get(&param.offset).map(|(sizes, place)| Packed::view(place, *sizes))
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
