//! Analytic stand-ins with the shapes of real findings: error curves of Newton and gradient descent on a
//! two-eigenvalue problem, and the cosine between their error vectors. Nothing here is measured.

use lab::findings::{
    Axis, Block, BlocksPanel, Bound, Chapter, Claim, Figure, Findings, HeatmapPanel, Kind, LinesPanel, Panel,
    Place, Reading, Series, Stroke, Table,
};
use report::About;

/// Eigenvalues of the toy problem, from well to badly conditioned.
const EIGENVALUES: [f64; 6] = [1.0, 0.6, 0.3, 0.12, 0.05, 0.02];

/// What is left of each eigen-direction after k Newton–Schulz steps from M = S.
fn newton_left(k: u64) -> Vec<f64> {
    EIGENVALUES.iter().map(|s| (1.0 - s * s * 0.9).powf(2f64.powi(k.min(40) as i32))).collect()
}

/// What is left of each eigen-direction after k steps of gradient descent.
fn gd_left(k: u64) -> Vec<f64> {
    EIGENVALUES.iter().map(|s| (1.0 - s * 0.9).powi(k.min(1 << 20) as i32)).collect()
}

fn error(left: &[f64]) -> f64 {
    left.iter().map(|e| e * e).sum::<f64>() / left.len() as f64
}

/// Cosine of two error vectors that share a part nothing can learn.
fn similarity(a: &[f64], b: &[f64]) -> f64 {
    let shared = 0.35;
    let dot: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() + shared;
    let norm = |v: &[f64], own: f64| (v.iter().map(|x| x * x).sum::<f64>() + shared + own).sqrt();
    dot / (norm(a, 0.002) * norm(b, 0.002))
}

/// A heat-map between two families of remainders; the last `undefined` rows are left undefined.
fn heatmap(
    title: &str,
    x: (&str, &[u64]),
    y: (&str, &[u64]),
    y_newton: bool,
    undefined: usize,
) -> HeatmapPanel {
    let rows = |k: u64| if y_newton { newton_left(k) } else { gd_left(k) };
    let mut values: Vec<Vec<f64>> = Vec::new();
    for (i, &b) in y.1.iter().enumerate() {
        let gone = i + undefined >= y.1.len();
        let cell = |&a: &u64| if gone && a < 6 { f64::NAN } else { similarity(&newton_left(a), &rows(b)) };
        values.push(x.1.iter().map(cell).collect());
    }
    let best: Vec<Option<usize>> = (0..x.1.len())
        .map(|c| {
            (0..y.1.len())
                .filter(|&r| values[r][c].is_finite())
                .max_by(|&a, &b| values[a][c].total_cmp(&values[b][c]))
        })
        .collect();
    let spread = |c: usize, row: usize| (row.saturating_sub(c / 5), (row + c / 6).min(y.1.len() - 1));
    let best_interval = best.iter().enumerate().map(|(c, b)| b.map(|row| spread(c, row))).collect();
    HeatmapPanel {
        title: title.into(),
        x_label: x.0.into(),
        y_label: y.0.into(),
        x_steps: x.1.to_vec(),
        y_steps: y.1.to_vec(),
        values,
        value_label: "SimE".into(),
        best,
        best_interval,
        floor: Some(similarity(&newton_left(40), &gd_left(1 << 20))),
        numbers: false,
    }
}

/// Four heat-maps: many rows, identity, one small enough to print its values, and one that is asked to.
pub fn heatmaps() -> Figure {
    let newton: Vec<u64> = (0..=24).collect();
    let gd: Vec<u64> = (0..=12).map(|k| 1 << k).collect();
    let few: Vec<u64> = vec![1, 5, 9, 13, 17, 21];
    let [by_newton, by_gd] = ["Newton iterations", "gradient descent steps"];
    Figure::new(
        "toy-heatmaps",
        "Similarity of errors",
        "Cosine similarity of errors between every pair of steps. A straight staircase means equal rates, \
         an exponential one that the horizontal method is exponentially faster.",
        [
            heatmap("Newton and GD", (by_newton, &newton), (by_gd, &gd), false, 2),
            heatmap("Newton and itself", (by_newton, &newton), (by_newton, &newton), true, 0),
            heatmap("A small map prints its values", (by_newton, &few), (by_gd, &gd[..10]), false, 0),
            heatmap("A larger one when asked", (by_newton, &newton[1..13]), (by_newton, &newton), true, 0)
                .numbered(),
        ],
    )
}

