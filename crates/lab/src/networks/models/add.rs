//! From a run to a network that is shipped: half the bytes, read-outs, a card, a picture of its training.

use std::path::Path;

use super::paper::ASKED_FOR_WEIGHTS;
use super::{Card, Evaluation, FileRecord, RECORDED, checkpoints, files_under, named, only_recorded};
use crate::Progress;
use crate::compare::recorded_weights::{self, INDUCED, RecordedWeights};
use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::{Axis, Figure, LinesPanel, Series};
use crate::learners::Learner;
use crate::learners::recorded::Recorded;
use crate::networks::experiment::Experiment;
use crate::networks::runs::{self, CHECKPOINT, Metrics, PLAN};
use crate::networks::{NetworkSpec, Weights};
use crate::patching::RecordedPatches;
use crate::probe::{self, Options};

const METRICS: &str = "metrics.jsonl";
const READ_OUTS: &str = "readouts.safetensors";
/// Rows of metrics that are kept.
const MOST_ROWS: usize = 1000;

/// A network being added.
pub struct Added {
    /// Its card, complete but for the files that [`Added::seal`] counts.
    pub card: Card,
    /// Its loss during training.
    pub figure: Figure,
}

/// What is kept of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Its weights as float16, and read-outs.
    Weights,
    /// The predictions of each layer on the first evaluation prompts.
    Predictions,
}

/// Which run is added, and how.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Directory of the run, or of a network that is shipped already.
    pub run: &'a Path,
    /// What is kept of it.
    pub form: Form,
    /// Whether a run that is not over may be added; its card says how far it is.
    pub unfinished: bool,
    /// A sentence for the card; that of the network itself when empty.
    pub remark: &'a str,
}

/// Writes a run, or a network that is shipped already, into the empty folder `to`, with plan and metrics; of checkpoints
/// that it kept, predictions.
pub fn add(name: &str, source: Source, to: &Path, progress: Progress) -> Result<Added> {
    let Source { run, form, unfinished, remark } = source;
    let experiment = Experiment::read(&run.join(PLAN))?;
    let network = named(name)?;
    network.check_task(&experiment, run)?;
    let trained = trained(run, unfinished)?;
    copy(&run.join(PLAN), &to.join(PLAN))?;
    let metrics = metrics_until(trained.steps, &run.join(METRICS), &to.join(METRICS))?;
    let body = experiment.network.build(experiment.task.dim, experiment.task.points)?;
    let parameters = body.layout().len();
    let prompts = network.evaluation(Seed(0), RECORDED)?;
    let (stored, learner): (String, Box<dyn Learner>) = match form {
        Form::Weights => {
            let checkpoint = run.join(CHECKPOINT);
            let metadata = engine::model::checkpoint::metadata(&checkpoint)?;
            let metadata = metadata.into_iter().filter(|(key, _)| !key.starts_with("adam.")).collect();
            let weights = Weights::read(&checkpoint, body)?;
            engine::model::checkpoint::save_half(
                &to.join(CHECKPOINT),
                &weights.layout,
                weights.params(),
                &metadata,
            )?;
            // Read-outs that were fitted to the same weights before need not be fitted again; others are replaced.
            if run.join(READ_OUTS).is_file() {
                copy(&run.join(READ_OUTS), &to.join(READ_OUTS))?;
            }
            let opened = probe::load(to)?.probe(None, &Options::default(), progress)?;
            ("float16".into(), Box::new(opened.probed))
        }
        Form::Predictions => {
            let recorded = if only_recorded(run) {
                Recorded::read(&run.join(Recorded::FILE), name)?
            } else {
                let opened = probe::load(run)?.probe(None, &Options::default(), progress)?;
                progress(&format!("layers of {name} on {RECORDED} prompts"));
                Recorded::of(&opened.probed, &prompts)?
            };
            recorded.write(&to.join(Recorded::FILE))?;
            (format!("predictions of every layer on {RECORDED} prompts"), Box::new(recorded))
        }
    };
    add_induced(name, run, to, &experiment, progress)?;
    add_patches(run, to, &experiment, progress)?;
    add_checkpoints(run, to, &prompts.head(checkpoints::RECORDED, prompts.points()), progress)?;
    progress(&format!("judging {name} on {RECORDED} prompts"));
    let evaluation = Evaluation::of(&*learner, &prompts)?;
    let trained = if trained.prompts == 0 { trained.judged_by(&evaluation) } else { trained };
    let card = Card {
        name: name.into(),
        about: network.about.into(),
        experiment: experiment.name.clone(),
        seed: experiment.training.seed,
        seconds: metrics.last().map_or(f64::NAN, |m| m.seconds),
        parameters,
        stored,
        remark: if remark.is_empty() { trained.remark.clone() } else { remark.into() },
        evaluation: Some(evaluation),
        files: Default::default(),
        ..trained
    };
    Ok(Added { figure: curve(&card, &metrics), card })
}

