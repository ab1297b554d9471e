//! N6: does Newton from another start resemble the layers better? Similarity of errors, as in F3, F8 and F13.
//!
//! The bounds were written on 2026-11-17, before these networks were held against the start of the identity. From αS the
//! residual of an eigenvalue is (1−αλ²)^(2^k), from ηI (1−ηλ)^(2^k): the first needs twice as many steps per halving of the
//! smallest eigenvalue it has learned, so that steps per layer differ by a factor of 2.

use crate::analyses::kit::fingerprints::FROM_IDENTITY;
use crate::analyses::kit::paired::{lead, paired};
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, NOISY, ONE_HEAD, SKEWED};
use crate::compare::matching::{Lead, Matching, ahead};
use crate::compare::rates::fit_rate;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N6",
    order: 60,
    seconds: 10.1,
    title: "Is half of \"three Newton steps per layer\" the start of the iteration?",
    summary: "The paper starts Newton's iteration from αS, which squares every eigenvalue: its first steps undo that. From M = ηI, η = \
              1/‖S‖_F, half as many steps reach the same error. Both are held against the layers of every network by similarity of \
              errors, each at its best step.",
    needs: &[
        "r1", "r1-fast", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4", "r1-relu", "r2", "r3", "r4", "r5",
    ],
    run,
    ..Analysis::BEYOND
}];

/// The first layer at which starts are compared, as in F8 and F13.
const FIRST: u64 = 3;

