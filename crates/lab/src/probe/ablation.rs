//! Ablations: a layer or head whose output is replaced by zero, or by its mean over prompts.

use std::fmt;
use std::sync::Arc;

use engine::model::ablation::{AblatedPart, Part};
use engine::model::networks::{Mode, Network};

use super::Probed;
use super::pass::{GROUP, LANES, PromptRunner, per_thread};
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::Weights;

/// A part of a network and what replaces its output. Layers count from 1, heads from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ablation {
    /// Which part.
    pub part: Part,
    /// What replaces its output.
    pub with: Replacement,
}

/// What replaces the output of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Zero: a layer is skipped, a head is silent.
    Zero,
    /// Its mean over prompts, position by position.
    Mean,
}

/// The setting of a `run:` learner that ablates.
pub const ABLATE: &str = "ablate";

/// The settings it had before: what replaces the output, and whether heads are named.
pub(super) const OLDER: [(&str, Replacement, bool); 4] = [
    ("skip", Replacement::Zero, false),
    ("mean", Replacement::Mean, false),
    ("silence", Replacement::Zero, true),
    ("head", Replacement::Mean, true),
];

impl Ablation {
    /// Ablations by the text of a setting: `ablate=zero:7.3` (layer 7, head 3), `ablate=mean:7+8`, `ablate=zero:7+mean:8.0`.
    /// Older spellings are `skip=7`, `mean=7+8` for layers and `silence=7.3`, `head=7.0+7.1` for heads.
    pub fn parse(setting: &str, value: &str) -> Result<Vec<Ablation>> {
        let older = OLDER.iter().find(|(name, ..)| *name == setting);
        let bad = || {
            Error::BadSetting {
            row: "run".into(),
            setting: setting.into(),
            value: value.into(),
            accepted: match older {
                None => "zero: or mean: and layers counted from 1 or LAYER.HEAD with heads from 0, as zero:7+8 or mean:7.3",
                Some((.., false)) => "layers, counted from 1, as 7 or 7+8",
                Some((.., true)) => {
                    "heads as LAYER.HEAD, layers counted from 1 and heads from 0, as 7.3 or 7.0+7.1"
                }
            }
            .into(),
        }
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| bad());
        let mut with = older.map(|(_, with, _)| *with);
        let ablation = |text: &str| {
            let (kind, part) = match text.split_once(':') {
                Some((kind, part)) if older.is_none() => (Some(kind), part),
                _ => (None, text),
            };
            with = match kind {
                Some("zero") => Some(Replacement::Zero),
                Some("mean") => Some(Replacement::Mean),
                Some(_) => return Err(bad()),
                None => with,
            };
            let part = match part.split_once('.') {
                Some((layer, head)) => Part::Head { layer: number(layer)?, head: number(head)? },
                None => Part::Layer(number(part)?),
            };
            if older.is_some_and(|(.., heads)| *heads != matches!(part, Part::Head { .. })) {
                return Err(bad());
            }
            Ok(Ablation { part, with: with.ok_or_else(bad)? })
        };
        value.split('+').map(ablation).collect()
    }
}

impl fmt::Display for Ablation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = match self.with {
            Replacement::Zero => "zero",
            Replacement::Mean => "mean",
        };
        match self.part {
            Part::Layer(layer) => write!(f, "{with}:{layer}"),
            Part::Head { layer, head } => write!(f, "{with}:{layer}.{head}"),
        }
    }
}

/// The mean output of each part of a network over prompts, position by position.
pub struct MeanOutputs {
    /// Per layer: what it adds to the residual stream, resid_post − resid_pre `[positions, width]`.
    updates: Vec<Vec<f64>>,
    /// Per layer: z, what its heads hand to the output projection `[positions, width]`.
    z: Vec<Vec<f64>>,
    /// Width of the residual stream.
    width: usize,
    /// Width of a head.
    head: usize,
}

/// Prompts over which means are taken when nobody says how many.
pub const MEAN_PROMPTS: usize = 512;