/// What is known of a network at the end of its run, or from its card: the rest of the card is still empty.
fn trained(run: &Path, even_unfinished: bool) -> Result<Card> {
    if let Some(result) = runs::finished(run) {
        return Ok(Card {
            steps: result.steps,
            device: runs::recorded_device(run).unwrap_or_default(),
            prompts: result.prompts,
            mean_loss: result.mean_loss,
            bayes_loss: result.bayes_loss,
            last_error_over_d: result.last_error_over_d,
            ..Card::default()
        });
    }
    if !run.join(Card::FILE).is_file() {
        let unfinished = runs::unfinished(run);
        if let Some(begun) = unfinished.as_ref().filter(|begun| even_unfinished && begun.step > 0) {
            let device = runs::recorded_device(run).unwrap_or_default();
            return Ok(Card { steps: begun.step, steps_asked: Some(begun.steps), device, ..Card::default() });
        }
        let far = unfinished.map_or(String::new(), |run| format!(" (step {} of {})", run.step, run.steps));
        let why = format!(
            "is unfinished{far}; accepted: a run that `iclab train` has ended, a shipped network, or --unfinished"
        );
        return Err(Error::content(run, why));
    }
    let card = Card::read(run)?;
    card.verify(run)?;
    Ok(card)
}

/// Copies a file; the error names the one that could not be read or written.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).map_err(Error::file("read", from))?;
    std::fs::write(to, bytes).map_err(Error::file("write", to))
}

/// The weights that a network's answers to fresh queries imply, where the paper's figures compare them.
fn add_induced(name: &str, run: &Path, to: &Path, experiment: &Experiment, progress: Progress) -> Result<()> {
    let (from, file) = (run.join(RecordedWeights::FILE), to.join(RecordedWeights::FILE));
    if from.is_file() {
        return copy(&from, &file);
    }
    if !ASKED_FOR_WEIGHTS.contains(&name) || only_recorded(run) {
        return Ok(());
    }
    let weights = if to.join(CHECKPOINT).is_file() { to } else { run };
    let probed = probe::load(weights)?.probe(None, &Options::default(), progress)?.probed;
    progress(&format!("induced weights of {name} on {INDUCED} prompts"));
    let asked = recorded_weights::questions(&experiment.task.build()?, Seed(0), INDUCED);
    RecordedWeights::of(&probed, &asked)?.write(&file)
}

/// What a Transformer answers with its streams patched; other architectures have no residual stream.
fn add_patches(run: &Path, to: &Path, experiment: &Experiment, progress: Progress) -> Result<()> {
    let (from, file) = (run.join(RecordedPatches::FILE), to.join(RecordedPatches::FILE));
    if from.is_file() {
        return copy(&from, &file);
    }
    let is_transformer = matches!(experiment.network, NetworkSpec::Gpt2 { .. });
    if !is_transformer || only_recorded(run) {
        return Ok(());
    }
    // the weights as they are kept, where they are
    let weights = if to.join(CHECKPOINT).is_file() { to } else { run };
    RecordedPatches::of(&probe::load(weights)?.weights, &experiment.task, progress)?.write(&file)
}

/// Predictions on some prompts of the checkpoints that a run kept.
fn add_checkpoints(run: &Path, to: &Path, prompts: &Prompts, progress: Progress) -> Result<()> {
    let along = runs::kept(run);
    if along.is_empty() {
        return Ok(());
    }
    let folder = to.join(runs::KEPT);
    std::fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
    for (i, (step, path)) in along.iter().enumerate() {
        progress(&format!("layers at step {step}, checkpoint {} of {}", i + 1, along.len()));
        let file = folder.join(path.file_name().unwrap_or_default());
        if Recorded::is(path) {
            copy(path, &file)?;
        } else {
            Recorded::of(&checkpoints::probed(path)?, prompts)?.write(&file)?;
        }
    }
    Ok(())
}