/// Networks: what they are called in ids, and their settings.
fn networks() -> [(&'static str, Setting); 11] {
    let r1 = |network: &'static str| Setting { network, ..ISOTROPIC };
    [
        ("r1", r1("r1")),
        ("r1-fast", r1("r1-fast")),
        ("r1-seed1", r1("r1-seed1")),
        ("r1-seed2", r1("r1-seed2")),
        ("r1-seed3", r1("r1-seed3")),
        ("r1-seed4", r1("r1-seed4")),
        ("r1-relu", r1("r1-relu")),
        ("r2", SKEWED),
        ("r3", NOISY),
        ("r4", ONE_HEAD),
        ("r5", DEEP),
    ]
}

/// One network against both starts and gradient descent.
struct Starts {
    identity: Compared,
    gram: Compared,
    gd: Compared,
}

impl Starts {
    fn measure(lab: &Lab, setting: &Setting) -> Result<Starts> {
        let identity = match setting.network {
            "r3" => Baseline { solver: "newton:start=identity,lambda=0.01", ..FROM_IDENTITY },
            _ => FROM_IDENTITY,
        };
        Ok(Starts {
            identity: setting.errors(lab, identity)?,
            gram: setting.errors(lab, setting.newton)?,
            gd: setting.errors(lab, setting.gd)?,
        })
    }

    /// Steps per layer from αS over those from ηI, on the same layers and prompts.
    fn factor(&self) -> Estimate {
        let slope = |of: &Matching, (first, last): (u64, u64)| {
            fit_rate(of, first, last).map_or(f64::NAN, |fit| fit.per_step(Trend::Linear).value)
        };
        let Some(layers) = self.gram.range() else { return Estimate::NONE };
        paired(&self.gram, &self.identity, |gram, identity| slope(gram, layers) / slope(identity, layers))
    }
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let mut found = Vec::new();
    for (id, setting) in networks() {
        lab.say(&format!("both starts against {id}"));
        let starts = Starts::measure(lab, &setting)?;
        let layers = setting.layers;
        let network = [setting.network];
        note.claim(&format!("{id}-factor"), starts.factor(), Within(1.8, 2.2))
            .asks(&network)
            .says(format!(
                "Newton steps per layer from αS over those from ηI (layers {} to {})",
                layers.0, layers.1
            ))
            .ours("2: from αS eigenvalues are squared first")
            .figure("steps");
        note.claim(
            &format!("{id}-identity-over-gram"),
            lead(&starts.identity, &starts.gram, FIRST, lab.seed),
            AtLeast(0.0),
        )
        .asks(&network)
        .says(format!(
            "SimE with Newton from ηI less that with Newton from αS, mean over layers from {FIRST} on"
        ))
        .ours("Closer with the start of the identity")
        .figure("similarity");
        note.claim(
            &format!("{id}-identity-over-gd"),
            lead(&starts.identity, &starts.gd, FIRST, lab.seed),
            AtLeast(0.0),
        )
        .asks(&network)
        .says(format!(
            "SimE with Newton from ηI less that with gradient descent, mean over layers from {FIRST} on"
        ))
        .ours("Closer with Newton from the identity")
        .figure("similarity");
        found.push((id, starts));
    }
    at_every_layer(lab, note, &found[0].1);
    figures(lab, note, &found);
    Ok(())
}

/// R1, layer by layer, as F13 asks it.
fn at_every_layer(lab: &Lab, note: &mut Notebook, r1: &Starts) {
    let leads = ahead(&r1.identity.map, &[&r1.gram.map, &r1.gd.map], FIRST.., lab.seed);
    let behind: Vec<&Lead> = leads.iter().filter(|lead| lead.second()).collect();
    let at = |lead: &&Lead| {
        let other = [r1.gram.baseline.label, r1.gd.baseline.label][lead.other];
        format!("{other} at layer {} by {:.4}", lead.step, -lead.difference.value)
    };
    let words = behind.iter().map(at).collect::<Vec<_>>().join(", ");
    note.claim("r1-behind", behind.len(), AtMost(0.0))
        .asks(&["r1"])
        .says(format!(
            "Layers from {FIRST} on at which Newton from αS or gradient descent is more similar than Newton from ηI beyond doubt ({})",
            if words.is_empty() { "none" } else { &words }
        ))
        .ours("With the right start Newton is first at every layer")
        .figure("similarity");
}

fn figures(lab: &Lab, note: &mut Notebook, found: &[(&str, Starts)]) {
    let (_, r1) = &found[0];
    let y = Axis::linear("SimE at the best step");
    let curves = [&r1.identity, &r1.gram, &r1.gd].map(Compared::curve);
    let panel = LinesPanel::new(Axis::linear("layer of R1"), y, curves);
    let caption =
        format!("R1, {} prompts, 95 % bands. Each algorithm may stop at any of its steps.", lab.count);
    note.figure(
        "similarity",
        "Similarity with Newton from two starts, and with gradient descent",
        caption,
        [panel],
    );

    let best = |of: &Compared, label: &str| {
        let layers = of.matching.a.as_slice().iter().map(|&layer| layer as f64);
        Series::new(label, layers.zip(of.best_steps()).collect()).markers()
    };
    let panels = found.iter().filter(|(id, _)| ["r1", "r2", "r5"].contains(id)).map(|(id, starts)| {
        let series = [best(&starts.gram, "from αS"), best(&starts.identity, "from ηI")];
        LinesPanel::new(Axis::linear("layer"), Axis::linear("best Newton step"), series)
            .titled(id.to_uppercase())
    });
    let caption = format!("The most similar step of each layer by SimE ({} prompts).", lab.count);
    note.figure("steps", "Best-matching steps from both starts", caption, panels.collect::<Vec<_>>());

    let rows = found.iter().map(|(id, starts)| {
        let slope = |of: &Compared| of.per_step(Trend::Linear).cell(2);
        vec![
            id.to_string(),
            slope(&starts.gram),
            slope(&starts.identity),
            starts.factor().cell(2),
            lead(&starts.identity, &starts.gram, FIRST, lab.seed).cell(4),
            lead(&starts.identity, &starts.gd, FIRST, lab.seed).cell(4),
        ]
    });
    let columns = [
        "network",
        "steps per layer from αS",
        "from ηI",
        "their ratio",
        "SimE, ηI less αS",
        "SimE, ηI less GD",
    ];
    let caption = "Steps per layer over the layers of F3 (6 to 18 of 24). 95 % intervals over prompts.";
    note.table("starts", "Both starts against every network", caption, columns, rows.collect::<Vec<_>>());
}
