//! F10: against the logarithm of gradient descent's steps the best matches are a straight line.

use super::f03_f16_f22_f24_error_maps::{AGAINST_A_LINE, over_a_line};
use crate::analyses::kit::prelude::*;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F10",
    paper: Some(("Figure 10", "A.2.2")),
    order: 100,
    title: "Are the layers a straight line against log₂ of gradient descent's steps?",
    summary: "The map of F3 with steps that double: what is exponential there would be straight here. What is straight is told from \
              what bends by comparing models: a power law and a parabola bend on this axis, too.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let doubling = Baseline { steps: "pow2:0..=14", ..ISOTROPIC.gd }.doubling();
    let gd = ISOTROPIC.errors(lab, doubling)?.with_authors(ISOTROPIC.by_authors(lab, doubling)?);
    let finer = ISOTROPIC.errors(lab, ISOTROPIC.gd)?;
    let between = "two steps per doubling";
    note.trend("straight", &gd, Trend::Exponential)
        .quoted("on that plot there is a linear correspondence between Transformers and GD's steps")
        .also(between, finer.evidence(Trend::Exponential))
        .also(AGAINST_A_LINE, over_a_line(&gd))
        .figure("best");
    note.slope("doublings", &gd, Trend::Exponential, Bound::None)
        .ours("the paper has no number")
        .also(between, finer.per_step(Trend::Exponential))
        .figure("best");
    let title = "Similarity of errors with gradient descent, steps doubling";
    let theirs = gd.authors().map(|authors| authors.map_panel("The authors' protocol"));
    let caption = format!(
        "SimE of every layer with GD after numbers of steps that double ({}). Outlined: best match of each layer. Left: as the \
         authors have it, 2⁰ to 2¹² steps on 320 prompts. Right: on all {} prompts. {}{}{}",
        ISOTROPIC.words,
        lab.count,
        gd.describe(),
        gd.floor_words(&ISOTROPIC),
        gd.rule()
    );
    note.figure("map", title, caption, theirs.into_iter().chain([gd.map_panel("All prompts")]));
    note.best(&ISOTROPIC, &[&gd.titled("Steps that double"), &finer.titled("Two steps per doubling")]);
    Ok(())
}