impl MeanOutputs {
    /// Measures the means over `count` prompts of a task.
    pub fn measure(weights: &Weights, task: &Task, seed: Seed, count: usize) -> Result<MeanOutputs> {
        let Network::Gpt2(config) = &weights.network else {
            return Err(Error::BadData(
                "only the layers of a Transformer add to a residual stream and have heads".into(),
            ));
        };
        let (layers, width) = (config.layers, config.width);
        let nothing = || vec![vec![0.0; 2 * task.points * width]; 2 * layers];
        let size = count.div_ceil(LANES).next_multiple_of(GROUP);
        let pieces = count.div_ceil(size);
        let sums = per_thread(
            pieces,
            || PromptRunner::saving_activations(weights),
            |runner, piece| {
                let mut sums = nothing();
                for first in (piece * size..(piece + 1) * size).step_by(GROUP) {
                    let prompts = task.sample(seed, "probe/means", first as u64, GROUP);
                    let runner = runner.run(&prompts)?;
                    for layer in 1..=layers {
                        let (before, after) = (runner.hidden(layer - 1), runner.hidden(layer));
                        let updates = after.iter().zip(before).map(|(a, b)| f64::from(*a) - f64::from(*b));
                        add_prompts(&mut sums[layer - 1], updates);
                        let z = runner.z(layer).expect("saved by a Transformer");
                        add_prompts(&mut sums[layers + layer - 1], z.iter().map(|v| f64::from(*v)));
                    }
                }
                Ok(sums)
            },
        )?;
        let mut updates = nothing();
        for piece in &sums {
            for (mean, sum) in updates.iter_mut().flatten().zip(piece.iter().flatten()) {
                *mean += sum / (pieces * size) as f64;
            }
        }
        let z = updates.split_off(layers);
        Ok(MeanOutputs { updates, z, width, head: width / config.heads })
    }

    /// Heads of a layer.
    pub fn heads(&self) -> usize {
        self.width / self.head
    }

    /// The mean of one part; `None` where there is no such part.
    fn of(&self, part: Part) -> Option<Arc<[f32]>> {
        let (Part::Layer(layer) | Part::Head { layer, .. }) = part;
        let layer = layer.checked_sub(1)?;
        let (all, columns) = match part {
            Part::Layer(_) => (self.updates.get(layer)?, 0..self.width),
            Part::Head { head, .. } => (self.z.get(layer)?, head * self.head..(head + 1) * self.head),
        };
        let rows = all.chunks_exact(self.width).map(|row| row.get(columns.clone()));
        let rows = rows.collect::<Option<Vec<&[f64]>>>()?;
        Some(rows.into_iter().flatten().map(|v| *v as f32).collect())
    }
}

impl Probed {
    /// The same network and read-outs with parts ablated. `means` is needed where a part is replaced by its mean.
    pub fn ablated(&self, ablations: &[Ablation], means: Option<&MeanOutputs>) -> Result<Probed> {
        let mut probed = self.clone();
        for ablation in ablations {
            let output = match ablation.with {
                Replacement::Zero => None,
                // A part that does not exist is named by the engine, below.
                Replacement::Mean => means.and_then(|means| means.of(ablation.part)),
            };
            probed.interventions.push(AblatedPart { part: ablation.part, output });
            let given = probed.id.given.entry(ABLATE.into()).or_default();
            *given = if given.is_empty() { ablation.to_string() } else { format!("{given}+{ablation}") };
        }
        // Refuses parts that the network does not have, before anything is run.
        let mut runner = self.weights.network.runner(1, 2, Mode::Infer)?;
        runner.ablate(&probed.interventions)?;
        Ok(probed)
    }
}

/// Adds values `[prompt, position, width]` to sums `[position, width]`.
fn add_prompts(sums: &mut [f64], values: impl Iterator<Item = f64>) {
    let length = sums.len();
    values.enumerate().for_each(|(i, v)| sums[i % length] += v);
}
