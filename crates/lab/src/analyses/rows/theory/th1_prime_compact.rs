//! TH1′: the compact construction, and gradient descent by linear attention for contrast.

use super::constructed::{
    DIMS, ITERATIONS, SIZE, constant, grid, layers_needed, prompts, recipe, spread, worst,
};
use crate::analyses::kit::prelude::*;
use crate::constructions::picture::picture;
use crate::constructions::{Recipe, Start, Variant, build};
use crate::data::seed::Seed;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH1-prime",
    paper: Some(("Theorem 5.1", "5")),
    order: 11,
    title: "Can k + 3 layers of width 3d + 5 be k Newton iterations?",
    summary: "Ours. The first layer moves every pair into its y column, which leaves the test column out of S for \
              free; the second makes αS x; k layers iterate; the last reads x_testᵀ T Xᵀy at once. Two heads, five \
              layers fewer than the paper's and half its width. Gradient descent by linear attention needs one layer \
              per step: the layers to a given accuracy, side by side, are the paper's point in weights.",
    run,
    ..Analysis::THEORY
}];

const EPSILONS: [f64; 2] = [1e-2, 1e-6];
const COMPACT: Variant = Variant::Compact(Start::Gram);

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let cells = grid(lab.seed, COMPACT, ITERATIONS)?;
    let sample = prompts(lab.seed, DIM, LAST, 1, 16)?;
    let compact = recipe(COMPACT, &sample, ITERATIONS);
    let (mut extra, mut beyond) = (Vec::new(), Vec::new());
    for dim in DIMS {
        for k in 0..=ITERATIONS {
            let built = build(&Recipe { iterations: k, dim, ..compact.clone() })?.transformer;
            extra.push(built.layers.len() - k);
            beyond.push(built.width() - 3 * dim);
        }
    }
    note.claim("exact", worst(&cells), AtMost(1e-9))
        .says("Largest relative deviation from Newton; d = 1, 2, 5, 20, n = d/2 … 5d, κ = 1, 100, k = 0 … 20")
        .kind(Kind::Beyond);
    let heads = build(&compact)?.transformer.heads() as f64;
    let sizes = [
        ("layers", "Layers beyond k", constant(&extra), 3.0),
        ("width", "Width beyond 3d", constant(&beyond), 5.0),
        ("heads", "Heads per layer", heads, 2.0),
    ];
    for (name, says, found, right) in sizes {
        note.claim(name, found, Within(right, right)).says(says).kind(Kind::Beyond);
    }

    let contrast = contrast(lab.seed)?;
    let slope = |layers: &dyn Fn(&Row) -> f64, log: fn(f64) -> f64| {
        // From κ = 8 on, where the asymptotic rates hold.
        let (first, last) = (&contrast[2], &contrast[contrast.len() - 1]);
        (log(layers(last)) - log(layers(first))) / (last.kappa / first.kappa).log2()
    };
    note.claim("gd-layers", slope(&|row| row.gd[1], f64::log2), Within(0.9, 1.1))
        .says("GD by linear attention to 10⁻⁶: exponent of κ in the number of layers (κ = 8 … 512)")
        .quoted("GD requires O(κ(S) log(1/ε)) steps to converge to an ε error");
    note.claim("newton-layers", slope(&|row| row.newton[1], |layers| layers), Within(1.7, 2.3))
        .says("Compact Newton to 10⁻⁶: layers per doubling of κ")
        .quoted("only requires O(log κ(S) + log log(1/ε)) steps to converge to an ε error");
    let curve = |label: &str, pick: &dyn Fn(&Row) -> f64| {
        Series::new(label, contrast.iter().map(|row| (row.kappa, pick(row))).collect()).markers()
    };
    let series = [
        curve("GD to 10⁻⁶", &|row| row.gd[1]),
        curve("GD to 10⁻²", &|row| row.gd[0]),
        curve("Newton to 10⁻⁶", &|row| row.newton[1]),
        curve("Newton to 10⁻²", &|row| row.newton[0]),
    ];
    let caption = format!(
        "Layers that a constructed Transformer needs until its weights are within ε of the solution, on \
         {SIZE}-dimensional problems with eigenvalues of S spread geometrically over [1, κ]. Gradient descent takes \
         the best fixed step, Newton half of its limit. Both are run as Transformers; layers before and after the \
         iterations are counted."
    );
    let title = "Layers to a given accuracy, Newton against gradient descent";
    let panel = LinesPanel::new(Axis::log2("condition number κ of S"), Axis::log10("layers"), series);
    note.figure("layers", title, caption, [panel]);
    let small = build(&recipe(COMPACT, &prompts(lab.seed, 5, 10, 1, 16)?, 12))?;
    note.paste(vec![picture("th1-prime-weights", &small)], vec![]);
    note.table(
        "deviations",
        "Deviation from Newton by size",
        "Largest relative deviation of the compact construction over k = 0 … 20.",
        ["d", "n", "κ", "deviation"],
        cells.iter().map(|cell| {
            let [d, n, kappa] = [cell.d, cell.n, cell.kappa as usize].map(|size| size.to_string());
            vec![d, n, kappa, format!("{:.1e}", cell.worst())]
        }),
    );
    Ok(())
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
            let problem = spread(seed, 0, kappa)?;
            let layers = |variant, step, most| layers_needed(&problem, variant, step, most, EPSILONS);
            let newton = layers(COMPACT, 1.0 / (kappa * kappa), 48)?;
            // Steps to ε are about ½κ log(1/ε); a tenth more is safe.
            let most = (0.55 * kappa * (1.0 / EPSILONS[1]).ln()).ceil() as usize + 20;
            Ok(Row { kappa, newton, gd: layers(Variant::Gd, 2.0 / (kappa + 1.0), most)? })
        })
        .collect()
}
