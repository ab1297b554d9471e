//! Q11 and Q12: a preconditioner helps gradient descent where all prompts share an eigenbasis, and nowhere else; its rate stays
//! linear.

use nalgebra::{DMatrix, DVector};

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::gram_of;
use crate::linalg::least_squares;
use crate::parallel;
use crate::stats::median_of;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "Q11",
        paper: Some(("Text", "4.3")),
        order: 110,
        title: "Does a fixed preconditioner work across random bases?",
        summary: "On ill-conditioned data a preconditioner P turns thousands of steps of gradient descent, w ← w − ηP(Sw \
              − c), into few, if it fits S. The best single P for many prompts, by the mean of tr(PS) − log det(PS), \
              is the inverse of their mean S. It is taken from prompts of its own, as is the best step size, and \
              judged on others: where all prompts share one eigenbasis, and where each has its own, as in the paper. \
              A sparse one, the inverse diagonal of each prompt's own S, is tried as well.",
        run,
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q12",
        paper: Some(("Footnote", "4.3")),
        order: 120,
        title: "Is preconditioned gradient descent still linear where Newton is superlinear?",
        summary: "On isotropic inputs, with the best fixed preconditioner and the best step size: by how many e-folds a step lowers the \
              error late, over the same at half as many steps. A linear (geometric) rate has 1. Newton's steps, on the same \
              prompts, double theirs. F2 asks the Transformer's layers.",
        run: still_linear,
        ..Analysis::STATEMENT
    },
];

/// One basis per prompt, and one for all.
const RANDOM: &str = "skewed:kappa=100";
const SHARED: &str = "skewed:kappa=100,share=1073741824";
/// Prompts to learn from, and to judge on: eigenproblems are solved for each.
const PROMPTS: usize = 320;
/// Squared error of the weights, relative to theirs, that must be reached.
const GOAL: f64 = 1e-2;
/// Step counts per doubling, and doublings.
const FINE: usize = 8;
const DOUBLINGS: usize = 17;

/// What stands before the gradient.
#[derive(Clone, Copy)]
enum Preconditioner {
    Nothing,
    Fixed,
    Diagonal,
}

/// One prompt under one preconditioner: after k steps w − w_k = Σ_j part_j (1 − η·value_j)^k.
struct Modes {
    values: Vec<f64>,
    /// Inner products of the parts, over the square of w.
    products: DMatrix<f64>,
}

impl Modes {
    /// With P = RR: the eigenvalues of RSR and the part of w along each.
    fn of(root: &DMatrix<f64>, prompts: &Prompts, b: usize) -> Modes {
        let (xs, ys) = prompts.prompt(b);
        let w = DVector::from_vec(least_squares(&xs[..LAST * DIM], &ys[..LAST], DIM));
        let s = DMatrix::from_row_slice(DIM, DIM, &gram_of(prompts, b));
        let eigen = (root * &s * root).symmetric_eigen();
        // Qᵀ R⁻¹ w without the inverse: R⁻¹ w = (RSR)⁻¹ R S w
        let along = eigen.eigenvectors.transpose() * (root * (s * &w));
        let along = along.component_div(&eigen.eigenvalues);
        let parts = root * &eigen.eigenvectors * DMatrix::from_diagonal(&along);
        Modes {
            values: eigen.eigenvalues.as_slice().to_vec(),
            products: parts.transpose() * &parts / w.norm_squared(),
        }
    }

    /// ‖w − w_k‖² / ‖w‖²
    fn error(&self, eta: f64, steps: i32) -> f64 {
        let factors = DVector::from_iterator(DIM, self.values.iter().map(|v| (1.0 - eta * v).powi(steps)));
        (&self.products * &factors).dot(&factors)
    }

    /// The same for Newton after k steps from αS, α = 1/‖SSᵀ‖_F, where the values are those of S.
    fn newton_error(&self, k: i32) -> f64 {
        let alpha = 1.0 / self.values.iter().map(|v| v.powi(4)).sum::<f64>().sqrt();
        let factor = |v: &f64| (2f64.powi(k) * (-alpha * v * v).ln_1p()).exp();
        let factors = DVector::from_iterator(DIM, self.values.iter().map(factor));
        (&self.products * &factors).dot(&factors)
    }
}

/// E-folds of the error in a later stretch over those in the one before, median over the chosen prompts.
fn quickening(first: &[f64], then: &[f64], last: &[f64], chosen: &[usize]) -> f64 {
    let ratios: Vec<f64> =
        (0..last.len()).map(|b| (then[b] / last[b]).ln() / (first[b] / then[b]).ln()).collect();
    median_of(&ratios, chosen)
}

