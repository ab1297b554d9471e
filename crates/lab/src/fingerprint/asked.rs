//! What is asked of a learner for its fingerprint: prompts after t pairs, each in the eigenbasis of its S = XᵀX.

use ndarray::s;
use rayon::prelude::*;

use crate::compare::similarity::induced_weights;
use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{Spectrum, dot, gram, least_squares, norm};
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

/// Where answers come from.
enum How {
    /// Fresh queries, from which weights are induced.
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
    /// ⟨uᵢ, x⟩ of the one query, where there is only one; else each uᵢ is asked by itself.
    pub query: Option<Vec<f64>>,
}

/// Answers of one learner to everything that is asked.
pub struct Answers {
    /// `[l][b]`
    pub(super) of: Vec<Vec<Seen>>,
    pub(super) steps: Steps,
}

/// Answers on one problem.
pub(super) struct Seen {
    /// `[s, n]`: ⟨uₙ, w_s⟩, or the answer to the one query.
    pub answers: Vec<f64>,
    /// ‖w_s‖² outside of the directions that were read `[s]`; empty for a single query.
    pub outside: Vec<f64>,
}

impl Asked {
    /// Fresh queries after each of their lengths.
    pub fn fresh(questions: Questions, scale: Scale) -> Result<Asked> {
        let problems = problems(&questions.prompts, &questions.lengths, scale, false)?;
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
        let problems = problems(&prompts, &lengths, scale, true)?;
        Ok(Asked { lengths, problems, scale, how: How::NextPoint(prompts) })
    }

    /// Asks a learner, after each of `steps`.
    pub fn ask(&self, learner: &dyn Learner, steps: &Steps) -> Result<Answers> {
        let of = match &self.how {
            How::Fresh(questions) => {
                let weights = induced_weights(learner, questions, steps)?.values; // [b, s, l, d]
                self.each(|l, b, problem| {
                    let mut seen = Seen { answers: Vec::new(), outside: Vec::new() };
                    for w in weights.slice(s![b, .., l, ..]).rows() {
                        let w = w.to_vec();
                        let first = seen.answers.len();
                        seen.answers.extend(problem.directions(w.len()).map(|u| dot(u, &w)));
                        let inside: f64 = seen.answers[first..].iter().map(|a| a * a).sum();
                        seen.outside.push((dot(&w, &w) - inside).max(0.0));
                    }
                    seen
                })
            }
            How::NextPoint(prompts) => {
                let values = learner.trajectory(prompts, steps)?.values; // [s, b, t]
                self.each(|l, b, _| Seen {
                    answers: values.slice(s![.., b, self.lengths[l]]).to_vec(),
                    outside: Vec::new(),
                })
            }
        };
        let finite = of.iter().flatten().all(|seen| seen.answers.iter().all(|a| a.is_finite()));
        if !finite {
            return Err(Error::BadData(format!(
                "{} diverges within steps {steps} on some prompts, and has no filter there; accepted: fewer steps",
                learner.id()
            )));
        }
        Ok(Answers { of, steps: steps.clone() })
    }

    /// Number of prompts.
    pub fn prompts(&self) -> usize {
        match &self.how {
            How::Fresh(questions) => questions.prompts.count(),
            How::NextPoint(prompts) => prompts.count(),
        }
    }

    /// Whether weights are known, and not only answers to one query per prompt.
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

    fn each<T: Send>(&self, of: impl Fn(usize, usize, &Eigen) -> T + Sync) -> Vec<Vec<T>> {
        let lengths = self.problems.iter().enumerate();
        lengths
            .map(|(l, problems)| problems.par_iter().enumerate().map(|(b, p)| of(l, b, p)).collect())
            .collect()
    }
}

impl Eigen {
    fn directions(&self, dim: usize) -> impl Iterator<Item = &[f64]> {
        self.vectors.chunks_exact(dim)
    }

    /// What least squares answers `[n]`.
    pub fn exact_answers(&self) -> Vec<f64> {
        match &self.query {
            None => self.exact.clone(),
            Some(query) => vec![dot(query, &self.exact)],
        }
    }
}

/// The spectrum of every problem `[l][b]`.
fn problems(prompts: &Prompts, lengths: &[usize], scale: Scale, next_point: bool) -> Result<Vec<Vec<Eigen>>> {
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
        let query = next_point.then(|| along(&all[length * dim..(length + 1) * dim]));
        Eigen { values: values[..read].iter().map(|v| v / unit).collect(), exact: along(&w), vectors, query }
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

impl Answers {
    /// Number of recorded steps.
    pub fn count(&self) -> usize {
        self.steps.len()
    }
}
