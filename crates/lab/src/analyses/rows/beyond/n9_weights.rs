//! N9, Transformers built by hand: exact, and with noise on their weights.

use super::n9_known::Bench;
use crate::analyses::kit::prelude::*;
use crate::constructions::{
    Constructed, Construction, Recipe, Start, Variant, build, label_bound, step_limit,
};
use crate::data::seed::Seed;
use crate::fingerprint::Naming;

/// Of the root mean square of each tensor.
const LEVELS: [f64; 5] = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3];
/// Draws of the noise at each level.
const DRAWS: u64 = 3;
/// Dimension and pairs: a Transformer of width 3d + 5 is run a few thousand times, so that d is small.
const SIZE: (usize, [usize; 2]) = (5, [7, 10]);
/// Prompts.
const PROMPTS: usize = 64;

/// A construction.
struct Built {
    label: &'static str,
    variant: Variant,
    /// Steps that are shown.
    steps: &'static str,
    /// Steps of its algorithm that are searched.
    searched: &'static str,
    /// Another one whose algorithm makes the same weights at these steps.
    same: Option<&'static str>,
}

const GD: &str = "gradient descent";

static BUILT: [Built; 3] = [
    Built {
        label: "Newton from αS",
        variant: Variant::Compact(Start::Gram),
        steps: "1..=13/2",
        searched: "0..=30",
        same: None,
    },
    Built {
        label: "Newton from ηI",
        variant: Variant::Compact(Start::Identity),
        steps: "0..=6",
        searched: "0..=12",
        same: Some(GD), // with the same η, at 2^k
    },
    Built { label: GD, variant: Variant::Gd, steps: "1..=3,5,7,10,15,20", searched: "1..=64", same: None },
];

/// A construction that was built, and what its algorithm is called.
struct Exact {
    built: &'static Built,
    learner: Constructed,
    solver: String,
}

/// One construction at one level of noise.
struct Found {
    label: &'static str,
    level: f64,
    /// Share of the draws in which its algorithm is named, and nothing that is something else; in which it is among the names.
    named: [f64; 2],
    /// What its algorithm leaves, mean over draws.
    left: f64,
    /// The closest of all others, of the first draw, and what the closest leaves, mean over draws.
    next: (String, f64),
}

