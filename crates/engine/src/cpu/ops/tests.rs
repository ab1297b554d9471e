//! Every operation's gradients, for its input and its parameters, against finite differences.

use crate::cpu::backward::BackwardPass;
use crate::cpu::forward::ForwardPass;
use crate::cpu::packed_weights::PackedWeights;
use crate::cpu::schedule::Schedule;
use crate::cpu::workspace::Buffers;
use crate::deviation::worst;
use crate::model::ops::{
    Activation, Attention, AttentionKind, Epilogue, LayerNorm, Linear, LstmLayer, Mask, MeanSquare, Op, Pick,
    ReadOut, Weighting,
};
use crate::model::parameters::{Param, RandomSource, SplitMix};
use crate::model::plan::{Mode, Plan, PlanBuilder, Var};

/// Tries an operation: random input, random parameters, mean square against random targets.
struct Trial {
    plan: Plan,
    schedule: Schedule,
    input: Var,
    targets: Var,
    loss: Var,
    params: Vec<f32>,
}

impl Trial {
    fn new(
        input_len: usize,
        out_len: usize,
        params_len: usize,
        build: impl FnOnce(&mut PlanBuilder, Var) -> Var,
    ) -> Self {
        Self::with_input(input_len, true, out_len, params_len, build)
    }

    fn with_input(
        input_len: usize,
        wants_grad: bool,
        out_len: usize,
        params_len: usize,
        build: impl FnOnce(&mut PlanBuilder, Var) -> Var,
    ) -> Self {
        let mut plan = PlanBuilder::new(Mode::Train, [1, 1]);
        let input = plan.input(input_len, wants_grad);
        let out = build(&mut plan, input);
        let targets = plan.input(out_len, false);
        let loss = MeanSquare::add(&mut plan, out, targets);
        let random = SplitMix::new(3);
        let params = (0..params_len as u64).map(|i| 0.5 * random.normal("params", i)).collect();
        let plan = plan.finish(Some(loss));
        Self { schedule: Schedule::new(&plan), plan, input, targets, loss, params }
    }

    fn forward(&self, buffers: &mut Buffers, input: &[f32], params: &[f32]) -> f64 {
        let random = SplitMix::new(5);
        buffers.value_mut(self.input).copy_from_slice(input);
        for (i, y) in buffers.value_mut(self.targets).iter_mut().enumerate() {
            *y = random.normal("targets", i as u64);
        }
        let (plan, schedule, packed) = (&self.plan, &self.schedule, &mut PackedWeights::default());
        let (patches, profile) = (&[][..], &mut None);
        let pass = ForwardPass { plan, schedule, buffers, packed, patches, first: 0, profile };
        pass.run(params.into(), None);
        // The loss again, in double precision, for sharper differences.
        let Some(Op::MeanSquare(square)) = self.plan.ops.last() else { unreachable!("the loss comes last") };
        let (p, y) = (buffers.value(square.predictions), buffers.value(square.targets));
        let exact = p.iter().zip(y).map(|(&p, &y)| (f64::from(p) - f64::from(y)).powi(2)).sum::<f64>();
        assert!((exact / p.len() as f64 - f64::from(buffers.value(self.loss)[0])).abs() < 1e-4);
        exact / p.len() as f64
    }

    fn random_input(&self) -> Vec<f32> {
        let random = SplitMix::new(4);
        (0..self.plan.len_of(self.input) as u64).map(|i| random.normal("input", i)).collect()
    }

    /// Gradients of parameters and of the input, where it wants one.
    fn gradients(&self) -> (Vec<f32>, Vec<f32>) {
        let mut buffers = Buffers::new(&self.schedule);
        let input = self.random_input();
        let mut dparams = vec![0.0; self.params.len()];
        self.forward(&mut buffers, &input, &self.params);
        buffers.grad_mut(self.schedule.grad_of[self.loss.0].expect("loss"))[0] = 1.0;
        let (plan, schedule, packed) = (&self.plan, &self.schedule, &mut PackedWeights::default());
        let (params, buffers_mut, profile) = (&self.params, &mut buffers, &mut None);
        let pass = BackwardPass { plan, schedule, buffers: buffers_mut, params, packed, profile };
        pass.run(&mut dparams);
        let dinput =
            self.schedule.grad_of[self.input.0].map_or(Vec::new(), |slot| buffers.grad(slot).to_vec());
        (dparams, dinput)
    }

    fn check(&self, name: &str) {
        let (mut buffers, input) = (Buffers::new(&self.schedule), self.random_input());
        let (dparams, dinput) = self.gradients();
        assert_eq!(dinput.is_empty(), !self.plan.wants_grad[self.input.0], "{name}");
        let differ = |analytic: &[f32], what: &str, loss: &mut dyn FnMut(usize, f32) -> f64| {
            let largest = analytic.iter().fold(0.0f32, |m, g| m.max(g.abs()));
            assert!(analytic.is_empty() || largest > 1e-4, "{name}: no gradient of the {what}");
            for (i, &g) in analytic.iter().enumerate() {
                let mut error = |by: f32| {
                    let numeric = (loss(i, by) - loss(i, -by)) / f64::from(2.0 * by);
                    (numeric - f64::from(g)).abs()
                };
                // Smaller steps too, for the few places where a ReLU changes sign within the first.
                let error = error(4e-3).min(error(1e-3)).min(error(2e-4));
                assert!(
                    error < 4e-3 * f64::from(largest) + 2e-5,
                    "{name}: gradient of {what} {i} is {g}, off by {error}"
                );
            }
        };
        differ(&dinput, "input", &mut |i, by| {
            let mut moved = input.clone();
            moved[i] += by;
            self.forward(&mut buffers, &moved, &self.params)
        });
        differ(&dparams, "parameter", &mut |i, by| {
            let mut moved = self.params.clone();
            moved[i] += by;
            self.forward(&mut buffers, &input, &moved)
        });
    }
}

