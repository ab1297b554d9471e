//! Analytic stand-ins with the shapes of real findings: error curves of Newton and gradient descent on a
//! two-eigenvalue problem, and the cosine between their error vectors. Nothing here is measured.

use lab::findings::claims::{Bound, Claim, Findings, Kind};
use lab::findings::figure::{
    At, Axis, Block, BlocksPanel, Figure, HeatmapPanel, LinesPanel, Panel, Reference, Scale, Series, Stroke,
    Table,
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
    }
}

/// Three heat-maps: many rows, identity, and one small enough to print its values.
pub fn heatmaps() -> Figure {
    let newton: Vec<u64> = (0..=24).collect();
    let gd: Vec<u64> = (0..=12).map(|k| 1 << k).collect();
    let few: Vec<u64> = vec![1, 5, 9, 13, 17, 21];
    let names = ("Newton iterations", "gradient descent steps");
    Figure {
        id: "toy-heatmaps".into(),
        title: "Similarity of errors".into(),
        caption: "Cosine similarity of errors between every pair of steps. A straight staircase means equal rates, \
                  an exponential one that the horizontal method is exponentially faster."
            .into(),
        panels: vec![
            Panel::Heatmap(heatmap("Newton and GD", (names.0, &newton), (names.1, &gd), false, 2)),
            Panel::Heatmap(heatmap("Newton and itself", (names.0, &newton), ("Newton iterations", &newton), true, 0)),
            Panel::Heatmap(heatmap("A small map prints its values", (names.0, &few), (names.1, &gd[..10]), false, 0)),
        ],
    }
}

/// One heat-map alone.
pub fn heatmap_alone() -> Figure {
    let newton: Vec<u64> = (1..=23).collect();
    let gd: Vec<u64> = std::iter::once(1).chain((1..=26).map(|k| k * 50)).collect();
    let mut panel = heatmap("", ("Newton iterations", &newton), ("GD steps, η = 0.01", &gd), false, 0);
    panel.value_label = "SimE, mean over prompts".into();
    Figure {
        id: "toy-heatmap".into(),
        title: "Newton against gradient descent on a linear grid".into(),
        caption: "The same comparison on the grid of the authors' code.".into(),
        panels: vec![Panel::Heatmap(panel)],
    }
}

/// Two large graded families and their error floors.
pub fn families() -> Figure {
    let axis = |label: &str, scale| Axis::new(label, scale);
    let curve = |k: u64, left: fn(u64) -> Vec<f64>| -> Vec<(f64, f64)> {
        let e = error(&left(k));
        (0..=40)
            .map(|t| {
                (
                    f64::from(t),
                    if t < 20 {
                        1.0 - 0.045 * f64::from(t)
                    } else {
                        0.1 * e.powf(f64::from(t - 19) / 21.0) + 1e-33
                    },
                )
            })
            .collect()
    };
    let newton =
        (0..=24).map(|k| Series::new(format!("Newton {k}"), curve(k, newton_left)).grade(k as f64 / 24.0));
    let gd = (0..=12)
        .map(|k| Series::new(format!("GD {}", 1u64 << k), curve(1 << k, gd_left)).grade(f64::from(k) / 12.0));
    let ols = Series::new(
        "least squares",
        (0..=40).map(|t| (f64::from(t), if t < 20 { 1.0 - 0.05 * f64::from(t) } else { 0.0 })).collect(),
    );
    let references = || vec![Reference { label: "t = d".into(), at: At::X(20.0) }];
    let panel = |title: &str, series: Vec<Series>| {
        Panel::Lines(LinesPanel {
            title: title.into(),
            x: axis("in-context examples t", Scale::Linear),
            y: axis("mean squared error / d", Scale::Log10).range(1e-12, 2.0),
            series,
            references: references(),
        })
    };
    Figure {
        id: "toy-families".into(),
        title: "Error by examples read".into(),
        caption:
            "Each curve is one step count; curves leave through the floor when they pass below the axis."
                .into(),
        panels: vec![
            panel("Newton's iteration", newton.chain([ols.clone().stroke(Stroke::Dashed)]).collect()),
            panel("Gradient descent", gd.chain([ols.stroke(Stroke::Dashed)]).collect()),
        ],
    }
}

