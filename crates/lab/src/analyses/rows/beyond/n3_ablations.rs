//! N3: which layers and heads a network needs. Each is ablated in turn, and the last layer's match with Newton looked at.

use crate::analyses::Outcome;
use crate::analyses::kit::prelude::*;
use crate::data::seed::Seed;
use crate::findings::numbers::roughly;
use crate::findings::{Figure, Table};
use crate::probe::{Ablation, LoadedProbe, MEAN_PROMPTS, Outputs, Part, Probed, Replacement, per_thread};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N3",
    order: 30,
    seconds: 23.5,
    title: "Which layers and heads does the network need?",
    summary: "One layer adds nothing, or its mean; one head says its mean. What is left of the last layer's match \
              with Newton, and how much the error grows. Not in the paper; its maps are correlations, and this is a \
              first step beyond them.",
    needs: &["r1"],
    run,
    ..Analysis::BEYOND
}];

/// One prompt in so many: every layer is ablated twice and every head once.
const THINNED: usize = 20;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let opened = lab.opened("r1")?;
    let count = (lab.count / THINNED).max(4);
    let found = Ablations::measure(&opened, count, &|what| lab.say(what))?;
    // prompts are resampled for the whole network and for all ablated ones together
    let most = bootstrap(lab.seed, count, |chosen| found.growths(chosen).into_iter().fold(0.0, f64::max));
    note.claim("most-needed", most, AtLeast(10.0))
        .says("Factor by which the error after all pairs grows without the layer that is needed most");
    let doubled = |chosen: &[usize]| found.growths(chosen).into_iter().filter(|g| *g >= DOUBLED).count();
    note.claim("needed", bootstrap(lab.seed, count, |chosen| doubled(chosen) as f64), Bound::None)
        .says("Layers without which the error after all pairs at least doubles");
    let Outcome { figures, tables, .. } = found.shown();
    note.paste(figures, tables);
    Ok(())
}

/// Growth of the error from which on a layer counts as needed.
const DOUBLED: f64 = 2.0;
/// Heads that the table names.
const STRONGEST: usize = 10;

/// What a network does at its last layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Newton's step that is most similar.
    pub step: Option<u64>,
    /// The similarity there.
    pub similarity: f64,
    /// Mean squared error over d after all pairs.
    pub error: f64,
    /// Squared errors after all pairs, one per prompt.
    squared: Vec<f64>,
}

impl Look {
    fn cells(&self) -> [String; 3] {
        let step = self.step.map_or("none".into(), |step| step.to_string());
        [step, format!("{:.4}", self.similarity), format!("{:.2e}", self.error)]
    }
}

/// Prompts with what Newton makes of them.
struct Evaluation {
    prompts: Prompts,
    newton: Trajectory,
}

impl Evaluation {
    fn new(task: &Task, seed: Seed, count: usize) -> Result<Evaluation> {
        let prompts = task.sample(seed, "eval", 0, count);
        let newton = solver("newton")?.trajectory(&prompts, &Steps::range(0, 30))?;
        Ok(Evaluation { prompts, newton })
    }

    fn look(&self, probed: &Probed) -> Result<Look> {
        let last = probed.layers() as u64;
        let network = probed.trajectory(&self.prompts, &Steps::single(last))?;
        let found = Comparison::of_errors(&network, &self.newton, &self.prompts)?;
        let squared = network.squared_errors(&self.prompts, last, self.prompts.points() - 1);
        let error = squared.iter().sum::<f64>() / (squared.len() * self.prompts.dim()) as f64;
        Ok(Look { step: found.step_for(last), similarity: found.matching.similarity[0], error, squared })
    }
}

/// What ablating a layer or a head does to the last layer.
pub struct Ablations {
    /// The network and the pairs of its prompts.
    name: String,
    pairs: usize,
    /// Prompts for layers, and for heads.
    prompts: [usize; 2],
    /// Nothing ablated.
    whole: Look,
    /// Per layer from 1: skipped, and made to add its mean.
    layers: Vec<[Look; 2]>,
    /// Per layer and head: made to say its mean; on fewer prompts, with [`Ablations::whole_for_heads`].
    heads: Vec<Vec<Look>>,
    /// Nothing ablated, on the prompts of the heads.
    whole_for_heads: Look,
}

