//! What is asked of a learner for its fingerprint: prompts after t pairs, each in the eigenbasis of its S = XᵀX.

use ndarray::s;
use rayon::prelude::*;

use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory};
use crate::linalg::{Spectrum, dot, gram, least_squares, left_inverse, matvec, norm};
use crate::registry::Id;
pub use crate::solvers::polynomial::Scale;

/// Eigenvalues below this share of the largest belong to directions that no pair has read.
const UNREAD: f64 = 1e-10;

/// How much of the labels' power least squares may leave before they are no linear function of the inputs.
const NOT_LINEAR: f64 = 0.2;

/// Prompts, the numbers of pairs after which they are asked, and the spectrum of every problem.
pub struct Asked {
    how: How,
    /// Pairs read, ascending.
    pub lengths: Vec<usize>,
    /// `[l][b]`
    pub(super) problems: Vec<Vec<Eigen>>,
    /// The unit of the eigenvalues.
    pub scale: Scale,
}

/// Which queries are asked.
enum How {
    /// Fresh ones, several.
    Fresh(Questions),
    /// The next point of each prompt, one query: all that recorded predictions know.
    NextPoint(Prompts),
}

/// One prompt after t pairs: S = Σ λᵢuᵢuᵢᵀ over the directions that were read.
pub(super) struct Eigen {
    /// λᵢ in the unit of [`Asked::scale`], descending.
    pub values: Vec<f64>,
    /// ⟨uᵢ, w_OLS⟩.
    pub exact: Vec<f64>,
    /// Row i is uᵢ.
    vectors: Vec<f64>,
    /// ⟨uᵢ, xₙ⟩ of the queries `[n,i]`.
    pub queries: Vec<f64>,
}

/// Answers of one learner to everything that is asked.
pub struct Answers {
    /// `[l][b]`, each `[s,n]`.
    pub(super) of: Vec<Vec<Vec<f64>>>,
    pub(super) steps: Steps,
}

impl Asked {
    /// Fresh queries after each of their lengths.
    pub fn fresh(questions: Questions, scale: Scale) -> Result<Asked> {
        let queries = |b: usize, _: usize| questions.of(b).iter().copied().collect();
        let problems = problems(&questions.prompts, &questions.lengths, scale, queries)?;
        Ok(Asked { lengths: questions.lengths.clone(), problems, scale, how: How::Fresh(questions) })
    }

    /// The next point of every prompt after each of `lengths` pairs: enough for recorded predictions, if prompts are many.
    pub fn next_point(prompts: Prompts, lengths: Vec<usize>, scale: Scale) -> Result<Asked> {
        if let Some(&length) = lengths.iter().find(|&&length| length >= prompts.points()) {
            let last = prompts.points() - 1;
            return Err(Error::BadData(format!(
                "{length} pairs of prompts with {} points; accepted: up to {last}, so that a point is left to be asked",
                prompts.points()
            )));
        }
        let dim = prompts.dim();
        let next = |b: usize, length: usize| prompts.prompt(b).0[length * dim..(length + 1) * dim].to_vec();
        let problems = problems(&prompts, &lengths, scale, next)?;
        Ok(Asked { lengths, problems, scale, how: How::NextPoint(prompts) })
    }

    /// Asks a learner, after each of `steps`.
    pub fn ask(&self, learner: &dyn Learner, steps: &Steps) -> Result<Answers> {
        match &self.how {
            How::Fresh(questions) => {
                let answers = learner.answers(questions, steps)?; // [s, b, l, q]
                let of = self.each(|l, b| answers.slice(s![.., b, l, ..]).iter().copied().collect());
                Answers::new(of, steps, &learner.id())
            }
            How::NextPoint(prompts) => self.recorded(&learner.trajectory(prompts, steps)?),
        }
    }

    /// The answers that are in a trajectory on the prompts of [`Asked::next_point`].
    pub fn recorded(&self, trajectory: &Trajectory) -> Result<Answers> {
        let of = self.each(|l, b| trajectory.values.slice(s![.., b, self.lengths[l]]).to_vec());
        Answers::new(of, &trajectory.steps, &trajectory.learner)
    }

    /// Number of prompts.
    pub fn prompts(&self) -> usize {
        match &self.how {
            How::Fresh(questions) => questions.prompts.count(),
            How::NextPoint(prompts) => prompts.count(),
        }
    }

    /// Whether queries are fresh, several for each prompt.
    pub fn fresh_queries(&self) -> bool {
        matches!(self.how, How::Fresh(_))
    }

    /// Dimension of an input.
    pub fn dim(&self) -> usize {
        match &self.how {
            How::Fresh(questions) => questions.prompts.dim(),
            How::NextPoint(prompts) => prompts.dim(),
        }
    }

    fn each(&self, of: impl Fn(usize, usize) -> Vec<f64> + Sync) -> Vec<Vec<Vec<f64>>> {
        let per_length = |l: usize| (0..self.prompts()).into_par_iter().map(|b| of(l, b)).collect();
        (0..self.lengths.len()).map(per_length).collect()
    }

