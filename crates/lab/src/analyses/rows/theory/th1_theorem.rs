//! TH1: the paper's theorem as weights.

use super::constructed::{ITERATIONS, by_step, constant, grid, prompts, recipe, worst};
use crate::analyses::kit::prelude::*;
use crate::constructions::picture::picture;
use crate::constructions::{Misprints, Recipe, Variant, build, build_with};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH1",
    paper: Some(("Theorem 5.1", "5")),
    order: 10,
    title: "Can k + 8 layers be k Newton iterations, as weights?",
    summary: "The paper's proof as a Transformer in float64: mov, gather, aff; k times Newton; mov, mul, sum, mov, \
              mul. It is run as the weights say and compared with the iteration itself. Two corrections are meant \
              to make it right: opposite values in the second head (E2) and a test column that stays out of S (E6). A third \
              makes it stable: the printed score ⟨x_t, T x_s⟩ makes T S Tᵀ, in which antisymmetric round-off doubles \
              with every layer; ⟨T x_t, x_s⟩ makes T S T, in which it vanishes. As printed, the coefficient −n/2 \
              sits inside the ReLU, so that with equal values the layer adds ½Σ|z|Tx where it should subtract, and \
              overflows.",
    run,
    ..Analysis::THEORY
}];

/// Far enough beyond convergence to see round-off grow.
const LONG: usize = 44;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let sample = prompts(lab.seed, DIM, LAST, 1, 8)?;
    let paper = recipe(Variant::Paper, &sample, LONG);
    let none = Misprints::default();
    let curves = [
        ("corrected", none, Stroke::LineMarkers),
        ("score as printed: T S Tᵀ", Misprints { transposed: true, ..none }, Stroke::Dashed),
        ("test column inside S (E6)", Misprints { test_inside: true, ..none }, Stroke::Dashed),
        ("V₂ = V₁ (E2)", Misprints { equal_values: true, ..none }, Stroke::Dashed),
    ];
    let measured = curves
        .iter()
        .map(|(_, misprints, _)| by_step(build_with(&paper, *misprints)?, &sample))
        .collect::<Result<Vec<_>>>()?;
    let [transposed, test_inside] = [&measured[1], &measured[2]];

    note.claim("exact", worst(&grid(lab.seed, Variant::Paper, ITERATIONS)?), AtMost(1e-9))
        .says(
            "Corrected construction: largest relative deviation from Newton; d = 1, 2, 5, 20, n = d/2 … 5d, \
             κ = 1, 100, k = 0 … 20",
        )
        .quoted("the Transformer predicts on x_test using x_testᵀ ŵ^Newton_k");
    let extra = (0..=ITERATIONS)
        .map(|k| Ok(build(&Recipe { iterations: k, ..paper.clone() })?.transformer.layers.len() - k))
        .collect::<Result<Vec<_>>>()?;
    note.claim("layers", constant(&extra), Within(8.0, 8.0))
        .says("Layers beyond k, for k = 0 … 20")
        .quoted("the number of layers is k+8");
    let width = |dim: usize| -> Result<f64> {
        Ok(build(&Recipe { dim, iterations: 1, ..paper.clone() })?.transformer.width() as f64)
    };
    note.claim("width", (width(100)? - width(20)?) / 80.0, AtMost(6.0))
        .says("Width per dimension: slope between d = 20 and d = 100")
        .quoted("The dimensionality of the hidden layers is O(d)");
    let printed = grid(lab.seed, Variant::Printed, 2)?;
    let deviations = printed.iter().filter(|cell| cell.n > 0).flat_map(|cell| &cell.deviations);
    note.claim("printed", least(deviations.copied()), AtLeast(0.01))
        .says(
            "As printed: smallest relative deviation after 0, 1 or 2 iterations over the same sizes (n ≥ 1)",
        )
        .quoted("This is exactly the same as the Newton iteration")
        .kind(Kind::Erratum);
    note.claim("test-column", test_inside[ITERATIONS], AtLeast(0.1))
        .says("Test column inside S, all else corrected: relative deviation after 20 iterations, d = 20, n = 40")
        .ours("Full attention over all columns, the test input among them")
        .kind(Kind::Erratum);
    note.claim("transposed", (transposed[40] / transposed[30]).log2() / 10.0, Within(0.8, 1.2))
        .says("Score as printed, all else corrected: bits lost per layer after convergence (layers 30 to 40)")
        .quoted("T^(ℓ+1) = 2T^(ℓ) − T^(ℓ) S T^(ℓ)ᵀ")
        .kind(Kind::Erratum);

    let series = curves.iter().zip(&measured).map(|((label, _, stroke), values)| {
        // What has overflowed leaves the picture through its top.
        let shown = |v: f64| if v.is_finite() { v.max(1e-17) } else { f64::NAN };
        let points = values.iter().enumerate().map(|(k, v)| (k as f64, shown(*v)));
        Series::new(*label, points.collect()).stroke(*stroke)
    });
    let y = Axis::log10("relative deviation").range(1e-17, 1e6);
    let panel = LinesPanel::new(Axis::linear("Newton iterations k"), y, series).mark_y("required", 1e-9);
    let caption = format!(
        "Largest deviation of the constructed Transformer from Newton's iteration over {} prompts (d = {DIM}, n = {LAST}), \
         relative to the size of predictions. Corrected, it stays at round-off. With the printed score the deviation \
         doubles with each layer; with x_test inside S it converges to another answer; with equal values it overflows.",
        sample.count()
    );
    note.figure("deviation", "The theorem, corrected and as printed", caption, [panel]);
    let small = build(&recipe(Variant::Paper, &prompts(lab.seed, 5, 10, 1, 16)?, 12))?;
    note.paste(vec![picture("th1-weights", &small)], vec![]);
    Ok(())
}