impl Ablations {
    /// Ablates every layer on `count` prompts, and every head on a quarter of them. `tell` hears what is going on.
    pub fn measure(opened: &LoadedProbe, count: usize, tell: &(dyn Fn(&str) + Sync)) -> Result<Ablations> {
        let (task, probed, seed) = (opened.task.build()?, &opened.probed, Seed(opened.seed));
        tell("measuring what each part says on average");
        let means = Outputs::of_parts(probed.weights(), &task, seed, MEAN_PROMPTS)?;
        let (all, few) =
            (Evaluation::new(&task, seed, count)?, Evaluation::new(&task, seed, count.div_ceil(4))?);
        let replaced = [Replacement::Zero, Replacement::Mean];
        let of_layer = |layer| replaced.map(|with| (&all, Ablation { part: Part::Layer(layer), with }));
        let of_head =
            |layer, head| (&few, Ablation { part: Part::Head { layer, head }, with: Replacement::Mean });
        let (depth, heads) = (probed.layers(), means.heads());
        let mut asked: Vec<(&Evaluation, Ablation)> = (1..=depth).flat_map(of_layer).collect();
        asked.extend(
            (1..=depth)
                .flat_map(|layer| (0..heads).map(move |head| (layer, head)))
                .map(|(l, h)| of_head(l, h)),
        );
        // one thread per ablation: the prompts of each are too few for many threads
        let looks = per_thread(
            asked.len(),
            || (),
            |(), i| {
                let (on, ablation) = &asked[i];
                tell(&format!("ablation {} of {}", i + 1, asked.len()));
                on.look(&probed.ablated(std::slice::from_ref(ablation), Some(&means))?)
            },
        )?;
        let (of_layers, of_heads) = looks.split_at(2 * depth);
        let layers = of_layers.as_chunks::<2>().0.to_vec();
        let heads = of_heads.chunks(heads.max(1)).map(<[Look]>::to_vec).collect();
        Ok(Ablations {
            name: probed.id().to_string(),
            pairs: opened.task.points - 1,
            prompts: [count, count.div_ceil(4)],
            whole: all.look(probed)?,
            layers,
            heads,
            whole_for_heads: few.look(probed)?,
        })
    }

    /// Factor by which the error after all pairs of the chosen prompts grows without each layer.
    fn growths(&self, chosen: &[usize]) -> Vec<f64> {
        let sum = |look: &Look| chosen.iter().map(|&b| look.squared[b]).sum::<f64>();
        let whole = sum(&self.whole);
        self.layers.iter().map(|[skipped, _]| sum(skipped) / whole).collect()
    }

    /// Which layer and which head the error needs most, in a sentence.
    pub fn answer(&self) -> String {
        let layers = self.growths(&(0..self.prompts[0]).collect::<Vec<_>>());
        let most = |values: &[f64]| (0..values.len()).max_by(|&i, &j| values[i].total_cmp(&values[j]));
        let heads: Vec<f64> = self.heads.iter().flatten().map(|look| look.error).collect();
        let (Some(layer), Some(head)) = (most(&layers), most(&heads)) else { return String::new() };
        let per_layer = self.heads[0].len();
        format!(
            "Without layer {} the error after all pairs grows most, by a factor of {}; without {} of {} layers it at least \
             doubles. Of the heads {}.{} matters most, by a factor of {}.",
            layer + 1,
            roughly(layers[layer]),
            layers.iter().filter(|growth| **growth >= DOUBLED).count(),
            layers.len(),
            head / per_layer + 1,
            head % per_layer,
            roughly(heads[head] / self.whole_for_heads.error)
        )
    }

    /// Figures and tables of layers and of heads.
    pub fn shown(&self) -> Outcome {
        let caption = format!(
            "{}, {} prompts. The last layer's read-out stays as it was fitted to the whole network. Skipped: the layer \
             adds nothing to the stream. Mean: it adds its mean over {MEAN_PROMPTS} other prompts, position by position.",
            self.name, self.prompts[0]
        );
        Outcome {
            claims: vec![],
            figures: vec![self.by_layer(&caption), self.by_head()],
            tables: vec![self.layer_table(&caption), self.head_table()],
        }
    }

