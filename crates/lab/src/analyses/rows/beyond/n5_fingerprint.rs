//! N5: what does each layer do to each eigen-direction? The spectral fingerprint of R1.
//!
//! The bounds were written on 2026-11-17, from theory and before this network was asked: an exponent p nearer to 1 (Newton
//! from ηI, gradient descent) than to 2 (Newton from αS); one Newton iteration per layer rather than none or two; its
//! coefficients a = 2 and b = 1 to a quarter; and linearity to a hundredth.

use crate::analyses::kit::fingerprints::{ITERATIONS, Number, SHAPE, Taken, among};
use crate::analyses::kit::prelude::*;
use crate::findings;
use crate::fingerprint::shown::{filter_series, filters_panel, return_map_panel};
use crate::fingerprint::{self, AfterPairs, Linearity};
use crate::learners::Unit;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N5",
    order: 50,
    seconds: 7.4,
    title: "Which algorithm does each layer run, by what it does to each eigen-direction?",
    summary: "Any method that multiplies by S answers with w = f(S) w_OLS: it scales the least-squares solution along each \
              eigenvector of S by a factor that depends on the eigenvalue. Small eigenvalues are learned last, and how much later \
              tells the methods apart: f is 1−(1−αλ²)^(2^k) for Newton's iteration as the paper starts it, from αS, and \
              1−(1−ηλ)^m for gradient descent, which is also Newton's from ηI after k steps if m = 2^k. From the weights that the \
              answers of each layer imply, its f is measured here, and how it follows from that of the layer before: \
              f ← 2f − f² is one Newton iteration, whatever the start.",
    needs: &["r1"],
    cost: Cost::Minutes,
    headline: Some(Headline {
        rank: findings::Headline::SECOND,
        figure: "filters",
        claims: &["shape", "iterations"],
    }),
    run,
    ..Analysis::BEYOND
}];

/// Pairs read; the last one decides.
const LENGTHS: [usize; 3] = [25, 30, 40];
/// The first layer whose answers should be linear.
const LINEAR_FROM: u64 = 5;
/// Prompts that are asked for linearity, six times.
const LINEAR_PROMPTS: usize = 64;

/// What the map from layer to layer must be for a Newton iteration.
const MAP: [Number; 2] = [
    Number {
        name: "map-a",
        says: "a of f ← a f − b f², mean over layers",
        of: |after| after.overall.a,
        bound: Within(1.75, 2.25),
        expected: "Newton: a = 2",
    },
    Number {
        name: "map-b",
        says: "b of f ← a f − b f², mean over layers",
        of: |after| after.overall.b,
        bound: Within(0.75, 1.25),
        expected: "Newton: b = 1",
    },
];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let taken = lab.fingerprint(setting, &LENGTHS)?;
    let after = |pairs: usize| taken.fingerprint.after(pairs).expect("asked above");
    let decides = after(LAST);
    let others = [25, 30].map(|pairs| (format!("after {pairs} pairs"), after(pairs)));
    for Number { name, says, of, bound, expected } in [SHAPE, ITERATIONS].into_iter().chain(MAP) {
        let figure = if name == SHAPE.name { "filters" } else { "return-map" };
        let mut entry = note
            .claim(name, of(decides), bound)
            .says(format!("After {LAST} pairs: {says}"))
            .ours(expected)
            .figure(figure);
        for (by, after) in &others {
            entry = entry.also(by, of(after));
        }
    }
    let leads = [
        (
            "identity-over-gram",
            "Newton from S",
            "Newton from αS leaves more of w − w_OLS than Newton from ηI",
        ),
        (
            "identity-over-gd",
            "GD",
            "Gradient descent (η = 0.01, any number of steps) leaves more of w − w_OLS than Newton from ηI",
        ),
    ];
    for (name, other, says) in leads {
        note.claim(name, taken.behind(other, "Newton from I"), AtLeast(0.0))
            .says(format!("{says}, each at its best step for every layer: difference of the shares"))
            .ours("The start of the identity describes the layers best")
            .figure("left");
    }
    linearity(lab, note, setting)?;
    products(note, decides, &taken);
    let unexplained = decides.unexplained.iter().zip(&decides.shapes).filter(|(_, shape)| shape.is_some());
    let largest = unexplained.map(|(left, _)| *left).max_by(|x, y| x.value.total_cmp(&y.value));
    note.claim("unexplained", largest.unwrap_or(Estimate::NONE), Bound::None).says(format!(
        "After {LAST} pairs: largest share of w − w_OLS that no filter explains, of layers that have a shape"
    ));
    figures(note, &taken);
    Ok(())
}

