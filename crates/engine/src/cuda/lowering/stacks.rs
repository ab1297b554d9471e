//! Stacks of layers whose weight gradients are computed at once.
//!
//! The gradient of one layer's weights, [inner, rows] · [rows, outer], has few elements and long sums: alone it hardly fills the
//! device, and a dozen layers' as many matmuls compete with the kernels that everyone waits for. So layers of one shape whose
//! weights are equally far apart keep their inputs, and the gradients of their outputs, equally far apart as well, and one batched
//! matmul follows when the first of them is reached. All layers at once are faster than groups of 2, 3 or 6, at 64 prompts and at 256
//! (6 % of a step of R1; `benches/runs/2026-11-19-h200`).

use std::collections::{HashMap, HashSet};

use super::Lowering;
use crate::cuda::buffer::{DType, StorageBuffer};
use crate::cuda::error::CudaError;
use crate::cuda::matrix::DeviceMatrix;
use crate::cuda::memory::BufferStack;
use crate::model::graph::Graph;
use crate::model::ops::{Epilogue, Linear, Op};
use crate::model::parameters::Param;
use crate::model::plan::{Mode, Var};

/// Linear maps of one shape whose weights are equally far apart.
struct Stack {
    /// The weights of the first.
    w: Param,
    /// Values between the weights of two of them.
    step: usize,
    count: usize,
    /// What they read, and the gradients of what they write.
    inputs: Option<BufferStack>,
    gradients: Option<BufferStack>,
}

/// Which layer of which stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    stack: usize,
    layer: usize,
}

/// All stacks of a network.
#[derive(Default)]
pub(super) struct Stacks {
    stacks: Vec<Stack>,
    /// By the variable that a layer reads, and the one that it writes.
    inputs: HashMap<usize, Place>,
    outputs: HashMap<usize, Place>,
}

impl Stacks {
    /// The stacks of a graph that is trained.
    pub(super) fn of(graph: &Graph) -> Stacks {
        let mut stacks = Stacks::default();
        if graph.mode == Mode::Infer {
            return stacks;
        }
        // What is read as it was computed, by one linear map alone; the residual stream is not.
        let ops = graph.plan.ops();
        let computed = ops.iter().filter_map(|op| match op {
            Op::LayerNorm(op) => Some(op.out),
            Op::Attention(op) => Some(op.out),
            Op::Linear(op) => matches!(op.epilogue, Epilogue::Activate { .. }).then_some(op.out),
            _ => None,
        });
        let computed: HashSet<usize> = computed.map(|var| var.0).collect();
        let linear = || ops.iter().filter_map(|op| if let Op::Linear(op) = op { Some(op) } else { None });
        let alone = |op: &&Linear| linear().filter(|other| other.x == op.x).count() == 1;
        let mut by_shape: Vec<Vec<&Linear>> = Vec::new();
        for op in linear().filter(|op| computed.contains(&op.x.0)).filter(alone) {
            match by_shape.iter_mut().find(|layers| shape(layers[0]) == shape(op)) {
                Some(layers) => layers.push(op),
                None => by_shape.push(vec![op]),
            }
        }
        by_shape.iter().for_each(|layers| stacks.add_alike(layers));
        stacks
    }

    /// Adds layers of one shape, cut where their weights are not equally far apart.
    fn add_alike(&mut self, mut layers: &[&Linear]) {
        let distance = |pair: &[&Linear]| pair[1].w.offset.checked_sub(pair[0].w.offset);
        while let [first, second, ..] = layers {
            let Some(step) = distance(&[first, second]) else { return };
            let count = 1 + layers.windows(2).take_while(|pair| distance(pair) == Some(step)).count();
            let stack = self.stacks.len();
            for (layer, op) in layers[..count].iter().enumerate() {
                self.inputs.insert(op.x.0, Place { stack, layer });
                self.outputs.insert(op.out.0, Place { stack, layer });
            }
            self.stacks.push(Stack { w: first.w, step, count, inputs: None, gradients: None });
            layers = &layers[count..];
        }
    }
}

fn shape(op: &Linear) -> ([usize; 3], bool) {
    ([op.rows, op.inner, op.outer], op.transposed)
}

