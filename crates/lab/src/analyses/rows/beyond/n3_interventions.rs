//! Which layers and heads a network needs: each is taken out in turn, and the last layer's match with Newton looked at.

use crate::analyses::kit::lab::Lab;
use crate::analyses::{Analysis, Outcome};
use crate::compare::matching::best_match;
use crate::compare::similarity::{Metric, View, of_errors};
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{
    At, Axis, Figure, HeatmapPanel, LinesPanel, Panel, Reference, Scale, Series, Stroke, Table,
};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory};
use crate::probe::{Ablation, LoadedProbe, MEAN_PROMPTS, MeanOutputs, Part, Probed, Replacement};
use crate::solvers;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N3",
    order: 30,
    title: "Which layers and heads it needs: each is taken out in turn",
    summary: "One layer adds nothing, or its mean; one head says its mean. What is left of the last layer's match with Newton, and \
              how much the error grows. Not in the paper; its maps are correlations, and this is a first step beyond them.",
    needs: &["r1"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::BEYOND
}];

/// One prompt in so many: every layer is taken out twice and every head once.
const THINNED: usize = 20;

fn run(lab: &Lab) -> Result<Outcome> {
    let opened = lab.opened("r1")?;
    let count = (lab.count / THINNED).max(4);
    let (effects, mut outcome) = measured(&opened, count, &|what| lab.say(what))?;
    let growth = |look: &Look| look.error / effects.whole.error;
    let largest = effects.layers.iter().map(|[skipped, _]| growth(skipped)).fold(0.0, f64::max);
    let needed = effects.layers.iter().filter(|[skipped, _]| growth(skipped) >= 2.0).count();
    outcome.claims = vec![
        Claim::new(
            "N3.most-needed",
            Kind::Reference,
            "Factor by which the error after all pairs grows without the layer that is needed most",
            largest,
            Bound::AtLeast(10.0),
        )
        .figure("interventions-layers"),
        Claim::new(
            "N3.needed",
            Kind::Reference,
            "Layers without which the error after all pairs at least doubles",
            needed as f64,
            Bound::None,
        )
        .figure("interventions-layers"),
    ];
    Ok(outcome)
}

/// Heads that the table names.
const STRONGEST: usize = 10;

/// What a network does at its last layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Newton's step that is most similar.
    pub step: Option<u64>,
    /// The similarity there.
    pub similarity: f64,
    /// Mean squared error over d after all pairs.
    pub error: f64,
}

/// What taking parts out does to the last layer.
pub struct Effects {
    /// Nothing taken out.
    pub whole: Look,
    /// Per layer from 1: skipped, and made to add its mean.
    pub layers: Vec<[Look; 2]>,
    /// Per layer and head: made to say its mean; on fewer prompts, with [`Effects::whole_for_heads`].
    pub heads: Vec<Vec<Look>>,
    /// Nothing taken out, on the prompts of the heads.
    pub whole_for_heads: Look,
}

/// Prompts with what Newton makes of them.
struct Bench {
    prompts: Prompts,
    newton: Trajectory,
}

impl Bench {
    fn new(task: &Task, seed: Seed, count: usize) -> Result<Bench> {
        let prompts = task.sample(seed, "eval", 0, count);
        let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 24))?;
        Ok(Bench { prompts, newton })
    }

    fn look(&self, probed: &Probed) -> Result<Look> {
        let last = probed.layers() as u64;
        let found = probed.trajectory(&self.prompts, &Steps::single(last))?;
        let map = of_errors(&found, &self.newton, &self.prompts, View::default(), Metric::Cosine)?;
        let matching = best_match(&map);
        let errors = found.squared_errors(&self.prompts, last, self.prompts.points() - 1);
        let error = errors.iter().sum::<f64>() / (errors.len() * self.prompts.dim()) as f64;
        Ok(Look { step: matching.step_for(last), similarity: matching.similarity[0], error })
    }
}

/// Takes out every layer on `count` prompts, and every head on a quarter of them. `tell` hears what is going on.
pub fn measure(opened: &LoadedProbe, count: usize, tell: &(dyn Fn(&str) + Sync)) -> Result<Effects> {
    let (spec, probed) = (&opened.task, &opened.probed);
    let task = spec.build()?;
    tell("measuring what each part says on average");
    let means = MeanOutputs::measure(probed.weights(), &task, Seed(opened.seed), MEAN_PROMPTS)?;
    let bench = Bench::new(&task, Seed(opened.seed), count)?;
    let look =
        |bench: &Bench, part, with| bench.look(&probed.ablated(&[Ablation { part, with }], Some(&means))?);
    let mut layers = Vec::new();
    for layer in 1..=probed.layers() {
        tell(&format!("without layer {layer} of {}", probed.layers()));
        let part = Part::Layer(layer);
        layers.push([look(&bench, part, Replacement::Zero)?, look(&bench, part, Replacement::Mean)?]);
    }
    let few = Bench::new(&task, Seed(opened.seed), count.div_ceil(4))?;
    let mut heads = Vec::new();
    for layer in 1..=probed.layers() {
        tell(&format!("without the heads of layer {layer} of {}", probed.layers()));
        let head = |head| look(&few, Part::Head { layer, head }, Replacement::Mean);
        heads.push((0..means.heads()).map(head).collect::<Result<_>>()?);
    }
    Ok(Effects { whole: bench.look(probed)?, layers, heads, whole_for_heads: few.look(probed)? })
}

/// The measured effects as tables and figures.
pub fn outcome(opened: &LoadedProbe, count: usize, tell: &(dyn Fn(&str) + Sync)) -> Result<Outcome> {
    Ok(measured(opened, count, tell)?.1)
}

