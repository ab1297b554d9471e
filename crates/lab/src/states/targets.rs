//! What is looked for in a stream: quantities that an algorithm would hold at a token, computed from the pairs it sees.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::Array2;

use super::Options;
use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::learners::Learner;
use crate::linalg::{Spectrum, axpy, dot};
use crate::parallel;
use crate::solvers::SufficientStatistics;
use crate::streams::Sight;

/// Which tokens are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// x tokens: each is the query of the pairs before it.
    X,
    /// y tokens: where a pair is complete.
    Y,
}

impl Role {
    /// Both.
    pub const ALL: [Role; 2] = [Role::X, Role::Y];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::X => "x tokens",
            Role::Y => "y tokens",
        })
    }
}

/// What an algorithm w_k = T_k c, with T_k a function of S, may hold at a token of the pair (x, y).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// w_k.
    Weights,
    /// T_k x.
    Transformed,
    /// x·w_k, at x tokens.
    Answer,
    /// y − x·w_k, at y tokens; w_k has read this pair.
    Residual,
    /// y − x·w_k, at y tokens; w_k has read the pairs before this one.
    Innovation,
    /// S = XᵀX.
    Gram,
    /// c = Xᵀy.
    Moment,
}

impl Quantity {
    /// All of them, with their names and what they are.
    pub const ALL: [(Quantity, &str, &str); 7] = [
        (Quantity::Weights, "weights", "w_k"),
        (Quantity::Transformed, "transformed", "T_k x, T_k the approximate inverse of S"),
        (Quantity::Answer, "answer", "x·w_k, at x tokens"),
        (Quantity::Residual, "residual", "y − x·w_k, at y tokens, w_k after this pair"),
        (Quantity::Innovation, "innovation", "y − x·w_k, at y tokens, w_k before this pair"),
        (Quantity::Gram, "gram", "S = XᵀX"),
        (Quantity::Moment, "moment", "Xᵀy"),
    ];

    /// Whether a token of a role can be asked for it. Where tokens see the whole prompt no pair comes before another.
    fn fits(self, role: Role, sight: Sight) -> bool {
        match self {
            Quantity::Answer => role == Role::X,
            Quantity::Residual => role == Role::Y,
            Quantity::Innovation => role == Role::Y && sight == Sight::Past,
            _ => true,
        }
    }

    /// All of them.
    pub fn every() -> Vec<Quantity> {
        Quantity::ALL.iter().map(|(quantity, ..)| *quantity).collect()
    }

    /// Whether it changes from iteration to iteration.
    pub fn has_steps(self) -> bool {
        !matches!(self, Quantity::Gram | Quantity::Moment)
    }

    fn size(self, d: usize) -> usize {
        match self {
            Quantity::Weights | Quantity::Transformed | Quantity::Moment => d,
            Quantity::Answer | Quantity::Residual | Quantity::Innovation => 1,
            Quantity::Gram => d * (d + 1) / 2,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Quantity::ALL[*self as usize].1)
    }
}

/// A token that is read, and what it stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// Its number in the prompt.
    pub token: usize,
    /// The point whose x (and y) it is.
    point: usize,
    /// How many pairs it sees.
    read: usize,
}

/// The tokens of a role after so many pairs: in a network that sees the past, each of `pairs` gives one; where all is seen a
/// prompt has but one number of pairs, and a few of its y tokens are read.
pub(super) fn spots(role: Role, sight: Sight, pairs: &[usize]) -> Vec<Spot> {
    let spot = |point: usize, read: usize| match role {
        Role::X => Spot { token: 2 * point, point, read },
        Role::Y => Spot { token: 2 * point + 1, point, read },
    };
    match (sight, role) {
        (Sight::Past, Role::X) => pairs.iter().map(|&read| spot(read, read)).collect(),
        (Sight::Past, Role::Y) => pairs.iter().map(|&read| spot(read - 1, read)).collect(),
        (Sight::All, Role::X) => pairs.iter().map(|&read| spot(read, read)).collect(),
        (Sight::All, Role::Y) => {
            let read = pairs[0];
            (1..=4).map(|part| (part * read / 4).max(1) - 1).map(|point| spot(point, read)).collect()
        }
    }
}

/// One thing to be read: a quantity after some iterations.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub quantity: Quantity,
    pub step: Option<u64>,
    /// Its columns in [`Targets::values`].
    pub columns: Range<usize>,
}

/// What is to be read at each token, and what the token was given.
pub(super) struct Targets {
    /// In the order of columns.
    pub list: Vec<Target>,
    /// `[row, column]`: a row for each prompt and, within it, each spot.
    pub values: Array2<f64>,
    /// x, for a y token also y, and which spot it is `[row, d (+ 1) + spots]`.
    pub own: Array2<f64>,
}

