//! N11, splices: layers of a network left out or run twice, beside a construction whose layers are iterations.

use super::n10_where_labels_live::PAIRS;
use super::n11_candidates::{BUILT, NEWTON};
use crate::analyses::kit::prelude::*;
use crate::constructions::Construction;
use crate::patching::{Splice, splices};

/// Layers left out and run twice: R1 beside Newton in residual form.
pub fn spliced(lab: &Lab, note: &mut Notebook, setting: &Setting, residual: &Construction) -> Result<()> {
    let Data { function, inputs, dim, .. } = setting.data;
    const SKIPS: [i64; 2] = [1, -1];
    let steps = Steps::range(0, 16);
    lab.say("leaving layers of r1 out");
    let prompts = Task::new(function, inputs, dim, PAIRS + 1)?.sample(lab.seed, "eval", 0, lab.count.min(32));
    let opened = lab.opened(setting.network)?;
    let trained = splices(&**opened.probed.weights(), &prompts, (NEWTON, &steps), &SKIPS, lab.seed)?;
    let (dim, pairs) = BUILT;
    let sample = Task::new("linear", "gaussian", dim, pairs + 1)?.sample(lab.seed, "eval", 0, 64);
    let newton = format!("{NEWTON},eta={:e}", residual.recipe.step);
    let exact = splices(residual, &sample, (&newton, &steps), &SKIPS, lab.seed)?;
    let whole = |all: &[Splice]| all[0].step.value;
    // splices among the iterations, not into or out of the layers before them
    let before = residual.before;
    let right = exact[1..].iter().filter(|s| s.from > before && s.to > before);
    let off = worst(right.map(|s| (s.step.value - (whole(&exact) - s.skipped() as f64)).abs()));
    note.claim("splices-built", off, AtMost(0.0))
        .asks(&[])
        .says("Newton in residual form, as weights: by how much the matched step differs from one fewer for each layer that is left out, and one more for each that is run twice")
        .ours("Its layers are iterations, so that a splice is a step")
        .figure("splices");
    let of_skip = |skip: i64| trained[1..].iter().filter(move |s| s.skipped() == skip);
    for (id, skip, words) in [("left-out", 1, "left out"), ("run-twice", -1, "run twice")] {
        let mut left: Vec<f64> = of_skip(skip).map(|s| s.left).collect();
        left.sort_by(f64::total_cmp);
        note.claim(&format!("r1-{id}"), left[left.len() / 2], Bound::None)
            .asks(&[setting.network])
            .says(format!(
                "Share of the answers that the closest iteration of Newton from ηI leaves when one layer is {words}; median over layers"
            ))
            .figure("splices");
    }
    let curve = |skip: i64, words: &str| {
        let at = |s: &Splice| (s.from.min(s.to) as f64, s.step);
        Series::estimates(words, of_skip(skip).map(at)).markers()
    };
    let left = |skip: i64, words: &str| {
        let at = |s: &Splice| (s.from.min(s.to) as f64, s.left);
        Series::new(words, of_skip(skip).map(at).collect::<Vec<_>>()).markers()
    };
    let x = || Axis::linear("layer left out, or run twice");
    let panels = [
        LinesPanel::new(
            x(),
            Axis::linear("closest Newton iteration"),
            [curve(1, "left out"), curve(-1, "run twice")],
        )
        .mark_y("the whole network", whole(&trained)),
        LinesPanel::new(
            x(),
            Axis::log10("left of the answers"),
            [left(1, "left out"), left(-1, "run twice")],
        )
        .mark_y("the whole network", trained[0].left),
    ];
    let caption = format!(
        "R1 after {PAIRS} pairs, with a layer left out or run twice: the iteration of Newton from ηI whose answers are closest, and what \
         it leaves of them. Were every layer one iteration of the same kind, the curves would be flat, one below and one above \
         the line."
    );
    note.figure("splices", "Layers left out and run twice", caption, panels);
    Ok(())
}
