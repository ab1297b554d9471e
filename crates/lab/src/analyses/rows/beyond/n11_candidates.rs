//! N11: which candidate does what a trained network does inside? Where labels live and what the states hold, of Transformers
//! built by hand and then of trained ones.

use super::n10_where_labels_live::PAIRS;
use super::n11_recursive::{Recursive, order};
use super::n11_splices::spliced;
use super::n11_tests::{Inside, MARGIN, TESTS, cell, measured_cell, verdict};
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{NOISY, ONE_HEAD, SKEWED};
use crate::constructions::{
    Constructed, Construction, Recipe, Start, Variant, build, build_causal, label_bound, step_limit,
};
use crate::data::seed::Seed;
use crate::networks::Weights;
use crate::patching::{Donor, Maps, Place};
use crate::states::{Options, Quantity, ReadOutKind, Role, States};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N11",
    order: 97,
    seconds: 44.0,
    title: "Which candidate computes as a trained network does?",
    summary: "Candidates are built as weights that are exactly their algorithms. Five numbers are measured inside of each: whether \
              labels are read bit by bit, whether the y tokens hold residuals, whether inputs are transformed by an approximate \
              inverse T_k of S at the y tokens and at the query, and by how many iterations the answer grows per layer. The same \
              numbers of a trained network refute a candidate where they differ by more than a margin that was set beforehand.",
    needs: &["r1", "r1-seed1", "r2", "r3", "r4"],
    cost: Cost::Minutes,
    run,
    ..Analysis::BEYOND
}];

/// Dimension and pairs of the constructions; what they hold does not depend on it.
pub(super) const BUILT: (usize, usize) = (6, 12);
/// Pairs read where only the past is seen.
const PAST: [usize; 3] = [8, 10, 12];
/// Iterations of the constructions.
const ITERATIONS: usize = 10;
/// Prompts that read-outs are fitted to and judged on; those of constructions, which are exact, are fewer.
const READ: [usize; 2] = [320, 96];
pub(super) const READ_BUILT: [usize; 2] = [240, 80];
/// Prompts, each with a donor, for constructions.
const PATCHED: usize = 16;
/// A read-out that reads a quantity exactly.
const EXACT: f64 = 0.99;
/// The reference algorithm: its iterations are what a layer is worth.
pub(super) const NEWTON: &str = "newton:start=identity";

/// The networks whose states are read, which takes weights: names in ids and in words. The second is of another recipe and seed.
const NETWORKS: [(&str, &str, Setting); 5] = [
    ("r1", "R1", ISOTROPIC),
    ("r1-muon", "R1 by Muon", Setting { network: "r1-seed1", ..ISOTROPIC }),
    ("r2", "R2", SKEWED),
    ("r3", "R3", NOISY),
    ("r4", "R4", ONE_HEAD),
];

/// What the candidate of [`Recursive`] is called.
const RECURSIVE: &str = "recursive least squares";

/// A candidate whose layers are iterations.
struct Candidate {
    name: &'static str,
    words: &'static str,
    variant: Variant,
    /// What the y tokens hold of it, iteration by iteration.
    holds: Quantity,
}

const CANDIDATES: [Candidate; 5] = [
    Candidate {
        name: "theorem",
        words: "Newton by the theorem",
        variant: Variant::Paper,
        holds: Quantity::Transformed,
    },
    Candidate {
        name: "compact",
        words: "Newton, labels read at the end",
        variant: Variant::Compact(Start::Identity),
        holds: Quantity::Transformed,
    },
    Candidate {
        name: "residual-form",
        words: "Newton in residual form",
        variant: Variant::Residual,
        holds: Quantity::Transformed,
    },
    Candidate { name: "gd", words: "gradient descent", variant: Variant::Gd, holds: Quantity::Residual },
    Candidate { name: "gd++", words: "GD++", variant: Variant::GdPlusPlus, holds: Quantity::Residual },
];