impl Lowering<'_> {
    /// The buffer of a value that layers of a stack read, if it is one.
    pub(super) fn stacked_input(
        &mut self,
        label: &'static str,
        var: Var,
        dtype: DType,
    ) -> Result<Option<StorageBuffer>, CudaError> {
        let Some(&place) = self.stacks.inputs.get(&var.0) else { return Ok(None) };
        let Stack { inputs, count, .. } = &mut self.stacks.stacks[place.stack];
        let sizes = [self.graph.plan.len_of(var), *count];
        let stack = match inputs {
            Some(stack) => stack,
            None => inputs.insert(self.memory.storage_stack(label, dtype, sizes)?),
        };
        Ok(Some(stack.item(place.layer)?))
    }

    /// Makes the buffer of a variable's gradient, in the storage type.
    pub(super) fn new_gradient(&mut self, label: &'static str, var: Var) -> Result<StorageBuffer, CudaError> {
        let (dtype, len) = (self.storage(), self.graph.plan.len_of(var));
        let buffer = match self.stacks.outputs.get(&var.0) {
            Some(&place) => {
                let Stack { gradients, count, .. } = &mut self.stacks.stacks[place.stack];
                let stack = match gradients {
                    Some(stack) => stack,
                    None => gradients.insert(self.memory.storage_stack(label, dtype, [len, *count])?),
                };
                stack.item(place.layer)?
            }
            None => self.memory.storage(label, dtype, len)?,
        };
        self.gradients[var.0] = Some(buffer);
        Ok(buffer)
    }

    /// dW on a side stream: of all layers of a stack when its first is reached.
    pub(super) fn weight_gradient(&mut self, op: &Linear) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let (x, d) = (self.in_storage(op.x)?, self.gradient(op.out));
        let (mut x, mut d) = (DeviceMatrix::new(x, rows, inner), DeviceMatrix::new(d, rows, outer));
        let mut dw = DeviceMatrix::new(StorageBuffer::Float(self.dparam(op.w)?), inner, outer);
        let mut batch = 1;
        if let Some(place) = self.stacks.inputs.get(&op.x.0) {
            if place.layer > 0 {
                return Ok(());
            }
            let Stack { w, step, count, inputs, gradients } = &self.stacks.stacks[place.stack];
            let (Some(inputs), Some(gradients)) = (inputs, gradients) else {
                unreachable!("the forward pass and the layers behind this one made them")
            };
            let weights = self.parameters.grads.part(w.offset..w.offset + (count - 1) * step + w.len)?;
            (x.buffer, x.step) = (inputs.all, Some(inputs.step));
            (d.buffer, d.step) = (gradients.all, Some(gradients.step));
            (dw.buffer, dw.step) = (StorageBuffer::Float(weights), Some(*step));
            batch = *count;
        }
        let (out, factors) = match op.transposed {
            false => (dw, [x.t(), d]),
            true => (DeviceMatrix { rows: outer, columns: inner, stride: inner, ..dw }, [d.t(), x]),
        };
        let stream = self.side_stream();
        self.matmuls_or_fail(stream, out, factors, batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, Network};

    /// Layers of each stack, and values of their weights.
    fn stacks(layers: usize) -> Vec<(usize, usize)> {
        let network = Network::Gpt2(Gpt2Config { layers, ..Gpt2Config::default() });
        let graph = network.graph(4, 82, Mode::Train).unwrap();
        let stacks = Stacks::of(&graph);
        assert_eq!(stacks.inputs.len(), stacks.outputs.len());
        for (stack, Stack { w, step, count, .. }) in stacks.stacks.iter().enumerate() {
            for layer in 0..*count {
                let place = Place { stack, layer };
                let reads =
                    |op: &&Op| matches!(op, Op::Linear(op) if stacks.inputs.get(&op.x.0) == Some(&place));
                let ops: Vec<&Op> = graph.plan.ops().iter().filter(reads).collect();
                let [Op::Linear(op)] = ops[..] else { panic!("{} layers read one input", ops.len()) };
                assert_eq!(op.w, Param { offset: w.offset + layer * step, len: w.len });
                assert_eq!(stacks.outputs.get(&op.out.0), Some(&place));
            }
        }
        stacks.stacks.iter().map(|stack| (stack.count, stack.w.len)).collect()
    }

    #[test]
    fn the_four_linear_maps_of_a_block_are_four_stacks() {
        assert_eq!(stacks(12), [(12, 256 * 768), (12, 256 * 256), (12, 256 * 1024), (12, 1024 * 256)]);
        assert_eq!(stacks(1), []);
    }
}
