//! The least-squares problem that an algorithm sees after t pairs.

use crate::linalg::{Spectrum, add_outer, axpy};

/// S = XᵀX + λI and c = Xᵀy over the t pairs read.
pub struct Problem<'a> {
    /// Index of the prompt within its batch.
    pub prompt: usize,
    /// Inputs read `[t,d]`.
    pub xs: &'a [f64],
    /// Labels read `[t]`.
    pub ys: &'a [f64],
    /// Dimension of an input.
    pub dim: usize,
    /// S `[d,d]`.
    pub s: &'a [f64],
    /// c `[d]`.
    pub c: &'a [f64],
}

impl Problem<'_> {
    /// Pairs read, t.
    pub fn read(&self) -> usize {
        self.ys.len()
    }

    /// Pair number `i` of those read: input and label.
    pub fn pair(&self, i: usize) -> (&[f64], f64) {
        (&self.xs[i * self.dim..(i + 1) * self.dim], self.ys[i])
    }

    /// All pairs read, in order.
    pub fn pairs(&self) -> impl DoubleEndedIterator<Item = (&[f64], f64)> {
        (0..self.read()).map(|i| self.pair(i))
    }

    /// Eigen-decomposition of S.
    pub fn spectrum(&self) -> Spectrum {
        Spectrum::of(self.s, self.dim)
    }
}

/// S and c of a growing prefix, updated pair by pair.
pub(super) struct SufficientStatistics {
    pub s: Vec<f64>,
    pub c: Vec<f64>,
}

impl SufficientStatistics {
    pub fn new(dim: usize, lambda: f64) -> SufficientStatistics {
        let mut s = vec![0.0; dim * dim];
        s.iter_mut().step_by(dim + 1).for_each(|v| *v = lambda);
        SufficientStatistics { s, c: vec![0.0; dim] }
    }

    pub fn add(&mut self, x: &[f64], y: f64) {
        add_outer(x, &mut self.s);
        axpy(y, x, &mut self.c);
    }
}