/// A candidate as weights, and what was measured inside.
struct Built {
    candidate: &'static Candidate,
    construction: Construction,
    labels: Maps,
    /// Read with the quantities of its own algorithm.
    own: States,
    /// Read with those of Newton from ηI; and of the same weights where only the past is seen, as trained networks see.
    inside: [Inside; 2],
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let built = CANDIDATES.iter().map(|c| Built::of(c, lab)).collect::<Result<Vec<_>>>()?;
    calibration(lab, note, &built)?;
    let recursive = Recursive::of(lab, note)?;
    let mut late = Estimate::NONE;
    let mut found: Vec<(&str, Inside)> = Vec::new();
    for (id, words, setting) in &NETWORKS {
        let (states, inside) = inside_of(lab, setting)?;
        for (test, value) in TESTS.iter().zip(inside.values) {
            let bound = if test.name == "read-gradually" { AtLeast(0.25) } else { Bound::None };
            let ours = if test.name == "read-gradually" {
                "Labels are read layer by layer, not at the end"
            } else {
                ""
            };
            let interval = (value.low < value.high).then_some((value.low, value.high));
            note.claim(&format!("{id}-{}", test.name), (value.value, interval), bound)
                .asks(&[setting.network])
                .says(test.says)
                .ours(ours)
                .figure("states");
        }
        if *id == "r1" {
            shown(note, &states);
            let residual = built.iter().find(|b| b.candidate.variant == Variant::Residual);
            spliced(lab, note, setting, &residual.expect("is a candidate").construction)?;
            late = order(lab, note, setting)?;
        }
        found.push((words, inside));
    }
    verdicts(note, &built, &recursive, &found, late);
    Ok(())
}

/// What is asked of states.
pub(super) fn options(algorithm: String, prompts: [usize; 2], pairs: &[usize], seed: Seed) -> Options {
    Options {
        algorithm,
        steps: (0..=12).collect(),
        quantities: vec![Quantity::Transformed, Quantity::Answer, Quantity::Residual, Quantity::Innovation],
        kind: ReadOutKind::Affine,
        prompts,
        pairs: pairs.to_vec(),
        other_pairs: Vec::new(),
        other_inputs: None,
        control: false,
        seed,
    }
}

/// η of the Newton iteration from ηI that a construction is read with.
fn newton_step(recipe: &Recipe) -> f64 {
    match recipe.variant.start() {
        // αS starts where ηI does on the largest eigenvalue
        Some(Start::Gram) => (recipe.step / 2.0).sqrt(),
        _ => recipe.step,
    }
}

/// Where labels live in a construction, and the five numbers of it.
fn measured(
    lab: &Lab,
    construction: &Construction,
    task: &Task,
    pairs: &[usize],
    step: f64,
) -> Result<(Maps, Inside)> {
    let (prompts, donors) = Donor::Labels.pairs(task, lab.seed, PATCHED);
    let labels = Maps::of_construction(construction, [&prompts, &donors], lab.seed)?;
    let newton = format!("{NEWTON},eta={step:e}");
    let states = States::of(construction, task, &options(newton, READ_BUILT, pairs, lab.seed))?;
    let inside = Inside::of(&labels, &states);
    Ok((labels, inside))
}

impl Built {
    fn of(candidate: &'static Candidate, lab: &Lab) -> Result<Built> {
        let (dim, pairs) = BUILT;
        lab.say(&format!("{} as weights", candidate.words));
        let task = Task::new("linear", "gaussian", dim, pairs + 1)?;
        let sample = task.sample(lab.seed, "candidates", 0, 256);
        let variant = candidate.variant;
        let recipe = Recipe {
            variant,
            iterations: ITERATIONS,
            dim,
            pairs,
            step: step_limit(variant, &sample, pairs) / 2.0,
            label_bound: 4.0 * label_bound(&sample),
        };
        let construction = build(&recipe)?;
        let algorithm = Constructed::new("candidate", construction.clone()).solver(pairs);
        let own = States::of(&construction, &task, &options(algorithm, READ_BUILT, &[pairs], lab.seed))?;
        let (labels, all) = measured(lab, &construction, &task, &[pairs], newton_step(&recipe))?;
        // means of xxᵀ over any pairs are bounded by the largest ‖x‖²
        let longest = (2.0 / step_limit(Variant::Causal, &sample, pairs)).sqrt();
        let causal = Recipe { step: 1.0 / longest, ..recipe };
        let past = match build_causal(&causal)? {
            Some(past) => measured(lab, &past, &task, &PAST, causal.step)?.1,
            None => Inside::none(),
        };
        Ok(Built { candidate, construction, labels, own, inside: [all, past] })
    }

