//! What is asked of a learner for its fingerprint: prompts after t pairs, each in the eigenbasis of its S = XᵀX.

use ndarray::{Axis, s};

use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory};
use crate::linalg::{Spectrum, dot, gram, least_squares, left_inverse, matvec, norm};
use crate::parallel;
use crate::registry::Id;
pub use crate::solvers::polynomial::Scale;
use crate::solvers::short;

/// Eigenvalues below this share of the largest belong to directions that no pair has read.
const UNREAD: f64 = 1e-10;

/// An answer that is so many times larger than any of least squares is none.
const WILD: f64 = 1e6;

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
    /// λᵢ, descending.
    raw: Vec<f64>,
    /// The same in the unit of [`Asked::scale`].
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

    /// The same with eigenvalues in another unit: answers that were given stay what they are.
    pub fn rescaled(mut self, scale: Scale) -> Asked {
        self.problems.iter_mut().flatten().for_each(|problem| problem.measure_in(scale));
        self.scale = scale;
        self
    }

    /// Asks a learner, after each of `steps`; refuses one that diverges.
    pub fn ask(&self, learner: &dyn Learner, steps: &Steps) -> Result<Answers> {
        self.sound(self.ask_any(learner, steps)?, &learner.id())
    }

    /// Asks a learner after those of `steps` that it takes before it diverges on some prompt; `None` where it takes none.
    pub fn ask_while_sound(&self, learner: &dyn Learner, steps: &Steps) -> Result<Option<Answers>> {
        let answers = self.ask_any(learner, steps)?;
        match self.sound_steps(&answers) {
            0 => Ok(None),
            count if count == steps.len() => Ok(Some(answers)),
            count => self.ask_any(learner, &Steps::new(steps.as_slice()[..count].to_vec())?).map(Some),
        }
    }

    fn ask_any(&self, learner: &dyn Learner, steps: &Steps) -> Result<Answers> {
        let of = match &self.how {
            How::Fresh(questions) => {
                let answers = learner.answers(questions, steps)?; // [s, b, l, q]
                self.each(|l, b| answers.slice(s![.., b, l, ..]).iter().copied().collect())
            }
            How::NextPoint(prompts) if learner.recorded_prompts().is_some() => {
                self.next_points(&learner.trajectory(prompts, steps)?)
            }
            How::NextPoint(prompts) => {
                // query number l is the point after lengths[l] pairs: a few prefixes in place of a whole trajectory
                let queries = prompts.xs.select(Axis(1), &self.lengths).as_standard_layout().into_owned();
                let questions =
                    Questions { prompts: prompts.clone(), lengths: self.lengths.clone(), queries };
                let answers = learner.answers(&questions, steps)?; // [s, b, l, q]
                self.each(|l, b| answers.slice(s![.., b, l, l]).to_vec())
            }
        };
        Ok(Answers { of, steps: steps.clone() })
    }

    /// The answers that are in a trajectory on the prompts of [`Asked::next_point`].
    pub fn recorded(&self, trajectory: &Trajectory) -> Result<Answers> {
        let answers = Answers { of: self.next_points(trajectory), steps: trajectory.steps.clone() };
        self.sound(answers, &trajectory.learner)
    }

    fn next_points(&self, trajectory: &Trajectory) -> Vec<Vec<Vec<f64>>> {
        self.each(|l, b| trajectory.values.slice(s![.., b, self.lengths[l]]).to_vec())
    }

    /// How many steps, from the first on, have answers that are finite and not [`WILD`] on all prompts.
    fn sound_steps(&self, answers: &Answers) -> usize {
        let exact = self.problems.iter().flatten().flat_map(Eigen::exact_answers);
        let most = WILD * exact.fold(f64::MIN_POSITIVE, |most, answer| most.max(answer.abs()));
        let steps = answers.count();
        let sound = |of: &Vec<f64>| {
            let wild = of.iter().position(|answer| answer.is_nan() || answer.abs() > most);
            wild.map_or(steps, |at| at * steps / of.len())
        };
        answers.of.iter().flatten().map(sound).min().unwrap_or(steps)
    }

    fn sound(&self, answers: Answers, learner: &Id) -> Result<Answers> {
        let steps = &answers.steps;
        if self.sound_steps(&answers) == steps.len() {
            return Ok(answers);
        }
        Err(Error::BadData(format!(
            "{} diverges within steps {steps} on some prompts, and has no filter there; accepted: fewer steps",
            short(&learner.to_string())
        )))
    }

    /// Refuses more knots than the eigenvalues can tell, before anybody is asked.
    pub fn check_knots(&self, knots: usize) -> Result<()> {
        (0..self.lengths.len()).try_for_each(|l| super::taken::knots(self, l, knots).map(drop))
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
        let per_length = |l: usize| parallel::map(self.prompts(), |b| of(l, b));
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
    /// ‖S‖_F is that of its eigenvalues.
    fn measure_in(&mut self, scale: Scale) {
        let unit = match scale {
            Scale::One => 1.0,
            Scale::Largest => self.raw.first().copied().unwrap_or(1.0),
            Scale::Frobenius => norm(&self.raw),
        };
        self.values = self.raw.iter().map(|value| value / unit).collect();
    }

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
    /// Its steps.
    pub fn steps(&self) -> &Steps {
        &self.steps
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
        let Spectrum { values, vectors } = Spectrum::of(&gram(xs, dim), dim);
        let read = values.iter().take_while(|v| **v > UNREAD * values[0]).count().min(length);
        let vectors = vectors[..read * dim].to_vec();
        let w = least_squares(xs, &ys[..length], dim);
        let along = |x: &[f64]| vectors.chunks_exact(dim).map(|u| dot(u, x)).collect::<Vec<f64>>();
        let queries = queries(b, length).chunks_exact(dim).flat_map(along).collect();
        let (raw, exact) = (values[..read].to_vec(), along(&w));
        let mut problem = Eigen { raw, values: Vec::new(), exact, vectors, queries };
        problem.measure_in(scale);
        problem
    };
    let problems: Vec<Vec<Eigen>> =
        lengths.iter().map(|&length| parallel::map(prompts.count(), |b| of(b, length))).collect();
    for (problems, length) in problems.iter().zip(lengths) {
        if let Some(b) = problems.iter().position(|problem| problem.raw.is_empty()) {
            return Err(Error::BadData(format!(
                "all inputs of prompt {b} are 0 within its first {length} pairs; accepted: inputs that span a direction"
            )));
        }
    }
    Ok(problems)
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
    let sums = parallel::map(prompts.count(), left);
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