    /// Weights `[s,d]` that answers `[s,n]` on prompt `b` imply; `None` where its queries are not twice as many as dimensions.
    pub(super) fn induced(&self, b: usize, answers: &[f64]) -> Option<Vec<f64>> {
        let How::Fresh(questions) = &self.how else { return None };
        let queries = questions.of(b);
        let (asked, dim) = queries.dim();
        if asked < 2 * dim {
            return None;
        }
        let inverse = left_inverse(queries.as_slice()?, dim)?;
        let mut weights = vec![0.0; answers.len() / asked * dim];
        let steps = answers.chunks_exact(asked).zip(weights.chunks_exact_mut(dim));
        steps.for_each(|(answers, w)| matvec(&inverse, answers, w));
        Some(weights)
    }
}

impl Eigen {
    /// What least squares answers `[n]`.
    pub fn exact_answers(&self) -> Vec<f64> {
        self.queries.chunks_exact(self.exact.len()).map(|x| dot(x, &self.exact)).collect()
    }

    /// ⟨uᵢ, w⟩ for every direction that was read.
    pub fn along(&self, w: &[f64]) -> Vec<f64> {
        self.vectors.chunks_exact(w.len()).map(|u| dot(u, w)).collect()
    }
}

impl Answers {
    fn new(of: Vec<Vec<Vec<f64>>>, steps: &Steps, learner: &Id) -> Result<Answers> {
        if of.iter().flatten().flatten().all(|answer| answer.is_finite()) {
            return Ok(Answers { of, steps: steps.clone() });
        }
        Err(Error::BadData(format!(
            "{learner} diverges within steps {steps} on some prompts, and has no filter there; accepted: fewer steps"
        )))
    }

    /// Number of recorded steps.
    pub fn count(&self) -> usize {
        self.steps.len()
    }
}

/// The spectrum of every problem `[l][b]`, with its queries `[n,d]` by prompt and length.
fn problems(
    prompts: &Prompts,
    lengths: &[usize],
    scale: Scale,
    queries: impl Fn(usize, usize) -> Vec<f64> + Sync,
) -> Result<Vec<Vec<Eigen>>> {
    let dim = prompts.dim();
    if let Some(&length) = lengths.iter().find(|&&length| length == 0 || length > prompts.points()) {
        return Err(Error::BadData(format!(
            "{length} pairs of prompts with {} points; accepted: from 1 to {}",
            prompts.points(),
            prompts.points()
        )));
    }
    refuse_other_labels(prompts)?;
    let of = |b: usize, length: usize| {
        let (all, ys) = prompts.prompt(b);
        let xs = &all[..length * dim];
        let s = gram(xs, dim);
        let Spectrum { values, vectors } = Spectrum::of(&s, dim);
        let read = values.iter().take_while(|v| **v > UNREAD * values[0]).count().min(length);
        let unit = match scale {
            Scale::One => 1.0,
            Scale::Largest => values[0],
            Scale::Frobenius => norm(&s),
        };
        let vectors = vectors[..read * dim].to_vec();
        let w = least_squares(xs, &ys[..length], dim);
        let along = |x: &[f64]| vectors.chunks_exact(dim).map(|u| dot(u, x)).collect::<Vec<f64>>();
        let queries = queries(b, length).chunks_exact(dim).flat_map(along).collect();
        Eigen {
            values: values[..read].iter().map(|v| v / unit).collect(),
            exact: along(&w),
            vectors,
            queries,
        }
    };
    Ok(lengths
        .iter()
        .map(|&length| (0..prompts.count()).into_par_iter().map(|b| of(b, length)).collect())
        .collect())
}

/// Refuses labels that are no linear function of the inputs: w_OLS would mean nothing.
fn refuse_other_labels(prompts: &Prompts) -> Result<()> {
    let (dim, points) = (prompts.dim(), prompts.points());
    if points < dim + 2 {
        return Ok(()); // any labels are linear in as many dimensions
    }
    let left = |b: usize| {
        let (xs, ys) = prompts.prompt(b);
        let w = least_squares(xs, ys, dim);
        let errors = xs.chunks_exact(dim).zip(ys).map(|(x, y)| (dot(&w, x) - y).powi(2)).sum::<f64>();
        // each of d weights takes away its share of what is not linear
        let left = errors * points as f64 / (points - dim) as f64;
        (left, ys.iter().map(|y| y * y).sum::<f64>())
    };
    let sums: Vec<(f64, f64)> = (0..prompts.count()).into_par_iter().map(left).collect();
    let (left, power) = sums.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let share = left / power;
    if share > NOT_LINEAR {
        return Err(Error::BadData(format!(
            "labels are no linear function of the inputs: least squares leaves {:.0} % of their power; accepted: linear labels, \
             with little noise",
            100.0 * share
        )));
    }
    Ok(())
}
