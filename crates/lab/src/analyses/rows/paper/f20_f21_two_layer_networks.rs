//! F20, F21: two-layer networks as functions, against gradient descent on a two-layer network fitted to the pairs.

use ndarray::Array3;

use crate::analyses::kit::prelude::*;
use crate::compare::rates::BEYOND_DOUBT;
use crate::compare::similarity::{Heatmap, of_errors};
use crate::data::prompts::Questions;
use crate::findings::Reading;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F20",
        paper: Some(("Figure 20", "A.3.3")),
        order: 200,
        seconds: 34.4,
        title: "Two-layer ReLU networks: is the Transformer exponentially faster than gradient descent?",
        summary: "A Transformer trained on functions that are two-layer ReLU networks, against gradient descent on a network of the \
                  same shape fitted to the pairs read. Steps double along the axis, so that a straight line means exponentially \
                  faster. The paper names neither step size nor start; here GD with η = 0.003 from normal first weights, and Adam with \
                  η = 0.005 as in the authors' code.",
        needs: &["r8"],
        run: |lab, note| run(lab, note, &RELU),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F21",
        paper: Some(("Figure 21", "A.3.3")),
        order: 210,
        seconds: 39.7,
        title: "Two-layer tanh networks: do the first layers only prepare?",
        summary: "The same with tanh. The paper finds that the first five layers only prepare, and that similarities are lower \
                  than for linear functions, as two fitted networks may be different optima.",
        needs: &["r9"],
        run: |lab, note| run(lab, note, &TANH),
        ..Analysis::FIGURE
    },
];

/// Points per prompt, more than for linear functions.
const LONG: usize = 101;
/// Every fifth position: a network is fitted to each prefix, for a thousand steps.
const EVERY: usize = 5;
/// Of so many prompts one is fitted to: fitting is dear, and by Adam once more.
const FITTED: usize = 20;
const FITTED_BY_ADAM: usize = 4 * FITTED;
/// Of so many prompts one is answered by the Transformer.
const ANSWERED: usize = 4;

/// A task, the network trained on it, and what the paper says of it.
struct Case {
    network: &'static str,
    activation: &'static str,
    /// First layers that do not yet improve, by the paper.
    preparing: u64,
    /// Its words on the rate against gradient descent.
    rate: &'static str,
}

const RELU: Case = Case {
    network: "r8",
    activation: "relu",
    preparing: 0,
    rate: "steps are shown in log scale and the trend is linear",
};
const TANH: Case = Case {
    network: "r9",
    activation: "tanh",
    preparing: 5,
    rate: "only in the next few layers show exponentially faster convergence rate",
};