/// Bands, markers, dashes, references on a log-log panel, with a long legend.
pub fn curves() -> Figure {
    let kappas: Vec<f64> = (0..=9).map(|k| 2f64.powi(k)).collect();
    let points = |f: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> { kappas.iter().map(|&k| (k, f(k))).collect() };
    let band =
        |p: &[(f64, f64)], w: f64| -> Vec<(f64, f64)> { p.iter().map(|(_, y)| (y / w, y * w)).collect() };
    let gd = points(&|k| 9.2 * k + 3.0);
    let cg = points(&|k| 4.6 * k.sqrt() + 2.0);
    let newton = points(&|k| 2.0 * k.log2() + 4.0);
    let series = vec![
        Series::new("gradient descent", gd.clone()).band(band(&gd, 1.3)).stroke(Stroke::LineMarkers),
        Series::new("conjugate gradients", cg.clone()).band(band(&cg, 1.15)).stroke(Stroke::LineMarkers),
        Series::new("Newton–Schulz", newton.clone()).band(band(&newton, 1.1)).stroke(Stroke::LineMarkers),
        Series::new("fit: κ log(1/ε)", points(&|k| 9.2 * k)).stroke(Stroke::Dashed),
        Series::new("fit: √κ log(1/ε)", points(&|k| 4.6 * k.sqrt())).stroke(Stroke::Dashed),
        Series::new("measured elsewhere", points(&|k| 3.0 * k.powf(0.8)))
            .band(band(&points(&|k| 3.0 * k.powf(0.8)), 1.4))
            .stroke(Stroke::Markers),
    ];
    Figure {
        id: "toy-curves".into(),
        title: "Steps until the error is small".into(),
        caption: "Steps that each method needs to reach a relative error of 10⁻⁴, with 95 % intervals."
            .into(),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("condition number κ", Scale::Log2),
            y: Axis::new("steps to ε = 10⁻⁴", Scale::Log10),
            series,
            references: vec![
                Reference { label: "the paper's 2,000 steps".into(), at: At::Y(2000.0) },
                Reference { label: "21 Newton steps".into(), at: At::Y(21.0) },
                Reference { label: "20 layers".into(), at: At::Y(20.0) },
                Reference { label: "κ = 100".into(), at: At::X(100.0) },
            ],
        })],
    }
}

/// Four panels of different kinds: the layout of a grid, a short family, linear axes, empty panels.
pub fn mixed() -> Figure {
    let gap: Vec<f64> = (0..20).map(f64::from).collect();
    let line =
        |label: &str, f: &dyn Fn(f64) -> f64| Series::new(label, gap.iter().map(|&g| (g, f(g))).collect());
    let short = (0..5)
        .map(|k| line(&format!("layer {}", 2 * k + 1), &|g| 0.3 + 0.02 * g * k as f64).grade(k as f64 / 4.0));
    let panel = |title: &str, x: &str, series: Vec<Series>| LinesPanel {
        title: title.into(),
        x: Axis::new(x, Scale::Linear),
        y: Axis::new("squared error / d", Scale::Linear),
        series,
        references: Vec::new(),
    };
    let steps: Vec<u64> = (0..=8).collect();
    Figure {
        id: "toy-mixed".into(),
        title: "Forgetting, layers, and a map".into(),
        caption: "Panels of several kinds under one caption: plots of a row share their top, of a column their left edge.".into(),
        panels: vec![
            Panel::Lines(panel(
                "Error on a repeated query, by the number of pairs read since",
                "gap n − i",
                vec![
                    line("online gradient descent", &|g| 0.205 * (1.0 - (-g / 9.0).exp())),
                    line("Newton, 5 steps", &|g| 0.062 + 0.006 * (g / 3.0).sin()),
                ],
            )),
            Panel::Lines(panel("An ordered family", "gap n − i", short.collect())),
            Panel::Heatmap(heatmap("", ("Newton iterations", &steps), ("Newton iterations", &steps), true, 0)),
            Panel::Lines(panel("Nothing to show", "x", vec![Series::new("undefined", vec![(0.0, f64::NAN)])])),
        ],
    }
}

/// Weights as blocks: multiples of the identity, single numbers, and a full block.
pub fn blocks() -> Figure {
    let slots = [("a", 5), ("b", 5), ("label", 1), ("out", 1), ("cos2", 1)];
    let width = 13;
    let matrix = |name: &str, value: &dyn Fn(usize, usize) -> f64| Block {
        name: name.into(),
        values: (0..width).map(|r| (0..width).map(|c| value(r, c)).collect()).collect(),
    };
    let panel = |title: &str, count: usize| {
        let all = [
            matrix("A₁", &|r, c| if r + 5 == c && r < 5 { -40.5 } else { 0.0 }),
            matrix("V₁", &|r, c| if r > 9 && c > 9 { (r as f64 - c as f64) * 1234.5 } else { 0.0 }),
            matrix("A₂", &|r, c| if r < 5 && c < 5 { (r * c) as f64 - 7.5 } else { 0.0 }),
            matrix("MLP", &|_, _| 0.0),
        ];
        Panel::Blocks(BlocksPanel {
            title: title.into(),
            slots: slots.map(|(name, size)| (name.to_string(), size)).to_vec(),
            blocks: all[..count].to_vec(),
        })
    };
    Figure {
        id: "blocks".into(),
        title: "Weights as blocks".into(),
        caption: "Matrices over named slots.".into(),
        panels: vec![panel("Layer 1: mov (softmax, causal)", 4), panel("Layers 2–13: Newton", 1)],
    }
}

