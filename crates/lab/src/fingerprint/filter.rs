//! The filter f of a learner after a step: ⟨u, w⟩ ≈ f(λ)⟨u, w_OLS⟩ along every eigenvector u of S, by the answers wᵀx to
//! queries x.
//!
//! f is a natural cubic spline in log λ through its values at a few eigenvalues, the knots, and constant beyond them. Its
//! values are those that explain most of w − w_OLS, over all prompts together: a linear regression with a column per knot.
//! Each prompt adds its part to the normal equations, so that resampling prompts is adding up other parts.

use super::asked::{Answers, Asked, Eigen};
use crate::linalg::{add_outer, axpy, dot, solve_all_positive_definite, solve_positive_definite};
use crate::parallel;

/// Fewest eigenvalues, of all prompts, for each knot.
pub(super) const EIGENVALUES_PER_KNOT: usize = 20;

/// Evidence of a knot, relative to the mean, that is not enough to move it from 1.
const HARDLY_SEEN: f64 = 1e-6;

/// Share of the eigenvalues beyond the first knot, and beyond the last.
const BEYOND: f64 = 0.002;

/// Eigenvalues at which a filter is measured, ascending, at equal distances in log λ: late steps have all their errors at
/// the smallest eigenvalues, of which there are few.
#[derive(Clone, Debug)]
pub struct Knots {
    /// The eigenvalues.
    pub values: Vec<f64>,
    /// Second derivatives at the knots of the spline that is 1 at knot j and 0 at the others `[k][j]`.
    bends: Vec<Vec<f64>>,
}

impl Knots {
    /// `count` knots, at least 2, over nearly all eigenvalues of all prompts.
    pub(super) fn over(problems: &[Eigen], count: usize) -> Knots {
        let mut values: Vec<f64> = problems.iter().flat_map(|p| p.values.iter().copied()).collect();
        values.sort_by(f64::total_cmp);
        let end = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize].ln();
        let (low, high) = (end(BEYOND), end(1.0 - BEYOND));
        let step = ((high - low) / (count - 1) as f64).max(1e-6);
        Knots {
            values: (0..count).map(|k| (low + k as f64 * step).exp()).collect(),
            bends: bends(count, step),
        }
    }

    /// Number of knots.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// What each knot adds to f(λ) `[k]`; they sum to 1.
    fn basis(&self, value: f64) -> Vec<f64> {
        let last = self.count() - 1;
        let (first_log, last_log) = (self.values[0].ln(), self.values[last].ln());
        let step = (last_log - first_log) / last as f64;
        let place = ((value.ln() - first_log) / step).clamp(0.0, last as f64);
        let lower = (place as usize).min(last - 1);
        let (above, below) = (place - lower as f64, 1.0 - (place - lower as f64));
        let bend = |share: f64| (share.powi(3) - share) * step * step / 6.0;
        let mut basis: Vec<f64> = (0..=last)
            .map(|j| bend(below) * self.bends[lower][j] + bend(above) * self.bends[lower + 1][j])
            .collect();
        basis[lower] += below;
        basis[lower + 1] += above;
        basis
    }

    /// The filter of values `[k]` at λ.
    pub fn interpolate(&self, values: &[f64], at: f64) -> f64 {
        dot(&self.basis(at), values)
    }
}

/// Second derivatives `[k][j]` of the natural splines of unit vectors over `count` knots at distance `step`: the usual
/// tridiagonal equations y″ₖ₋₁ + 4y″ₖ + y″ₖ₊₁ = 6(yₖ₋₁ − 2yₖ + yₖ₊₁)/step², with y″ = 0 at both ends.
fn bends(count: usize, step: f64) -> Vec<Vec<f64>> {
    let inner = count.saturating_sub(2);
    let mut matrix = vec![0.0; inner * inner];
    for k in 0..inner {
        matrix[k * inner + k] = 4.0;
        if k > 0 {
            (matrix[k * inner + k - 1], matrix[(k - 1) * inner + k]) = (1.0, 1.0);
        }
    }
    let of_unit_vector = |j: usize| -> Vec<f64> {
        let second = |k: usize| {
            let at = |i: usize| f64::from(u8::from(i == j));
            6.0 * (at(k) - 2.0 * at(k + 1) + at(k + 2)) / (step * step)
        };
        let right: Vec<f64> = (0..inner).map(second).collect();
        let found = solve_positive_definite(&matrix, &right).expect("diagonally dominant");
        [0.0].into_iter().chain(found).chain([0.0]).collect()
    };
    let columns: Vec<Vec<f64>> = (0..count).map(of_unit_vector).collect();
    (0..count).map(|k| columns.iter().map(|column| column[k]).collect()).collect()
}

