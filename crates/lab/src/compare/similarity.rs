//! How alike two learners are, at every pair of their steps: plain functions between plain data.

use ndarray::{Array2, Array3, Array4, ArrayView3, Axis};

use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Predictions, Trajectory, Unit};
use crate::linalg::{dot, left_inverse, matvec, norm};
use crate::parallel;
use crate::registry::Id;
use crate::solvers;

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Cosine of the angle; 1 is identical direction.
    Cosine,
    /// Root mean square of the difference; 0 is identical.
    Distance,
}

/// Which positions of a prompt count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Fewest pairs read. The paper starts at 1; the authors' code at 0; d+1 leaves the under-determined part out.
    pub first: usize,
}

impl Default for View {
    fn default() -> Self {
        View { first: 1 }
    }
}

/// Similarity of step `a` of one learner with step `b` of another, prompt by prompt.
#[derive(Clone, Debug)]
pub struct Heatmap {
    /// Learner on the horizontal axis.
    pub a: Side,
    /// Learner on the vertical axis.
    pub b: Side,
    /// How it was compared.
    pub metric: Metric,
    /// `SimE`, `SimW`, …
    pub label: &'static str,
    /// Similarity `[a, b, prompt]`; NaN where one of the two diverged.
    pub per_prompt: Array3<f64>,
    /// Mean over prompts `[a, b]`; NaN where more than half of the prompts diverged.
    pub mean: Array2<f64>,
}

/// One learner of a map.
#[derive(Clone, Debug)]
pub struct Side {
    /// Name and settings.
    pub learner: Id,
    /// What a step is.
    pub unit: Unit,
    /// Its steps.
    pub steps: Steps,
}

impl Side {
    /// `Newton iterations`
    pub fn label(&self) -> String {
        format!("{} {}", solvers::label(&self.learner), self.unit)
    }
}

impl Heatmap {
    /// Prompts it was measured on.
    pub fn prompts(&self) -> usize {
        self.per_prompt.dim().2
    }

    pub(super) fn new(
        a: Side,
        b: Side,
        metric: Metric,
        label: &'static str,
        per_prompt: Array3<f64>,
    ) -> Heatmap {
        let mean = per_prompt.map_axis(Axis(2), |cell| {
            let (mut sum, mut valid) = (0.0, 0usize);
            for v in cell.iter().filter(|v| !v.is_nan()) {
                sum += v;
                valid += 1;
            }
            if 2 * valid >= cell.len() { sum / valid as f64 } else { f64::NAN }
        });
        Heatmap { a, b, metric, label, per_prompt, mean }
    }

    /// Prompts `[a,b]` that the mean of each pair of steps leaves out, because one of the learners' predictions are not finite.
    pub fn left_out(&self) -> Array2<usize> {
        self.per_prompt.map_axis(Axis(2), |cell| cell.iter().filter(|v| v.is_nan()).count())
    }

    /// Similarity of the two learners at the last steps on the map: what they share when both have converged.
    /// Any two solvers of the same problem look alike there, so a map is read against this.
    pub fn similarity_floor(&self) -> f64 {
        let (a, b) = self.mean.dim();
        self.mean[[a - 1, b - 1]]
    }

    /// Mean at a pair of steps.
    pub fn at(&self, a: u64, b: u64) -> Option<f64> {
        Some(self.mean[[self.a.steps.position(a)?, self.b.steps.position(b)?]])
    }
}

/// Similarity of errors (SimE): compares e = [A(x₂)−y₂, …] of two learners on the same prompts.
pub fn of_errors(
    a: &Trajectory,
    b: &Trajectory,
    prompts: &Prompts,
    view: View,
    metric: Metric,
) -> Result<Heatmap> {
    of_predictions(a.into(), b.into(), prompts, view, metric)
}

/// The same of predictions wherever they lie.
pub fn of_predictions(
    a: Predictions,
    b: Predictions,
    prompts: &Prompts,
    view: View,
    metric: Metric,
) -> Result<Heatmap> {
    let points = prompts.points();
    if view.first >= points {
        return Err(Error::BadData(format!(
            "positions from t={} of prompts with {points} points; accepted: t below {points}",
            view.first
        )));
    }
    for (learner, steps, shape) in
        [(a.learner, a.steps, a.values.dim()), (b.learner, b.steps, b.values.dim())]
    {
        if shape != (steps.len(), prompts.count(), points) {
            return Err(Error::BadData(format!("{learner} was evaluated on other prompts")));
        }
    }
    // Vectors [b, s, t]: one block per prompt.
    let errors = |side: &Predictions| {
        let errors = &side.values - &prompts.ys.view().insert_axis(Axis(0));
        errors
            .slice(ndarray::s![.., .., view.first..])
            .permuted_axes([1, 0, 2])
            .as_standard_layout()
            .to_owned()
    };
    let label = match metric {
        Metric::Cosine => "SimE",
        Metric::Distance => "RMS distance of errors",
    };
    Ok(compare(side(&a), side(&b), errors(&a).view(), errors(&b).view(), 1, metric, label))
}

fn side(t: &Predictions) -> Side {
    Side { learner: t.learner.clone(), unit: t.unit, steps: t.steps.clone() }
}

/// Weights that a learner's answers imply, w̃ = (X̃ᵀX̃)⁻¹X̃ᵀỹ.
#[derive(Clone, Debug)]
pub struct InducedWeights {
    /// Whose.
    pub learner: Id,
    /// What a step is.
    pub unit: Unit,
    /// Its steps.
    pub steps: Steps,
    /// Weights `[b, s, l, d]` after `lengths[l]` pairs.
    pub values: Array4<f64>,
}

