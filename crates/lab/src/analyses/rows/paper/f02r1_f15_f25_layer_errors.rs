//! F2, F15, F25: errors by layer, Newton step and GD step. Is the Transformer superlinear?

use super::f02_convergence::{by_length, median_of_step};
use crate::analyses::kit::setting::{DEEP, ISOTROPIC, MIDDLE_RULE, SKEWED, Setting, middle};
use crate::analyses::{Analysis, LAST, Lab, Outcome};
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::Trajectory;
use crate::learners::steps::Steps;
use crate::stats::{Estimate, bootstrap, line, median_of};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F2-R1",
        order: 21,
        title: "The Transformer's error falls faster and faster from layer to layer",
        summary: "Error on the next label by the pairs read, for each layer of the Transformer, each Newton iteration and growing \
              numbers of GD steps. Superlinear means that each middle layer removes a larger factor of the error than the \
              one before; a geometric rate removes the same factor each time.",
        needs: &["r1"],
        run: |lab, note| note.adopt(outcome(lab, &ISOTROPIC, "F2-R1", "layers 3 to 8 superlinear for n > d")),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F15",
        order: 150,
        title: "On ill-conditioned data the layers improve in the same way",
        summary: "The curves of F2 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| {
            note.adopt(outcome(lab, &SKEWED, "F15", "performance still improves over the layers"))
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F25",
        order: 250,
        title: "A Transformer of 24 layers converges superlinearly, too",
        summary: "The curves of F2 for a Transformer of 24 layers.",
        needs: &["r5"],
        run: |lab, note| note.adopt(outcome(lab, &DEEP, "F25", "24 layers also converge superlinearly")),
        ..Analysis::FIGURE
    },
];

fn outcome(lab: &Lab, setting: &Setting, id: &str, quoted: &str) -> Result<Outcome> {
    let (claims, figures) = superlinear(lab, setting, id, quoted)?;
    Ok(Outcome { claims, figures, tables: vec![] })
}

/// Claims and figures about the errors of a network's layers beside Newton's and GD's.
pub fn superlinear(
    lab: &Lab,
    setting: &Setting,
    id: &str,
    quoted: &str,
) -> Result<(Vec<Claim>, Vec<Figure>)> {
    let prompts = lab.sample(&setting.data)?;
    let layers = lab.layers(setting.network)?;
    let network = lab.path(setting.network, &setting.data, &layers)?;
    let newton = lab.path(setting.newton.solver, &setting.data, &setting.newton.steps()?)?;
    let gd = lab.path(setting.gd.solver, &setting.data, &setting.gd.steps()?)?;
    let middle = middle(lab, setting)?;
    let range = middle.map_or("no layers".into(), |(first, last)| format!("layers {first} to {last}"));
    let stem = id.to_lowercase();
    let figure = format!("{stem}-errors");

    // not below what is left of round-off
    let last_error = median_of_step(&network, &prompts, layers.last()).max(1e-20);
    let reached = |of: &Trajectory| {
        let below = |step: &&u64| median_of_step(of, &prompts, **step) <= last_error;
        of.steps.as_slice().iter().find(below).map_or(f64::NAN, |&s| s as f64)
    };
    let growth = |name: &str, range: &str, layers, bound| {
        let statement = format!(
            "{}: growth from layer to layer of the e-folds by which a layer lowers the median error at t=40 ({range}); a \
             geometric rate has 0",
            setting.who
        );
        let found = acceleration(lab, &network, &prompts, layers);
        Claim::of(&format!("{id}.{name}"), Kind::Paper, statement, found, bound)
            .quoted(quoted)
            .figure(&figure)
    };
    let twelfth = (layers.last() / 12).max(1); // the paper's layers of 12, as shares of the depth
    let (first, last) = (3 * twelfth, (8 * twelfth).min(layers.last()));
    let claims = vec![
        growth("superlinear", &format!("layers {first} to {last}"), Some((first, last)), Bound::AtLeast(0.0)),
        growth("superlinear-middle", &range, middle, Bound::None),
        Claim::new(
            &format!("{id}.gd-slower"),
            Kind::Paper,
            format!("{} steps per layer to the median error of the last layer at t=40", setting.gd.label),
            reached(&gd) / layers.last() as f64,
            Bound::AtLeast(1.0),
        )
        .quoted("faster than GD")
        .figure(&format!("{stem}-rate")),
        Claim::new(
            &format!("{id}.newton-alike"),
            Kind::Paper,
            format!(
                "{} iterations per layer to the median error of the last layer at t=40",
                setting.newton.label
            ),
            reached(&newton) / layers.last() as f64,
            Bound::None,
        )
        .quoted("a rate similar to Newton")
        .figure(&format!("{stem}-rate")),
    ];
    let shown = |all: &Steps, most: usize| -> Vec<u64> {
        let every = all.len().div_ceil(most);
        all.as_slice().iter().copied().rev().step_by(every).collect::<Vec<_>>().into_iter().rev().collect()
    };
    let by_pairs = Figure {
        id: figure,
        title: "Error by pairs read, along layers and iterations".into(),
        caption: format!(
            "Mean squared error over d on the next label after t pairs ({}, {} prompts). {MIDDLE_RULE}",
            setting.words,
            prompts.count()
        ),
        panels: vec![
            Panel::Lines(by_length(setting.who, &network, &prompts, &shown(&layers, 12))),
            Panel::Lines(by_length(setting.newton.label, &newton, &prompts, &shown(&newton.steps, 13))),
            Panel::Lines(by_length(setting.gd.label, &gd, &prompts, &shown(&gd.steps, 13))),
        ],
    };
    let along = |label: &str, of: &Trajectory| {
        let points = of.steps.as_slice().iter().filter(|s| **s > 0);
        let points = points.map(|&s| (s as f64, median_of_step(of, &prompts, s).max(1e-20))).collect();
        Series::new(label, points).stroke(Stroke::LineMarkers)
    };
    let by_step = Figure {
        id: format!("{stem}-rate"),
        title: "Median error at t=40, along layers and iterations".into(),
        caption: format!(
            "Median over prompts of the squared error over d after all {LAST} pairs ({}).",
            setting.words
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("layers or steps", Scale::Log2),
            y: Axis::new("median squared error / d", Scale::Log10).range(1e-12, 10.0),
            series: vec![
                along(setting.who, &network),
                along(setting.newton.label, &newton),
                along(setting.gd.label, &gd),
            ],
            references: vec![],
        })],
    };
    Ok((claims, vec![by_pairs, by_step]))
}

/// Slope against the layer of the e-folds that a layer removes from the median error: positive is superlinear.
fn acceleration(lab: &Lab, network: &Trajectory, prompts: &Prompts, middle: Option<(u64, u64)>) -> Estimate {
    let none = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    // the layer before the first is where its improvement starts from
    let Some((first, last)) = middle.filter(|(first, last)| last - first >= 2 && *first > 1) else {
        return none;
    };
    let errors: Vec<Vec<f64>> =
        (first - 1..=last).map(|l| network.squared_errors(prompts, l, LAST)).collect();
    bootstrap(lab.seed, prompts.count(), |chosen| {
        let logs: Vec<f64> = errors.iter().map(|e| median_of(e, chosen).ln()).collect();
        let removed = logs.windows(2).enumerate().map(|(i, w)| (i as f64, w[0] - w[1]));
        line(&removed.collect::<Vec<_>>()).1
    })
}
