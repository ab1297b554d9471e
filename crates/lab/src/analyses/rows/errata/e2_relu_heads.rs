//! E2: the two ReLU heads of the proof need opposite value matrices.

use crate::analyses::{Analysis, DIM, Lab, Outcome, POINTS};
use crate::data::prompts::Task;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::linalg::{dot, frobenius_of_square, norm};
use crate::solvers::Problem;
use crate::stats::mean;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E2",
    order: 20,
    title: "Two ReLU heads make a product only with opposite values",
    summary: "The proof writes z as ReLU(z) + ReLU(−z) with the same value matrix in both heads. That sum is |z|. With \
              V₂ = −V₁ it is ReLU(z) − ReLU(−z) = z, and a layer is one Newton iteration to round-off. Both are run \
              here as attention layers over the pairs, against the iteration itself.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::ERRATUM
}];

const LAYERS: usize = 12;

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts =
        Task::new("linear", "gaussian", DIM, POINTS)?.sample(lab.seed, "eval", 0, lab.count.min(200));
    let pairs = POINTS - 1;
    let mut deviations = [vec![vec![]; LAYERS], vec![vec![]; LAYERS]];
    for b in 0..prompts.count() {
        let (xs, _) = prompts.prompt(b);
        let xs = &xs[..pairs * DIM];
        let s = crate::linalg::gram(xs, DIM);
        let problem = Problem { prompt: b, xs, ys: &[], dim: DIM, s: &s, c: &[] };
        for (variant, sign) in [(0, 1.0), (1, -1.0)] {
            for (layer, deviation) in layers(&problem, sign).into_iter().enumerate() {
                deviations[variant][layer].push(deviation);
            }
        }
    }
    let worst = |variant: usize| {
        let flat = deviations[variant].iter().flatten();
        flat.fold(0.0_f64, |m, v| m.max(*v))
    };
    let after_one = mean(lab.seed, &deviations[0][0]);
    let claims = vec![
        Claim::of(
            "E2.printed",
            Kind::Erratum,
            "Equal value matrices: relative deviation from one Newton iteration after one layer",
            after_one,
            Bound::AtLeast(0.01),
        )
        .quoted("ReLU(z) + ReLU(−z) = z")
        .figure("e2-relu-heads"),
        Claim::new(
            "E2.right",
            Kind::Erratum,
            "Opposite value matrices: largest relative deviation over 12 layers",
            worst(1),
            Bound::AtMost(1e-10),
        )
        .quoted("ReLU(z) − ReLU(−z) = z")
        .figure("e2-relu-heads"),
    ];
    let curve = |variant: usize| {
        let points = deviations[variant].iter().enumerate();
        points.map(|(l, v)| ((l + 1) as f64, (v.iter().sum::<f64>() / v.len() as f64).max(1e-17))).collect()
    };
    let figure = Figure {
        id: "e2-relu-heads".into(),
        title: "Attention layers as Newton iterations".into(),
        caption: format!(
            "Relative deviation of the hidden states T x from Newton's iteration after each layer, mean over {} prompts \
             of 40 pairs. With equal value matrices the layer computes |z| in place of z and is lost at once.",
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("layer", Scale::Linear),
            y: Axis::new("relative deviation", Scale::Log10).range(1e-17, 1e3),
            series: vec![
                Series::new("printed: V₂ = V₁", curve(0)).stroke(Stroke::Dashed),
                Series::new("right: V₂ = −V₁", curve(1)).stroke(Stroke::LineMarkers),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

/// Runs attention layers h ← h − ½ Σ_j [ReLU(z_j) + sign·ReLU(−z_j)] a_j, z_j = ⟨x, a_j⟩, then h ← 2h of the MLP,
/// on a = T x of every pair; returns the deviation from the Newton iteration after each layer.
fn layers(problem: &Problem, sign: f64) -> Vec<f64> {
    let (dim, alpha) = (problem.dim, 1.0 / frobenius_of_square(problem.s, problem.dim));
    let apply = |m: &[f64]| -> Vec<f64> {
        problem.xs.chunks_exact(dim).flat_map(|x| m.chunks_exact(dim).map(move |row| dot(row, x))).collect()
    };
    let mut m: Vec<f64> = problem.s.iter().map(|v| alpha * v).collect();
    let mut scratch = m.clone();
    let mut a = apply(&m);
    (0..LAYERS)
        .map(|_| {
            let old = a.clone();
            for (x, a) in problem.xs.chunks_exact(dim).zip(a.chunks_exact_mut(dim)) {
                for other in old.chunks_exact(dim) {
                    let z = dot(x, other);
                    let heads = z.max(0.0) + sign * (-z).max(0.0);
                    crate::linalg::axpy(-0.5 * heads, other, a);
                }
                a.iter_mut().for_each(|v| *v *= 2.0);
            }
            crate::linalg::newton_schulz(problem.s, &mut m, &mut scratch, dim);
            let right = apply(&m);
            let off: Vec<f64> = a.iter().zip(&right).map(|(a, b)| a - b).collect();
            norm(&off) / norm(&right)
        })
        .collect()
}