    /// What a trained network should give if this is what it does: it sees only the past.
    fn expected(&self) -> &Inside {
        let [all, past] = &self.inside;
        if past.values[0].value.is_nan() { all } else { past }
    }

    /// Share of the iterations after which the y tokens hold what they should, read best at that very iteration; those are asked
    /// after which there is something left to read.
    fn as_theory_says(&self) -> f64 {
        let holds = self.candidate.holds;
        // the theorem's x columns hold it, and hand it to the y columns after the last iteration
        let (first, last) = match self.candidate.variant {
            Variant::Paper => (ITERATIONS, ITERATIONS),
            _ => (1, ITERATIONS),
        };
        let before = self.construction.before + usize::from(self.candidate.variant == Variant::Paper);
        // once it has converged, later iterations are as good
        let at = |k: usize| {
            let (layer, step) = (before + k, Some(k as u64));
            self.own.of_quantity(Role::Y, holds).find(move |d| d.layer == layer && d.step == step)
        };
        let there: Vec<usize> = (first..=last).filter(|&k| at(k).is_some_and(|d| !d.faint)).collect();
        let right = there.iter().filter(|&&k| {
            let layer = before + k;
            let at_layer = || self.own.of_quantity(Role::Y, holds).filter(move |d| d.layer == layer);
            let most = at_layer().map(|d| d.gain.value).fold(f64::NEG_INFINITY, f64::max);
            at(k).is_some_and(|d| d.gain.value >= EXACT.max(most - 1e-3))
        });
        right.count() as f64 / there.len() as f64
    }

    /// The largest |1 − (y + query)| over layers: what the y tokens and the query do not hold of the labels between them.
    fn elsewhere(&self) -> f64 {
        let at = |place: Place| self.labels.at(place).expect("patched");
        worst(at(Place::Y).into_iter().zip(at(Place::Query)).map(|(y, q)| (1.0 - y.value - q.value).abs()))
    }
}

fn calibration(lab: &Lab, note: &mut Notebook, built: &[Built]) -> Result<()> {
    for candidate in built {
        let Candidate { name, words, holds, .. } = candidate.candidate;
        note.claim(&format!("{name}-holds"), candidate.as_theory_says(), AtLeast(1.0))
            .asks(&[])
            .says(format!(
                "{words}, as weights: share of its iterations k after which its y tokens hold {} of that k, exactly",
                holds.formula()
            ))
            .ours("A construction holds what theory says, layer by layer")
            .figure("built");
        note.claim(&format!("{name}-labels"), candidate.elsewhere(), AtMost(1e-6))
            .asks(&[])
            .says(format!("{words}, as weights: what neither its y tokens nor its query hold of the labels, the most of all layers"))
            .ours("Labels are in the y tokens or in the answer")
            .figure("built");
    }
    let network = lab.opened(ISOTROPIC.network)?.probed.weights().network.clone();
    let untrained = Weights::new(network.clone(), network.layout().initial(&lab.seed));
    let states = states_of(lab, &untrained, &ISOTROPIC)?;
    let asked = [
        (Role::Y, Quantity::Residual),
        (Role::Y, Quantity::Innovation),
        (Role::Y, Quantity::Transformed),
        (Role::X, Quantity::Transformed),
        (Role::X, Quantity::Answer),
    ];
    let gains = asked.iter().flat_map(|&(role, q)| states.of_quantity(role, q)).map(|d| d.gain);
    let most = gains.max_by(|a, b| a.value.total_cmp(&b.value)).unwrap_or(Estimate::NONE);
    note.claim("untrained", most, AtMost(0.05))
        .asks(&[])
        .says("R1 before training: the largest gain of residuals, answers and T_k x, over layers and k")
        .ours("An untrained network holds none of it")
        .figure("built");
    let panels = built.iter().map(|b| b.labels.panel(b.candidate.words));
    let caption = format!(
        "How far answers of the constructions follow other labels, before each layer (d = {}, {} pairs, {ITERATIONS} iterations).",
        BUILT.0, BUILT.1
    );
    note.figure("built", "Where labels live in the candidates", caption, panels);
    Ok(())
}