impl Targets {
    /// Of an algorithm with a closed form.
    pub fn of(
        algorithm: &dyn Learner,
        options: &Options,
        role: Role,
        sight: Sight,
        spots: &[Spot],
        prompts: &Prompts,
    ) -> Result<Targets> {
        let (d, steps) = (prompts.dim(), &options.steps);
        let mut list: Vec<Target> = Vec::new();
        let mut width = 0;
        for &quantity in options.quantities.iter().filter(|q| q.fits(role, sight)) {
            let steps: Vec<Option<u64>> =
                if quantity.has_steps() { steps.iter().copied().map(Some).collect() } else { vec![None] };
            for step in steps {
                let columns = width..width + quantity.size(d);
                width = columns.end;
                list.push(Target { quantity, step, columns });
            }
        }
        let given = d + usize::from(role == Role::Y) + spots.len();
        let rows = prompts.count() * spots.len();
        let (mut values, mut own) = (Array2::zeros((rows, width)), Array2::zeros((rows, given)));
        let of_prompt = |b: usize, values: &mut [f64], own: &mut [f64]| -> Option<()> {
            interrupt::look();
            let (xs, ys) = prompts.prompt(b);
            let rows = values.chunks_exact_mut(width).zip(own.chunks_exact_mut(given));
            for (i, (spot, (values, own))) in spots.iter().zip(rows).enumerate() {
                let (x, y) = (&xs[spot.point * d..][..d], ys[spot.point]);
                own[..d].copy_from_slice(x);
                if role == Role::Y {
                    own[d] = y;
                }
                own[given - spots.len() + i] = 1.0;
                let after = Held::of(algorithm, prompts, b, spot.read)?;
                // before the first pair nothing is known
                let before = match list.iter().any(|t| t.quantity == Quantity::Innovation) {
                    true => Some(Held::of(algorithm, prompts, b, spot.read - 1)?),
                    false => None,
                };
                for target in &list {
                    let held = match (target.quantity, &before) {
                        (Quantity::Innovation, Some(before)) => before,
                        _ => &after,
                    };
                    held.write(target, x, y, &mut values[target.columns.clone()]);
                }
            }
            Some(())
        };
        let matrices = [&mut values, &mut own].map(|matrix| matrix.as_slice_mut().expect("just made"));
        let unfiltered = AtomicBool::new(false);
        parallel::fill_both(matrices, [spots.len() * width, spots.len() * given], |b, values, own| {
            if of_prompt(b, values, own).is_none() {
                unfiltered.store(true, Ordering::Relaxed);
            }
        });
        if unfiltered.into_inner() {
            return Err(Error::BadData(format!(
                "{} has no closed form in the eigen-directions of S; accepted: newton, gd, gd++ and others without a ridge \
                 that have the setting 'form'",
                algorithm.id()
            )));
        }
        Ok(Targets { list, values, own })
    }
}

/// What an algorithm holds after some pairs.
struct Held {
    statistics: SufficientStatistics,
    /// Eigenvalues of S, none below 0.
    values: Vec<f64>,
    /// Its eigenvectors: row i is vᵢ.
    vectors: Vec<f64>,
    /// f(λ, k) of w_k = Σ f(λᵢ, k) vᵢvᵢᵀ c.
    filter: crate::solvers::Filter,
}

impl Held {
    fn of(algorithm: &dyn Learner, prompts: &Prompts, b: usize, read: usize) -> Option<Held> {
        let (xs, ys) = prompts.prompt(b);
        let d = prompts.dim();
        let (xs, ys) = (&xs[..read * d], &ys[..read]);
        let statistics = SufficientStatistics::of(xs, ys, d, 0.0);
        let problem = statistics.problem(b, xs, ys);
        let Spectrum { values, vectors } = problem.spectrum();
        let filter = algorithm.filter(&problem, &values)?;
        let values = values.iter().map(|v| v.max(0.0)).collect();
        Some(Held { statistics, values, vectors, filter })
    }

    /// T_k v.
    fn transform(&self, k: u64, v: &[f64], out: &mut [f64]) {
        let mut filtered = vec![0.0; v.len()];
        (self.filter)(&self.values, k, &mut filtered);
        out.fill(0.0);
        for (direction, f) in self.vectors.chunks_exact(v.len()).zip(filtered) {
            axpy(f * dot(direction, v), direction, out);
        }
    }

    fn write(&self, target: &Target, x: &[f64], y: f64, out: &mut [f64]) {
        let SufficientStatistics { s, c } = &self.statistics;
        let k = target.step.unwrap_or(0);
        let answer = || {
            let mut w = vec![0.0; x.len()];
            self.transform(k, c, &mut w);
            dot(&w, x)
        };
        match target.quantity {
            Quantity::Weights => self.transform(k, c, out),
            Quantity::Transformed => self.transform(k, x, out),
            Quantity::Answer => out[0] = answer(),
            Quantity::Residual | Quantity::Innovation => out[0] = y - answer(),
            Quantity::Moment => out.copy_from_slice(c),
            Quantity::Gram => {
                let d = x.len();
                let upper = (0..d).flat_map(|i| (i..d).map(move |j| s[i * d + j]));
                out.iter_mut().zip(upper).for_each(|(out, s)| *out = s);
            }
        }
    }
}