/// One heat-map alone.
pub fn heatmap_alone() -> Figure {
    let newton: Vec<u64> = (1..=23).collect();
    let gd: Vec<u64> = std::iter::once(1).chain((1..=26).map(|k| k * 50)).collect();
    let mut panel = heatmap("", ("Newton iterations", &newton), ("GD steps, η = 0.01", &gd), false, 0);
    panel.value_label = "SimE, mean over prompts".into();
    Figure::new(
        "toy-heatmap",
        "Newton against gradient descent on a linear grid",
        "The same comparison on the grid of the authors' code.",
        [panel],
    )
}

/// Two large graded families, and curves that leave the plot.
pub fn families() -> Figure {
    let curve = |k: u64, left: fn(u64) -> Vec<f64>| -> Vec<(f64, f64)> {
        let e = error(&left(k));
        let early = |t: f64| 1.0 - 0.045 * t;
        let late = |t: f64| 0.1 * e.powf((t - 19.0) / 21.0) + 1e-33;
        (0..=40).map(f64::from).map(|t| (t, if t < 20.0 { early(t) } else { late(t) })).collect()
    };
    let newton =
        (0..=24).map(|k| Series::new(format!("Newton {k}"), curve(k, newton_left)).grade(k as f64 / 24.0));
    let gd = (0..=12)
        .map(|k| Series::new(format!("GD {}", 1u64 << k), curve(1 << k, gd_left)).grade(f64::from(k) / 12.0));
    let exact = |t: f64| (t, if t < 20.0 { 1.0 - 0.05 * t } else { 0.0 });
    let ols = Series::new("least squares", (0..=40).map(f64::from).map(exact).collect()).dashed();
    let panel = |title: &str, series: Vec<Series>| {
        let error = Axis::log10("mean squared error / d").range(1e-12, 2.0);
        LinesPanel::new(Axis::linear("in-context examples t"), error, series)
            .titled(title)
            .mark_x("t = d", 20.0)
    };
    Figure::new(
        "toy-families",
        "Error by examples read",
        "Each curve is one step count; curves leave through the lower edge when they pass below the axis.",
        [
            panel("Newton's iteration", newton.chain([ols.clone()]).collect()),
            panel("Gradient descent", gd.chain([ols]).collect()),
        ],
    )
}

/// Bands, markers, dashes, references on a log-log panel, with a long legend.
pub fn curves() -> Figure {
    let of = |label: &str, f: &dyn Fn(f64) -> f64| {
        Series::new(label, (0..=9).map(|k| 2f64.powi(k)).map(|k| (k, f(k))).collect())
    };
    let banded = |series: Series, width: f64| {
        let band = series.points.iter().map(|(_, y)| (y / width, y * width)).collect();
        series.band(band)
    };
    let series = [
        banded(of("gradient descent", &|k| 9.2 * k + 3.0), 1.3).markers(),
        banded(of("conjugate gradients", &|k| 4.6 * k.sqrt() + 2.0), 1.15).markers(),
        banded(of("Newton–Schulz", &|k| 2.0 * k.log2() + 4.0), 1.1).markers(),
        of("fit: κ log(1/ε)", &|k| 9.2 * k).dashed(),
        of("fit: √κ log(1/ε)", &|k| 4.6 * k.sqrt()).dashed(),
        banded(of("measured elsewhere", &|k| 3.0 * k.powf(0.8)), 1.4).stroke(Stroke::Markers),
    ];
    let panel = LinesPanel::new(Axis::log2("condition number κ"), Axis::log10("steps to ε = 10⁻⁴"), series)
        .mark_y("the paper's 2,000 steps", 2000.0)
        .mark_y("21 Newton steps", 21.0)
        .mark_y("20 layers", 20.0)
        .mark_x("κ = 100", 100.0);
    Figure::new(
        "toy-curves",
        "Steps until the error is small",
        "Steps that each method needs to reach a relative error of 10⁻⁴, with 95 % intervals.",
        [panel],
    )
}

