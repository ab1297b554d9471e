//! F7: do predictions improve from layer to layer? The Transformer's do, as Newton's at its best matches; the LSTM's do not.

use super::f02_convergence::by_length;
use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::{ISOTROPIC, LSTM, MIDDLE_RULE, middle};
use crate::analyses::{Analysis, LAST, Outcome};
use crate::compare::similarity::View;
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Figure, Panel};
use crate::learners::Trajectory;
use crate::stats::bootstrap;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F7",
        order: 70,
        title: "The Transformer improves from layer to layer, as Newton does at the matching steps",
        summary: "Error by pairs read for each layer of the Transformer, and for the Newton iteration that matches it best.",
        needs: &["r1"],
        run: |lab, note| note.adopt(run(lab)),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F7-R7",
        order: 72,
        title: "The LSTM does not improve from layer to layer",
        summary: "Error by pairs read for each layer of the LSTM: a read-out of the first layer predicts as well as one of the last.",
        needs: &["r7"],
        run: |lab, note| note.adopt(lstm(lab)),
        ..Analysis::FIGURE
    },
];

fn run(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let prompts = lab.sample(&setting.data)?;
    let layers = lab.layers(setting.network)?;
    let network = lab.path(setting.network, &setting.data, &layers)?;
    let newton = lab.path(setting.newton.solver, &setting.data, &setting.newton.steps()?)?;
    let compared = Compared::new(lab, setting, setting.newton, Measure::Errors(View::default()))?;
    let begun = middle(lab, setting)?.map_or(1, |(first, _)| first);
    let working: Vec<u64> = (begun..=layers.last()).collect();
    // a layer falls behind when its error, over all positions, is above the one before by more than 1 %
    let behind = working
        .windows(2)
        .filter(|w| total(&network, &prompts, w[1]) > 1.01 * total(&network, &prompts, w[0]));
    let matched = |layer: u64| compared.matching.step_for(layer);
    let apart = |layer: u64| -> Option<f64> {
        let step = matched(layer)?;
        let logs = (1..=LAST).map(|t| {
            (at(&network, &prompts, layer, t) / at(&newton, &prompts, step, t).max(1e-30)).log10().abs()
        });
        let mut logs: Vec<f64> = logs.collect();
        logs.sort_by(f64::total_cmp);
        Some(logs[logs.len() / 2])
    };
    let worst = working
        .iter()
        .map(|l| apart(*l).unwrap_or(f64::NAN))
        .fold(0.0, |m: f64, v| if v.is_nan() { v } else { m.max(v) });
    let factors = working.iter().filter_map(|&l| Some((l, 10f64.powf(apart(l)?)))).collect::<Vec<_>>();
    let words = |(layer, factor): &(u64, f64)| format!("{layer}: {factor:.2}");
    let farthest = format!(
        "The factor by layer is {}; those above 2 alone are too far.",
        factors.iter().map(words).collect::<Vec<_>>().join(", ")
    );
    let claims = vec![
        Claim::new("F7.improves", Kind::Paper, format!("Layers from {begun} on whose error over all positions is above that of the layer before"), behind.count() as f64, Bound::AtMost(0.0))
            .quoted("performance improves over the layers")
            .figure("f7-progression"),
        Claim::new("F7.newton-resembles", Kind::Paper, "Largest over those layers of the median over t of the factor between a layer's error and its best Newton \
             step's", 10f64.powf(worst), Bound::AtMost(2.0))
            .quoted("closely resembles the Transformer")
            .figure("f7-progression")
            .why(farthest),
    ];
    let mut steps: Vec<u64> = layers.as_slice().iter().filter_map(|&l| matched(l)).collect();
    steps.dedup();
    steps.sort_unstable();
    steps.dedup();
    let pairs: Vec<String> =
        layers.as_slice().iter().filter_map(|&l| matched(l).map(|s| format!("{l}→{s}"))).collect();
    let figure = Figure {
        id: "f7-progression".into(),
        title: "Error by pairs read, layer by layer and at the matching Newton steps".into(),
        caption: format!(
            "Mean squared error over d after t pairs ({}, {} prompts). Best-matching Newton steps by SimE: {}. {MIDDLE_RULE}",
            setting.words,
            prompts.count(),
            pairs.join(", ")
        ),
        panels: vec![
            Panel::Lines(by_length(setting.who, &network, &prompts, layers.as_slice())),
            Panel::Lines(by_length("Newton at its best matches", &newton, &prompts, &steps)),
        ],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

fn lstm(lab: &Lab) -> Result<Outcome> {
    let setting = &LSTM;
    let prompts = lab.sample(&setting.data)?;
    let layers = lab.layers(setting.network)?;
    let network = lab.path(setting.network, &setting.data, &layers)?;
    let squares = |layer: u64| -> Vec<f64> {
        let s = network.steps.position(layer).expect("recorded");
        network.errors(&prompts, s).rows().into_iter().map(|row| row.iter().map(|e| e * e).sum()).collect()
    };
    let (first, last) = (squares(1), squares(layers.last()));
    let ratio = bootstrap(lab.seed, prompts.count(), |chosen| {
        let of = |squares: &[f64]| chosen.iter().map(|&b| squares[b]).sum::<f64>();
        of(&first) / of(&last)
    });
    let claim = Claim::of(
        "F7-R7.first-as-good",
        Kind::Paper,
        "LSTM: error of the first layer's read-out over the last layer's, all positions",
        ratio,
        Bound::AtMost(1.05),
    )
    .quoted("the first layer makes equally good predictions")
    .figure("f7-r7-progression");
    let figure = Figure {
        id: "f7-r7-progression".into(),
        title: "Error by pairs read, layer by layer".into(),
        caption: format!(
            "Mean squared error over d after t pairs ({}, {} prompts).",
            setting.words,
            prompts.count()
        ),
        panels: vec![Panel::Lines(by_length(setting.who, &network, &prompts, layers.as_slice()))],
    };
    Ok(Outcome { claims: vec![claim], figures: vec![figure], tables: vec![] })
}

fn at(of: &Trajectory, prompts: &Prompts, step: u64, t: usize) -> f64 {
    of.squared_errors(prompts, step, t).iter().sum::<f64>() / prompts.count() as f64
}

fn total(of: &Trajectory, prompts: &Prompts, step: u64) -> f64 {
    (1..prompts.points()).map(|t| at(of, prompts, step, t)).sum()
}
