//! TH1′: the compact construction, and gradient descent by linear attention for contrast.

use ndarray::{Array2, Array3};

use super::constructed::{DIMS, ITERATIONS, grid, prompts, recipe, worst};
use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome};
use crate::constructions::picture::picture;
use crate::constructions::{Constructed, Recipe, Variant, build};
use crate::data::prompts::{Prompts, Questions};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{norm, random_orthogonal};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH1-prime",
    order: 11,
    title: "The compact construction: k+3 layers, width 3d+5",
    summary: "Ours. The first layer moves every pair into its y column, which leaves the test column out of S for free; the \
              second makes αS x; k layers iterate; the last reads x_testᵀ T Xᵀy at once. Two heads, five layers fewer than the paper's \
              and half its width. Gradient descent by linear attention needs one layer per step: the layers to a \
              given accuracy, side by side, are the paper's point in weights.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::THEORY
}];

/// Dimension of the problems on which layers are counted.
const SIZE: usize = 8;
const EPSILONS: [f64; 2] = [1e-2, 1e-6];

fn run(lab: &Lab) -> Result<Outcome> {
    let cells = grid(lab.seed, Variant::Compact, ITERATIONS)?;
    let sample = prompts(lab.seed, DIM, LAST, 1, 16)?;
    let compact = recipe(Variant::Compact, &sample, ITERATIONS);
    let mut extra = Vec::new();
    let mut beyond = Vec::new();
    for dim in DIMS {
        for k in 0..=ITERATIONS {
            let built = build(&Recipe { iterations: k, dim, ..compact.clone() })?.transformer;
            extra.push(built.layers.len() - k);
            beyond.push(built.width() - 3 * dim);
        }
    }
    let constant = |all: &[usize]| {
        if all.iter().all(|e| *e == all[0]) { all[0] as f64 } else { f64::NAN }
    };
    let contrast = contrast(lab.seed)?;
    let slope = |layers: &dyn Fn(&Row) -> f64, log: fn(f64) -> f64| {
        // From κ = 8 on, where the asymptotic laws hold.
        let (first, last) = (&contrast[2], &contrast[contrast.len() - 1]);
        (log(layers(last)) - log(layers(first))) / (last.kappa / first.kappa).log2()
    };
    let claims = vec![
        Claim::new(
            "TH1'.exact",
            Kind::Reference,
            "Largest relative deviation from Newton; d = 1, 2, 5, 20, n = d/2 … 5d, κ = 1, 100, k = 0 … 20",
            worst(&cells),
            Bound::AtMost(1e-9),
        ),
        Claim::new(
            "TH1'.layers",
            Kind::Reference,
            "Layers beyond k",
            constant(&extra),
            Bound::Within(3.0, 3.0),
        ),
        Claim::new(
            "TH1'.width",
            Kind::Reference,
            "Width beyond 3d",
            constant(&beyond),
            Bound::Within(5.0, 5.0),
        ),
        Claim::new(
            "TH1'.heads",
            Kind::Reference,
            "Heads",
            build(&compact)?.transformer.heads() as f64,
            Bound::Within(2.0, 2.0),
        ),
        Claim::new(
            "TH1'.gd-layers",
            Kind::Paper,
            "GD by linear attention to 10⁻⁶: exponent of κ in the number of layers (κ = 8 … 512)",
            slope(&|row| row.gd[1], f64::log2),
            Bound::Within(0.9, 1.1),
        )
        .quoted("κ log 1/ε")
        .figure("th1-prime-layers"),
        Claim::new(
            "TH1'.newton-layers",
            Kind::Paper,
            "Compact Newton to 10⁻⁶: layers per doubling of κ",
            slope(&|row| row.newton[1], |layers| layers),
            Bound::Within(1.7, 2.3),
        )
        .quoted("log κ")
        .figure("th1-prime-layers"),
    ];
    let curve = |pick: &dyn Fn(&Row) -> f64| contrast.iter().map(|row| (row.kappa, pick(row))).collect();
    let figure = Figure {
        id: "th1-prime-layers".into(),
        title: "Layers to a given accuracy, Newton against gradient descent".into(),
        caption: format!(
            "Layers that a constructed Transformer needs until its weights are within ε of the solution, on {SIZE}-dimensional \
             problems with eigenvalues of S spread geometrically over [1, κ]. Gradient descent takes the best fixed step, Newton \
             half of its limit. Both are run as Transformers; layers before and after the iterations are counted."
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("condition number κ of S", Scale::Log2),
            y: Axis::new("layers", Scale::Log10),
            series: vec![
                Series::new("GD to 10⁻⁶", curve(&|r| r.gd[1])).stroke(Stroke::LineMarkers),
                Series::new("GD to 10⁻²", curve(&|r| r.gd[0])).stroke(Stroke::LineMarkers),
                Series::new("Newton to 10⁻⁶", curve(&|r| r.newton[1])).stroke(Stroke::LineMarkers),
                Series::new("Newton to 10⁻²", curve(&|r| r.newton[0])).stroke(Stroke::LineMarkers),
            ],
            references: vec![],
        })],
    };
    let table = Table {
        id: "th1-prime-deviations".into(),
        title: "Deviation from Newton by size".into(),
        caption: "Largest relative deviation of the compact construction over k = 0 … 20.".into(),
        columns: ["d", "n", "κ", "deviation"].map(String::from).to_vec(),
        rows: cells
            .iter()
            .map(|c| {
                vec![c.d.to_string(), c.n.to_string(), c.kappa.to_string(), format!("{:.1e}", c.worst())]
            })
            .collect(),
    };
    let small = build(&recipe(Variant::Compact, &prompts(lab.seed, 5, 10, 1, 16)?, 12))?;
    let figures = vec![figure, picture("th1-prime-weights", &small)];
    Ok(Outcome { claims, figures, tables: vec![table] })
}