/// Fits the weights that a learner's answers to `questions` imply.
pub fn induced_weights(
    learner: &dyn Learner,
    questions: &Questions,
    steps: &Steps,
) -> Result<InducedWeights> {
    let (count, asked, dim) = questions.queries.dim();
    let inverses: Vec<Vec<f64>> = (0..count)
        .map(|b| {
            left_inverse(questions.of(b).as_slice().expect("standard layout"), dim).ok_or_else(|| {
                Error::BadData(format!(
                    "{asked} queries do not determine {dim} weights; accepted: at least {dim} queries"
                ))
            })
        })
        .collect::<Result<_>>()?;
    let answers = learner.answers(questions, steps)?;
    let lengths = questions.lengths.len();
    let mut values = Array4::zeros((count, steps.len(), lengths, dim));
    let block = steps.len() * lengths * dim;
    let flat = values.as_slice_mut().expect("fresh array");
    parallel::fill_rows(flat, block, |b, weights| {
        for (i, w) in weights.chunks_exact_mut(dim).enumerate() {
            let (s, l) = (i / lengths, i % lengths);
            let row = answers.slice(ndarray::s![s, b, l, ..]);
            matvec(&inverses[b], &row.iter().copied().collect::<Vec<_>>(), w);
        }
    });
    Ok(InducedWeights { learner: learner.id(), unit: learner.unit(), steps: steps.clone(), values })
}

/// Similarity of induced weights (SimW): mean over prefix lengths of the comparison of w̃.
pub fn of_weights(a: &InducedWeights, b: &InducedWeights, metric: Metric) -> Heatmap {
    let flat = |w: &InducedWeights| {
        let (count, steps, lengths, dim) = w.values.dim();
        w.values.clone().into_shape_with_order((count, steps, lengths * dim)).expect("standard layout")
    };
    let side = |w: &InducedWeights| Side { learner: w.learner.clone(), unit: w.unit, steps: w.steps.clone() };
    let label = match metric {
        Metric::Cosine => "SimW",
        Metric::Distance => "RMS distance of weights",
    };
    compare(side(a), side(b), flat(a).view(), flat(b).view(), a.values.dim().2, metric, label)
}

/// Cosines `[length][prompt]` of the induced weights of two learners, each at one recorded step.
pub fn of_weights_by_length(a: (&InducedWeights, usize), b: (&InducedWeights, usize)) -> Vec<Vec<f64>> {
    let (count, _, lengths, _) = a.0.values.dim();
    let unit = |(w, s): (&InducedWeights, usize), p: usize, l: usize| {
        Unitised::new(&w.values.slice(ndarray::s![p, s, l, ..]).to_vec(), Metric::Cosine)
    };
    (0..lengths)
        .map(|l| (0..count).map(|p| unit(a, p, l).compare(&unit(b, p, l), Metric::Cosine)).collect())
        .collect()
}

/// Compares vectors `[b, s, parts × m]` prompt by prompt; each is cut into `parts`, over which the metric is averaged.
fn compare(
    a: Side,
    b: Side,
    va: ArrayView3<f64>,
    vb: ArrayView3<f64>,
    parts: usize,
    metric: Metric,
    label: &'static str,
) -> Heatmap {
    let count = va.dim().0;
    let (na, nb) = (a.steps.len(), b.steps.len());
    let blocks: Vec<Vec<f64>> = parallel::map(count, |p| {
        let (va, vb) = (va.index_axis(Axis(0), p), vb.index_axis(Axis(0), p));
        let length = va.dim().1 / parts;
        let mut cells = vec![0.0; na * nb];
        for part in 0..parts {
            let cut = |v: &ndarray::ArrayView2<f64>| -> Vec<Unitised> {
                v.rows()
                    .into_iter()
                    .map(|row| Unitised::new(&row.to_vec()[part * length..(part + 1) * length], metric))
                    .collect()
            };
            let (ua, ub) = (cut(&va), cut(&vb));
            for (i, x) in ua.iter().enumerate() {
                for (j, y) in ub.iter().enumerate() {
                    cells[i * nb + j] += x.compare(y, metric) / parts as f64;
                }
            }
        }
        cells
    });
    let per_prompt = Array3::from_shape_fn((na, nb, count), |(i, j, p)| blocks[p][i * nb + j]);
    Heatmap::new(a, b, metric, label, per_prompt)
}

/// A vector, divided by its length when only its direction counts.
struct Unitised {
    vector: Vec<f64>,
    length: f64,
}

impl Unitised {
    fn new(vector: &[f64], metric: Metric) -> Unitised {
        let length = if vector.iter().all(|v| v.is_finite()) { norm(vector) } else { f64::NAN };
        let scale = if metric == Metric::Cosine && length > 0.0 { length } else { 1.0 };
        Unitised { vector: vector.iter().map(|v| v / scale).collect(), length }
    }

    /// The cosine with a zero vector is 0 by convention, and 1 if both are zero.
    fn compare(&self, other: &Unitised, metric: Metric) -> f64 {
        if self.length.is_nan() || other.length.is_nan() {
            return f64::NAN;
        }
        match metric {
            Metric::Cosine if self.length == 0.0 && other.length == 0.0 => 1.0,
            Metric::Cosine => dot(&self.vector, &other.vector),
            Metric::Distance => {
                let squares =
                    self.vector.iter().zip(&other.vector).map(|(x, y)| (x - y).powi(2)).sum::<f64>();
                (squares / self.vector.len() as f64).sqrt()
            }
        }
    }
}
