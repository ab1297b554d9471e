//! TH4: the causal variant of the paper's remark.

use super::constructed::{prompts, recipe};
use crate::analyses::kit::prelude::*;
use crate::constructions::{Constructed, Misprints, Variant, build_with};
use crate::stats::median_of;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH4",
    paper: Some(("Remark B.6", "B.2")),
    order: 40,
    title: "Does the construction carry over to a causal mask?",
    summary: "The paper remarks that the proof extends to causal attention for t > d, with 1/t and the coefficient \
              −½. Then column t iterates with its own mean of xxᵀ over the pairs it sees, and its T x differs from \
              that of later columns. Run are the score of the remark, ⟨x_t, T x_s⟩, under which such differences can \
              double with each layer, and the one with query and key exchanged, ⟨T x_t, x_s⟩, under which they can \
              only persist.",
    run,
    ..Analysis::THEORY
}];

/// Small problems: what is left of the error shows after fewer iterations.
const DIM: usize = 5;
const PAIRS: usize = 80;
const SHOWN: [u64; 6] = [6, 8, 10, 12, 14, 16];
/// Iterations at the end of the comparison.
const LATE: u64 = 16;
/// t at which errors are drawn and compared.
const LENGTHS: [usize; 13] = [1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 32, 50, 80];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = prompts(lab.seed, DIM, PAIRS, 1, lab.count.min(96))?;
    let steps = Steps::new(SHOWN.to_vec())?;
    let recipe = recipe(Variant::Causal, &prompts, LATE as usize);
    let run = |transposed: bool| {
        let misprints = Misprints { transposed, ..Misprints::default() };
        Constructed::new("causal", build_with(&recipe, misprints)?).trajectory(&prompts, &steps)
    };
    let (remarked, exchanged) = (run(true)?, run(false)?);
    // Medians: a few prompts explode, and a mean would show only them.
    let everyone: Vec<usize> = (0..prompts.count()).collect();
    let scaled = |of: &Trajectory, k: u64, t: usize| -> Vec<f64> {
        of.squared_errors(&prompts, k, t).iter().map(|e| e / DIM as f64).collect()
    };
    let at = |of: &Trajectory, k: u64, t: usize| median_of(&scaled(of, k, t), &everyone);
    let error = |of: &Trajectory, k: u64, t: usize| {
        let errors = scaled(of, k, t);
        bootstrap(lab.seed, errors.len(), |indices| median_of(&errors, indices))
    };
    let by_steps = |t: usize| SHOWN.map(|k| scaled(&exchanged, k, t));
    let (early, late) = (by_steps(8), by_steps(PAIRS));
    let best = |errors: &[Vec<f64>], chosen: &[usize]| {
        errors.iter().map(|errors| median_of(errors, chosen)).fold(f64::INFINITY, f64::min)
    };
    let resampled =
        |statistic: &(dyn Fn(&[usize]) -> f64 + Sync)| bootstrap(lab.seed, prompts.count(), statistic);
    let exchanged_best = "Query and key exchanged, best number of iterations";
    note.claim("remark", error(&remarked, LATE, PAIRS), AtLeast(10.0))
        .says(
            "Score of the remark: median squared error / d at t = 80 after 16 iterations (no prediction: about 0.5)",
        )
        .quoted("The rest of the proof follows similarly")
        .kind(Kind::Erratum);
    note.claim("exchanged", error(&exchanged, LATE, PAIRS), AtMost(0.02))
        .says("Query and key exchanged: the same")
        .quoted("up to the perturbation introduced by the error in the estimate");
    note.claim("falls", resampled(&|chosen| best(&early, chosen) / best(&late, chosen)), AtLeast(4.0))
        .says(format!("{exchanged_best}: error at t = 8 over error at t = 80"))
        .quoted("our proof can be extended to causal attention for n sufficiently larger than d");
    note.claim("newton", resampled(&|chosen| best(&late, chosen)), Within(1e-4, 0.02))
        .says(format!("{exchanged_best}: error / d that is left at t = 80, where Newton is at round-off"))
        .kind(Kind::Reference);
    let panel = |title: &str, of: &Trajectory| {
        let series = SHOWN.iter().enumerate().map(|(i, &k)| {
            let points = LENGTHS.iter().map(|&t| (t as f64, at(of, k, t)));
            Series::new(format!("k = {k}"), points.collect()).grade(i as f64 / (SHOWN.len() - 1) as f64)
        });
        let y = Axis::log10("median squared error / d").range(1e-3, 1e6);
        LinesPanel::new(Axis::log2("pairs read t"), y, series).titled(title).mark_x("t = d", DIM as f64)
    };
    let caption = format!(
        "Median squared error over d of the compact construction under a causal mask after k iterations (d = {DIM}, {} \
         prompts, one run for all t). Left, the score of the paper's remark; right, query and key exchanged, which is \
         the same in exact arithmetic when all columns share one T.",
        prompts.count()
    );
    let panels =
        [panel("score ⟨x_t, T x_s⟩, as remarked", &remarked), panel("score ⟨T x_t, x_s⟩", &exchanged)];
    note.figure("causal", "The causal variant: error against the pairs read", caption, panels);
    Ok(())
}