/// Answers that are linear in the query and in the labels.
fn linearity(lab: &Lab, note: &mut Notebook, setting: &Setting) -> Result<()> {
    let network = lab.network(setting.network)?;
    let steps = network.default_steps();
    let count = lab.count.min(LINEAR_PROMPTS);
    let questions = setting.data.task()?.questions(lab.seed, "eval", 0, count, vec![LAST], setting.data.dim);
    let found = Linearity::of(&*network, &steps, &questions, LAST, lab.seed)?;
    let kinds = [
        ("linear-query", "the query", [&found.query_scaled, &found.query_added]),
        ("linear-labels", "the labels", [&found.labels_scaled, &found.labels_added]),
    ];
    for (name, what, shares) in kinds {
        let late = shares.into_iter().flat_map(|shares| shares.iter().zip(steps.as_slice()));
        let late = late.filter(|(_, layer)| **layer >= LINEAR_FROM).map(|(share, _)| *share);
        let largest = late.max_by(|x, y| x.value.total_cmp(&y.value)).unwrap_or(Estimate::NONE);
        note.claim(name, largest, AtMost(0.01))
            .says(format!(
                "Power of what is not linear in {what} over that of the answers, after {LAST} pairs: the largest of layers \
                 {LINEAR_FROM} and later"
            ))
            .ours("w = f(S) Xᵀy does not depend on the query, and is linear in the labels")
            .figure("linearity");
    }
    let curve = |label: &str, shares: &[Estimate]| {
        Series::estimates(label, steps.as_slice().iter().map(|&s| s as f64).zip(shares.iter().copied()))
    };
    let panel = LinesPanel::new(
        Axis::linear("layer"),
        Axis::log10("power of what is not linear"),
        [
            curve("query halved", &found.query_scaled),
            curve("two queries added", &found.query_added),
            curve("labels halved", &found.labels_scaled),
            curve("labels of two functions added", &found.labels_added),
        ],
    );
    let caption = format!(
        "Squared difference between the answers and what linearity asks for, over the squared answers ({count} prompts, {LAST} pairs, \
         95 % bands)."
    );
    note.figure("linearity", "Linearity in the query and in the labels", caption, [panel]);
    Ok(())
}

/// How many products with S a layer must have behind it.
fn products(note: &mut Notebook, decides: &AfterPairs, taken: &Taken) {
    let short = taken.fingerprint.lengths.first().unwrap_or(decides);
    let per_layer = |of: &AfterPairs| {
        let layers = taken.fingerprint.steps.as_slice().iter().zip(&of.degrees);
        // p(S)c of degree k takes k + 1 products with X or S
        let rates = layers.filter_map(|(&layer, degree)| Some((degree.as_ref()? + 1) as f64 / layer as f64));
        rates.fold(0.0, f64::max)
    };
    note.claim("products", per_layer(short), AtLeast(1.0))
        .says(format!(
            "After {} pairs: products with S that a layer must have behind it, by the lowest degree of a polynomial that comes as \
             close to w_OLS (median over prompts), over its number; the largest",
            short.pairs
        ))
        .ours("Above 1, one product with S per layer is not enough: no gradient descent by one step per layer")
        .figure("left")
        .also(&format!("after {LAST} pairs"), per_layer(decides));
}

