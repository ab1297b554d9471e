//! F7: do predictions improve from layer to layer? The Transformer's do, as Newton's at its best matches; the LSTM's do not.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{LSTM, MIDDLE_RULE};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F7",
        paper: Some(("Figure 7", "A.2.1")),
        order: 70,
        title: "Does the Transformer improve from layer to layer as Newton does at the matching steps?",
        summary: "Error by pairs read for each layer of the Transformer, and for the Newton iteration that matches it best.",
        needs: &["r1"],
        run: transformer,
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F7-R7",
        paper: Some(("Figure 7", "A.1")),
        order: 72,
        title: "Does the LSTM improve from layer to layer?",
        summary: "Error by pairs read for each layer of the LSTM, and the error of the first layer's read-out over the last's.",
        needs: &["r7"],
        run: lstm,
        ..Analysis::FIGURE
    },
];

fn transformer(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let newton = setting.path(lab, setting.newton)?;
    let compared = setting.errors(lab, setting.newton)?;
    let layers = network.steps.as_slice();
    let working: Vec<u64> = (compared.begun()..=network.steps.last()).collect();
    let at = |of: &Trajectory, step: u64, t: usize| {
        of.squared_errors(&prompts, step, t).iter().sum::<f64>() / prompts.count() as f64
    };
    // a layer falls behind when its error, over all positions, is above the one before by more than 1 %
    let total = |layer: u64| (1..prompts.points()).map(|t| at(&network, layer, t)).sum::<f64>();
    let behind = working.windows(2).filter(|w| total(w[1]) > 1.01 * total(w[0]));
    note.claim("improves", behind.count(), AtMost(0.0))
        .says(format!(
            "Layers from {} on whose error over all positions is above that of the layer before",
            compared.begun()
        ))
        .quoted("performance improves over the layers");

    // powers of ten between a layer and its best Newton step, the median over t
    let apart = |layer: u64| -> Option<f64> {
        let step = compared.step_for(layer)?;
        let logs =
            (1..=LAST).map(|t| (at(&network, layer, t) / at(&newton, step, t).max(1e-30)).log10().abs());
        let mut logs: Vec<f64> = logs.collect();
        logs.sort_by(f64::total_cmp);
        Some(logs[logs.len() / 2])
    };
    let found: Vec<(u64, Option<f64>)> = working.iter().map(|&layer| (layer, apart(layer))).collect();
    let worst = found.iter().map(|(_, apart)| apart.unwrap_or(f64::NAN));
    let worst = worst.fold(0.0, |m: f64, v| if v.is_nan() { v } else { m.max(v) });
    let factors = found.iter().filter_map(|(l, apart)| Some(format!("{l}: {:.2}", 10f64.powf((*apart)?))));
    let factors = factors.collect::<Vec<_>>().join(", ");
    note.claim("newton-resembles", 10f64.powf(worst), AtMost(2.0))
        .says("Largest over those layers of the median over t of the factor between a layer's error and its best Newton step's")
        .quoted("closely resembles the Transformer")
        .why(format!("The factor by layer is {factors}; those above 2 alone are too far."));

    let matched = layers.iter().filter_map(|&layer| Some((layer, compared.step_for(layer)?)));
    let (pairs, mut steps): (Vec<String>, Vec<u64>) = matched.map(|(l, s)| (format!("{l}→{s}"), s)).unzip();
    steps.sort_unstable();
    steps.dedup();
    let caption = format!(
        "Mean squared error over d after t pairs ({}). Best-matching Newton steps by SimE: {}. {MIDDLE_RULE}",
        setting.about(prompts.count()),
        pairs.join(", ")
    );
    let panels = [
        by_pairs(setting.who, &network, &prompts, layers),
        by_pairs("Newton at its best matches", &newton, &prompts, &steps),
    ];
    let title = "Error by pairs read, layer by layer and at the matching Newton steps";
    note.figure("progression", title, caption, panels);
    Ok(())
}

fn lstm(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &LSTM;
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let squares = |layer: u64| squares(&network, &prompts, layer);
    note.claim("first-as-good", ratio(lab.seed, &squares(1), &squares(network.steps.last())), AtMost(1.05))
        .says("LSTM: error of the first layer's read-out over the last layer's, all positions")
        .quoted("the first layer makes equally good predictions");
    let caption = format!("Mean squared error over d after t pairs ({}).", setting.about(prompts.count()));
    let panel = by_pairs(setting.who, &network, &prompts, network.steps.as_slice());
    note.figure("progression", "Error by pairs read, layer by layer", caption, [panel]);
    Ok(())
}
