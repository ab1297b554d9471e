//! Q1: how many steps to a given accuracy, against the condition number and the accuracy.

use ndarray::{Array2, Array3};

use crate::analyses::{Analysis, Lab, Outcome, solver};
use crate::data::prompts::{Prompts, Questions};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::steps::Steps;
use crate::linalg::norm;
use crate::stats::line;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q1",
    order: 10,
    title: "Steps to accuracy: GD ~ κ log 1/ε, CG ~ √κ log 1/ε, Newton ~ log κ + log log 1/ε",
    summary: "Least-squares problems with a prescribed spectrum on [1, κ] (dense like Chebyshev's points, the hardest case for \
              conjugate gradient) and a random solution. Counted: steps until the weights are within ε of the solution, \
              for the algorithms of the registry, each with its best fixed parameters.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::STATEMENT
}];

const SIZE: usize = 128;

fn run(_: &Lab) -> Result<Outcome> {
    let algorithms = [
        ("gradient descent", "gd:eta=optimal", Steps::parse("1..=3000")?),
        ("conjugate gradient", "cg", Steps::range(1, 200)),
        ("Newton", "newton:alpha=spectral", Steps::range(0, 30)),
    ];
    let kappas: Vec<f64> = (2..=8).map(|e| 2f64.powi(e)).collect();
    let epsilons: Vec<f64> = (3..=13).map(|e| 10f64.powi(-e)).collect();
    // steps[algorithm][κ][ε]
    let mut steps = vec![vec![]; 3];
    for (a, (_, name, searched)) in algorithms.iter().enumerate() {
        for &kappa in &kappas {
            let errors = errors_along(name, searched, kappa)?;
            let first = |&epsilon: &f64| {
                let found = errors.iter().position(|e| *e <= epsilon);
                found.map_or(f64::NAN, |i| searched.as_slice()[i] as f64)
            };
            steps[a].push(epsilons.iter().map(first).collect::<Vec<f64>>());
        }
    }
    let fixed_epsilon = 3; // 1e-6
    let fixed_kappa = 4; // 64
    let against_kappa = |a: usize, x: fn(f64) -> f64, y: fn(f64) -> f64| {
        let points: Vec<(f64, f64)> = kappas
            .iter()
            .zip(&steps[a])
            .map(|(k, s)| (x(*k), y(s[fixed_epsilon])))
            .filter(|p| p.1.is_finite())
            .collect();
        line(&points).1
    };
    let against_epsilon = |a: usize, x: fn(f64) -> f64| {
        let points = epsilons.iter().zip(&steps[a][fixed_kappa]).map(|(e, s)| (x(1.0 / e), *s));
        let points: Vec<(f64, f64)> = points.filter(|p| p.1.is_finite()).collect();
        let (_, slope, rss) = line(&points);
        let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
        (slope, 1.0 - rss / total)
    };
    let log2log = |v: f64| v.ln().log2();
    let claims = vec![
        Claim::new(
            "Q1.gd-kappa",
            Kind::Paper,
            "GD: exponent of κ in the steps to ε = 10⁻⁶",
            against_kappa(0, f64::ln, f64::ln),
            Bound::Within(0.9, 1.1),
        )
        .quoted("κ")
        .figure("q1-kappa"),
        Claim::new(
            "Q1.cg-kappa",
            Kind::Paper,
            "CG: exponent of κ in the steps to ε = 10⁻⁶",
            against_kappa(1, f64::ln, f64::ln),
            Bound::Within(0.4, 0.6),
        )
        .quoted("√κ")
        .figure("q1-kappa"),
        Claim::new(
            "Q1.newton-kappa",
            Kind::Paper,
            "Newton: steps per doubling of κ (the residual starts at 1 − κ⁻², so two)",
            against_kappa(2, f64::log2, |s| s),
            Bound::Within(1.8, 2.2),
        )
        .quoted("log κ")
        .figure("q1-kappa"),
        Claim::new(
            "Q1.gd-epsilon",
            Kind::Paper,
            "GD, κ=64: share of variance explained by a line in log 1/ε",
            against_epsilon(0, f64::ln).1,
            Bound::AtLeast(0.98),
        )
        .quoted("log 1/ε")
        .figure("q1-epsilon"),
        Claim::new(
            "Q1.cg-epsilon",
            Kind::Paper,
            "CG, κ=64: share of variance explained by a line in log 1/ε",
            against_epsilon(1, f64::ln).1,
            Bound::AtLeast(0.98),
        )
        .quoted("log 1/ε")
        .figure("q1-epsilon"),
        Claim::new(
            "Q1.newton-epsilon",
            Kind::Paper,
            "Newton, κ=64: steps per doubling of log 1/ε",
            against_epsilon(2, log2log).0,
            Bound::Within(0.7, 1.3),
        )
        .quoted("log log 1/ε")
        .figure("q1-epsilon"),
    ];
    let series = |xs: &[f64], values: &dyn Fn(usize, usize) -> f64| -> Vec<Series> {
        let curve = |a: usize| xs.iter().enumerate().map(|(i, x)| (*x, values(a, i))).collect();
        (0..3).map(|a| Series::new(algorithms[a].0, curve(a)).stroke(Stroke::LineMarkers)).collect()
    };
    let panel = |x: Axis, series: Vec<Series>| {
        let y = Axis::new("steps", Scale::Log10);
        vec![Panel::Lines(LinesPanel { title: String::new(), x, y, series, references: vec![] })]
    };
    let inverse: Vec<f64> = epsilons.iter().map(|e| 1.0 / e).collect();
    let figures = vec![
        Figure {
            id: "q1-kappa".into(),
            title: "Steps to ε = 10⁻⁶ against the condition number".into(),
            caption: format!("{SIZE}-dimensional problems with Chebyshev-spaced eigenvalues on [1, κ]. On these axes a slope is an exponent of κ: 1 for GD, ½ for CG, none for Newton."),
            panels: panel(Axis::new("condition number κ", Scale::Log2), series(&kappas, &|a, i| steps[a][i][fixed_epsilon])),
        },
        Figure {
            id: "q1-epsilon".into(),
            title: "Steps against the accuracy, κ = 64".into(),
            caption: "Steps until the weights are within ε of the solution. GD and CG pay in proportion to log 1/ε; Newton hardly at all.".into(),
            panels: panel(Axis::new("1/ε", Scale::Log10), series(&inverse, &|a, i| steps[a][fixed_kappa][i])),
        },
    ];
    Ok(Outcome { claims, figures, tables: vec![] })
}

