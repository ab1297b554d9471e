//! F20, F21: two-layer networks as functions, against gradient descent on a two-layer network fitted to the pairs.

use ndarray::Array3;

use crate::analyses::kit::prelude::*;
use crate::compare::similarity::of_errors;
use crate::data::prompts::Questions;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F20",
        paper: Some(("Figure 20", "A.3.3")),
        order: 200,
        seconds: 25.1,
        title: "Two-layer ReLU networks: is the Transformer exponentially faster than gradient descent?",
        summary: "A Transformer trained on functions that are two-layer ReLU networks, against gradient descent on a network of the \
                  same shape fitted to the pairs read. Steps double along the axis, so that a straight line means exponentially \
                  faster. The paper names neither step size nor start; here η = 0.003 and normal first weights.",
        needs: &["r8"],
        run: |lab, note| run(lab, note, "r8", "relu", 0),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F21",
        paper: Some(("Figure 21", "A.3.3")),
        order: 210,
        seconds: 30.5,
        title: "Two-layer tanh networks: do the first layers only prepare?",
        summary: "The same with tanh. The paper finds that the first five layers only prepare, and that similarities are lower \
                  than for linear functions, as two fitted networks may be different optima.",
        needs: &["r9"],
        run: |lab, note| run(lab, note, "r9", "tanh", 5),
        ..Analysis::FIGURE
    },
];

/// Points per prompt, more than for linear functions.
const LONG: usize = 101;
/// Every fifth position: a network is fitted to each prefix, for a thousand steps.
const EVERY: usize = 5;

/// `preparing`: first layers that do not yet improve, by the paper.
fn run(lab: &Lab, note: &mut Notebook, network: &str, activation: &str, preparing: u64) -> Result<()> {
    let function = format!("{activation}-2nn");
    // one prompt in twenty: fitting is dear
    let task = Task::new(&function, "gaussian", DIM, LONG)?;
    let prompts = task.sample(lab.seed, "eval", 0, (lab.count / 20).max(2));
    let network = lab.network(network)?;
    let layers = network.default_steps();
    let fitted = lab.learner(&format!("mlp-gd:activation={activation},eta=0.003"))?;
    let asked: Vec<usize> = (EVERY..LONG).step_by(EVERY).collect();
    let (thin, of_steps) = thinned(&*fitted, &prompts, &Steps::powers_of_two(0, 10), &asked)?;
    // a network answers at every position anyway
    let values = network.trajectory(&prompts, &layers)?.values.select(ndarray::Axis(2), &asked);
    let of_layers = Trajectory::new(network.id(), network.unit(), layers.clone(), values, &thin)?;
    let map = of_errors(&of_layers, &of_steps, &thin, View { first: 0 }, Metric::Cosine)?;
    let found = Comparison::new(map).named("Transformer").over((preparing + 1, layers.last()));
    let found = found.resampled(lab.seed);

    let (scale, end) = (prompts.label_power(), asked.len() - 1);
    let error = |of: &Trajectory, step: u64, i: usize| {
        of.squared_errors(&thin, step, i).iter().sum::<f64>() / thin.count() as f64 / scale
    };
    let gained = |layer: u64| error(&of_layers, 1, end) - error(&of_layers, layer, end);
    // the first layer that brings a good part of the improvement
    let begins = layers.as_slice().iter().copied().find(|&l| gained(l) >= 0.25 * gained(layers.last()));
    let begins = begins.unwrap_or(layers.last());
    note.claim("gd-exponential", found.evidence(Trend::Exponential), AtLeast(0.0))
        .says(format!(
            "An exponential fits the best GD steps from layer {} on better than a line (BIC difference)",
            preparing + 1
        ))
        .quoted("straight against log GD steps")
        .figure("map");
    let at_work = layers.as_slice().iter().zip(&found.matching.similarity).filter(|(l, _)| **l >= begins);
    note.claim("less-similar", found.highest(), AtMost(0.95))
        .says("Highest SimE of any layer with any step")
        .quoted("significantly lower than with linear functions")
        .figure("map")
        .why(format!(
            "Layers that have not begun answer next to nothing, as the first steps of a fit do, and are alike for that. From layer \
             {begins} on, where this network begins, the highest is {:.3}. The paper names neither the start nor the \
             step size of its fits, on which this depends.",
            at_work.map(|(_, s)| *s).fold(f64::NAN, f64::max)
        ));
    note.claim("improves", error(&of_layers, layers.last(), end) / error(&of_layers, 1, end), AtMost(0.5))
        .says("Error of the last layer after 100 pairs over that of the first")
        .quoted("improves over the layers");
    if preparing > 0 {
        let before = preparing.min(layers.last());
        note.claim("prepares", gained(before) / gained(layers.last()), AtMost(0.25))
            .says(format!("Share of the improvement after 100 pairs that layers 1 to {before} bring"))
            .quoted("the entire first 5 layers to pre-process")
            .why(format!(
                "This network prepares too, but not for so long: layer {begins} is the first to bring a quarter of the improvement."
            ));
    }

    let curves = |label: &str, of: &Trajectory| {
        let all = of.steps.as_slice();
        let series = all.iter().enumerate().map(|(i, &step)| {
            let points = asked.iter().enumerate().map(|(j, &t)| (t as f64, error(of, step, j))).collect();
            Series::new(step.to_string(), points).grade(i as f64 / (all.len() - 1).max(1) as f64)
        });
        let y = Axis::log10("error relative to the labels");
        LinesPanel::new(Axis::linear("in-context pairs t"), y, series).titled(label)
    };
    let about = format!(
        "{function} of d=20, 100 hidden units, {} prompts, positions t = {EVERY}, {}, …, 100",
        prompts.count(),
        2 * EVERY
    );
    note.figure(
        "errors",
        "Error by pairs read, along layers and steps",
        format!("Mean squared error relative to the labels ({about})."),
        [curves("Transformer", &of_layers), curves("GD on a two-layer network", &of_steps)],
    );
    let caption = format!(
        "SimE of every layer with GD on a two-layer network, η = 0.003 ({about}). Floor, with both at their last steps: SimE {:.3}.",
        found.floor
    );
    let title = "Similarity of errors with gradient descent, steps doubling";
    note.figure("map", title, caption, [found.panel("")]);
    Ok(())
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
