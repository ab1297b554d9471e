//! F2, F15, F25: errors by layer, Newton step and GD step. Is the Transformer superlinear?

use super::f02_convergence::{by_steps, mean_of};
use crate::analyses::kit::distances::{Centre, Distances};
use crate::analyses::kit::notebook::Entry;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, MIDDLE_RULE, SKEWED};
use crate::compare::rates::{BEYOND_DOUBT, fit_rate};
use crate::findings::Reading;
use crate::stats::median_of;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F2-R1",
        paper: Some(("Figure 2", "4.2")),
        order: 21,
        seconds: 12.6,
        title: "Does the Transformer's error fall faster and faster from layer to layer?",
        summary: "Error on the next label along the layers of the Transformer, the iterations of Newton and the steps of GD, a curve \
                  for each number of pairs read. Superlinear means that each layer removes a larger factor of the error than the \
                  one before; a geometric rate removes the same factor each time.",
        needs: &["r1"],
        run: |lab, note| {
            let said = Said {
                superlinear: Some("from layers 3 to 8, demonstrates a superlinear convergence rate"),
                improves: Some("Transformer's performance improve over the layer index"),
                later: Some("Later layers of Transformers show a slower convergence rate"),
                newton: Some("converge at a rate similar to … and faster than GD"),
                gd: Some("converge at a rate similar to … and faster than GD"),
            };
            layer_errors(lab, note, &ISOTROPIC, &said)
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F15",
        paper: Some(("Figure 15", "A.3.1")),
        order: 150,
        title: "Does the error fall from layer to layer on ill-conditioned data, too?",
        summary: "The errors of a Transformer trained on inputs with κ = 100, by the pairs read, and Newton's at the iterations that \
                  match its layers.",
        needs: &["r2"],
        run: |lab, note| {
            progression(lab, note, &SKEWED)?;
            let improves = Some("Transformer's performance still improves over the layer index");
            layer_errors(lab, note, &SKEWED, &Said { improves, ..Said::NOTHING })
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F25",
        paper: Some(("Figure 25", "A.4.2")),
        order: 250,
        title: "Does a Transformer of 24 layers converge superlinearly?",
        summary: "The curves of F2 for a Transformer of 24 layers.",
        needs: &["r5"],
        run: |lab, note| {
            let alike = Some("Transformers with 24 layers also converge superlinearly, similar to");
            layer_errors(lab, note, &DEEP, &Said { superlinear: alike, newton: alike, ..Said::NOTHING })
        },
        ..Analysis::FIGURE
    },
];

/// What the paper says of the errors of a network, literally. Where it says nothing, the value is measured without a verdict.
pub struct Said {
    /// That it converges superlinearly.
    pub superlinear: Option<&'static str>,
    /// That its error falls over the layers.
    pub improves: Option<&'static str>,
    /// That its last layers are slower.
    pub later: Option<&'static str>,
    /// That it keeps pace with Newton.
    pub newton: Option<&'static str>,
    /// That it is faster than gradient descent.
    pub gd: Option<&'static str>,
}

impl Said {
    /// Not a word.
    pub const NOTHING: Said = Said { superlinear: None, improves: None, later: None, newton: None, gd: None };
}