fn still_linear(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let count = lab.count.min(PROMPTS);
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let judge = task.sample(lab.seed, "eval", 0, count);
    let learn = task.sample(lab.seed, "eval", count as u64, count);
    let descent = Descent::new(Preconditioner::Fixed, &learn, &judge, "preconditioned GD");
    let counts = steps();
    let at = |k: f64| &descent.errors[counts.iter().position(|c| *c == k).expect("a power of two")];
    let identity = DMatrix::identity(DIM, DIM);
    let modes: Vec<Modes> = (0..count).map(|b| Modes::of(&identity, &judge, b)).collect();
    // after k steps Newton's residual along λ is (1 − αλ²)^(2^k)
    let newton = |k: i32| -> Vec<f64> { modes.iter().map(|m| m.newton_error(k)).collect() };
    let over_prompts =
        |of: [&[f64]; 3]| bootstrap(lab.seed, count, |chosen| quickening(of[0], of[1], of[2], chosen));
    // the later stretch has twice the steps
    let gd = bootstrap(lab.seed, count, |chosen| quickening(at(256.0), at(512.0), at(1024.0), chosen) / 2.0);
    note.claim("linear", gd, Within(0.95, 1.05))
        .says("Preconditioned GD: e-folds per step from 512 to 1,024 steps over those from 256 to 512, median over prompts")
        .quoted("even for well-conditioned instances—preconditioned GD still gets a linear rate of convergence");
    let stages = [newton(12), newton(13), newton(14)];
    note.claim("newton", over_prompts([&stages[0], &stages[1], &stages[2]]), AtLeast(1.5))
        .says("Newton: e-folds of step 14 over those of step 13, median over prompts")
        .quoted("whereas Transformers and Iterative Newton get superlinear rates");
    let median = |of: &[f64]| median_of(of, &(0..count).collect::<Vec<_>>()).max(1e-30);
    let early = counts.iter().zip(&descent.errors).filter(|(k, _)| **k <= 256.0);
    let curves = [
        Series::new(descent.label, early.map(|(k, errors)| (*k, median(errors))).collect()),
        Series::new("Newton", (1..=18).map(|k| (f64::from(k), median(&newton(k)))).collect()).markers(),
    ];
    let y = Axis::log10("relative squared error of w").range(1e-12, 4.0);
    let caption = format!(
        "Median of ‖w − w_k‖²/‖w‖² after {LAST} isotropic pairs (d={DIM}, {count} prompts). On this scale a linear rate is straight."
    );
    let panel = LinesPanel::new(Axis::linear("steps"), y, curves);
    note.figure("rate", "Preconditioned gradient descent and Newton", caption, [panel]);
    Ok(())
}

/// Gradient descent under one preconditioner: relative squared errors `[step][prompt]` at the best step size.
struct Descent {
    label: &'static str,
    errors: Vec<Vec<f64>>,
}

fn steps() -> Vec<f64> {
    let mut steps: Vec<f64> =
        (0..=FINE * DOUBLINGS).map(|i| 2f64.powf(i as f64 / FINE as f64).round()).collect();
    steps.dedup();
    steps
}

/// Steps until the mean error over the chosen prompts is at most the goal, between two counts on a line through the logarithms.
fn steps_needed(steps: &[f64], errors: &[Vec<f64>], chosen: &[usize]) -> f64 {
    let mean = |row: &Vec<f64>| chosen.iter().map(|&b| row[b]).sum::<f64>() / chosen.len() as f64;
    let means: Vec<f64> = errors.iter().map(mean).collect();
    let Some(first) = means.iter().position(|m| *m <= GOAL) else { return f64::NAN };
    if first == 0 {
        return steps[0];
    }
    let (above, below) = (means[first - 1].ln(), means[first].ln());
    let share = (above - GOAL.ln()) / (above - below);
    (steps[first - 1].ln() + share * (steps[first].ln() - steps[first - 1].ln())).exp()
}

fn symmetric_root(p: DMatrix<f64>, power: f64) -> DMatrix<f64> {
    let eigen = p.symmetric_eigen();
    let values = DMatrix::from_diagonal(&eigen.eigenvalues.map(|v| v.powf(power)));
    &eigen.eigenvectors * values * eigen.eigenvectors.transpose()
}