fn states_of(lab: &Lab, weights: &Weights, setting: &Setting) -> Result<States> {
    let Data { function, inputs, dim, points } = setting.data;
    let task = Task::new(function, inputs, dim, points)?;
    let pairs: Vec<usize> = (5 * dim / 4..points).collect();
    let prompts = READ.map(|count| count.min(lab.count.max(64)));
    States::of(weights, &task, &options(NEWTON.into(), prompts, &pairs, lab.seed))
}

fn inside_of(lab: &Lab, setting: &Setting) -> Result<(States, Inside)> {
    let labels = lab.follows(setting.network, &setting.data, Donor::Labels, PAIRS)?;
    lab.say(&format!("reading the states of {}", setting.network));
    let states = states_of(lab, lab.opened(setting.network)?.probed.weights(), setting)?;
    let inside = Inside::of(&labels, &states);
    Ok((states, inside))
}

/// What the layers of R1 hold.
fn shown(note: &mut Notebook, states: &States) {
    let caption = "Share of what the token's own x and y leave that the residual stream explains, after each layer of R1, at the \
                   best number of iterations of Newton from ηI (95 % bands over prompts).";
    note.figure(
        "states",
        "What the layers of R1 hold",
        caption,
        [states.curves(Role::X, "x tokens"), states.curves(Role::Y, "y tokens")],
    );
    let caption = "The same by layer and number of iterations: at which k is each quantity read best?";
    note.figure(
        "maps",
        "Quantities by layer and iteration, R1",
        caption,
        [
            states.map(Role::X, Quantity::Answer, "x·w_k, x tokens"),
            states.map(Role::X, Quantity::Transformed, "T_k x, x tokens"),
            states.map(Role::Y, Quantity::Transformed, "T_k x, y tokens"),
            states.map(Role::Y, Quantity::Residual, "y − x·w_k, y tokens"),
        ],
    );
}

/// The numbers of candidates and networks, and what follows from them.
fn verdicts(
    note: &mut Notebook,
    built: &[Built],
    recursive: &Recursive,
    found: &[(&str, Inside)],
    late: Estimate,
) {
    let numbered = TESTS.iter().enumerate().map(|(i, test)| match test.margin {
        Some(_) => format!("{}: {}", i + 1, test.words),
        None => test.words.to_string(),
    });
    let columns = std::iter::once(String::new()).chain(numbered);
    let mut rows = Vec::new();
    for b in built {
        let mut row = vec![b.candidate.words.to_string()];
        let [all, past] = &b.inside;
        row.extend(all.values.iter().zip(&past.values).map(|(all, past)| match past.value.is_nan() {
            true => cell(all.value),
            false => format!("{} ({})", cell(past.value), cell(all.value)),
        }));
        rows.push(row);
    }
    let mut row = vec![RECURSIVE.to_string()];
    row.extend(recursive.inside.values.iter().map(|e| cell(e.value)));
    rows.push(row);
    for (words, inside) in found {
        let mut row = vec![words.to_string()];
        row.extend(inside.values.iter().map(measured_cell));
        rows.push(row);
    }
    let caption = "What each candidate gives, built as weights that see only the past, as the networks do (in brackets: that see \
                   the whole prompt and are exactly the algorithm), and what the networks give with 95 % intervals. Iterations \
                   per layer depend on step sizes, which a network may learn: they refute nothing.";
    note.table("numbers", "Inside candidates and networks", caption, columns, rows);

    let columns = std::iter::once("candidate").chain(found.iter().map(|(words, _)| *words));
    let mut rows: Vec<Vec<String>> = built
        .iter()
        .map(|b| {
            let said = found.iter().map(|(_, inside)| verdict(inside, b.expected()));
            std::iter::once(b.candidate.words.to_string()).chain(said).collect()
        })
        .collect();
    let asked = |i: usize| (i == 0).then_some(late); // of R1 alone
    let said = found.iter().enumerate().map(|(i, (_, inside))| recursive.verdict(inside, asked(i)));
    rows.push(std::iter::once(RECURSIVE.to_string()).chain(said).collect());
    let caption = format!(
        "A candidate is refuted where a network's whole interval is further from it than {MARGIN}, by the tests numbered above; it fits \
         where every interval is within. Tests that do neither are open. The last candidate reads labels one after the other, and R1 \
         was asked for that, too (N11.r1-order)."
    );
    note.table("verdicts", "Verdict per candidate", caption, columns, rows);
}