fn measured(opened: &LoadedProbe, count: usize, tell: &(dyn Fn(&str) + Sync)) -> Result<(Effects, Outcome)> {
    let effects = measure(opened, count, tell)?;
    let name = opened.probed.id().to_string();
    let last = opened.task.points - 1;
    let caption = format!(
        "{name}, {count} prompts. The last layer's read-out stays as it was fitted to the whole network. Skipped: the layer \
         adds nothing to the stream. Mean: it adds its mean over {MEAN_PROMPTS} other prompts, position by position."
    );
    let outcome = Outcome {
        claims: vec![],
        figures: vec![by_layer(&effects, &caption, last), by_head(&effects, &name, count.div_ceil(4))],
        tables: vec![
            layer_table(&effects, &caption, last),
            head_table(&effects, &name, count.div_ceil(4), last),
        ],
    };
    Ok((effects, outcome))
}

fn step_text(look: &Look) -> String {
    look.step.map_or("none".into(), |step| step.to_string())
}

fn cells(look: &Look) -> [String; 3] {
    [step_text(look), format!("{:.4}", look.similarity), format!("{:.2e}", look.error)]
}

fn layer_table(effects: &Effects, caption: &str, last: usize) -> Table {
    let mut columns = vec!["layer".to_string()];
    for how in ["skipped", "mean"] {
        columns.extend([
            format!("{how}: Newton step"),
            format!("{how}: SimE"),
            format!("{how}: error/d at t={last}"),
        ]);
    }
    let row = |head: String, looks: [&Look; 2]| {
        std::iter::once(head).chain(looks.into_iter().flat_map(cells)).collect::<Vec<_>>()
    };
    let mut rows = vec![row("none".into(), [&effects.whole, &effects.whole])];
    rows.extend(
        effects.layers.iter().enumerate().map(|(i, [skip, mean])| row((i + 1).to_string(), [skip, mean])),
    );
    let title = "The last layer's match with Newton when one layer is taken out".into();
    Table { id: "interventions-layers".into(), title, caption: caption.into(), columns, rows }
}

fn head_table(effects: &Effects, name: &str, count: usize, last: usize) -> Table {
    let mut all: Vec<(usize, usize, &Look)> = Vec::new();
    for (layer, heads) in effects.heads.iter().enumerate() {
        all.extend(heads.iter().enumerate().map(|(head, look)| (layer + 1, head, look)));
    }
    all.sort_by(|a, b| b.2.error.total_cmp(&a.2.error));
    let row = |head: String, look: &Look| std::iter::once(head).chain(cells(look)).collect::<Vec<_>>();
    let mut rows = vec![row("none".into(), &effects.whole_for_heads)];
    rows.extend(all.iter().take(STRONGEST).map(|(layer, head, look)| row(format!("{layer}.{head}"), look)));
    Table {
        id: "interventions-heads".into(),
        title: "The heads whose loss hurts most".into(),
        caption: format!(
            "{name}, {count} prompts. One head (LAYER.HEAD) says its mean over {MEAN_PROMPTS} other prompts, position by \
             position; ordered by the error that this causes."
        ),
        columns: ["head", "Newton step", "SimE", &format!("error/d at t={last}")].map(String::from).to_vec(),
        rows,
    }
}

fn by_layer(effects: &Effects, caption: &str, last: usize) -> Figure {
    let panel = |title: &str, y: Axis, value: fn(&Look) -> f64| {
        let series = ["skipped", "mean"].into_iter().enumerate().map(|(i, label)| {
            let points = effects.layers.iter().enumerate();
            let points = points.map(|(layer, looks)| ((layer + 1) as f64, value(&looks[i]))).collect();
            Series::new(label, points).stroke(Stroke::LineMarkers)
        });
        Panel::Lines(LinesPanel {
            title: title.into(),
            x: Axis::new("layer taken out", Scale::Linear),
            y,
            series: series.collect(),
            references: vec![Reference { label: "whole".into(), at: At::Y(value(&effects.whole)) }],
        })
    };
    let error = Axis::new(format!("error/d at t={last}"), Scale::Log10);
    Figure {
        id: "interventions-layers".into(),
        title: "What the last layer does without one of the others".into(),
        caption: caption.into(),
        panels: vec![
            panel("Best match", Axis::new("Newton step", Scale::Linear), |l| {
                l.step.map_or(f64::NAN, |s| s as f64)
            }),
            panel("Similarity there", Axis::new("SimE", Scale::Linear), |l| l.similarity),
            panel("Error", error, |l| l.error),
        ],
    }
}

fn by_head(effects: &Effects, name: &str, count: usize) -> Figure {
    let heads = effects.heads[0].len();
    let growth = |look: &Look| (look.error / effects.whole_for_heads.error).log10();
    Figure {
        id: "interventions-heads".into(),
        title: "Growth of the error when a head says its mean".into(),
        caption: format!(
            "{name}, {count} prompts: log₁₀ of the error after all pairs when one head says its mean over prompts, over the \
             error of the whole network."
        ),
        panels: vec![Panel::Heatmap(HeatmapPanel {
            title: String::new(),
            x_label: "layer".into(),
            y_label: "head".into(),
            x_steps: (1..=effects.heads.len() as u64).collect(),
            y_steps: (0..heads as u64).collect(),
            values: (0..heads)
                .map(|h| effects.heads.iter().map(|layer| growth(&layer[h])).collect())
                .collect(),
            value_label: "log₁₀ growth".into(),
            best: vec![None; effects.heads.len()],
            best_interval: vec![None; effects.heads.len()],
            floor: None,
        })],
    }
}