/// Four panels of different kinds: the layout of a grid, a short family, linear axes, empty panels.
pub fn mixed() -> Figure {
    let line = |label: &str, f: &dyn Fn(f64) -> f64| {
        Series::new(label, (0..20).map(f64::from).map(|gap| (gap, f(gap))).collect())
    };
    let short = (0..5)
        .map(|k| line(&format!("layer {}", 2 * k + 1), &|g| 0.3 + 0.02 * g * k as f64).grade(k as f64 / 4.0));
    let panel = |title: &str, x: &str, series: Vec<Series>| {
        let panel = LinesPanel::new(Axis::linear(x), Axis::linear("squared error / d"), series);
        Panel::from(panel.titled(title))
    };
    let steps: Vec<u64> = (0..=8).collect();
    let forgetting = vec![
        line("online gradient descent", &|g| 0.205 * (1.0 - (-g / 9.0).exp())),
        line("Newton, 5 steps", &|g| 0.062 + 0.006 * (g / 3.0).sin()),
    ];
    Figure::new(
        "toy-mixed",
        "Forgetting, layers, and a map",
        "Panels of several kinds under one caption: plots of a row share their top, of a column their left edge.",
        [
            panel("Error on a repeated query, by the number of pairs read since", "gap n − i", forgetting),
            panel("An ordered family", "gap n − i", short.collect()),
            heatmap("", ("Newton iterations", &steps), ("Newton iterations", &steps), true, 0).into(),
            panel("Nothing to show", "x", vec![Series::new("undefined", vec![(0.0, f64::NAN)])]),
        ],
    )
}

/// Weights as blocks: multiples of the identity, single numbers, and a full block.
pub fn blocks() -> Figure {
    let slots = [("a", 5), ("b", 5), ("label", 1), ("out", 1), ("cos2", 1)];
    let width = 13;
    let matrix = |name: &str, value: &dyn Fn(usize, usize) -> f64| Block {
        name: name.into(),
        values: (0..width).map(|r| (0..width).map(|c| value(r, c)).collect()).collect(),
    };
    let all = [
        matrix("A₁", &|r, c| if r + 5 == c && r < 5 { -40.5 } else { 0.0 }),
        matrix("V₁", &|r, c| if r > 9 && c > 9 { (r as f64 - c as f64) * 1234.5 } else { 0.0 }),
        matrix("A₂", &|r, c| if r < 5 && c < 5 { (r * c) as f64 - 7.5 } else { 0.0 }),
        matrix("MLP", &|_, _| 0.0),
    ];
    let panel = |title: &str, blocks: &[Block]| BlocksPanel {
        title: title.into(),
        slots: slots.map(|(name, size)| (name.to_string(), size)).to_vec(),
        blocks: blocks.to_vec(),
    };
    Figure::new(
        "blocks",
        "Weights as blocks",
        "Matrices over named slots.",
        [panel("Layer 1: mov (softmax, causal)", &all), panel("Layers 2–13: Newton", &all[..1])],
    )
}

/// Three analyses with claims of every kind and verdict.
pub fn findings() -> Vec<Findings> {
    vec![rates(), misprint(), accuracy()]
}

