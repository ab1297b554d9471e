//! Some tokens of each prompt, for layers that nobody reads at the others.

use super::{Grads, Op};
use crate::cpu::workspace::Share;
use crate::model::plan::{PlanBuilder, Var};

/// out`[b, p]` = x`[b, p·every]`
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    /// Input `[batch, tokens, width]`.
    pub x: Var,
    /// Output [batch, ⌈tokens/every⌉, width].
    pub out: Var,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Width of a token.
    pub width: usize,
    /// Distance of the tokens that are picked; the first of a prompt always is.
    pub every: usize,
}

impl Pick {
    /// Adds the operation to a plan and returns its output.
    pub fn add(plan: &mut PlanBuilder, x: Var, [batch, tokens, width]: [usize; 3], every: usize) -> Var {
        let out = plan.temporary("picked", batch * tokens.div_ceil(every) * width);
        plan.push(Op::Pick(Self { x, out, tokens, width, every }));
        out
    }

    /// Values of a prompt before and after.
    fn sizes(&self) -> [usize; 2] {
        [self.tokens, self.tokens.div_ceil(self.every)].map(|tokens| tokens * self.width)
    }

    pub(super) fn forward(&self, share: &mut Share) {
        let [all, picked] = self.sizes();
        let out = share.take(self.out);
        for (out, x) in out.chunks_exact_mut(picked).zip(share.value(self.x).chunks_exact(all)) {
            let picked = x.chunks_exact(self.width).step_by(self.every);
            out.chunks_exact_mut(self.width).zip(picked).for_each(|(out, x)| out.copy_from_slice(x));
        }
        share.put(self.out, out);
    }

    pub(super) fn backward(&self, grads: &mut Grads) {
        let [all, picked] = self.sizes();
        if !grads.add_dx {
            grads.dx.fill(0.0);
        }
        for (dx, dout) in grads.dx.chunks_exact_mut(all).zip(grads.dout.chunks_exact(picked)) {
            let picked = dx.chunks_exact_mut(self.width).step_by(self.every);
            for (dx, dout) in picked.zip(dout.chunks_exact(self.width)) {
                dx.iter_mut().zip(dout).for_each(|(dx, &d)| *dx += d);
            }
        }
    }
}
