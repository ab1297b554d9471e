//! N10: where in a network do the labels live? Its activations are replaced by those of the same prompt with other labels.
//!
//! The bounds were written on 2026-11-17, after a first look at R1 of another recipe; R2, R3 and R4 had not been asked, R5 and three
//! of the four seeds not trained.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, NOISY, ONE_HEAD, SKEWED};
use crate::patching::{Donor, Maps, PATCHED, Patched, Place};
use crate::stats::over_runs;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N10",
    order: 95,
    seconds: 2.0,
    title: "Where do the labels live, layer by layer?",
    summary: "Two learners that answer alike may compute differently. A query is answered after 30 pairs; then the residual stream \
              before a layer is taken from a run on the same inputs with labels of another function, at the x tokens, the y \
              tokens or the query, and the rest is computed from there. The answer goes to that of the other labels as far as \
              those tokens hold what was read of them. The theorem's construction builds its matrix from the inputs and reads \
              the labels at the end: it would keep them in the y tokens up to its last layers.",
    needs: &["r1", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4", "r2", "r3", "r4", "r5"],
    cost: Cost::Minutes,
    run,
    ..Analysis::BEYOND
}];

/// Pairs before the query.
pub(super) const PAIRS: usize = 30;
/// All numbers of pairs that are asked.
const EVERY_PAIRS: [usize; 4] = [10, 20, 30, 40];

/// A network, or several seeds of one recipe.
struct Asked {
    /// In the ids of claims.
    name: &'static str,
    words: &'static str,
    data: Data<'static>,
    networks: &'static [&'static str],
}

static ASKED: [Asked; 6] = [
    Asked { name: "r1", words: "R1", data: ISOTROPIC.data, networks: &["r1"] },
    Asked {
        name: "r1-muon",
        words: "R1 by Muon, four seeds",
        data: ISOTROPIC.data,
        networks: &["r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4"],
    },
    Asked { name: "r2", words: "R2", data: SKEWED.data, networks: &["r2"] },
    Asked { name: "r3", words: "R3", data: NOISY.data, networks: &["r3"] },
    Asked { name: "r4", words: "R4", data: ONE_HEAD.data, networks: &["r4"] },
    Asked { name: "r5", words: "R5, 24 layers", data: DEEP.data, networks: &["r5"] },
];

impl Asked {
    /// How far its answers follow other labels, by role: of one network over prompts, of several over seeds.
    fn labels(&self, lab: &Lab, pairs: usize) -> Result<Maps> {
        let follows = |network: &&str| lab.follows(network, &self.data, Donor::Labels, pairs);
        let mut all = self.networks.iter().map(follows).collect::<Result<Vec<_>>>()?;
        let first = all.remove(0);
        if all.is_empty() {
            return Ok(first);
        }
        let over = |layer: usize, place: usize| {
            let every = std::iter::once(&first).chain(&all);
            over_runs(&every.map(|of| of.follows[layer][place].value).collect::<Vec<_>>())
        };
        let places = 0..first.places.len();
        let follows =
            (0..first.follows.len()).map(|layer| places.clone().map(|place| over(layer, place)).collect());
        Ok(Maps { follows: follows.collect(), ..first })
    }

    /// The layer before which the y tokens hold half of the labels.
    fn halfway(&self, lab: &Lab, pairs: usize) -> Result<Estimate> {
        let of = |network: &&str| -> Result<Estimate> {
            let found: &Patched = &*lab.patched(network, &self.data, Donor::Labels, pairs)?;
            let y = Place::ROLES.iter().position(|role| *role == Place::Y).expect("is a role");
            Ok(bootstrap(lab.seed, found.base.len(), |chosen| halfway(&found.share(y, chosen))))
        };
        match self.networks.iter().map(of).collect::<Result<Vec<_>>>()?.as_slice() {
            [one] => Ok(*one),
            several => Ok(over_runs(&several.iter().map(|e| e.value).collect::<Vec<_>>())),
        }
    }
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let mut found = Vec::new();
    for asked in &ASKED {
        let maps = asked.labels(lab, PAIRS)?;
        judge(note, asked, &maps);
        found.push(maps);
    }
    let caption = format!(
        "Share of the way to the answer for other labels, by the tokens whose residual stream before a layer comes from the run with \
         these ({PATCHED} prompts, {PAIRS} pairs, 95 % bands: over prompts, of seeds over these). Labels begin in the y tokens and end \
         in the query."
    );
    let panels: Vec<Panel> = ASKED.iter().zip(&found).map(|(asked, maps)| maps.panel(asked.words)).collect();
    note.figure("roles", "Where labels live", caption, panels);
    let others = EVERY_PAIRS.iter().filter(|&&pairs| pairs != PAIRS).map(|&pairs| {
        let maps = lab.follows(ISOTROPIC.network, &ISOTROPIC.data, Donor::Labels, pairs)?;
        Ok(maps.panel(&format!("{pairs} pairs")))
    });
    let caption = format!("As before ({PATCHED} prompts), R1 after other numbers of pairs; d = {DIM}.");
    note.figure(
        "pairs",
        "Where labels live after fewer and more pairs",
        caption,
        others.collect::<Result<Vec<_>>>()?,
    );
    let inputs = lab.follows(ISOTROPIC.network, &ISOTROPIC.data, Donor::Inputs, PAIRS)?;
    let caption = format!(
        "The same for other inputs under the same function, the query included ({PATCHED} prompts, {PAIRS} pairs): R1."
    );
    note.figure("inputs", "Where inputs live", caption, [inputs.panel("R1")]);
    by_layer(note, &found);
    by_pairs(lab, note)
}