fn rates() -> Findings {
    let grows = "The best-matching GD step grows exponentially with the Newton step: slope of log₂ steps per iteration.";
    let identity =
        "Newton against itself is the identity: share of columns whose best match is the diagonal.";
    let alike = "SimE of least squares and 21 Newton steps.";
    let late = "Newton against BFGS is linear late; the paper does not say from which step on.";
    let claims = vec![
        Claim::new("F26.newton-gd", Kind::Paper, grows, 0.5123, Bound::Within(0.4, 0.6))
            .interval(0.498, 0.527)
            .quoted("“exponential trend”")
            .network("R1")
            .figure("toy-heatmaps"),
        Claim::new("F26.newton-newton", Kind::Paper, identity, 1.0, Bound::AtLeast(1.0))
            .figure("toy-heatmaps"),
        Claim::new("F26.sime-21", Kind::Reference, alike, 0.99532, Bound::near(0.995, 0.005))
            .interval(0.9949, 0.9957)
            .quoted(".995"),
        Claim::new("F26.late-linear", Kind::Paper, late, 1.37, Bound::None).quoted("“linear late”"),
    ];
    let rows = ["5|8|8 – 8|0.987", "13|128|64 – 128|0.991", "21|2048|1024 – 2048|0.995"];
    let best = Table::new(
        "toy-best",
        "Best-matching steps",
        "For each Newton step the best step of gradient descent on a grid of powers of two.",
        ["Newton step", "GD step", "interval", "SimE"],
        rows.map(|row| row.split('|').map(String::from).collect()),
    );
    Findings {
        analysis: "F26".into(),
        chapter: Chapter::Figures,
        paper: Some(Place { label: "Figure 26".into(), section: "A.6.1".into() }),
        title: "Rates between classical methods".into(),
        summary: "Compares iterative methods for least squares with each other, without any network. The step of \
                  gradient descent that best matches a Newton step should grow exponentially with that step, and \
                  Newton against itself should be the identity."
            .into(),
        claims,
        figures: vec![heatmaps(), heatmap_alone()],
        tables: vec![best],
        seconds: 4.21,
        ..Findings::default()
    }
}

fn misprint() -> Findings {
    let stays = "With the printed α the error at t = 40 stays above 10⁻² however many steps are taken.";
    let right = "With α = 1/‖S‖²F the error after 18 steps is round-off.";
    let claims = vec![
        Claim::new("E1.printed", Kind::Erratum, stays, 5.81e-2, Bound::AtLeast(1e-2))
            .interval(5.6e-2, 6.0e-2)
            .quoted("α = 2/‖SSᵀ‖₂")
            .figure("toy-families"),
        Claim::new("E1.right", Kind::Erratum, right, 3.2e-29, Bound::AtMost(1e-28)).figure("toy-families"),
    ];
    Findings {
        analysis: "E1".into(),
        chapter: Chapter::Errata,
        title: "The step size α = 2/‖SSᵀ‖₂ is on the boundary".into(),
        summary:
            "With the printed α the top eigen-direction is never learned: M S has the eigenvalue 2 there, \
                  which the iteration maps to 0. Any α with 0 < α < 2/λ²max works."
                .into(),
        claims,
        figures: vec![families(), mixed()],
        seconds: 0.83,
        ..Findings::default()
    }
}

fn accuracy() -> Findings {
    let exponent = "Gradient descent needs steps proportional to κ: fitted exponent.";
    let long = "Q1.newton-additive-logarithm-of-condition-number";
    let additive = "Newton needs a number of steps that grows with log κ: R² of the fit.";
    let mut claims = vec![
        Claim::new("Q1.gd-exponent", Kind::Paper, exponent, 0.94, Bound::Within(0.95, 1.05))
            .interval(0.93, 0.945)
            .reading(Reading::AUTHORS, 0.97, Some((0.96, 0.98)))
            .quoted("κ log(1/ε)")
            .figure("toy-curves"),
        Claim::new(long, Kind::Paper, additive, 0.99997, Bound::AtLeast(0.99))
            .quoted("log κ + log log(1/ε)")
            .figure("toy-curves"),
    ];
    claims.iter_mut().for_each(|claim| claim.explain(None));
    Findings {
        analysis: "Q1".into(),
        chapter: Chapter::Statements,
        title: "Steps to a given accuracy".into(),
        summary: "Sweeps the condition number and the accuracy and fits the rate each method should follow."
            .into(),
        claims,
        figures: vec![curves(), blocks()],
        seconds: 75.0,
        ..Findings::default()
    }
}

/// A run that never was.
pub fn about() -> About {
    About {
        seed: 7,
        prompts: 1280,
        seconds: 42.0,
        plan_hash: "3f9a1c07d2e4".into(),
        command: "iclab reproduce".into(),
        ..About::default()
    }
}
