//! N8: does the network's step size follow its inputs? R1 on inputs of other sizes and other condition numbers.
//!
//! The bounds were written on 2026-11-17, before R1 was asked. A step size η = 1/‖S‖ makes the cut-off λ_c of a filter grow
//! with the square of the inputs' size, a constant one leaves it where it is; the bound is half-way.

use crate::analyses::kit::fingerprints::{Taken, among};
use crate::analyses::kit::prelude::*;
use crate::data::prompts::Questions;
use crate::stats::over_runs;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N8",
    order: 80,
    seconds: 13.4,
    title: "Does the step size follow the inputs?",
    summary: "R1 was trained on standard normal inputs alone. Inputs and labels are made smaller and larger: an algorithm with η = \
              1/‖S‖ scales with them, one with a constant η learns large eigenvalues earlier and diverges in the end. Then inputs have \
              covariances with condition numbers up to 1000.",
    needs: &["r1"],
    cost: Cost::Minutes,
    run,
    ..Analysis::BEYOND
}];

/// Prompts of each kind.
const PROMPTS: usize = 128;
/// Sizes of the inputs.
const SIZES: [f64; 5] = [0.5, 0.7, 1.0, 1.4, 2.0];
/// Condition numbers of the inputs' covariance.
const CONDITIONS: [u32; 7] = [1, 3, 10, 30, 100, 300, 1000];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    sizes(lab, note)?;
    conditions(lab, note)
}

/// The first evaluation prompts under an input distribution, inputs, queries and labels times `size`.
fn questions(lab: &Lab, inputs: &str, size: f64) -> Result<Questions> {
    let data = Data { inputs, ..ISOTROPIC.data };
    let count = lab.count.min(PROMPTS);
    let mut questions = data.task()?.questions(lab.seed, "eval", 0, count, vec![LAST], data.dim);
    questions.prompts.xs *= size;
    questions.prompts.ys *= size;
    questions.queries *= size;
    Ok(questions)
}

fn sizes(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let network = lab.network("r1")?;
    let mut found: Vec<(f64, Taken)> = Vec::new();
    for size in SIZES {
        // gradient descent with a constant step size diverges on the larger inputs
        let questions = questions(lab, "gaussian", size)?;
        found.push((size, lab.fingerprint_by(&*network, questions, &among(&ISOTROPIC)[..2])?));
    }
    let layers = network.default_steps();
    let cutoffs = |s: usize| -> Vec<(f64, f64)> {
        let of = |(size, taken): &(f64, Taken)| {
            taken.fingerprint.lengths[0].shapes[s].map(|shape| (*size, shape.cutoff.value))
        };
        found.iter().filter_map(of).collect()
    };
    let slope = |s: usize| {
        let logs: Vec<(f64, f64)> = cutoffs(s).iter().map(|(size, c)| (2.0 * size.ln(), c.ln())).collect();
        (logs.len() >= 3).then(|| line(&logs).1)
    };
    let slopes: Vec<f64> = (0..layers.len()).filter_map(slope).collect();
    note.claim("step-size", over_runs(&slopes), AtLeast(0.5))
        .says(format!(
            "Growth of the cut-off λ_c with the square of the inputs' size ({} to {}), in logarithms; mean over layers",
            SIZES[0],
            SIZES[SIZES.len() - 1]
        ))
        .ours("1 for η = 1/‖S‖, as Newton's starts have it; 0 for a constant η")
        .figure("sizes");
    let curves = layers.as_slice().iter().enumerate().filter(|(s, _)| cutoffs(*s).len() >= 3);
    let curves = curves.map(|(s, layer)| {
        Series::new(format!("layer {layer}"), cutoffs(s)).markers().grade(s as f64 / layers.len() as f64)
    });
    let left = LinesPanel::new(Axis::log10("size of the inputs"), Axis::log10("cut-off λ_c"), curves)
        .titled("where filters cut off");
    let last = layers.len() - 1;
    let remaining = found.iter().map(|(size, taken)| (*size, taken.fingerprint.lengths[0].remaining[last]));
    let right = LinesPanel::new(
        Axis::log10("size of the inputs"),
        Axis::log10("still to do, of the power of the answers"),
        [Series::estimates("last layer", remaining)],
    )
    .titled("what is left to do");
    let caption = format!(
        "R1 on {} prompts whose inputs and labels are made smaller or larger, after {LAST} pairs.",
        lab.count.min(PROMPTS)
    );
    note.figure("sizes", "Inputs of other sizes", caption, [left, right]);
    Ok(())
}

fn conditions(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let network = lab.network("r1")?;
    let mut found: Vec<(u32, Taken)> = Vec::new();
    for kappa in CONDITIONS {
        let inputs = if kappa == 1 { "gaussian".to_string() } else { format!("skewed:kappa={kappa}") };
        let questions = questions(lab, &inputs, 1.0)?;
        found.push((kappa, lab.fingerprint_by(&*network, questions, &among(&ISOTROPIC)[..2])?));
    }
    let behind = |taken: &Taken| taken.behind("Newton from S", "Newton from I");
    let gram_first = found.iter().filter(|(_, taken)| behind(taken).high < 0.0);
    let at: Vec<String> = gram_first.map(|(kappa, _)| kappa.to_string()).collect();
    let words = if at.is_empty() { "none".into() } else { at.join(", ") };
    note.claim("start-at-every-condition", at.len(), AtMost(0.0))
        .says(format!(
            "Condition numbers from 1 to 1000 at which Newton from αS leaves less of w − w_OLS than Newton from ηI beyond its \
             interval ({words})"
        ))
        .ours("The start of the identity is closer whatever the inputs")
        .figure("conditions");
    for (kappa, taken) in &found {
        note.claim(
            &format!("iterations-{kappa}"),
            taken.fingerprint.lengths[0].overall.iterations,
            Bound::None,
        )
        .says(format!("κ = {kappa}: Newton iterations that one layer is worth, mean over layers"))
        .figure("conditions");
    }
    let curve = |label: &str, value: &dyn Fn(&Taken) -> Estimate| {
        let points = found.iter().map(|(kappa, taken)| (f64::from(*kappa), value(taken)));
        Series::estimates(label, points.filter(|(_, e)| e.value.is_finite()).collect::<Vec<_>>())
    };
    let last = network.default_steps().len() - 1;
    let left = |name: &'static str| {
        move |taken: &Taken| taken.naming.of(name).map_or(Estimate::NONE, |named| named.score)
    };
    let x = || Axis::log10("condition number κ");
    let panels = [
        LinesPanel::new(
            x(),
            Axis::log10("still to do, of the power of the answers"),
            [curve("last layer", &|taken| taken.fingerprint.lengths[0].remaining[last])],
        )
        .titled("what is left to do"),
        LinesPanel::new(
            x(),
            Axis::linear("share of w − w_OLS that is left"),
            [curve("Newton from I", &left("Newton from I")), curve("Newton from S", &left("Newton from S"))],
        )
        .titled("by which algorithm"),
        LinesPanel::new(
            x(),
            Axis::linear("mean over layers").range(0.0, 3.0),
            [
                curve("exponent p", &|taken| taken.fingerprint.lengths[0].overall.exponent),
                curve("iterations per layer", &|taken| taken.fingerprint.lengths[0].overall.iterations),
            ],
        )
        .titled("fingerprint"),
    ];
    let caption = format!(
        "R1, trained on κ = 1 alone, on {} prompts of each condition number after {LAST} pairs (95 % bands).",
        lab.count.min(PROMPTS)
    );
    note.figure("conditions", "Inputs of other condition numbers", caption, panels);
    Ok(())
}
