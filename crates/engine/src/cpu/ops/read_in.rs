//! Gradients of a linear read-in and of the weights it is multiplied by next, without the gradient of its result.
//!
//! x = T Rᵀ + 1 bᵀ is a linear map of tokens T with few features, and only x Wᵀ is asked for. With the gradient D of that,
//! dW = Dᵀx and dR = (DW)ᵀT are products over all tokens as deep as x is wide. Both follow from DᵀT, which is as narrow as
//! T, and the sums of D: dW = (DᵀT) Rᵀ + (Dᵀ1) bᵀ, dR = Wᵀ(DᵀT), db = Wᵀ(Dᵀ1). The LSTM then neither carries the first
//! layer's gradient back to x nor sums the largest of its outer products: two of the sixty products of a step.

use crate::cpu::gemm::general::{Accumulate, Mat, matmul};
use crate::cpu::weight_gradients::{WeightGradient, WeightTask, weight_tasks};
use crate::cpu::work_queue::run_tasks;
use crate::model::ops::{Linear, LstmLayer};
use crate::model::parameters::Param;

/// What all of them follow from.
pub(super) struct ReadInGradients {
    /// DᵀT `[outer, features]`, then Dᵀ1 `[outer]`.
    sums: Vec<f32>,
    outer: usize,
    features: usize,
}

impl ReadInGradients {
    /// Sums over all tokens, on all threads.
    pub fn new(tokens: Mat, dgates: Mat) -> Self {
        let (outer, features) = (dgates.cols, tokens.cols);
        let mut sums = vec![0.0; outer * (features + 1)];
        let w = Param { offset: 0, len: outer * features };
        let b = Param { offset: w.len, len: outer };
        let gradient = WeightGradient { w, b, transposed: true, x: tokens, dout: dgates };
        run_tasks(weight_tasks(&mut sums, &[gradient]), WeightTask::run);
        Self { sums, outer, features }
    }

    /// Adds the gradients of the read-in, of the layer's input weights and of its input bias.
    pub fn add(&self, layer: &LstmLayer, read_in: &Linear, params: &[f32], dparams: &mut [f32]) {
        let (outer, width) = (self.outer, layer.inner);
        let (by_token, by_one) = self.sums.split_at(outer * self.features);
        let (by_token, by_one) = (Mat::dense(by_token, outer, self.features), Mat::dense(by_one, outer, 1));
        let (r, b) = (read_in.w.of(params), Mat::dense(read_in.b.of(params), 1, width));
        // Rᵀ, however it is stored.
        let r = if read_in.transposed {
            Mat::dense(r, width, self.features).t()
        } else {
            Mat::dense(r, self.features, width)
        };
        let w = Mat::dense(layer.w_ih.of(params), outer, width);
        let dw = layer.w_ih.of_mut(dparams);
        matmul(dw, width, Accumulate::Add, by_token, r);
        matmul(dw, width, Accumulate::Add, by_one, b);
        layer.b_ih.of_mut(dparams).iter_mut().zip(by_one.data).for_each(|(db, sum)| *db += sum);
        let dr = read_in.w.of_mut(dparams);
        if read_in.transposed {
            matmul(dr, self.features, Accumulate::Add, w.t(), by_token);
        } else {
            matmul(dr, width, Accumulate::Add, by_token.t(), w);
        }
        matmul(read_in.b.of_mut(dparams), 1, Accumulate::Add, w.t(), by_one);
    }
}