impl Added {
    /// Counts every file of the folder and writes the card.
    pub fn seal(mut self, dir: &Path) -> Result<Card> {
        for path in files_under(dir).map_err(Error::file("read", dir))? {
            let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
            let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
            self.card.files.insert(name, FileRecord::of(&bytes));
        }
        let text = toml::to_string(&self.card).expect("cards are plain tables");
        let path = dir.join(Card::FILE);
        std::fs::write(&path, text).map_err(Error::file("write", &path))?;
        Ok(self.card)
    }
}

/// Takes the metrics over, up to a step: those after the last checkpoint of an unfinished run are of other weights.
fn metrics_until(step: u64, from: &Path, to: &Path) -> Result<Vec<Metrics>> {
    let text = std::fs::read_to_string(from).map_err(Error::file("read", from))?;
    let row = |(i, line): (usize, &str)| -> Result<Metrics> {
        serde_json::from_str(line).map_err(|e| Error::content(from, format!("line {}: {e}", i + 1)))
    };
    let rows = text.lines().enumerate().map(row).collect::<Result<Vec<_>>>()?;
    let rows = thinned(rows.into_iter().filter(|row| row.step <= step).collect());
    let lines: String =
        rows.iter().map(|row| serde_json::to_string(row).expect("plain data") + "\n").collect();
    std::fs::write(to, lines).map_err(Error::file("write", to))?;
    Ok(rows)
}

/// Rows of longer stretches where there are more than anybody can see in a curve: the means of as many rows each, and the rest of the last.
fn thinned(rows: Vec<Metrics>) -> Vec<Metrics> {
    let together = rows.len().div_ceil(MOST_ROWS);
    if together < 2 {
        return rows;
    }
    let mean =
        |rows: &[Metrics], of: &dyn Fn(&Metrics) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
    let merged = |rows: &[Metrics]| {
        let last = rows[rows.len() - 1];
        let excess = last.excess.map(|_| mean(rows, &|row| row.excess.unwrap_or(f64::NAN)));
        Metrics { loss: mean(rows, &|row| row.loss), norm: mean(rows, &|row| row.norm), excess, ..last }
    };
    rows.chunks(together).map(merged).collect()
}

/// Loss, and what remains above the Bayes loss, by training step.
fn curve(card: &Card, metrics: &[Metrics]) -> Figure {
    let points =
        |value: &dyn Fn(&Metrics) -> f64| metrics.iter().map(|m| (m.step as f64, value(m))).collect();
    let panel = |title: &str, y: &str, points| {
        let series = [Series::new(card.name.as_str(), points)];
        LinesPanel::new(Axis::linear("training step"), Axis::log10(y), series).titled(title)
    };
    let mut panels = vec![panel("Loss", "mean loss", points(&|m| m.loss))];
    if metrics.iter().any(|m| m.excess.is_some_and(|e| e > 0.0)) {
        let excess = points(&|m| m.excess.filter(|e| *e > 0.0).unwrap_or(f64::NAN));
        panels.push(panel("Above the smallest possible", "excess loss", excess));
    }
    Figure::new(
        format!("{}-loss", card.name),
        format!("Training of {}: {}", card.name, card.about),
        "The curriculum adds dimensions at first, so that the loss rises before it falls.",
        panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_metrics_become_means_and_short_ones_stay() {
        let row = |step: u64| Metrics {
            step,
            loss: step as f64,
            excess: Some(2.0 * step as f64),
            norm: 1.0,
            rate: 1e-4,
            dims: 20,
            points: 41,
            seconds: step as f64,
        };
        let short: Vec<Metrics> = (1..=1000).map(row).collect();
        assert_eq!(thinned(short.clone()), short);
        let long = thinned((1..=2501).map(row).collect());
        assert_eq!((long.len(), long[0]), (834, Metrics { loss: 2.0, excess: Some(4.0), ..row(3) }));
        assert_eq!(long[833], Metrics { loss: 2500.5, excess: Some(5001.0), ..row(2501) });
    }
}
