//! Parts of a network taken out: a layer skipped, or a layer or head made to say the same to every prompt.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use engine::model::ablation::{Intervention, Part};
use engine::model::networks::{Mode, Network};

use super::Probed;
use super::pass::{GROUP, LANES, Reader, per_thread};
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::Weights;

/// A part of a network and what becomes of it. Layers count from 1, heads from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which part.
    pub part: Part,
    /// What it says instead.
    pub to: Instead,
}

/// What a part says instead of what it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Nothing: a layer is skipped, a head is silent.
    Nothing,
    /// Its mean over prompts, position by position.
    Mean,
}

impl Change {
    /// The setting of a `run:` learner that makes this change.
    pub fn setting(&self) -> &'static str {
        match (self.part, self.to) {
            (Part::Layer(_), Instead::Nothing) => "skip",
            (Part::Layer(_), Instead::Mean) => "mean",
            (Part::Head { .. }, Instead::Nothing) => "silence",
            (Part::Head { .. }, Instead::Mean) => "head",
        }
    }

    /// Changes by the text of a setting: `skip=7`, `mean=7+8` for layers, `silence=7.3`, `head=7.0+7.1` for heads.
    pub fn parse(setting: &str, value: &str) -> Result<Vec<Change>> {
        let (heads, to) = match setting {
            "skip" => (false, Instead::Nothing),
            "mean" => (false, Instead::Mean),
            "silence" => (true, Instead::Nothing),
            _ => (true, Instead::Mean),
        };
        let bad = || Error::BadSetting {
            row: "run".into(),
            setting: setting.into(),
            value: value.into(),
            accepted: match heads {
                false => "layers, counted from 1, as 7 or 7+8".into(),
                true => {
                    "heads as LAYER.HEAD, layers counted from 1 and heads from 0, as 7.3 or 7.0+7.1".into()
                }
            },
        };
        let number = |text: &str| usize::from_str(text).map_err(|_| bad());
        value
            .split('+')
            .map(|text| {
                let part = match (heads, text.split_once('.')) {
                    (true, Some((layer, head))) => Part::Head { layer: number(layer)?, head: number(head)? },
                    (false, None) => Part::Layer(number(text)?),
                    _ => return Err(bad()),
                };
                Ok(Change { part, to })
            })
            .collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Layer(layer) => write!(f, "{layer}"),
            Part::Head { layer, head } => write!(f, "{layer}.{head}"),
        }
    }
}

/// What each part of a network says on average, position by position.
pub struct Means {
    /// Per layer: what it adds to the stream `[positions, width]`.
    updates: Vec<Vec<f64>>,
    /// Per layer: what its heads hand to the projection `[positions, width]`.
    attended: Vec<Vec<f64>>,
    /// Width of the stream.
    width: usize,
    /// Width of a head.
    head: usize,
}

/// Prompts over which means are taken when nobody says how many.
pub const MEAN_PROMPTS: usize = 512;

impl Means {
    /// Measures the means over `count` prompts of a task.
    pub fn measure(weights: &Weights, task: &Task, seed: Seed, count: usize) -> Result<Means> {
        let Network::Gpt2(config) = &weights.network else {
            return Err(Error::BadData(
                "only the layers of a Transformer add to a stream and have heads".into(),
            ));
        };
        let (layers, width) = (config.layers, config.width);
        let nothing = || vec![vec![0.0; 2 * task.points * width]; 2 * layers];
        let size = count.div_ceil(LANES).next_multiple_of(GROUP);
        let pieces = count.div_ceil(size);
        let sums = per_thread(
            pieces,
            || Reader::keeping(weights),
            |reader, piece| {
                let mut sums = nothing();
                for first in (piece * size..(piece + 1) * size).step_by(GROUP) {
                    let prompts = task.sample(seed, "probe/means", first as u64, GROUP);
                    let runner = reader.read(&prompts)?;
                    for layer in 1..=layers {
                        let (before, after) = (runner.hidden(layer - 1), runner.hidden(layer));
                        let changes = after.iter().zip(before).map(|(a, b)| f64::from(*a) - f64::from(*b));
                        add_prompts(&mut sums[layer - 1], changes);
                        let said = runner.attended(layer).expect("kept by a Transformer");
                        add_prompts(&mut sums[layers + layer - 1], said.iter().map(|v| f64::from(*v)));
                    }
                }
                Ok(sums)
            },
        )?;
        let mut means = nothing();
        for piece in &sums {
            for (mean, sum) in means.iter_mut().flatten().zip(piece.iter().flatten()) {
                *mean += sum / (pieces * size) as f64;
            }
        }
        let attended = means.split_off(layers);
        Ok(Means { updates: means, attended, width, head: width / config.heads })
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
            Part::Head { head, .. } => (self.attended.get(layer)?, head * self.head..(head + 1) * self.head),
        };
        let rows = all.chunks_exact(self.width).map(|row| row.get(columns.clone()));
        let rows = rows.collect::<Option<Vec<&[f64]>>>()?;
        Some(rows.into_iter().flatten().map(|v| *v as f32).collect())
    }
}

impl Probed {
    /// The same network and read-outs with parts taken out. `means` is needed where a part is to say its mean.
    pub fn changed(&self, changes: &[Change], means: Option<&Means>) -> Result<Probed> {
        let mut probed = self.clone();
        for change in changes {
            let output = match change.to {
                Instead::Nothing => None,
                // A part that does not exist is named by the engine, below.
                Instead::Mean => means.and_then(|means| means.of(change.part)),
            };
            probed.interventions.push(Intervention { part: change.part, output });
            let given = probed.id.given.entry(change.setting().into()).or_default();
            *given = if given.is_empty() { change.to_string() } else { format!("{given}+{change}") };
        }
        // Refuses parts that the network does not have, before anything is run.
        let mut reader = self.weights.network.runner(1, 2, Mode::Infer)?;
        reader.intervene(&probed.interventions)?;
        Ok(probed)
    }
}

/// Adds values `[prompt, position, width]` to sums `[position, width]`.
fn add_prompts(sums: &mut [f64], values: impl Iterator<Item = f64>) {
    let length = sums.len();
    values.enumerate().for_each(|(i, v)| sums[i % length] += v);
}
