//! Q1: how many steps to a given accuracy, against the condition number and the accuracy.

use ndarray::{Array2, Array3};

use crate::analyses::kit::prelude::*;
use crate::data::prompts::Questions;
use crate::linalg::norm;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q1",
    order: 10,
    title: "Steps to accuracy: GD ~ κ log 1/ε, CG ~ √κ log 1/ε, Newton ~ log κ + log log 1/ε",
    summary: "Least-squares problems with a prescribed spectrum on [1, κ] (dense like Chebyshev's points, the hardest case for \
              conjugate gradient) and a random solution. Counted: steps until the weights are within ε of the solution, \
              for the algorithms of the registry, each with its best fixed parameters.",
    needs: &[],
    run: |_, note| run(note),
    ..Analysis::STATEMENT
}];

const SIZE: usize = 128;

fn run(note: &mut Notebook) -> Result<()> {
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
    note.claim("gd-kappa", against_kappa(0, f64::ln, f64::ln), Within(0.9, 1.1))
        .says("GD: exponent of κ in the steps to ε = 10⁻⁶")
        .quoted("κ");
    note.claim("cg-kappa", against_kappa(1, f64::ln, f64::ln), Within(0.4, 0.6))
        .says("CG: exponent of κ in the steps to ε = 10⁻⁶")
        .quoted("√κ");
    note.claim("newton-kappa", against_kappa(2, f64::log2, |s| s), Within(1.8, 2.2))
        .says("Newton: steps per doubling of κ (the residual starts at 1 − κ⁻², so two)")
        .quoted("log κ");
    for (i, name) in ["gd", "cg"].into_iter().enumerate() {
        note.claim(&format!("{name}-epsilon"), against_epsilon(i, f64::ln).1, AtLeast(0.98))
            .says(format!("{}, κ=64: share of variance explained by a line in log 1/ε", name.to_uppercase()))
            .quoted("log 1/ε")
            .figure("epsilon");
    }
    note.claim("newton-epsilon", against_epsilon(2, log2log).0, Within(0.7, 1.3))
        .says("Newton, κ=64: steps per doubling of log 1/ε")
        .quoted("log log 1/ε")
        .figure("epsilon");
    let panel = |x: Axis, xs: &[f64], values: &dyn Fn(usize, usize) -> f64| {
        let curve = |a: usize| xs.iter().enumerate().map(|(i, x)| (*x, values(a, i))).collect();
        let curves = (0..3).map(|a| Series::new(algorithms[a].0, curve(a)).markers());
        [LinesPanel::new(x, Axis::log10("steps"), curves)]
    };
    let inverse: Vec<f64> = epsilons.iter().map(|e| 1.0 / e).collect();
    note.figure(
        "kappa",
        "Steps to ε = 10⁻⁶ against the condition number",
        format!("{SIZE}-dimensional problems with Chebyshev-spaced eigenvalues on [1, κ]. On these axes a slope is an exponent of κ: 1 for GD, ½ for CG, none for Newton."),
        panel(Axis::log2("condition number κ"), &kappas, &|a, i| steps[a][i][fixed_epsilon]),
    );
    note.figure(
        "epsilon",
        "Steps against the accuracy, κ = 64",
        "Steps until the weights are within ε of the solution. GD and CG pay in proportion to log 1/ε; Newton hardly at all.",
        panel(Axis::log10("1/ε"), &inverse, &|a, i| steps[a][fixed_kappa][i]),
    );
    Ok(())
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