/// What is claimed of each network.
fn judge(note: &mut Notebook, asked: &Asked, maps: &Maps) {
    let at = |place: Place| maps.at(place).expect("a role");
    let (x, y, query) = (at(Place::X), at(Place::Y), at(Place::Query));
    let largest = |of: &[Estimate]| {
        of.iter().copied().max_by(|x, y| x.value.abs().total_cmp(&y.value.abs())).unwrap_or(Estimate::NONE)
    };
    let size = |e: Estimate| match e.value < 0.0 {
        true => Estimate { value: -e.value, low: -e.high, high: -e.low },
        false => e,
    };
    let Asked { name, networks, .. } = asked;
    let middle = y.len() / 2; // before layer 7 of 12
    note.claim(&format!("{name}-x-tokens"), size(largest(&x)), AtMost(0.1))
        .asks(networks)
        .says("How far answers follow other labels in the x tokens of the pairs; the most, of all layers")
        .ours("Labels are not in the x tokens")
        .figure("roles");
    note.claim(&format!("{name}-middle"), y[middle], AtMost(0.9))
        .asks(networks)
        .says(format!("How far they follow other labels in the y tokens before layer {}", middle + 1))
        .ours("By the theorem's construction labels would be read at the end: 1 up to the last layers")
        .figure("roles");
    note.claim(&format!("{name}-query"), query[query.len() - 1], AtLeast(0.95))
        .asks(networks)
        .says("How far they follow other labels in the query before the last layer")
        .ours("The answer is in the query before the last layer")
        .figure("roles");
}

/// The numbers behind the first figure.
fn by_layer(note: &mut Notebook, found: &[Maps]) {
    let depth = found.iter().map(|maps| maps.follows.len()).max().unwrap_or(0);
    let rows = (0..depth).map(|layer| {
        let cells = found.iter().map(|maps| match maps.follows.get(layer) {
            Some(_) => {
                // + 0.0: what rounds to nothing has no sign
                let at = |place: Place| {
                    (100.0 * maps.at(place).expect("a role")[layer].value).round() / 100.0 + 0.0
                };
                let cell = format!("{:.2} / {:.2} / {:.2}", at(Place::Y), at(Place::X), at(Place::Query));
                cell.replace('-', "−")
            }
            None => String::new(),
        });
        std::iter::once((layer + 1).to_string()).chain(cells).collect()
    });
    let columns = std::iter::once("before layer").chain(ASKED.iter().map(|asked| asked.words));
    let caption =
        format!("How far answers follow other labels in y tokens / x tokens / query; {PAIRS} pairs.");
    note.table("layers", "Where labels live, by layer", caption, columns, rows.collect::<Vec<_>>());
}

/// When the labels leave the y tokens, after few and many pairs.
fn by_pairs(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let row = |asked: &Asked| -> Result<Vec<String>> {
        let cells = EVERY_PAIRS.iter().map(|&pairs| Ok(asked.halfway(lab, pairs)?.cell(1)));
        std::iter::once(Ok(asked.words.to_string())).chain(cells).collect()
    };
    let rows = ASKED.iter().map(row).collect::<Result<Vec<_>>>()?;
    let columns = std::iter::once(String::new()).chain(EVERY_PAIRS.map(|pairs| format!("{pairs} pairs")));
    let caption = "The layer before which answers follow other labels in the y tokens half as far as before the first; 95 % intervals \
                   over prompts, or over seeds. The theorem's weights would keep them to the last iteration.";
    note.table("halfway", "Layer by which half of the labels leave the y tokens", caption, columns, rows);
    Ok(())
}

/// The layer, from 1 and between layers, at which a curve that falls is at half of its first value.
pub(super) fn halfway(curve: &[f64]) -> f64 {
    let below = curve.iter().position(|v| *v < curve[0] / 2.0).unwrap_or(curve.len() - 1).max(1);
    let (above, at) = (curve[below - 1], curve[below]);
    below as f64 + ((above - curve[0] / 2.0) / (above - at)).clamp(0.0, 1.0)
}
