//! F20, F21: two-layer networks as functions, against gradient descent on a two-layer network fitted to the pairs.

use ndarray::Array3;

use crate::analyses::kit::lab::{Data, Lab};
use crate::analyses::{Analysis, DIM, Outcome, heatmap_panel};
use crate::compare::matching;
use crate::compare::rates::fit_rate;
use crate::compare::similarity::{Metric, View, of_errors};
use crate::data::prompts::{Prompts, Questions};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory};
use crate::registry::Id;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F20",
        order: 200,
        title: "Two-layer ReLU networks: exponentially faster than gradient descent",
        summary: "A Transformer trained on functions that are two-layer ReLU networks, against gradient descent on a network of the \
              same shape fitted to the pairs read. Steps double along the axis, so that a straight line means exponentially \
              faster. The paper names neither step size nor start; here η = 0.003 and normal first weights.",
        needs: &["r8"],
        run: |lab, note| {
            let found = || {
                run(
                    lab,
                    &Nonlinear {
                        id: "F20",
                        network: "r8",
                        function: "relu-2nn",
                        activation: "relu",
                        preparing: 0,
                    },
                )
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F21",
        order: 210,
        title: "Two-layer tanh networks: the first layers prepare",
        summary: "The same with tanh. The paper finds that the first five layers only prepare, and that similarities are lower \
              than for linear functions, as two fitted networks may be different optima.",
        needs: &["r9"],
        run: |lab, note| {
            let found = || {
                run(
                    lab,
                    &Nonlinear {
                        id: "F21",
                        network: "r9",
                        function: "tanh-2nn",
                        activation: "tanh",
                        preparing: 5,
                    },
                )
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
];

struct Nonlinear {
    id: &'static str,
    network: &'static str,
    function: &'static str,
    activation: &'static str,
    /// First layers that do not yet improve, by the paper.
    preparing: u64,
}

const POINTS: usize = 101;
/// Every fifth position: a network is fitted to each prefix, for a thousand steps.
const EVERY: usize = 5;

fn run(lab: &Lab, task: &Nonlinear) -> Result<Outcome> {
    let data = Data { function: task.function, inputs: "gaussian", dim: DIM, points: POINTS };
    // one prompt in twenty: fitting is dear
    let prompts = data.task()?.sample(lab.seed, "eval", 0, (lab.count / 20).max(2));
    let network = lab.network(task.network)?;
    let layers = network.default_steps();
    let solver = format!("mlp-gd:activation={},eta=0.003", task.activation);
    let fitted = lab.learner(&solver)?;
    let steps = Steps::powers_of_two(0, 10);
    let asked: Vec<usize> = (EVERY..POINTS).step_by(EVERY).collect();
    let (thin, of_steps) = thinned(&*fitted, &prompts, &steps, &asked)?;
    // a network answers at every position anyway
    let values = network.trajectory(&prompts, &layers)?.values.select(ndarray::Axis(2), &asked);
    let who = Id { name: "Transformer".into(), given: Default::default() };
    let of_layers = Trajectory::new(who, network.unit(), layers.clone(), values, &thin)?;
    let map = of_errors(&of_layers, &of_steps, &thin, View { first: 0 }, Metric::Cosine)?;
    let matching = matching::bootstrap(&map, lab.seed);
    let fit = fit_rate(&matching, task.preparing + 1, layers.last());
    let id = task.id;
    let stem = id.to_lowercase();
    let (map_id, error_id) = (format!("{stem}-map"), format!("{stem}-errors"));
    let evidence = fit.as_ref().map_or(f64::NAN, |f| f.evidence_for_exponential());
    let highest = matching.similarity.iter().copied().fold(f64::NAN, f64::max);
    let scale = prompts.label_power();
    let last = asked.len() - 1;
    let error = |of: &Trajectory, step: u64, i: usize| {
        of.squared_errors(&thin, step, i).iter().sum::<f64>() / thin.count() as f64 / scale
    };
    let gained = |layer: u64| error(&of_layers, 1, last) - error(&of_layers, layer, last);
    // the first layer that brings a good part of the improvement
    let begins = layers.as_slice().iter().copied().find(|&l| gained(l) >= 0.25 * gained(layers.last()));
    let begins = begins.unwrap_or(layers.last());
    let at_work = layers.as_slice().iter().zip(&matching.similarity).filter(|(l, _)| **l >= begins);
    let highest_at_work = at_work.map(|(_, s)| *s).fold(f64::NAN, f64::max);
    let mut exponential = Claim::new(
        &format!("{id}.gd-exponential"),
        Kind::Paper,
        format!(
            "An exponential fits the best GD steps from layer {} on better than a line (BIC difference)",
            task.preparing + 1
        ),
        evidence,
        Bound::AtLeast(0.0),
    );
    if let Some((low, high)) = fit.as_ref().and_then(|f| f.evidence_interval) {
        exponential = exponential.interval(low, high);
    }
    let mut claims = vec![
        exponential.quoted("straight against log GD steps").figure(&map_id),
        Claim::new(
            &format!("{id}.less-similar"),
            Kind::Paper,
            "Highest SimE of any layer with any step",
            highest,
            Bound::AtMost(0.95),
        )
        .quoted("significantly lower than with linear functions")
        .why(format!(
            "Layers that have not begun answer next to nothing, as the first steps of a fit do, and are alike for that. From layer \
             {begins} on, where this network begins, the highest is {highest_at_work:.3}. The paper names neither the start nor the \
             step size of its fits, on which this depends."
        ))
        .figure(&map_id),
        Claim::new(
            &format!("{id}.improves"),
            Kind::Paper,
            "Error of the last layer after 100 pairs over that of the first",
            error(&of_layers, layers.last(), last) / error(&of_layers, 1, last),
            Bound::AtMost(0.5),
        )
        .quoted("improves over the layers")
        .figure(&error_id),
    ];
    if task.preparing > 0 {
        let (before, whole) = (task.preparing.min(layers.last()), layers.last());
        claims.push(
            Claim::new(
                &format!("{id}.prepares"),
                Kind::Paper,
                format!("Share of the improvement after 100 pairs that layers 1 to {before} bring"),
                gained(before) / gained(whole),
                Bound::AtMost(0.25),
            )
            .quoted("the entire first 5 layers to pre-process")
            .why(format!(
                "This network prepares too, but not for so long: layer {begins} is the first to bring a quarter of the improvement."
            ))
            .figure(&error_id),
        );
    }
    let curves = |label: &str, of: &Trajectory| {
        let all = of.steps.as_slice();
        let series = all.iter().enumerate().map(|(i, &step)| {
            let points = asked.iter().enumerate().map(|(j, &t)| (t as f64, error(of, step, j))).collect();
            Series::new(step.to_string(), points)
                .grade(i as f64 / (all.len() - 1).max(1) as f64)
                .stroke(Stroke::Solid)
        });
        Panel::Lines(LinesPanel {
            title: label.into(),
            x: Axis::new("in-context pairs t", Scale::Linear),
            y: Axis::new("error relative to the labels", Scale::Log10),
            series: series.collect(),
            references: vec![],
        })
    };
    let about = format!(
        "{} of d=20, 100 hidden units, {} prompts, positions t = {EVERY}, {}, …, 100",
        task.function,
        prompts.count(),
        2 * EVERY
    );
    let figures = vec![
        Figure {
            id: error_id,
            title: "Error by pairs read, along layers and steps".into(),
            caption: format!("Mean squared error relative to the labels ({about})."),
            panels: vec![curves("Transformer", &of_layers), curves("GD on a two-layer network", &of_steps)],
        },
        Figure {
            id: map_id,
            title: "Similarity of errors with gradient descent, steps doubling".into(),
            caption: format!(
                "SimE of every layer with GD on a two-layer network, η = 0.003 ({about}). Both at their last: {:.3}.",
                map.similarity_floor()
            ),
            panels: vec![heatmap_panel("", &map, &matching)],
        },
    ];
    Ok(Outcome { claims, figures, tables: vec![] })
}

/// Predictions at some positions only, as if a prompt had no others: the labels asked for, and the learner's values.
fn thinned(
    learner: &dyn Learner,
    prompts: &Prompts,
    steps: &Steps,
    asked: &[usize],
) -> Result<(Prompts, Trajectory)> {
    let axis = ndarray::Axis(1);
    let thin = Prompts::new(prompts.xs.select(axis, asked), prompts.ys.select(axis, asked))?;
    let questions = Questions { prompts: prompts.clone(), lengths: asked.to_vec(), queries: thin.xs.clone() };
    let answers = learner.answers(&questions, steps)?;
    // query number i was the next input after asked[i] pairs
    let values =
        Array3::from_shape_fn((steps.len(), prompts.count(), asked.len()), |(s, b, i)| answers[[s, b, i, i]]);
    let trajectory = Trajectory::new(learner.id(), learner.unit(), steps.clone(), values, &thin)?;
    Ok((thin, trajectory))
}