/// ‖w_k − w‖ / ‖w‖ along the steps, on a diagonal problem with spectrum on [1, κ] and w all ones up to sign.
fn errors_along(name: &str, steps: &Steps, kappa: f64) -> Result<Vec<f64>> {
    let eigenvalue = |i: usize| {
        let angle = std::f64::consts::PI * (i as f64 + 0.5) / SIZE as f64;
        // stretched so that the ends of the interval are attained and κ is exact
        let stretch = angle.cos() / (std::f64::consts::PI * 0.5 / SIZE as f64).cos();
        (kappa + 1.0) / 2.0 + (kappa - 1.0) / 2.0 * stretch
    };
    let truth = crate::Seed(1).at("q1/solution", 0).normals(SIZE);
    // Inputs √λ_i e_i give S = diag(λ); one more point, never read, completes the prompt.
    let xs = Array3::from_shape_fn(
        (1, SIZE + 1, SIZE),
        |(_, i, j)| if i == j { eigenvalue(i).sqrt() } else { 0.0 },
    );
    let ys =
        Array2::from_shape_fn(
            (1, SIZE + 1),
            |(_, i)| if i < SIZE { eigenvalue(i).sqrt() * truth[i] } else { 0.0 },
        );
    let queries = Array3::from_shape_fn((1, SIZE, SIZE), |(_, i, j)| f64::from(u8::from(i == j)));
    let questions = Questions { prompts: Prompts::new(xs, ys)?, lengths: vec![SIZE], queries };
    let answers = solver(name)?.answers(&questions, steps)?;
    Ok((0..steps.len())
        .map(|s| {
            let off: Vec<f64> = (0..SIZE).map(|i| answers[[s, 0, 0, i]] - truth[i]).collect();
            norm(&off) / norm(&truth)
        })
        .collect())
}
