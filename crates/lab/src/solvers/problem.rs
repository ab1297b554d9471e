//! The least-squares problem that an algorithm sees after t pairs.

use crate::linalg::{Eigenvalues, Spectrum, add_outer, axpy};

/// S = XᵀX + λI and c = Xᵀy over the t pairs read.
#[derive(Clone, Copy)]
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

    /// Eigenvalues of S.
    pub fn eigenvalues(&self) -> Eigenvalues {
        Eigenvalues::of(self.s, self.dim)
    }

    /// Eigen-decomposition of S.
    pub fn spectrum(&self) -> Spectrum {
        Spectrum::of(self.s, self.dim)
    }
}

/// S and c of a growing prefix, updated pair by pair.
pub struct SufficientStatistics {
    /// S = XᵀX + λI `[d,d]`.
    pub s: Vec<f64>,
    /// c = Xᵀy `[d]`.
    pub c: Vec<f64>,
}

impl SufficientStatistics {
    /// Before the first pair.
    pub fn new(dim: usize, lambda: f64) -> SufficientStatistics {
        let mut s = vec![0.0; dim * dim];
        s.iter_mut().step_by(dim + 1).for_each(|v| *v = lambda);
        SufficientStatistics { s, c: vec![0.0; dim] }
    }

    /// After pairs of inputs `[t,d]` and labels `[t]`.
    pub fn of(xs: &[f64], ys: &[f64], dim: usize, lambda: f64) -> SufficientStatistics {
        let mut statistics = SufficientStatistics::new(dim, lambda);
        xs.chunks_exact(dim).zip(ys).for_each(|(x, &y)| statistics.add(x, y));
        statistics
    }

    /// Reads one more pair.
    pub fn add(&mut self, x: &[f64], y: f64) {
        add_outer(x, &mut self.s);
        axpy(y, x, &mut self.c);
    }

    /// The problem of a prompt of which these inputs and labels were read.
    pub fn problem<'a>(&'a self, prompt: usize, xs: &'a [f64], ys: &'a [f64]) -> Problem<'a> {
        Problem { prompt, xs, ys, dim: self.c.len(), s: &self.s, c: &self.c }
    }
}