fn figures(note: &mut Notebook, taken: &Taken) {
    let layers = taken.fingerprint.steps.as_slice();
    let last = taken.fingerprint.lengths.len() - 1;
    let after = &taken.fingerprint.lengths[last];
    let shaped: Vec<usize> = (0..layers.len()).filter(|&s| after.shapes[s].is_some()).collect();
    let over =
        |values: &[f64]| after.knots.values.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>();
    let (steps, unit) = (&taken.fingerprint.steps, fingerprint::Scale::One);
    let all = filters_panel(after, steps, Unit::Layer, unit, &[]);
    let (x, y) = (all.x.clone(), all.y.clone());
    let mut panels = vec![all.titled("all layers")];
    // the first, a middle and the last layer with a shape, each beside the algorithms at their best steps
    let mut shown = vec![shaped.first(), shaped.get(shaped.len() / 2), shaped.last()];
    shown.dedup();
    for &s in shown.into_iter().flatten() {
        let mut series = vec![filter_series(after, s, format!("layer {}", layers[s])).markers()];
        for (among, theirs) in among(&ISOTROPIC).iter().zip(&taken.theirs) {
            let step = taken.naming.of(among.label).map_or(0, |named| named.steps[s]);
            series
                .push(Series::new(format!("{}, step {step}", among.label), over(&theirs[last][s])).dashed());
        }
        panels.push(LinesPanel::new(x.clone(), y.clone(), series).titled(format!("layer {}", layers[s])));
    }
    let prompts = taken.fingerprint.prompts;
    let caption = format!(
        "What a layer multiplies the least-squares solution by along an eigenvector of S, by the eigenvalue, after {LAST} pairs ({prompts} \
         prompts, 95 % bands). 1 is learned, 0 is not. Right: layers beside each algorithm at the step that leaves least of \
         w − w_OLS; Newton from S is the paper's start, Newton from I at step k is gradient descent at step 2^k with its own step size."
    );
    note.figure("filters", "Filters of the layers", caption, panels);

    let panels: Vec<LinesPanel> =
        taken.fingerprint.lengths.iter().map(|after| return_map_panel(after, steps, Unit::Layer)).collect();
    let caption = format!(
        "f of the next layer against f of a layer, a marker per eigenvalue ({prompts} prompts). One Newton iteration T ← 2T − TST \
         puts every marker on its curve, whatever the start; \"three per layer\" would be the highest."
    );
    note.figure("return-map", "From layer to layer", caption, panels);

    let left = |label: &str, shares: Vec<f64>| {
        let said = layers.iter().zip(shares).zip(&taken.naming.informative).filter(|(_, says)| **says);
        Series::new(label, said.map(|((&layer, share), _)| (layer as f64, share)).collect()).markers()
    };
    let mut series: Vec<Series> =
        taken.naming.candidates.iter().map(|c| left(&c.name, c.left.clone())).collect();
    let lengths = &taken.fingerprint.lengths;
    let mean =
        |s: usize| lengths.iter().map(|after| after.unexplained[s].value).sum::<f64>() / lengths.len() as f64;
    series.push(left("the best filter", (0..layers.len()).map(mean).collect()).dashed());
    let panel =
        LinesPanel::new(Axis::linear("layer"), Axis::log10("share of w − w_OLS that is left"), series);
    let caption = format!(
        "How much of w − w_OLS each algorithm leaves at the step that is best for the layer, chosen on half of {prompts} prompts and \
         judged on the other half, and how much any filter leaves; mean over {} pairs. Layers that have begun and are not done.",
        LENGTHS.map(|pairs| pairs.to_string()).join(", ")
    );
    note.figure("left", "What each algorithm leaves", caption, [panel]);
    table(note, taken);
}

fn table(note: &mut Notebook, taken: &Taken) {
    let text = |e: Option<Estimate>| e.unwrap_or(Estimate::NONE).cell(2);
    let mut rows = Vec::new();
    for after in &taken.fingerprint.lengths {
        for (s, layer) in taken.fingerprint.steps.as_slice().iter().enumerate() {
            let map = (s > 0).then(|| after.maps[s - 1]).flatten();
            rows.push(vec![
                after.pairs.to_string(),
                layer.to_string(),
                format!("{:.4}", after.remaining[s].value),
                format!("{:.3}", after.unexplained[s].value),
                text(after.shapes[s].map(|shape| shape.exponent)),
                text(map.map(|map| map.a)),
                text(map.map(|map| map.b)),
                text(map.map(|map| map.order)),
                after.degrees.get(s).copied().flatten().map_or("–".into(), |degree| degree.to_string()),
            ]);
        }
    }
    let columns = [
        "pairs",
        "layer",
        "still to do",
        "no filter explains",
        "exponent p",
        "a",
        "b",
        "order",
        "degree at least",
    ];
    let caption = "Still to do: ‖w − w_OLS‖² over ‖w_OLS‖². a, b and the order are those of the step from the layer before. 95 % \
                   intervals over prompts.";
    note.table("layers", "The fingerprint, layer by layer", caption, columns, rows);
}
