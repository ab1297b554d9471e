//! Q1: how many steps to a given accuracy, against the condition number and the accuracy.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::Prescribed;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q1",
    paper: Some(("Text", "3.1")),
    order: 10,
    title: "How do the steps to an accuracy ε grow with κ and with 1/ε?",
    summary: "Least-squares problems with a prescribed spectrum on [1, κ] (dense like Chebyshev's points, the \
              hardest case for conjugate gradient) and a random solution. Counted: steps until the weights are \
              within ε of the solution, for the algorithms of the registry, each with its best fixed parameters.",
    run,
    ..Analysis::STATEMENT
}];

const SIZE: usize = 128;
/// Algorithms with the steps that are searched.
const ALGORITHMS: [(&str, &str, &str); 3] = [
    ("gradient descent", "gd:eta=optimal", "1..=3000"),
    ("conjugate gradient", "cg", "1..=200"),
    ("Newton", "newton:alpha=spectral", "0..=30"),
];
/// What the paper says of each.
const GD: &str = "GD requires O(κ(S) log(1/ε)) steps to converge to an ε error";
const CG: &str = "requires O(√κ log(1/ε)) steps to converge to an ε error";
const NEWTON: &str = "only requires O(log κ(S) + log log(1/ε)) steps to converge to an ε error";
/// Where the other one varies: ε = 10⁻⁶ and κ = 64, by their places.
const FIXED_EPSILON: usize = 3;
const FIXED_KAPPA: usize = 4;

fn run(_: &Lab, note: &mut Notebook) -> Result<()> {
    let kappas: Vec<f64> = (2..=8).map(|e| 2f64.powi(e)).collect();
    let inverses: Vec<f64> = (3..=13).map(|e| 1.0 / 10f64.powi(-e)).collect();
    let counts = |(_, name, searched): (&str, &str, &str)| -> Result<Vec<Vec<f64>>> {
        let steps = Steps::parse(searched)?;
        let at = |&kappa: &f64| {
            let errors = problem(kappa)?.errors(&*solver(name)?, &steps)?;
            let first = |e: i32| errors.iter().position(|error| *error <= 10f64.powi(-e));
            Ok((3..=13).map(|e| first(e).map_or(f64::NAN, |i| steps.as_slice()[i] as f64)).collect())
        };
        kappas.iter().map(at).collect()
    };
    // steps[algorithm][κ][ε]
    let steps = ALGORITHMS.into_iter().map(counts).collect::<Result<Vec<_>>>()?;
    let [gd, cg, newton] = [0, 1, 2];
    let over_kappa = |a: usize| kappas.iter().zip(&steps[a]).map(|(k, s)| (*k, s[FIXED_EPSILON]));
    let over_epsilon = |a: usize| inverses.iter().zip(&steps[a][FIXED_KAPPA]).map(|(e, s)| (*e, *s));

    let against_kappa = |a: usize, x: fn(f64) -> f64, y: fn(f64) -> f64| {
        let points = over_kappa(a).map(|(kappa, steps)| (x(kappa), y(steps)));
        line(&points.filter(|p| p.1.is_finite()).collect::<Vec<_>>()).1
    };
    note.claim("gd-kappa", against_kappa(gd, f64::ln, f64::ln), Within(0.9, 1.1))
        .says("GD: exponent of κ in the steps to ε = 10⁻⁶")
        .quoted(GD);
    note.claim("cg-kappa", against_kappa(cg, f64::ln, f64::ln), Within(0.4, 0.6))
        .says("CG: exponent of κ in the steps to ε = 10⁻⁶")
        .quoted(CG);
    note.claim("newton-kappa", against_kappa(newton, f64::log2, |s| s), Within(1.8, 2.2))
        .says("Newton: steps per doubling of κ (the residual starts at 1 − κ⁻², so two)")
        .quoted(NEWTON);
    let against_epsilon = |a: usize, x: fn(f64) -> f64| {
        let points: Vec<(f64, f64)> =
            over_epsilon(a).map(|(inverse, steps)| (x(inverse), steps)).filter(|p| p.1.is_finite()).collect();
        let (_, slope, rss) = line(&points);
        let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
        (slope, 1.0 - rss / total)
    };
    for (name, who, a, quoted) in [("gd-epsilon", "GD", gd, GD), ("cg-epsilon", "CG", cg, CG)] {
        note.claim(name, against_epsilon(a, f64::ln).1, AtLeast(0.98))
            .says(format!("{who}, κ=64: share of variance explained by a line in log 1/ε"))
            .quoted(quoted)
            .figure("epsilon");
    }
    note.claim("newton-epsilon", against_epsilon(newton, |v| v.ln().log2()).0, Within(0.7, 1.3))
        .says("Newton, κ=64: steps per doubling of log 1/ε")
        .quoted(NEWTON)
        .figure("epsilon");

    let curve = |a: usize, points: Vec<(f64, f64)>| Series::new(ALGORITHMS[a].0, points).markers();
    let panel = |x: Axis, series: Vec<Series>| [LinesPanel::new(x, Axis::log10("steps"), series)];
    let caption = format!(
        "{SIZE}-dimensional problems with Chebyshev-spaced eigenvalues on [1, κ]. On these axes a slope is an exponent \
         of κ: 1 for GD, ½ for CG, none for Newton."
    );
    let series = (0..3).map(|a| curve(a, over_kappa(a).collect())).collect();
    let panels = panel(Axis::log2("condition number κ"), series);
    note.figure("kappa", "Steps to ε = 10⁻⁶ against the condition number", caption, panels);
    let caption = "Steps until the weights are within ε of the solution. GD and CG pay in proportion to log 1/ε; Newton \
                   hardly at all.";
    let series = (0..3).map(|a| curve(a, over_epsilon(a).collect())).collect();
    let panels = panel(Axis::log10("1/ε"), series);
    note.figure("epsilon", "Steps against the accuracy, κ = 64", caption, panels);
    Ok(())
}

/// A diagonal problem with Chebyshev's spectrum on [1, κ] and a random solution.
fn problem(kappa: f64) -> Result<Prescribed> {
    let eigenvalue = |i: usize| {
        let angle = std::f64::consts::PI * (i as f64 + 0.5) / SIZE as f64;
        // stretched so that the ends of the interval are attained and κ is exact
        let stretch = angle.cos() / (std::f64::consts::PI * 0.5 / SIZE as f64).cos();
        (kappa + 1.0) / 2.0 + (kappa - 1.0) / 2.0 * stretch
    };
    let eigenvalues: Vec<f64> = (0..SIZE).map(eigenvalue).collect();
    let identity: Vec<f64> = (0..SIZE * SIZE).map(|i| f64::from(u8::from(i / SIZE == i % SIZE))).collect();
    Prescribed::new(&eigenvalues, &identity, crate::Seed(1).at("q1/solution", 0).normals(SIZE))
}