/// Three analyses with claims of every kind and verdict.
pub fn findings() -> Vec<Findings> {
    let claim = Claim::new;
    vec![
        Findings {
            analysis: "F26".into(),
            title: "Rates between classical methods".into(),
            summary: "Compares iterative methods for least squares with each other, without any network. The step of \
                      gradient descent that best matches a Newton step should grow exponentially with that step, and \
                      Newton against itself should be the identity."
                .into(),
            claims: vec![
                claim("F26.newton-gd", Kind::Paper, "The best-matching GD step grows exponentially with the Newton step: slope of log₂ steps per iteration.", 0.5123, Bound::Within(0.4, 0.6))
                    .interval(0.498, 0.527)
                    .quoted("“exponential trend”")
                    .figure("toy-heatmaps"),
                claim("F26.newton-newton", Kind::Paper, "Newton against itself is the identity: share of columns whose best match is the diagonal.", 1.0, Bound::AtLeast(1.0)).figure("toy-heatmaps"),
                claim("F26.sime-21", Kind::Reference, "SimE of least squares and 21 Newton steps.", 0.99532, Bound::near(0.995, 0.005)).interval(0.9949, 0.9957).quoted(".995"),
                claim("F26.late-linear", Kind::Paper, "Newton against BFGS is linear late; the paper does not say from which step on.", 1.37, Bound::None).quoted("“linear late”"),
            ],
            figures: vec![heatmaps(), heatmap_alone()],
            tables: vec![Table {
                id: "toy-best".into(),
                title: "Best-matching steps".into(),
                caption: "For each Newton step the best step of gradient descent on a grid of powers of two.".into(),
                columns: ["Newton step", "GD step", "interval", "SimE"].map(String::from).to_vec(),
                rows: [["5", "8", "8 – 8", "0.987"], ["13", "128", "64 – 128", "0.991"], ["21", "2048", "1024 – 2048", "0.995"]]
                    .map(|row| row.map(String::from).to_vec())
                    .to_vec(),
            }],
            seconds: 4.21,
            ..Findings::default()
        },
        Findings {
            analysis: "E1".into(),
            title: "The step size α = 2/‖SSᵀ‖₂ is on the boundary".into(),
            summary: "With the printed α the top eigen-direction is never learned: M S has the eigenvalue 2 there, \
                      which the iteration maps to 0. Any α with 0 < α < 2/λ²max works."
                .into(),
            claims: vec![
                claim("E1.printed", Kind::Erratum, "With the printed α the error at t = 40 stays above 10⁻² however many steps are taken.", 5.81e-2, Bound::AtLeast(1e-2))
                    .interval(5.6e-2, 6.0e-2)
                    .quoted("α = 2/‖SSᵀ‖₂")
                    .figure("toy-families"),
                claim("E1.right", Kind::Erratum, "With α = 1/‖S‖²F the error after 18 steps is round-off.", 3.2e-29, Bound::AtMost(1e-28)).figure("toy-families"),
            ],
            figures: vec![families(), mixed()],
            tables: vec![],
            seconds: 0.83,
            ..Findings::default()
        },
        Findings {
            analysis: "Q1".into(),
            title: "Steps to a given accuracy".into(),
            summary: "Sweeps the condition number and the accuracy and fits the law each method should follow.".into(),
            claims: vec![
                claim("Q1.gd-exponent", Kind::Paper, "Gradient descent needs steps proportional to κ: fitted exponent.", 0.94, Bound::Within(0.95, 1.05)).interval(0.93, 0.951).quoted("κ log(1/ε)").figure("toy-curves"),
                claim("Q1.newton-additive-logarithm-of-condition-number", Kind::Paper, "Newton needs a number of steps that grows with log κ: R² of the fit.", 0.99997, Bound::AtLeast(0.99)).quoted("log κ + log log(1/ε)").figure("toy-curves"),
            ],
            figures: vec![curves(), blocks()],
            tables: vec![],
            seconds: 75.0,
            ..Findings::default()
        },
    ]
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