fn param(offset: usize, len: usize) -> Param {
    Param { offset, len }
}

#[test]
fn linear_with_every_epilogue() {
    let sizes = [6, 3, 4];
    let wb = [param(0, 12), param(12, 4)];
    for transposed in [false, true] {
        Trial::new(18, 24, 16, |plan, x| {
            let out = plan.result(24);
            Linear::add(plan, x, wb, transposed, sizes, Epilogue::None, out);
            out
        })
        .check("linear");
    }
    for kind in [Activation::Gelu, Activation::Relu] {
        Trial::new(18, 24, 16, |plan, x| {
            let (derivative, out) = (plan.result(24), plan.result(24));
            Linear::add(plan, x, wb, false, sizes, Epilogue::Activate { kind, derivative }, out);
            out
        })
        .check("linear with activation");
    }
    Trial::new(18, 24, 28, |plan, x| {
        let out = plan.result(24);
        let table = param(16, 12);
        Linear::add(plan, x, wb, false, sizes, Epilogue::Positions { table, tokens: 3 }, out);
        out
    })
    .check("linear with positions");
}

#[test]
fn linear_with_residual_used_twice() {
    // y = x + g(f(x)), z = y + g(f(y)): gradients of x and y have two contributions each.
    Trial::new(12, 12, 24, |plan, x| {
        let mut resid = x;
        for _ in 0..2 {
            let (inner, out) = (plan.result(12), plan.result(12));
            Linear::add(plan, resid, [param(0, 9), param(9, 3)], false, [4, 3, 3], Epilogue::None, inner);
            Linear::add(
                plan,
                inner,
                [param(12, 9), param(21, 3)],
                false,
                [4, 3, 3],
                Epilogue::Add(resid),
                out,
            );
            resid = out;
        }
        resid
    })
    .check("linear with residual");
}

#[test]
fn layer_norm() {
    Trial::new(5 * 19, 5 * 19, 38, |plan, x| {
        let out = plan.result(5 * 19);
        LayerNorm::add(plan, x, [param(0, 19), param(19, 19)], [1, 5, 19], out);
        out
    })
    .check("layer norm");
}

#[test]
fn attention_in_every_variant() {
    for mask in [Mask::Causal, Mask::Full] {
        for weighting in [Weighting::Softmax, Weighting::Relu, Weighting::Linear] {
            // One shape within a block of rows, one that spans two blocks; all tokens are queries, or every second one.
            for ([batch, tokens, heads, size], every) in
                [([2, 5, 2, 3], 1), ([1, 35, 1, 2], 1), ([2, 6, 2, 3], 2), ([1, 66, 1, 4], 2)]
            {
                let width = heads * size;
                let query = batch * usize::div_ceil(tokens, every) * width;
                Trial::new(batch * tokens * 3 * width, query, 0, |plan, qkv| {
                    let out = plan.result(query);
                    let kind = AttentionKind { mask, weighting };
                    Attention::add(plan, qkv, kind, [batch, tokens, heads, size], every, out);
                    out
                })
                .check(&format!("{mask:?} {weighting:?} attention over {tokens} tokens, queries 1/{every}"));
            }
        }
    }
}

#[test]
fn pick() {
    Trial::new(2 * 5 * 7, 2 * 3 * 7, 0, |plan, x| Pick::add(plan, x, [2, 5, 7], 2)).check("pick");
}

#[test]
fn lstm_layer() {
    let (inner, width) = (3, 4);
    let params = [param(0, 48), param(48, 64), param(112, 16), param(128, 16)];
    Trial::new(2 * 5 * inner, 2 * 5 * width, 144, |plan, x| {
        LstmLayer::add(plan, x, params, [2, 5, inner, width]).out
    })
    .check("LSTM layer");
}

/// The same gradients by the shorter way as by the layer's own, for a read-in stored either way.
#[test]
fn lstm_layer_after_a_read_in() {
    let (features, inner, width) = (2, 3, 4);
    let params = [param(0, 48), param(48, 64), param(112, 16), param(128, 16)];
    let read_in = [param(144, 6), param(150, 3)];
    for transposed in [false, true] {
        let trial = |wants_grad| {
            Trial::with_input(2 * 5 * features, wants_grad, 2 * 5 * width, 153, |plan, tokens| {
                let (x, sizes) = (plan.result(2 * 5 * inner), [2 * 5, features, inner]);
                Linear::add(plan, tokens, read_in, transposed, sizes, Epilogue::None, x);
                let layer = LstmLayer::add(plan, x, params, [2, 5, inner, width]);
                assert_eq!(layer.read_in.is_some(), !wants_grad);
                layer.out
            })
        };
        trial(false).check(&format!("LSTM layer after a read-in, transposed {transposed}"));
        let [short, long] = [false, true].map(|wants_grad| trial(wants_grad).gradients().0);
        let error = worst(short.iter().zip(&long).map(|(a, b)| (a - b).abs()));
        assert!(error < 1e-6, "transposed {transposed}: off by {error}");
    }
}

#[test]
fn read_out() {
    Trial::new(2 * 5 * 7, 2 * 3, 8, |plan, x| {
        ReadOut::add(plan, x, [param(0, 7), param(7, 1)], [2, 5, 7], 2)
    })
    .check("read-out");
}