impl Descent {
    /// Learns preconditioner and step size from some prompts and runs on others.
    fn new(kind: Preconditioner, learn: &Prompts, judge: &Prompts, label: &'static str) -> Descent {
        let s = |prompts: &Prompts, b: usize| DMatrix::from_row_slice(DIM, DIM, &gram_of(prompts, b));
        let fixed = match kind {
            Preconditioner::Fixed => {
                let sum =
                    (0..learn.count()).map(|b| s(learn, b)).fold(DMatrix::zeros(DIM, DIM), |a, b| a + b);
                symmetric_root(sum / learn.count() as f64, -0.5)
            }
            _ => DMatrix::identity(DIM, DIM),
        };
        let modes = |prompts: &Prompts| -> Vec<Modes> {
            let of = |b: usize| match kind {
                Preconditioner::Diagonal => {
                    let root = s(prompts, b).diagonal().map(|v| 1.0 / v.sqrt());
                    Modes::of(&DMatrix::from_diagonal(&root), prompts, b)
                }
                _ => Modes::of(&fixed, prompts, b),
            };
            parallel::map(prompts.count(), of)
        };
        let counts = steps();
        let errors = |modes: &[Modes], eta: f64| -> Vec<Vec<f64>> {
            let at = |k: &f64| modes.iter().map(|m| m.error(eta, *k as i32)).collect();
            parallel::map_items(&counts, at)
        };
        let (learnt, judged) = (modes(learn), modes(judge));
        let largest = learnt.iter().flat_map(|m| &m.values).copied().fold(0.0, f64::max);
        let all: Vec<usize> = (0..learn.count()).collect();
        // up to the limit of the worst prompt, in quarters of octaves
        let sizes = (1..=12).map(|i| 2.0 / largest * 2f64.powf(-f64::from(i) / 4.0));
        let needed = |eta: f64| steps_needed(&counts, &errors(&learnt, eta), &all);
        let best = sizes.min_by(|a, b| {
            let order = |eta: f64| Some(needed(eta)).filter(|n| n.is_finite()).unwrap_or(f64::INFINITY);
            order(*a).total_cmp(&order(*b))
        });
        let eta = best.expect("twelve of them");
        Descent { label, errors: errors(&judged, eta) }
    }
}

/// How many times fewer steps one needs than the other.
fn speed_up(lab: &Lab, without: &Descent, with: &Descent) -> Estimate {
    let counts = steps();
    bootstrap(lab.seed, without.errors[0].len(), |chosen| {
        steps_needed(&counts, &without.errors, chosen) / steps_needed(&counts, &with.errors, chosen)
    })
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let count = lab.count.min(PROMPTS);
    let mut panels = Vec::new();
    let mut found = Vec::new();
    for (inputs, title) in [(RANDOM, "a basis per prompt"), (SHARED, "one basis for all")] {
        let task = Task::new("linear", inputs, DIM, POINTS)?;
        // of one stream, so that a shared basis is shared by both
        let judge = task.sample(lab.seed, "eval", 0, count);
        let learn = task.sample(lab.seed, "eval", count as u64, count);
        let descents = [
            Descent::new(Preconditioner::Nothing, &learn, &judge, "GD"),
            Descent::new(Preconditioner::Fixed, &learn, &judge, "best fixed P"),
            Descent::new(Preconditioner::Diagonal, &learn, &judge, "diagonal of each S"),
        ];
        let series = descents.iter().map(|descent| {
            let mean = |row: &Vec<f64>| row.iter().sum::<f64>() / row.len() as f64;
            Series::new(descent.label, steps().into_iter().zip(descent.errors.iter().map(mean)).collect())
        });
        let y = Axis::log10("relative squared error of w").range(1e-4, 4.0);
        panels.push(LinesPanel::new(Axis::log2("steps"), y, series).titled(title));
        found.push(descents);
    }
    let (random, shared) = (&found[0], &found[1]);
    note.claim("random-bases", speed_up(lab, &random[0], &random[1]), AtMost(1.25))
        .says(
            "How many times fewer steps to a relative squared error of w of 1 % with the best fixed P, a basis per prompt",
        )
        .quoted("there is no sparse pre-conditioner or any fixed pre-conditioner which works across the data distribution");
    note.claim("shared-basis", speed_up(lab, &shared[0], &shared[1]), AtLeast(5.0))
        .says("The same where all prompts share one basis")
        .ours("Where one P fits every prompt, it helps");
    note.claim("sparse", speed_up(lab, &random[0], &random[2]), AtMost(2.0))
        .says("The same with the inverse diagonal of each prompt's own S, a basis per prompt")
        .quoted("there is no sparse pre-conditioner");
    let caption = format!(
        "Mean of ‖w − w_k‖²/‖w‖² after {LAST} pairs (κ=100, d={DIM}, {count} prompts; P and step size from \
         {count} others)."
    );
    note.figure("steps", "Preconditioned gradient descent", caption, panels);
    Ok(())
}
