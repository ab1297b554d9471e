//! F2, F15, F25: errors by layer, Newton step and GD step. Is the Transformer superlinear?

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, MIDDLE_RULE, SKEWED};
use crate::stats::median_of;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F2-R1",
        paper: Some(("Figure 2", "4.2")),
        order: 21,
        seconds: 12.6,
        title: "Does the Transformer's error fall faster and faster from layer to layer?",
        summary: "Error on the next label by the pairs read, for each layer of the Transformer, each Newton iteration and growing \
                  numbers of GD steps. Superlinear means that each middle layer removes a larger factor of the error than the \
                  one before; a geometric rate removes the same factor each time.",
        needs: &["r1"],
        run: |lab, note| superlinear(lab, note, &ISOTROPIC, "layers 3 to 8 superlinear for n > d"),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F15",
        paper: Some(("Figure 15", "A.3.1")),
        order: 150,
        title: "Does the error fall from layer to layer on ill-conditioned data, too?",
        summary: "The curves of F2 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| superlinear(lab, note, &SKEWED, "performance still improves over the layers"),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F25",
        paper: Some(("Figure 25", "A.4.2")),
        order: 250,
        title: "Does a Transformer of 24 layers converge superlinearly?",
        summary: "The curves of F2 for a Transformer of 24 layers.",
        needs: &["r5"],
        run: |lab, note| superlinear(lab, note, &DEEP, "24 layers also converge superlinearly"),
        ..Analysis::FIGURE
    },
];

/// The errors of a network's layers beside Newton's and GD's.
pub fn superlinear(lab: &Lab, note: &mut Notebook, setting: &Setting, quoted: &str) -> Result<()> {
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let (newton, gd) = (setting.path(lab, setting.newton)?, setting.path(lab, setting.gd)?);
    let depth = network.steps.last();
    let median = |of: &Trajectory, step: u64| median_error(of, &prompts, step, LAST);

    let twelfth = (depth / 12).max(1); // the paper's layers of 12, as shares of the depth
    let paper = Some((3 * twelfth, (8 * twelfth).min(depth)));
    let spans =
        [("superlinear", paper, AtLeast(0.0)), ("superlinear-middle", setting.middle(lab)?, Bound::None)];
    for (name, layers, bound) in spans {
        let range = layers.map_or("no layers".into(), |(first, last)| format!("layers {first} to {last}"));
        note.claim(name, acceleration(lab, &network, &prompts, layers), bound)
            .says(format!(
                "{}: growth from layer to layer of the e-folds by which a layer lowers the median error at t=40 ({range}); a \
                 geometric rate has 0",
                setting.who
            ))
            .quoted(quoted);
    }
    // not below what is left of round-off
    let last_error = median(&network, depth).max(1e-20);
    let per_layer = |of: &Trajectory| {
        let below = |step: &&u64| median(of, **step) <= last_error;
        of.steps.as_slice().iter().find(below).map_or(f64::NAN, |&s| s as f64) / depth as f64
    };
    note.claim("gd-slower", per_layer(&gd), AtLeast(1.0))
        .says(format!("{} steps per layer to the median error of the last layer at t=40", setting.gd.label))
        .quoted("faster than GD")
        .figure("rate");
    let newton_label = setting.newton.label;
    note.claim("newton-alike", per_layer(&newton), Bound::None)
        .says(format!("{newton_label} iterations per layer to the median error of the last layer at t=40"))
        .quoted("a rate similar to Newton")
        .figure("rate");

    let shown = |all: &Steps, most: usize| -> Vec<u64> {
        let every = all.len().div_ceil(most);
        all.as_slice().iter().copied().rev().step_by(every).collect::<Vec<_>>().into_iter().rev().collect()
    };
    let caption = format!(
        "Mean squared error over d on the next label after t pairs ({}). {MIDDLE_RULE}",
        setting.about(prompts.count())
    );
    let panels = [(setting.who, &network, 12), (newton_label, &newton, 13), (setting.gd.label, &gd, 13)]
        .map(|(label, of, most)| by_pairs(label, of, &prompts, &shown(&of.steps, most)));
    note.figure("errors", "Error by pairs read, along layers and iterations", caption, panels);
    let along = |label: &str, of: &Trajectory| {
        let points = of.steps.as_slice().iter().filter(|s| **s > 0);
        let points = points.map(|&s| (s as f64, median(of, s).max(1e-20))).collect();
        Series::new(label, points).markers()
    };
    let mut caption = format!(
        "Median over prompts of the squared error over d after all {LAST} pairs ({}).",
        setting.words
    );
    let curves = [along(setting.who, &network), along(newton_label, &newton), along(setting.gd.label, &gd)];
    let y = Axis::log10("median squared error / d").range(1e-12, 10.0);
    let mut panel = LinesPanel::new(Axis::log2("layers or steps"), y, curves);
    // the paper names layers of its main network alone
    if let Some((first, last)) = paper.filter(|_| setting.network == ISOTROPIC.network) {
        panel = panel.mark_x(format!("layer {first}"), first as f64).mark_x(format!("{last}"), last as f64);
        caption +=
            &format!(" Between the vertical lines, layers {first} to {last}: superlinear by the paper.");
    }
    note.figure("rate", "Median error at t=40, along layers and iterations", caption, [panel]);
    Ok(())
}

/// Slope against the layer of the e-folds that a layer removes from the median error: positive is superlinear.
fn acceleration(lab: &Lab, network: &Trajectory, prompts: &Prompts, layers: Option<(u64, u64)>) -> Estimate {
    // the layer before the first is where its improvement starts from
    let Some((first, last)) = layers.filter(|(first, last)| last - first >= 2 && *first > 1) else {
        return Estimate::NONE;
    };
    let errors: Vec<Vec<f64>> =
        (first - 1..=last).map(|l| network.squared_errors(prompts, l, LAST)).collect();
    bootstrap(lab.seed, prompts.count(), |chosen| {
        let logs: Vec<f64> = errors.iter().map(|e| median_of(e, chosen).ln()).collect();
        let removed = logs.windows(2).enumerate().map(|(i, w)| (i as f64, w[0] - w[1]));
        line(&removed.collect::<Vec<_>>()).1
    })
}