/// Names the constructions and writes down what was found.
pub fn constructions(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let all = BUILT.iter().map(|built| Exact::of(built, lab.seed)).collect::<Result<Vec<_>>>()?;
    let own: Vec<(String, &str)> = all.iter().map(|e| (e.solver.clone(), e.built.searched)).collect();
    let bench = Bench::new(lab.seed, SIZE, lab.count.clamp(24, PROMPTS), &own)?;
    let mut found: Vec<Found> = Vec::new();
    for exact in &all {
        lab.say(&format!("{}, with noise on its weights", exact.built.label));
        let same = all.iter().find(|other| exact.built.same == Some(other.built.label));
        let names: Vec<&str> = [Some(exact), same].into_iter().flatten().map(|e| e.solver.as_str()).collect();
        for level in [0.0].into_iter().chain(LEVELS) {
            found.push(exact.at_level(level, &names, &bench, lab.seed)?);
        }
    }
    let share = |level: f64| {
        let of: Vec<f64> = found.iter().filter(|f| f.level == level).map(|f| f.named[0]).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    // The bounds were written on 2026-11-17, before any of it was measured; levels after the first were then set closer to it.
    note.claim("constructions", share(0.0), AtLeast(1.0))
        .says("Share of the exact constructions of which their algorithm is named, and nothing that is something else")
        .ours("Their weights are those of their algorithms")
        .figure("weights");
    for (i, level) in LEVELS.into_iter().enumerate() {
        note.claim(
            &format!("weights-{}", i + 1),
            share(level),
            if i == 0 { AtLeast(0.95) } else { Bound::None },
        )
        .says(format!(
            "The same with noise of {level:e} of each tensor's root mean square, over {DRAWS} draws each"
        ))
        .ours(if i == 0 { "A little noise changes no name" } else { "" })
        .figure("weights");
    }
    shown(note, &found);
    Ok(())
}

impl Exact {
    /// With half of the largest step that converges on the prompts.
    fn of(built: &'static Built, seed: Seed) -> Result<Exact> {
        let (dim, [_, pairs]) = SIZE;
        let prompts = Task::new("linear", "gaussian", dim, pairs + 1)?.sample(seed, "eval", 0, PROMPTS);
        let recipe = Recipe {
            variant: built.variant,
            iterations: Steps::parse(built.steps)?.last() as usize,
            dim,
            pairs,
            step: step_limit(built.variant, &prompts, pairs) / 2.0,
            label_bound: label_bound(&prompts),
        };
        let learner = Constructed::new(built.label, build(&recipe)?);
        let solver = learner.solver(pairs);
        Ok(Exact { built, learner, solver })
    }

    /// Names it with noise; `right` are its names, its own first.
    fn at_level(&self, level: f64, right: &[&str], bench: &Bench, seed: Seed) -> Result<Found> {
        let steps = Steps::parse(self.built.steps)?;
        let named = |construction: Construction| {
            bench.name(&Constructed::new(self.built.label, construction), &steps)
        };
        let exact = self.learner.construction();
        let namings: Vec<Naming> = match level {
            0.0 => vec![named(exact.clone())?],
            // what diverges is not named
            _ => (0..DRAWS).filter_map(|draw| named(exact.perturbed(level, seed, draw)).ok()).collect(),
        };
        let draws = if level == 0.0 { 1.0 } else { DRAWS as f64 };
        let share = |of: &dyn Fn(&str) -> bool, all: bool| {
            let holds = |names: Vec<&str>| {
                if all { !names.is_empty() && names.into_iter().all(of) } else { names.into_iter().any(of) }
            };
            namings.iter().filter(|naming| holds(naming.names())).count() as f64 / draws
        };
        let is_right = |name: &str| right.contains(&name);
        let mean = |of: &dyn Fn(&Naming) -> f64| namings.iter().map(of).sum::<f64>() / namings.len() as f64;
        let next = |naming: &Naming| {
            let other = naming.candidates.iter().find(|c| !right.contains(&c.name.as_str()));
            other.map_or(("none".into(), f64::NAN), |c| (c.name.clone(), c.score.value))
        };
        Ok(Found {
            label: self.built.label,
            level,
            named: [share(&is_right, true), share(&is_right, false)],
            left: mean(&|naming| naming.of(right[0]).map_or(f64::NAN, |own| own.score.value)),
            next: (
                namings.first().map_or("none".into(), |naming| next(naming).0),
                mean(&|naming| next(naming).1),
            ),
        })
    }
}

fn shown(note: &mut Notebook, found: &[Found]) {
    let panels = BUILT.iter().map(|built| {
        let noisy = || found.iter().filter(|f| f.label == built.label && f.level > 0.0);
        let curve = |label: &str, of: fn(&Found) -> f64| {
            Series::new(label, noisy().map(|f| (f.level, of(f))).collect()).markers()
        };
        let curves = [curve("its algorithm", |f| f.left), curve("the closest other", |f| f.next.1)];
        let y = Axis::log10("share of w − w_OLS that is left");
        LinesPanel::new(Axis::log10("noise, of a tensor's root mean square"), y, curves).titled(built.label)
    });
    let (dim, [first, last]) = SIZE;
    let caption = format!(
        "Transformers built by hand (d = {dim}, {first} and {last} pairs) with Gaussian noise on every weight, zeros included: what the \
         algorithm they were built as leaves at its best steps, and what the closest other leaves. Means of {DRAWS} draws; queries are \
         hidden from other columns, as in the exact weights."
    );
    note.figure("weights", "Constructions with noise on their weights", caption, panels.collect::<Vec<_>>());
    let rows = found.iter().map(|f| {
        vec![
            f.label.to_string(),
            if f.level == 0.0 { "exact".into() } else { format!("{:e}", f.level) },
            format!("{:.0} %", 100.0 * f.named[0]),
            format!("{:.0} %", 100.0 * f.named[1]),
            format!("{:.2e}", f.left),
            f.next.0.clone(),
            format!("{:.2e}", f.next.1),
        ]
    });
    let columns = [
        "construction",
        "noise",
        "named",
        "among the names",
        "its algorithm leaves",
        "closest other",
        "leaves",
    ];
    let caption = "Named: share of the draws in which its algorithm is named, and nothing that is something else (gradient descent at 2^k steps is Newton from ηI at k); among the names: others cannot be told from it. The closest other is that of the first draw.";
    note.table("weights", "Constructions by noise", caption, columns, rows.collect::<Vec<_>>());
}
