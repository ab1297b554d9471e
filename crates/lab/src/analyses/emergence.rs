//! When does it appear? Layers against Newton over the checkpoints of one training run.

use std::path::{Path, PathBuf};

use super::{Outcome, heatmap_panel};
use crate::error::{Error, Result};
use crate::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::learner::Learner;
use crate::matching::{Matching, best_match};
use crate::probe::{self, Options};
use crate::prompts::Task;
use crate::seed::Seed;
use crate::similarity::{Heatmap, Metric, View, of_errors};
use crate::solvers;
use crate::steps::Steps;

/// Prompts that the read-outs of one checkpoint are fitted to, and judged on: fewer than for a finished network, of which
/// there is one.
const FITTED: usize = 512;
const JUDGED: usize = 256;
/// Maps that are shown, out of all checkpoints.
const MAPS: usize = 5;

/// A network at one moment of its training.
pub struct Moment {
    /// Training steps taken.
    pub step: u64,
    /// Layers against Newton's steps.
    pub map: Heatmap,
    /// Each layer's best match.
    pub matching: Matching,
    /// Mean squared error of the last layer over all positions, on held-out prompts.
    pub loss: f64,
}

/// Checkpoints kept in a run directory, with their steps, in order.
pub fn kept(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let folder = dir.join("kept");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let step = name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()?;
            Some((step, entry.path()))
        })
        .collect();
    found.sort();
    if found.len() < 2 {
        let why =
            "holds no checkpoints along the way; accepted: a run trained with `keep = 20` under [training]";
        return Err(Error::Content { path: folder, why: why.into() });
    }
    Ok(found)
}

/// Probes every kept checkpoint of a run on `count` prompts. `tell` hears what is going on.
pub fn measure(dir: &Path, count: usize, tell: &(dyn Fn(&str) + Sync)) -> Result<Vec<Moment>> {
    let kept = kept(dir)?;
    let mut known = None;
    let mut moments = Vec::new();
    for (i, (step, path)) in kept.iter().enumerate() {
        tell(&format!("step {step}, checkpoint {} of {}", i + 1, kept.len()));
        let found = probe::find(path)?;
        let spec = found.task.clone().unwrap_or_else(|| probe::usual_task(found.weights.network.features()));
        let task = Task::new(&spec.function, &spec.inputs, spec.dim, spec.points)?;
        let seed = Seed(found.seed.unwrap_or(0));
        let (prompts, newton) = match &known {
            Some(known) => known,
            None => {
                let prompts = task.sample(seed, "eval", 0, count);
                let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 24))?;
                known.insert((prompts, newton))
            }
        };
        let options = Options { prompts: Some(FITTED), held_out: JUDGED, ..Options::default() };
        let probed = probe::Probed::fit_with(found.name, found.weights, &task, seed, &options, &|_| ())?;
        let layers = probed.trajectory(prompts, &probed.default_steps())?;
        let map = of_errors(&layers, newton, prompts, View::default(), Metric::Cosine)?;
        let loss = probed.fitted().and_then(|fit| fit.layers.last()).map_or(f64::NAN, |last| last.mean_loss);
        moments.push(Moment { step: *step, matching: best_match(&map), map, loss });
    }
    Ok(moments)
}

/// The measured moments as figures and a table.
pub fn outcome(dir: &Path, count: usize, tell: &(dyn Fn(&str) + Sync)) -> Result<Outcome> {
    let moments = measure(dir, count, tell)?;
    let layers = moments[0].matching.a.as_slice().to_vec();
    let name = moments[0].map.a.learner.to_string();
    let caption = format!(
        "{name}, {} checkpoints of one training run, {count} prompts; read-outs fitted to {FITTED} prompts at each.",
        moments.len()
    );
    let over = |label: &str, value: &dyn Fn(&Moment) -> f64| {
        let points = moments.iter().map(|m| (m.step as f64, value(m))).collect();
        Series::new(label, points).stroke(Stroke::LineMarkers)
    };
    let matched = layers.iter().enumerate().map(|(i, &layer)| {
        let step = |m: &Moment| m.matching.step_for(layer).map_or(f64::NAN, |s| s as f64);
        over(&layer.to_string(), &step).grade(i as f64 / (layers.len() - 1).max(1) as f64)
    });
    let last = layers.len() - 1;
    let x = || Axis::new("training step", Scale::Log10);
    let panel = |title: &str, y: Axis, series| {
        Panel::Lines(LinesPanel { title: title.into(), x: x(), y, series, references: vec![] })
    };
    let curves = Figure {
        id: "emergence".into(),
        title: "When layers begin to match Newton's steps".into(),
        caption: caption.clone(),
        panels: vec![
            panel("Best match of each layer", Axis::new("Newton step", Scale::Linear), matched.collect()),
            panel(
                "Last layer",
                Axis::new("SimE with its best match", Scale::Linear),
                vec![over("last layer", &|m| m.matching.similarity[last])],
            ),
            panel(
                "Last layer",
                Axis::new("held-out mean loss", Scale::Linear),
                vec![over("loss", &|m| m.loss)],
            ),
        ],
    };
    let shown = MAPS.min(moments.len());
    let chosen = (0..shown).map(|i| &moments[i * (moments.len() - 1) / (shown - 1).max(1)]);
    let maps = Figure {
        id: "emergence-maps".into(),
        title: "Layers against Newton's steps, as training goes on".into(),
        caption: format!("{caption} Outlined: best match of each layer."),
        panels: chosen.map(|m| heatmap_panel(&format!("step {}", m.step), &m.map, &m.matching)).collect(),
    };
    let mut columns = vec!["training step".to_string()];
    columns.extend(layers.iter().map(|layer| format!("layer {layer}")));
    columns.extend(["SimE of the last layer".to_string(), "mean loss".to_string()]);
    let row = |m: &Moment| {
        let steps = layers.iter().map(|&l| m.matching.step_for(l).map_or("none".into(), |s| s.to_string()));
        let mut row = vec![m.step.to_string()];
        row.extend(steps);
        row.extend([format!("{:.4}", m.matching.similarity[last]), format!("{:.4}", m.loss)]);
        row
    };
    let table = Table {
        id: "emergence".into(),
        title: "Best Newton step of each layer, as training goes on".into(),
        caption,
        columns,
        rows: moments.iter().map(row).collect(),
    };
    Ok(Outcome { claims: vec![], figures: vec![curves, maps], tables: vec![table] })
}