/// The errors of a network's layers beside Newton's and GD's.
pub fn layer_errors(lab: &Lab, note: &mut Notebook, setting: &Setting, said: &Said) -> Result<()> {
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let (newton, gd) = (setting.path(lab, setting.newton)?, setting.path(lab, setting.gd)?);
    let exact = setting.path(lab, setting.exact)?;
    let depth = network.steps.last();
    let twelfth = (depth / 12).max(1); // the paper's layers of 12, as shares of the depth
    let paper = (3 * twelfth, (8 * twelfth).min(depth));
    let [layers, newton_steps, gd_steps] = [&network, &newton, &gd].map(|of| Distances::new(of, &exact));

    rates(lab, note, setting, said, &layers, paper)?;
    let against = [
        (
            "newton-alike",
            setting.newton.label,
            &newton_steps,
            said.newton.map_or(Bound::None, |_| Bound::Beyond(BEYOND_DOUBT)),
            said.newton,
        ),
        ("gd-slower", setting.gd.label, &gd_steps, said.gd.map_or(Bound::None, |_| AtMost(0.0)), said.gd),
    ];
    for (name, label, steps, bound, quoted) in against {
        let matching = layers.by_size(steps, lab);
        let line = |(first, last): (u64, u64)| {
            fit_rate(&matching, first, last).map_or(Estimate::NONE, |fit| fit.evidence(Trend::Linear))
        };
        let nearest = (paper.0..=paper.1).filter_map(|l| Some(format!("{l}→{}", matching.step_for(l)?)));
        quote(note.claim(name, line(paper), bound), quoted)
            .says(format!(
                "{label} steps to the median error of layers {} to {} at t=40: BIC of an exponential less that of a line; the same \
                 rate is a line, above {BEYOND_DOUBT} beyond doubt, and a faster one is none",
                paper.0, paper.1
            ))
            .also(Reading::OUR_LAYERS, setting.middle(lab)?.map_or(Estimate::NONE, line))
            .why(format!("Steps by layer: {}.", nearest.collect::<Vec<_>>().join(", ")))
            .figure("rate");
    }

    let who = setting.who;
    let about = setting.about(prompts.count());
    let caption = format!(
        "Mean squared error over d on the next label along layers and steps, a curve for each number n of pairs read ({about}), as \
         the paper's Figure 2 draws it. Steps of gradient descent double."
    );
    let panels = [
        by_steps(who, &network, &prompts, Axis::linear("layer")),
        by_steps(setting.newton.label, &newton, &prompts, Axis::linear("iterations")),
        by_steps(setting.gd.label, &gd, &prompts, Axis::log2("steps")),
    ];
    note.figure("steps", "Error along layers and iterations, by pairs read", caption, panels);
    let panels = [(who, &network, 12), (setting.newton.label, &newton, 13), (setting.gd.label, &gd, 13)]
        .map(|(label, of, most)| by_pairs(label, of, &prompts, &shown(&of.steps, most)));
    let caption = format!("The same errors by the pairs read, a curve for each layer or step ({about}).");
    note.figure("errors", "Error by pairs read, along layers and iterations", caption, panels);
    let median = |of: &[f64]| median_of(of, &(0..of.len()).collect::<Vec<_>>());
    let along = |label: &str, of: &Distances| {
        let points = of.steps.as_slice().iter().zip(&of.squared).filter(|(s, _)| **s > 0);
        let shown = |squared: &[f64]| (median(squared) / setting.data.dim as f64).max(1e-20);
        Series::new(label, points.map(|(&s, squared)| (s as f64, shown(squared))).collect()).markers()
    };
    let curves =
        [along(who, &layers), along(setting.newton.label, &newton_steps), along(setting.gd.label, &gd_steps)];
    let caption = format!(
        "Median over prompts of the squared distance from {} over d after all {LAST} pairs ({}); without noise that is the error. \
         Between the vertical lines: layers {} to {}, to which the claims are fitted{}. {MIDDLE_RULE}",
        setting.exact.label,
        setting.words,
        paper.0,
        paper.1,
        // the paper names layers of its main network alone
        if setting.network == ISOTROPIC.network {
            ""
        } else {
            ", those of the paper's main network by their share of the depth"
        }
    );
    let y = Axis::log10("median squared distance / d").range(1e-12, 10.0);
    let panel = LinesPanel::new(Axis::log2("layers or steps"), y, curves);
    let panel = panel
        .mark_x(format!("layer {}", paper.0), paper.0 as f64)
        .mark_x(format!("{}", paper.1), paper.1 as f64);
    note.figure("rate", "Median error at t=40, along layers and iterations", caption, [panel]);
    Ok(())
}

