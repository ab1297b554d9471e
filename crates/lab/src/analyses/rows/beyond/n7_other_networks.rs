//! N7: is the fingerprint that of the task, or of one network? Seeds, recipes, tasks, architectures, and numbers of pairs.
//!
//! The bounds are those of N5, written on 2026-11-17 before these networks were asked.

use crate::analyses::kit::fingerprints::{ITERATIONS, Number, SHAPE, Taken};
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, NOISY, ONE_HEAD, SKEWED};
use crate::fingerprint::AfterPairs;
use crate::stats::over_runs;

use super::n4_recipes::SEEDS;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N7",
    order: 70,
    seconds: 7.5,
    title: "Do other networks have the same fingerprint?",
    summary: "The measurements of N5 for the same network by another recipe and from five seeds, with ReLU in place of softmax, on \
              ill-conditioned inputs and noisy labels, with one head, and with 24 layers; after 15 to 40 pairs. Of most of these \
              networks only predictions are kept, so that all filters come from one query per prompt, the next point. With fewer pairs \
              than dimensions, directions that no pair has read are left out.",
    needs: &[
        "r1", "r1-fast", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4", "r1-relu", "r2", "r3", "r4", "r5",
    ],
    cost: Cost::Minutes,
    run,
    ..Analysis::BEYOND
}];

/// Pairs read; the last one decides.
const LENGTHS: [usize; 6] = [15, 20, 25, 30, 35, 40];

/// A network that is asked.
struct Asked {
    id: &'static str,
    words: &'static str,
    setting: Setting,
}

fn networks() -> Vec<Asked> {
    let asked = |id, words, setting| Asked { id, words, setting };
    let r1 = |network: &'static str| Setting { network, ..ISOTROPIC };
    vec![
        asked("r1", "R1", r1("r1")),
        asked("r1-relu", "R1 with ReLU", r1("r1-relu")),
        asked("r2", "R2, κ = 100", SKEWED),
        asked("r3", "R3, noisy labels", NOISY),
        asked("r4", "R4, one head", ONE_HEAD),
        asked("r5", "R5, 24 layers", DEEP),
    ]
}

/// What is asked of every network.
const NUMBERS: [Number; 2] = [SHAPE, ITERATIONS];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let mut found: Vec<(&str, Taken)> = Vec::new();
    for Asked { id, words, setting } in networks() {
        let taken = lab.fingerprint_of_predictions(&setting, &LENGTHS)?;
        let decides = taken.fingerprint.after(LAST).expect("asked");
        for Number { name, says, of, bound, expected } in NUMBERS {
            note.claim(&format!("{id}-{name}"), of(decides), bound)
                .asks(&[setting.network])
                .says(format!("{words}, after {LAST} pairs: {says}"))
                .ours(expected);
        }
        if id != "r1" {
            note.claim(&format!("{id}-start"), taken.behind("Newton from S", "Newton from I"), AtLeast(0.0))
                .asks(&[setting.network])
                .says(format!("{words}: share of w − w_OLS that Newton from αS leaves, less that which Newton from ηI leaves"))
                .ours("The start of the identity is closer");
        }
        found.push((words, taken));
    }
    let seed =
        |network: &&'static str| lab.fingerprint_of_predictions(&Setting { network, ..ISOTROPIC }, &LENGTHS);
    let seeds: Vec<Taken> = SEEDS.iter().map(seed).collect::<Result<_>>()?;
    let decides = |taken: &Taken| taken.fingerprint.after(LAST).expect("asked").clone();
    for Number { name, says, of, bound, expected } in NUMBERS {
        let values: Vec<f64> = seeds.iter().map(|taken| of(&decides(taken)).value).collect();
        note.claim(&format!("seeds-{name}"), over_runs(&values), bound)
            .asks(&SEEDS)
            .says(format!("R1 by Muon, after {LAST} pairs: {says}, mean over five seeds"))
            .ours(expected);
    }
    let behind: Vec<f64> = seeds.iter().map(|t| t.behind("Newton from S", "Newton from I").value).collect();
    note.claim("seeds-start", over_runs(&behind), AtLeast(0.0))
        .asks(&SEEDS)
        .says("R1 by Muon: share of w − w_OLS that Newton from αS leaves, less that which Newton from ηI leaves, mean over five seeds")
        .ours("The start of the identity is closer");
    figure(note, &found, &seeds);
    found.extend(seeds.into_iter().zip(SEEDS).map(|(taken, name)| (name, taken)));
    table(note, &found);
    Ok(())
}

fn figure(note: &mut Notebook, found: &[(&str, Taken)], seeds: &[Taken]) {
    let panel = |label: &str, expected: (&str, f64), value: fn(&AfterPairs) -> Estimate| {
        let curves = found.iter().map(|(words, taken)| {
            let points = taken.fingerprint.lengths.iter().map(|after| (after.pairs as f64, value(after)));
            Series::estimates(*words, points.filter(|(_, e)| e.value.is_finite()))
        });
        let mean = |l: usize| {
            over_runs(&seeds.iter().map(|t| value(&t.fingerprint.lengths[l]).value).collect::<Vec<_>>())
        };
        let by_muon = LENGTHS.iter().enumerate().map(|(l, &pairs)| (pairs as f64, mean(l)));
        let curves = curves.chain([Series::estimates("R1 by Muon, five seeds", by_muon)]);
        LinesPanel::new(Axis::linear("pairs read"), Axis::linear(label).range(0.0, 3.0), curves)
            .mark_y(expected.0, expected.1)
            .mark_x("t = d", DIM as f64)
    };
    let panels = [
        panel("exponent p", ("from ηI", 1.0), |after| after.overall.exponent).mark_y("from αS", 2.0),
        panel("Newton iterations per layer", ("one", 1.0), |after| after.overall.iterations),
    ];
    let caption = "Means over the layers that have begun and are not done, by the pairs read (95 % bands over prompts, \
                   over seeds for the five). At κ = 100 filters are hardly known, or done, at most eigenvalues.";
    note.figure("networks", "Shape and rate by network and number of pairs", caption, panels);
}

fn table(note: &mut Notebook, found: &[(&str, Taken)]) {
    let mut rows = Vec::new();
    for (words, taken) in found {
        for after in taken.fingerprint.lengths.iter().filter(|after| [20, 30, LAST].contains(&after.pairs)) {
            let overall = &after.overall;
            rows.push(vec![
                words.to_string(),
                after.pairs.to_string(),
                overall.exponent.cell(2),
                overall.a.cell(2),
                overall.b.cell(2),
                overall.iterations.cell(2),
                taken.naming.candidates.first().map_or("–".into(), |closest| closest.name.clone()),
            ]);
        }
    }
    let columns = ["network", "pairs", "exponent p", "a", "b", "iterations per layer", "closest"];
    let caption = "Means over layers; 95 % intervals over prompts. Closest: the algorithm that leaves least of w − w_OLS over all \
                   numbers of pairs.";
    note.table("networks", "Fingerprints of other networks", caption, columns, rows);
}
