//! N10: where in a network do the labels live? Its activations are replaced by those of the same prompt with other labels.
//!
//! The bounds were written on 2026-11-17, after a first look at R1 of another recipe; R2, R3 and R4 had not been asked.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{NOISY, ONE_HEAD, SKEWED};
use crate::patching::{Donor, Maps, Part, Place};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N10",
    order: 95,
    seconds: 18.0,
    title: "Where do the labels live, layer by layer?",
    summary: "Two learners that answer alike may compute differently. A query is answered after 30 pairs; then the residual stream \
              before a layer is taken from a run on the same inputs with labels of another function, at the x tokens, the y \
              tokens or the query, and the rest is computed from there. The answer goes to that of the other labels as far as \
              those tokens hold what was read of them. The theorem's construction builds its matrix from the inputs and reads \
              the labels at the end: it would keep them in the y tokens up to its last layers.",
    needs: &["r1", "r1-seed1", "r2", "r3", "r4"],
    cost: Cost::Minutes,
    run,
    ..Analysis::BEYOND
}];

/// Pairs before the query.
pub(super) const PAIRS: usize = 30;
/// Prompts, each with a donor.
const PATCHED: usize = 32;

/// The networks that are asked, here and in N11: names in ids and in words. The second is of another recipe and seed.
pub(super) const NETWORKS: [(&str, &str, Setting); 5] = [
    ("r1", "R1", ISOTROPIC),
    ("r1-muon", "R1 by Muon", Setting { network: "r1-seed1", ..ISOTROPIC }),
    ("r2", "R2", SKEWED),
    ("r3", "R3", NOISY),
    ("r4", "R4", ONE_HEAD),
];
/// Other numbers of pairs, for R1.
const OTHERS: [usize; 3] = [10, 20, 40];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let mut panels: Vec<Panel> = Vec::new();
    for (id, words, setting) in &NETWORKS {
        let found = maps(lab, setting, Donor::Labels, PAIRS)?;
        let at = |place: Place| found.at(place).expect("a role");
        let (x, y, query) = (at(Place::X), at(Place::Y), at(Place::Query));
        let largest = |of: &[Estimate]| {
            of.iter()
                .copied()
                .max_by(|x, y| x.value.abs().total_cmp(&y.value.abs()))
                .unwrap_or(Estimate::NONE)
        };
        let size = |e: Estimate| match e.value < 0.0 {
            true => Estimate { value: -e.value, low: -e.high, high: -e.low },
            false => e,
        };
        let middle = y.len() / 2; // before layer 7 of 12
        note.claim(&format!("{id}-x-tokens"), size(largest(&x)), AtMost(0.1))
            .asks(&[setting.network])
            .says("How far answers follow other labels in the x tokens of the pairs; the most, of all layers")
            .ours("Labels are not in the x tokens")
            .figure("roles");
        note.claim(&format!("{id}-middle"), y[middle], AtMost(0.9))
            .asks(&[setting.network])
            .says(format!("How far they follow other labels in the y tokens before layer {}", middle + 1))
            .ours("By the theorem's construction labels would be read at the end: 1 up to the last layers")
            .figure("roles");
        note.claim(&format!("{id}-query"), query[query.len() - 1], AtLeast(0.95))
            .asks(&[setting.network])
            .says("How far they follow other labels in the query before the last layer")
            .ours("The answer is in the query before the last layer")
            .figure("roles");
        panels.push(found.panel(words));
    }
    let caption = format!(
        "Share of the way to the answer for other labels, by the tokens whose residual stream before a layer comes from the run with \
         these ({PATCHED} prompts, {PAIRS} pairs, 95 % bands). Labels begin in the y tokens and end in the query."
    );
    note.figure("roles", "Where labels live", caption, panels);
    let others = OTHERS
        .iter()
        .map(|&pairs| Ok(maps(lab, &ISOTROPIC, Donor::Labels, pairs)?.panel(&format!("{pairs} pairs"))));
    let caption = format!("As before ({PATCHED} prompts), R1 after other numbers of pairs; d = {DIM}.");
    note.figure(
        "pairs",
        "Where labels live after fewer and more pairs",
        caption,
        others.collect::<Result<Vec<_>>>()?,
    );
    let inputs = maps(lab, &ISOTROPIC, Donor::Inputs, PAIRS)?;
    let caption = format!(
        "The same for other inputs under the same function, the query included ({PATCHED} prompts, {PAIRS} pairs): R1."
    );
    note.figure("inputs", "Where inputs live", caption, [inputs.panel("R1")]);
    Ok(())
}

/// How far answers of a network follow donors, by role.
pub(super) fn maps(lab: &Lab, setting: &Setting, donor: Donor, pairs: usize) -> Result<Maps> {
    let opened = lab.opened(setting.network)?;
    lab.say(&format!("patching {}", setting.network));
    let Data { function, inputs, dim, .. } = setting.data;
    let task = Task::new(function, inputs, dim, pairs + 1)?;
    let (prompts, donors) = donor.pairs(&task, lab.seed, lab.count.min(PATCHED));
    Maps::of(opened.probed.weights(), [&prompts, &donors], Part::Stream, Place::ROLES.to_vec(), lab.seed)
}