/// One prompt's part of the normal equations, for δ = w − w_OLS against f − 1.
pub(super) struct Part {
    /// Σ φφᵀ `[k,k]`, φ what each knot adds to an answer.
    gram: Vec<f64>,
    /// Σ φδ after each step `[s,k]`.
    right: Vec<f64>,
    /// Σ δ² after each step `[s]`.
    pub power: Vec<f64>,
    /// Σ of the squared answers of least squares.
    pub exact: f64,
}

impl Part {
    /// The part of one problem.
    pub fn of(knots: &Knots, problem: &Eigen, answers: &[f64]) -> Part {
        let count = knots.count();
        let exact = problem.exact_answers();
        let (asked, read) = (exact.len(), problem.values.len());
        // what each direction adds at each knot [i,k], then φ [n,k]
        let mut each = vec![0.0; read * count];
        for ((&value, &along), row) in
            problem.values.iter().zip(&problem.exact).zip(each.chunks_exact_mut(count))
        {
            axpy(along, &knots.basis(value), row);
        }
        let mut columns = vec![0.0; asked * count];
        for (x, row) in problem.queries.chunks_exact(read).zip(columns.chunks_exact_mut(count)) {
            x.iter().zip(each.chunks_exact(count)).for_each(|(&x, each)| axpy(x, each, row));
        }
        let steps = answers.len() / asked;
        let mut part = Part {
            gram: vec![0.0; count * count],
            right: vec![0.0; steps * count],
            power: vec![0.0; steps],
            exact: dot(&exact, &exact),
        };
        for (n, row) in columns.chunks_exact(count).enumerate() {
            add_outer(row, &mut part.gram);
            for s in 0..steps {
                let delta = answers[s * asked + n] - exact[n];
                part.power[s] += delta * delta;
                axpy(delta, row, &mut part.right[s * count..(s + 1) * count]);
            }
        }
        part
    }

    /// Σ (δ − φ(f−1))² after step `s`: what the filter `[k]` does not explain.
    pub fn left(&self, s: usize, filter: &[f64]) -> f64 {
        let count = filter.len();
        let less: Vec<f64> = filter.iter().map(|f| f - 1.0).collect();
        let right = &self.right[s * count..(s + 1) * count];
        let image: f64 = self.gram.chunks_exact(count).zip(&less).map(|(row, g)| g * dot(row, &less)).sum();
        (self.power[s] - 2.0 * dot(right, &less) + image).max(0.0)
    }
}

/// The filters `[s][k]` that explain most of the prompts with these multiplicities; NaN where they say nothing.
pub(super) fn fit<'a>(
    parts: impl Iterator<Item = (&'a Part, f64)>,
    knots: usize,
    steps: usize,
) -> Vec<Vec<f64>> {
    let (mut gram, mut right) = (vec![0.0; knots * knots], vec![0.0; steps * knots]);
    for (part, times) in parts.filter(|(_, times)| *times > 0.0) {
        axpy(times, &part.gram, &mut gram);
        axpy(times, &part.right, &mut right);
    }
    let mean = gram.iter().step_by(knots + 1).sum::<f64>() / knots as f64;
    // a knot that the chosen prompts have hardly seen stays near 1, instead of following what is not a filter
    gram.iter_mut().step_by(knots + 1).for_each(|v| *v += HARDLY_SEEN * mean);
    match solve_all_positive_definite(&gram, &right, knots) {
        Some(less) => less.chunks_exact(knots).map(|less| less.iter().map(|g| g + 1.0).collect()).collect(),
        None => vec![vec![f64::NAN; knots]; steps],
    }
}

/// How much the prompts say of each knot `[k]`.
pub(super) fn evidence(parts: &[Part], knots: usize) -> Vec<f64> {
    (0..knots).map(|k| parts.iter().map(|part| part.gram[k * knots + k]).sum()).collect()
}

/// All parts `[b]` of one number of pairs.
pub(super) fn parts(knots: &Knots, asked: &Asked, l: usize, answers: &Answers) -> Vec<Part> {
    let (problems, answers) = (&asked.problems[l], &answers.of[l]);
    parallel::map(problems.len(), |b| Part::of(knots, &problems[b], &answers[b]))
}