/// Layers to each of [`EPSILONS`] at a condition number.
struct Row {
    kappa: f64,
    newton: [f64; 2],
    gd: [f64; 2],
}

fn contrast(seed: Seed) -> Result<Vec<Row>> {
    (1..=9)
        .map(|e| {
            let kappa = 2f64.powi(e);
            let newton = layers(seed, kappa, Variant::Compact, 1.0 / (kappa * kappa), 48)?;
            // Steps to ε are about ½κ log(1/ε); a tenth more is safe.
            let most = (0.55 * kappa * (1.0 / EPSILONS[1]).ln()).ceil() as usize + 20;
            Ok(Row { kappa, newton, gd: layers(seed, kappa, Variant::Gd, 2.0 / (kappa + 1.0), most)? })
        })
        .collect()
}

/// Layers until ‖w_k − w‖ ≤ ε‖w‖, for each ε: inputs √λᵢ uᵢ in a random basis, so that S has the eigenvalues λᵢ.
fn layers(seed: Seed, kappa: f64, variant: Variant, step: f64, most: usize) -> Result<[f64; 2]> {
    let basis = random_orthogonal(SIZE, &mut seed.at("constructions/basis", 0));
    let truth = seed.at("constructions/solution", 0).normals(SIZE);
    let root = |i: usize| kappa.powf(i as f64 / (SIZE - 1) as f64).sqrt();
    // One more point, never read, completes the prompt.
    let xs = Array3::from_shape_fn((1, SIZE + 1, SIZE), |(_, i, j)| {
        if i < SIZE { root(i) * basis[i * SIZE + j] } else { 0.0 }
    });
    let label = |i: usize| (0..SIZE).map(|j| xs[[0, i, j]] * truth[j]).sum();
    let ys = Array2::from_shape_fn((1, SIZE + 1), |(_, i)| label(i));
    let queries = Array3::from_shape_fn((1, SIZE, SIZE), |(_, i, j)| f64::from(u8::from(i == j)));
    let prompts = Prompts::new(xs, ys)?;
    let recipe = Recipe { variant, iterations: most, dim: SIZE, pairs: SIZE, step, label_bound: 1.0 };
    let learner = Constructed::new("constructed", build(&recipe)?);
    let questions = Questions { prompts, lengths: vec![SIZE], queries };
    let answers = learner.answers(&questions, &Steps::range(0, most as u64))?;
    let error = |k: usize| {
        let off: Vec<f64> = (0..SIZE).map(|i| answers[[k, 0, 0, i]] - truth[i]).collect();
        norm(&off) / norm(&truth)
    };
    let around = (learner.construction().before + learner.construction().after) as f64;
    Ok(EPSILONS
        .map(|epsilon| (0..=most).find(|&k| error(k) <= epsilon).map_or(f64::NAN, |k| k as f64 + around)))
}