/// Claims on how much a layer lowers the error, and whether that grows.
fn rates(
    lab: &Lab,
    note: &mut Notebook,
    setting: &Setting,
    said: &Said,
    layers: &Distances,
    paper: (u64, u64),
) -> Result<()> {
    let (first, last) = paper;
    let depth = layers.steps.last();
    let count = layers.prompts();
    let removed = layers.removed(1, depth, &(0..count).collect::<Vec<_>>(), median_of);
    let by_layer: Vec<String> = removed.iter().map(|(layer, folds)| format!("{layer}: {folds:.2}")).collect();
    let by_layer = format!("E-folds removed by layer: {}.", by_layer.join(", "));

    let growth = |of: &Distances, range: Option<(u64, u64)>, count: usize, centre: Centre| {
        let Some((first, last)) = range.filter(|(first, last)| last - first >= 2 && *first > 1) else {
            return Estimate::NONE;
        };
        bootstrap(lab.seed, count, |chosen| line(&of.removed(first, last, chosen, centre)).1)
    };
    let theirs = Distances::new(&*setting.authors_layers(lab)?, &*setting.authors_path(lab, setting.exact)?);
    let claim = note.claim(
        "superlinear",
        growth(layers, Some(paper), count, median_of),
        said.superlinear.map_or(Bound::None, |_| AtLeast(0.0)),
    );
    let claim = quote(claim, said.superlinear)
        .says(format!(
            "{}: growth from layer to layer of the e-folds by which a layer lowers the median error at t=40 (layers {first} to \
             {last}); a geometric rate has 0",
            setting.who
        ))
        .authors(growth(&theirs, Some(paper), theirs.prompts(), mean_of))
        .also(Reading::OUR_LAYERS, growth(layers, setting.middle(lab)?, count, median_of))
        .why(by_layer.clone())
        .figure("rate");
    if setting.exact.solver != ISOTROPIC.exact.solver {
        // with noise the error on labels does not fall to zero: what converges is its excess over the best predictor's
        let prompts = setting.prompts(lab)?;
        let (network, exact) = (setting.layers(lab)?, setting.path(lab, setting.exact)?);
        let labels = Distances::from_labels(&network, &prompts);
        let excess = labels.less(&exact.squared_errors(&prompts, 1, LAST));
        let words = format!("mean excess error over {}", setting.exact.label);
        claim
            .also(&words, growth(&excess, Some(paper), count, mean_of))
            .also("median error on the noisy labels", growth(&labels, Some(paper), count, median_of));
    }
    if let Some(words) = said.improves {
        let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
        let errors: Vec<Vec<f64>> = (1..=depth).map(|layer| squares(&network, &prompts, layer)).collect();
        let lowered = |chosen: &[usize]| {
            let mean: Vec<f64> = errors.iter().map(|of| mean_of(of, chosen)).collect();
            mean.windows(2).map(|w| 1.0 - w[1] / w[0]).collect::<Vec<f64>>()
        };
        let improved = bootstrap(lab.seed, count, |chosen| least(lowered(chosen)));
        let all = lowered(&(0..count).collect::<Vec<_>>());
        let all: Vec<String> =
            all.iter().enumerate().map(|(i, share)| format!("{}: {:.2} %", i + 2, 100.0 * share)).collect();
        note.claim("improves", improved, AtLeast(0.0))
            .says(format!(
                "{}: smallest share by which any layer lowers the mean squared error over all positions",
                setting.who
            ))
            .quoted(words)
            .why(format!("Lowered by layer: {}.", all.join(", ")))
            .figure("errors");
    }
    if let Some(words) = said.later {
        let slower = bootstrap(lab.seed, count, |chosen| {
            let per_layer = |from: u64, to: u64| {
                let removed = layers.removed(from, to, chosen, median_of);
                removed.iter().map(|(_, folds)| folds).sum::<f64>() / removed.len() as f64
            };
            per_layer(last + 1, depth) - per_layer(first, last)
        });
        note.claim("later-slower", slower, AtMost(0.0))
            .says(format!(
                "{}: e-folds that a layer after the {last}th removes from the median error at t=40, less those of layers \
                 {first} to {last}",
                setting.who
            ))
            .quoted(words)
            .why(by_layer)
            .figure("rate");
    }
    Ok(())
}

/// Figure 15 as the paper has it: the layers by pairs read, and Newton at the iterations that match them.
fn progression(lab: &Lab, note: &mut Notebook, setting: &Setting) -> Result<()> {
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let matched = setting.errors(lab, setting.newton)?;
    let newton = setting.path(lab, setting.newton)?;
    let layers = network.steps.as_slice();
    let best = Steps::new(layers.iter().filter_map(|&layer| matched.step_for(layer)).collect())?;
    let pairs: Vec<String> =
        layers.iter().map(|&layer| format!("{layer}→{}", matched.step_text(layer))).collect();
    let caption = format!(
        "Mean squared error over d on the next label after t pairs ({}). Left: a curve for each layer. Right: Newton at the \
         iterations most similar to the layers by SimE ({}).",
        setting.about(prompts.count()),
        pairs.join(", ")
    );
    let panels = [
        by_pairs(setting.who, &network, &prompts, layers),
        by_pairs("Newton at its best matches", &newton, &prompts, best.as_slice()),
    ];
    note.figure(
        "progression",
        "Error by pairs read: layers, and Newton at its best matches",
        caption,
        panels,
    );
    Ok(())
}

/// The paper's words, or that it has none.
fn quote<'a>(claim: Entry<'a>, said: Option<&str>) -> Entry<'a> {
    match said {
        Some(words) => claim.quoted(words),
        None => claim.ours("the paper says nothing of this network's"),
    }
}

/// Some steps of many, the last among them.
fn shown(all: &Steps, most: usize) -> Vec<u64> {
    let every = all.len().div_ceil(most);
    let mut shown: Vec<u64> = all.as_slice().iter().copied().rev().step_by(every).collect();
    shown.reverse();
    shown
}
