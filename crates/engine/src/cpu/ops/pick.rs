//! Some tokens of each prompt, for layers that nobody reads at the others.

use super::CpuOp;
use crate::cpu::backward::Grads;
use crate::cpu::workspace::{Context, GroupView};
use crate::model::ops::Pick;

impl Pick {
    /// Values of a prompt before and after.
    fn sizes(&self) -> [usize; 2] {
        [self.tokens, self.tokens.div_ceil(self.every)].map(|tokens| tokens * self.width)
    }
}

impl CpuOp for Pick {
    fn forward(&self, view: &mut GroupView, _: Context) {
        let [all, picked] = self.sizes();
        let out = view.take(self.out);
        for (out, x) in out.chunks_exact_mut(picked).zip(view.value(self.x).chunks_exact(all)) {
            let picked = x.chunks_exact(self.width).step_by(self.every);
            out.chunks_exact_mut(self.width).zip(picked).for_each(|(out, x)| out.copy_from_slice(x));
        }
        view.put(self.out, out);
    }

    fn backward(&self, _: &mut GroupView, _: Context, grads: &mut Grads) {
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