fn run(lab: &Lab, note: &mut Notebook, of: &Case) -> Result<()> {
    let (function, preparing) = (format!("{}-2nn", of.activation), of.preparing);
    let task = Task::new(&function, "gaussian", DIM, LONG)?;
    let sample = |share: usize| task.sample(lab.seed, "eval", 0, (lab.count / share).max(2));
    let fitted = |baseline: &str, share: usize| {
        let learner = format!("mlp-gd:activation={},{baseline}", of.activation);
        against(lab, of.network, &learner, &sample(share))
    };
    let by_gd = fitted("eta=0.003", FITTED)?;
    let by_adam = fitted("optimizer=adam,eta=0.005", FITTED_BY_ADAM)?;
    let network = lab.network(of.network)?;
    let layers = network.default_steps();
    let from = (preparing + 1).min(layers.last());
    let [ours, authors] = [&by_gd, &by_adam].map(|fitted| fitted.compared(lab, (from, layers.last())));

    note.claim("gd-exponential", ours.evidence(Trend::Exponential), Bound::Beyond(BEYOND_DOUBT))
        .says(format!(
            "An exponential fits the best GD steps from layer {from} on better than a line, a power law or a parabola (BIC \
             difference)"
        ))
        .quoted(of.rate)
        .authors(authors.evidence(Trend::Exponential))
        .figure("map");
    let answered = sample(ANSWERED);
    let along = Along::new(&network.trajectory(&answered, &layers)?, &answered);
    let begins = along.begins();
    let at_work = layers.as_slice().iter().zip(&ours.matching.similarity).filter(|(l, _)| **l >= begins);
    note.claim("less-similar", highest(lab, &ours), AtMost(0.95))
        .says("Highest SimE of any layer with any step")
        .quoted("are significantly lower than the experiments with linear regression tasks")
        .authors(highest(lab, &authors))
        .figure("map")
        .why(format!(
            "Layers that have not begun answer next to nothing, as the first steps of a fit do, and are alike for that. From layer \
             {begins} on, where this network begins, the highest is {:.3}.",
            at_work.map(|(_, s)| *s).fold(f64::NAN, f64::max)
        ));
    note.claim("superlinear", along.acceleration(lab, from), AtLeast(0.0))
        .says(format!(
            "Growth from layer to layer of the e-folds by which a layer lowers the mean error after 100 pairs (layers from {from} on); \
             a geometric rate has 0"
        ))
        .quoted("Transformers have superlinear convergence rates")
        .also(&format!("{}: from {begins} on", Reading::OUR_LAYERS), along.acceleration(lab, begins))
        .figure("rate");
    if preparing > 0 {
        let before = preparing.min(layers.last());
        note.claim("prepares", along.share_gained(lab, before), AtMost(0.25))
            .says(format!("Share of the improvement after 100 pairs that layers 1 to {before} bring"))
            .quoted("Transformers use the entire first 5 layers to pre-process")
            .figure("rate")
            .why(format!(
                "This network prepares too, but not for so long: layer {begins} is the first to bring a quarter of the improvement."
            ));
    }

    let about = |fitted: &Fitted| {
        format!(
            "{function} of d=20, 100 hidden units, {} prompts, t = {EVERY}, {}, …, 100",
            fitted.prompts.count(),
            2 * EVERY
        )
    };
    note.figure(
        "errors",
        "Error by pairs read, along layers and steps",
        format!("Mean squared error relative to the labels ({}).", about(&by_gd)),
        [
            by_gd.panel("Transformer", &by_gd.of_layers),
            by_gd.panel("GD on a two-layer network", &by_gd.of_steps),
        ],
    );
    let caption = format!(
        "Mean squared error relative to the labels after 100 pairs, by layer, with 95 % bands ({function}, {} prompts). On this axis a \
         geometric rate is a straight line; a superlinear one bends down.",
        answered.count()
    );
    note.figure("rate", "Error after 100 pairs, by layer", caption, [along.panel(lab)]);
    let caption = format!(
        "SimE of every layer with a two-layer network fitted to the pairs: left by GD, η = 0.003 ({}), right by Adam, η = 0.005, as in \
         the authors' code ({} prompts). Floors, with both at their last steps: SimE {:.3} and {:.3}.",
        about(&by_gd),
        by_adam.prompts.count(),
        ours.floor,
        authors.floor
    );
    let title = "Similarity of errors with a fitted two-layer network, steps doubling";
    note.figure("map", title, caption, [ours.panel("GD"), authors.panel("Adam")]);
    Ok(())
}

/// A Transformer beside a network that is fitted to the pairs, at some positions.
struct Fitted {
    /// The labels asked for, as if a prompt had no others.
    prompts: Prompts,
    /// What a label is worth: mean square of all of them.
    power: f64,
    of_layers: Trajectory,
    of_steps: Trajectory,
    map: Heatmap,
}

fn against(lab: &Lab, network: &str, fitted: &str, prompts: &Prompts) -> Result<Fitted> {
    let asked = positions();
    let (thin, of_steps) = thinned(&*lab.learner(fitted)?, prompts, &Steps::powers_of_two(0, 10), &asked)?;
    // a network answers at every position anyway
    let network = lab.network(network)?;
    let layers = network.default_steps();
    let values = network.trajectory(prompts, &layers)?.values.select(ndarray::Axis(2), &asked);
    let of_layers = Trajectory::new(network.id(), network.unit(), layers, values, &thin)?;
    let map = of_errors(&of_layers, &of_steps, &thin, View { first: 0 }, Metric::Cosine)?;
    Ok(Fitted { prompts: thin, power: prompts.label_power(), of_layers, of_steps, map })
}

impl Fitted {
    fn compared(&self, lab: &Lab, layers: (u64, u64)) -> Comparison {
        Comparison::new(self.map.clone()).named("Transformer").over(layers).resampled(lab.seed)
    }

