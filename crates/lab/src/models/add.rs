//! From a finished run to a network that is shipped: half the bytes, read-outs, a card, a picture of its training.

use std::path::Path;

use super::{CHECKPOINT, Card, Mark, PLAN, check_task, named};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series};
use crate::networks::Weights;
use crate::probe::{self, Options};
use crate::runs::{self, Metrics};

/// Files that are taken over as they are.
const TAKEN: [&str; 2] = [PLAN, "metrics.jsonl"];

const READ_OUTS: &str = "readouts.safetensors";

/// A network being added.
pub struct Added {
    /// Its card, complete but for the files that [`Added::seal`] counts.
    pub card: Card,
    /// Its loss during training.
    pub figure: Figure,
}

/// Writes the weights of a run as float16, with plan, metrics and read-outs, into the empty folder `to`.
pub fn add(name: &str, run: &Path, to: &Path, remark: &str, tell: &(dyn Fn(&str) + Sync)) -> Result<Added> {
    let experiment = Experiment::read(&run.join(PLAN))?;
    check_task(named(name)?, &experiment, run)?;
    let result = runs::finished(run).ok_or_else(|| Error::Content {
        path: run.to_path_buf(),
        why: "is not finished; accepted: a run that `iclab train` has ended".into(),
    })?;
    let failed = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::File { action, path, source }
    };
    for file in TAKEN {
        let from = run.join(file);
        std::fs::copy(&from, to.join(file)).map_err(failed("copy", &from))?;
    }
    let metrics = read_metrics(&run.join("metrics.jsonl"))?;
    let network = experiment.network.build(experiment.task.dim, experiment.task.points)?;
    let checkpoint = run.join(CHECKPOINT);
    let device = runs::recorded_device(run).unwrap_or_default();
    let metadata = engine::checkpoint::metadata(&checkpoint)?;
    let kept = metadata.into_iter().filter(|(key, _)| !key.starts_with("adam.")).collect();
    let weights = Weights::read(&checkpoint, network)?;
    engine::checkpoint::save_half(&to.join(CHECKPOINT), &weights.layout, &weights.params, &kept)?;
    // Read-outs that were fitted to the same weights before need not be fitted again; others are replaced.
    let _ = std::fs::copy(run.join(READ_OUTS), to.join(READ_OUTS));
    probe::find(to)?.open(None, &Options::default(), tell)?;
    let card = Card {
        name: name.into(),
        about: named(name)?.about.into(),
        experiment: experiment.name.clone(),
        seed: experiment.training.seed,
        steps: result.steps,
        device,
        seconds: metrics.last().map_or(f64::NAN, |m| m.seconds),
        parameters: weights.params.len(),
        stored: "float16".into(),
        prompts: result.prompts,
        mean_loss: result.mean_loss,
        bayes_floor: result.bayes_floor,
        last_error_over_d: result.last_error_over_d,
        remark: remark.into(),
        files: Default::default(),
    };
    Ok(Added { figure: curve(&card, &metrics), card })
}

impl Added {
    /// Counts every file of the folder and writes the card.
    pub fn seal(mut self, dir: &Path) -> Result<Card> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::File { action: "read", path, source }
        };
        for entry in std::fs::read_dir(dir).map_err(failed(dir))? {
            let path = entry.map_err(failed(dir))?.path();
            let bytes = std::fs::read(&path).map_err(failed(&path))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.card.files.insert(name, Mark::of(&bytes));
        }
        let text = toml::to_string(&self.card).expect("cards are plain tables");
        let path = dir.join(Card::FILE);
        std::fs::write(&path, text).map_err(|source| Error::File { action: "write", path, source })?;
        Ok(self.card)
    }
}

fn read_metrics(path: &Path) -> Result<Vec<Metrics>> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        action: "read",
        path: path.into(),
        source,
    })?;
    let row = |(i, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|e| Error::Content { path: path.into(), why: format!("line {}: {e}", i + 1) })
    };
    text.lines().enumerate().map(row).collect()
}

/// Loss, and what remains above the smallest possible one, by training step.
fn curve(card: &Card, metrics: &[Metrics]) -> Figure {
    let points =
        |value: &dyn Fn(&Metrics) -> f64| metrics.iter().map(|m| (m.step as f64, value(m))).collect();
    let panel = |title: &str, y: &str, scale, series| {
        Panel::Lines(LinesPanel {
            title: title.into(),
            x: Axis::new("training step", Scale::Linear),
            y: Axis::new(y, scale),
            series: vec![series],
            references: vec![],
        })
    };
    let mut panels =
        vec![panel("Loss", "mean loss", Scale::Log10, Series::new(card.name.as_str(), points(&|m| m.loss)))];
    if metrics.iter().any(|m| m.excess.is_some_and(|e| e > 0.0)) {
        let excess = points(&|m| m.excess.filter(|e| *e > 0.0).unwrap_or(f64::NAN));
        let title = "Above the smallest possible";
        panels.push(panel(title, "excess loss", Scale::Log10, Series::new(card.name.as_str(), excess)));
    }
    Figure {
        id: format!("{}-loss", card.name),
        title: format!("Training of {}: {}", card.name, card.about),
        caption: "The curriculum adds dimensions at first, so that the loss rises before it falls.".into(),
        panels,
    }
}
