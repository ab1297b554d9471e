//! F7: do predictions improve from layer to layer? The Transformer's do, as Newton's at its best matches; the LSTM's do not.

use std::ops::RangeInclusive;

use super::f08_told_apart::FIRST;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{LSTM, MIDDLE_RULE};
use crate::networks::models::Recipe;
use crate::stats::median_of;

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

/// The sentence of a claim about the LSTM for as long as its start builds in what is asked: every layer after the first began by
/// passing on what it was given.
pub fn start_of_lstm(lab: &Lab) -> &'static str {
    let passed_on = |recipe: Recipe| recipe.to_string().ends_with("pass-through layers");
    if lab.other_recipe(LSTM.network).is_some_and(passed_on) {
        " (this LSTM was started with layers that pass on what they get, so layers after the first need not add anything)"
    } else {
        ""
    }
}

fn transformer(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let newton = setting.path(lab, setting.newton)?;
    let compared = setting.errors(lab, setting.newton)?;
    let theirs = setting.by_authors(lab, setting.newton)?;
    let (their_network, their_newton) =
        (setting.authors_layers(lab)?, setting.authors_path(lab, setting.newton)?);
    let their_prompts = setting.authors_prompts(lab)?;
    let layers = network.steps.as_slice();
    let begun = FIRST.min(network.steps.last());
    let working: Vec<u64> = (begun..=network.steps.last()).collect();
    let totals: Vec<Vec<f64>> = working.iter().map(|&layer| squares(&network, &prompts, layer)).collect();
    let rise = bootstrap(lab.seed, prompts.count(), |chosen| {
        let totals: Vec<f64> = totals.iter().map(|of| chosen.iter().map(|&b| of[b]).sum()).collect();
        worst(totals.windows(2).map(|w| w[1] / w[0]))
    });
    note.claim("improves", rise, AtMost(1.01))
        .says(format!(
            "Largest error of a layer after layer {begun}, over all positions, over that of the layer before (1 % is let pass)"
        ))
        .quoted("Transformer's performance improves over the layer index");

    let resembles = [
        ("newton-resembles", "t ≤ d", 1..=DIM, "d = 20 pairs or fewer"),
        ("newton-resembles-late", "t > d", DIM + 1..=LAST, "more pairs than d"),
    ];
    for (name, positions, lengths, words) in resembles {
        let apart = Apart::new(&compared, (&network, &newton), &prompts, &working, lengths.clone());
        let by_authors =
            Apart::new(&theirs, (&their_network, &their_newton), &their_prompts, &working, lengths);
        note.claim(name, apart.worst(lab), AtMost(2.0))
            .says(format!(
                "After {words}: largest over layers {begun} to {} of the median over {positions} of the factor between a layer's \
                 error and its best Newton step's",
                network.steps.last()
            ))
            .quoted("in a way that closely resembles the Transformer")
            .authors(by_authors.worst(lab))
            .why(format!(
                "The factor by layer is {}; errors below 10⁻¹⁰, where the figure ends, count as that. With more pairs than d Newton at \
                 the step that is best by similarity goes on to round-off, which a layer does not.",
                apart.by_layer()
            ));
    }

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
    let start = start_of_lstm(lab);
    // what the start builds in cannot be judged
    let bound = if start.is_empty() { AtMost(1.05) } else { Bound::None };
    note.claim("first-as-good", ratio(lab.seed, &squares(1), &squares(network.steps.last())), bound)
        .says(format!("LSTM: error of the first layer's read-out over the last layer's, all positions{start}"))
        .quoted(
            "a readout head fine-tuned for the first layer makes equally good predictions as the full 10-layer model",
        );
    let caption = format!("Mean squared error over d after t pairs ({}).", setting.about(prompts.count()));
    let panel = by_pairs(setting.who, &network, &prompts, network.steps.as_slice());
    note.figure("progression", "Error by pairs read, layer by layer", caption, [panel]);
    Ok(())
}

/// Mean errors of layers and of their best Newton steps after some numbers of pairs.
struct Apart {
    layers: Vec<u64>,
    /// `[layer][length]`: squared errors of the layer and of its best step, one per prompt.
    errors: Vec<Vec<[Vec<f64>; 2]>>,
}

impl Apart {
    fn new(
        compared: &Compared,
        (network, newton): (&Trajectory, &Trajectory),
        prompts: &Prompts,
        working: &[u64],
        lengths: RangeInclusive<usize>,
    ) -> Apart {
        let matched = working.iter().filter_map(|&layer| Some((layer, compared.step_for(layer)?)));
        let errors = |(layer, step): (u64, u64)| {
            let at = |t| [network.squared_errors(prompts, layer, t), newton.squared_errors(prompts, step, t)];
            (layer, lengths.clone().map(at).collect())
        };
        let (layers, errors) = matched.map(errors).unzip();
        Apart { layers, errors }
    }

    /// The median over lengths of the factor, either way, between a layer and its best step on some prompts.
    fn factor(&self, layer: usize, chosen: &[usize]) -> f64 {
        let shown = |errors: &[f64]| {
            let sum = chosen.iter().map(|&b| errors[b]).sum::<f64>();
            (sum / (chosen.len() * DIM) as f64).max(1e-10)
        };
        let apart = |[layer, step]: &[Vec<f64>; 2]| (shown(layer) / shown(step)).ln().abs();
        let apart: Vec<f64> = self.errors[layer].iter().map(apart).collect();
        median_of(&apart, &(0..apart.len()).collect::<Vec<_>>()).exp()
    }

    /// The largest factor of any layer.
    fn worst(&self, lab: &Lab) -> Estimate {
        let count = self.errors.first().map_or(0, |layer| layer[0][0].len());
        bootstrap(lab.seed, count, |chosen| {
            worst((0..self.layers.len()).map(|layer| self.factor(layer, chosen)))
        })
    }

    /// The factor of every layer, in words.
    fn by_layer(&self) -> String {
        let all: Vec<usize> = (0..self.errors.first().map_or(0, |layer| layer[0][0].len())).collect();
        let one = |(i, layer): (usize, &u64)| match self.factor(i, &all) {
            factor if factor < 1e3 => format!("{layer}: {factor:.2}"),
            factor => format!("{layer}: {factor:.0e}"),
        };
        self.layers.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    }
}