    /// Error by pairs read, a curve per step.
    fn panel(&self, title: &str, of: &Trajectory) -> LinesPanel {
        let all = of.steps.as_slice();
        let error = |step: u64, i: usize| {
            of.squared_errors(&self.prompts, step, i).iter().sum::<f64>()
                / self.prompts.count() as f64
                / self.power
        };
        let series = all.iter().enumerate().map(|(i, &step)| {
            let points =
                positions().into_iter().enumerate().map(|(j, t)| (t as f64, error(step, j))).collect();
            let label = format!("{} {step}", of.unit.one());
            Series::new(label, points).grade(i as f64 / (all.len() - 1).max(1) as f64)
        });
        let y = Axis::log10("error relative to the labels");
        LinesPanel::new(Axis::linear("in-context pairs t"), y, series).titled(title)
    }
}

fn positions() -> Vec<usize> {
    (EVERY..LONG).step_by(EVERY).collect()
}

/// The highest SimE of any layer with any step, chosen anew for resampled prompts.
fn highest(lab: &Lab, of: &Comparison) -> Estimate {
    let cells = &of.map.per_prompt;
    bootstrap(lab.seed, of.map.prompts(), |chosen| {
        let mean = |cell: ndarray::ArrayView1<f64>| {
            chosen.iter().map(|&b| cell[b]).sum::<f64>() / chosen.len() as f64
        };
        cells.lanes(ndarray::Axis(2)).into_iter().map(mean).fold(f64::NAN, f64::max)
    })
}

/// Squared errors after all pairs, by layer and prompt, relative to the labels.
struct Along {
    layers: Vec<u64>,
    errors: Vec<Vec<f64>>,
}

impl Along {
    fn new(network: &Trajectory, prompts: &Prompts) -> Along {
        let power = prompts.label_power();
        let relative = |layer: &u64| {
            let errors = network.squared_errors(prompts, *layer, LONG - 1);
            errors.into_iter().map(|e| e / power).collect()
        };
        let layers = network.steps.as_slice().to_vec();
        Along { errors: layers.iter().map(relative).collect(), layers }
    }

    /// Mean error at each layer over some prompts.
    fn means(&self, chosen: &[usize]) -> Vec<f64> {
        let mean = |errors: &Vec<f64>| chosen.iter().map(|&b| errors[b]).sum::<f64>() / chosen.len() as f64;
        self.errors.iter().map(mean).collect()
    }

    /// Share of what all layers gain over the first that a layer has gained.
    fn gained(means: &[f64], i: usize) -> f64 {
        (means[0] - means[i]) / (means[0] - means[means.len() - 1])
    }

    fn share_gained(&self, lab: &Lab, layer: u64) -> Estimate {
        let i = self.position(layer);
        bootstrap(lab.seed, self.errors[0].len(), |chosen| Along::gained(&self.means(chosen), i))
    }

    /// The first layer that has gained a quarter of what all do.
    fn begins(&self) -> u64 {
        let means = self.means(&(0..self.errors[0].len()).collect::<Vec<_>>());
        let begun = (0..means.len()).find(|&i| Along::gained(&means, i) >= 0.25);
        begun.map_or(*self.layers.last().expect("never empty"), |i| self.layers[i])
    }

    /// Slope against the layer of the e-folds that a layer from `first` on removes: positive is superlinear.
    fn acceleration(&self, lab: &Lab, first: u64) -> Estimate {
        // the layer before the first is where its improvement starts from
        let before = self.position(first).saturating_sub(1);
        bootstrap(lab.seed, self.errors[0].len(), |chosen| {
            let logs: Vec<f64> = self.means(chosen)[before..].iter().map(|e| e.ln()).collect();
            let removed = logs.windows(2).enumerate().map(|(i, w)| (i as f64, w[0] - w[1]));
            line(&removed.collect::<Vec<_>>()).1
        })
    }

    fn position(&self, layer: u64) -> usize {
        self.layers.iter().position(|l| *l == layer).unwrap_or(self.layers.len() - 1)
    }

    fn panel(&self, lab: &Lab) -> LinesPanel {
        let points =
            self.layers.iter().zip(&self.errors).map(|(l, errors)| (*l as f64, mean(lab.seed, errors)));
        let curve = Series::estimates("Transformer", points);
        LinesPanel::new(
            Axis::linear("Transformer layers"),
            Axis::log10("error relative to the labels"),
            [curve],
        )
    }
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