    fn error_label(&self) -> String {
        format!("error/d at t={}", self.pairs)
    }

    fn layer_table(&self, caption: &str) -> Table {
        let of =
            |how: &str| ["Newton step", "SimE", &self.error_label()].map(|what| format!("{how}: {what}"));
        let columns = ["layer".to_string()].into_iter().chain(of("skipped")).chain(of("mean"));
        let row = |head: String, looks: [&Look; 2]| -> Vec<String> {
            std::iter::once(head).chain(looks.into_iter().flat_map(Look::cells)).collect()
        };
        let layers = self.layers.iter().enumerate();
        let layers = layers.map(|(i, [skipped, mean])| row((i + 1).to_string(), [skipped, mean]));
        let rows = [row("none".into(), [&self.whole, &self.whole])].into_iter().chain(layers);
        let title = "The last layer's match with Newton, with one layer ablated";
        Table::new("interventions-layers", title, caption, columns, rows)
    }

    fn head_table(&self) -> Table {
        let mut all: Vec<(usize, usize, &Look)> = Vec::new();
        for (layer, heads) in self.heads.iter().enumerate() {
            all.extend(heads.iter().enumerate().map(|(head, look)| (layer + 1, head, look)));
        }
        all.sort_by(|a, b| b.2.error.total_cmp(&a.2.error));
        let row = |head: String, look: &Look| std::iter::once(head).chain(look.cells()).collect::<Vec<_>>();
        let strongest = all.iter().take(STRONGEST);
        let strongest = strongest.map(|(layer, head, look)| row(format!("{layer}.{head}"), look));
        let rows = [row("none".into(), &self.whole_for_heads)].into_iter().chain(strongest);
        let caption = format!(
            "{}, {} prompts. One head (LAYER.HEAD) says its mean over {MEAN_PROMPTS} other prompts, position by \
             position; ordered by the error that this causes.",
            self.name, self.prompts[1]
        );
        let columns = ["head", "Newton step", "SimE", &self.error_label()];
        Table::new("interventions-heads", "Heads by the error without them", caption, columns, rows)
    }

    fn by_layer(&self, caption: &str) -> Figure {
        let panel = |title: &str, y: Axis, value: fn(&Look) -> f64| {
            let series = ["skipped", "mean"].into_iter().enumerate().map(|(i, label)| {
                let points = self.layers.iter().enumerate();
                let points = points.map(|(layer, looks)| ((layer + 1) as f64, value(&looks[i]))).collect();
                Series::new(label, points).markers()
            });
            LinesPanel::new(Axis::linear("ablated layer"), y, series)
                .titled(title)
                .mark_y("whole", value(&self.whole))
        };
        let step = |look: &Look| look.step.map_or(f64::NAN, |step| step as f64);
        let panels = [
            panel("Best match", Axis::linear("Newton step"), step),
            panel("Similarity there", Axis::linear("SimE"), |look| look.similarity),
            panel("Error", Axis::log10(self.error_label()), |look| look.error),
        ];
        let title = "The last layer without one of the others";
        Figure::new("interventions-layers", title, caption, panels)
    }

    fn by_head(&self) -> Figure {
        let (layers, heads) = (self.heads.len(), self.heads[0].len());
        let growth = |look: &Look| (look.error / self.whole_for_heads.error).log10();
        let row = |head: usize| self.heads.iter().map(|layer| growth(&layer[head])).collect();
        let (x, y) = (("layer", (1..=layers as u64).collect()), ("head", (0..heads as u64).collect()));
        let panel = HeatmapPanel::plain("", x, y, "log₁₀ growth", (0..heads).map(row).collect());
        let caption = format!(
            "{}, {} prompts: log₁₀ of the error after all pairs when one head says its mean over prompts, over the \
             error of the whole network.",
            self.name, self.prompts[1]
        );
        Figure::new("interventions-heads", "Growth of the error when a head says its mean", caption, [panel])
    }
}
