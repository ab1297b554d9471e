//! Networks that bear a name: shipped ones, runs, and experiments that would train one.

use std::path::Path;

use lab::findings::numbers::{counted, grouped};
use lab::networks::experiment::{Experiment, TaskSpec, read_text};
use lab::networks::models::{self, NETWORKS, PaperNetwork};
use lab::networks::runs::{ListedRun, PLAN, RunResult, RunStatus, kept, recorded_device, unfinished};
use lab::networks::{NetworkSpec, find_in};

use super::Shown;
use crate::error::Result;
use crate::import::{described as described_weights, failed};
use crate::runs::{state, when};

/// The networks of a name.
pub fn find(name: &str, runs: &Path) -> Result<Vec<Shown>> {
    let mut found = Vec::new();
    let network = NETWORKS.iter().find(|network| network.name == name);
    // What nobody ships, the miniature, is its experiment and its runs.
    let network = network.filter(|network| is_here(network) || network.experiment() != name);
    found.extend(network.map(model));
    let run = find_in(name, Path::new(""), runs).ok().and_then(|run| ListedRun::read(&run.path));
    found.extend(run.map(|run| of_run(&run)));
    let path = Path::new(name);
    if path.is_file() && path.extension().is_some_and(|ending| ending == "safetensors") {
        found.push(checkpoint(name, path)?);
    } else if Experiment::is_there(path) {
        found.push(experiment(name, &Experiment::read(path)?, read_text(path)?));
    }
    Ok(found)
}

fn is_here(network: &PaperNetwork) -> bool {
    models::folder().join(network.name).join(PLAN).is_file()
}

fn model(network: &'static PaperNetwork) -> Shown {
    let PaperNetwork { name, function, inputs, dim, points, .. } = *network;
    let dir = models::folder().join(name);
    let mut facts =
        vec![("task", task(&TaskSpec { function: function.into(), inputs: inputs.into(), dim, points }))];
    let mut next = vec![format!("{} --device auto", network.recipe())];
    if !is_here(network) {
        facts.push((
            "state",
            format!("not here; looked in {}; {}", models::looked_in(), models::how_to_get()),
        ));
    } else {
        facts.push(("at", dir.display().to_string()));
        match models::card(&models::folder(), name) {
            Ok(card) => {
                let recipe = format!(
                    "{}, seed {}, {}, {:.0} s on {}",
                    card.experiment,
                    card.seed,
                    counted(card.steps as usize, "step", "steps"),
                    card.seconds,
                    card.device
                );
                facts.push(("recipe", recipe));
                facts.push((
                    "size",
                    format!("{} parameters, {}", grouped(card.parameters as u64), card.stored),
                ));
                let loss =
                    format!("{:.4}, error/d after all pairs {:.1e}", card.mean_loss, card.last_error_over_d);
                facts.push(("loss", loss));
                facts.push(("state", "finished; its files are as its card says".into()));
            }
            Err(problem) => facts.push(("state", problem.to_string())),
        }
        next = vec![
            format!("iclab compare run:{name} newton --steps-b 0..=24 --out {name}-newton"),
            format!("iclab models show {name}"),
        ];
    }
    let experiment = Experiment::read(&dir.join(PLAN)).ok().map(|experiment| experiment.to_toml());
    Shown { kind: "model", name: name.into(), about: format!("({})", network.about), facts, next, experiment }
}

fn of_run(run: &ListedRun) -> Shown {
    let (name, dir) = (&run.name, run.dir.display());
    let mut facts = described(&run.experiment);
    facts.push(("state", state(run)));
    if let Some(loss) = run.progress.loss {
        facts.push(("loss", format!("{loss:.4}, the last that was written")));
    }
    facts.extend(recorded_device(&run.dir).map(|device| ("device", device)));
    match kept(&run.dir).len() {
        0 => {}
        count => {
            facts.push(("kept", counted(count, "checkpoint along the way", "checkpoints along the way")))
        }
    }
    if let RunStatus::Finished(RunResult { broke_down: Some(broken), .. }) = &run.progress.status {
        facts.push(("but", broken.to_string()));
    }
    facts.push(("at", format!("{dir}, written {}", when(run.written))));
    facts.push(("watch", format!("tensorboard --logdir {dir}, or {dir}/metrics.jsonl")));
    let next = match run.progress.status {
        RunStatus::Finished(_) => vec![
            format!("iclab probe {dir}"),
            format!("iclab compare run:{name} newton --steps-b 0..=24 --out layers"),
        ],
        RunStatus::Running => vec!["iclab runs".into()],
        _ => vec![format!("iclab train {dir}/{PLAN} --runs {}", folder(run))],
    };
    let about = format!("of {}", run.experiment.name);
    Shown { kind: "run", name: name.clone(), about, facts, next, experiment: Some(run.experiment.to_toml()) }
}

/// What `iclab import` or a training wrote.
fn checkpoint(name: &str, path: &Path) -> Result<Shown> {
    let model = engine::interchange::load_model(path).map_err(failed)?;
    let mut facts = vec![("network", described_weights(&model))];
    if let Some(unfinished) = unfinished(path) {
        facts.push(("state", unfinished.to_string()));
    }
    facts.push(("at", name.into()));
    let next = vec![
        format!("iclab compare run:{name} newton --steps-b 0..=24 --out layers"),
        format!("iclab predict run:{name}@own --prompts p.npz --out own.npz"),
        format!("iclab export {name} --out model"),
    ];
    let about = "(weights)".into();
    Ok(Shown { kind: "checkpoint", name: name.into(), about, facts, next, experiment: None })
}

/// The folder that a run is in.
fn folder(run: &ListedRun) -> String {
    let parent = run.dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(".".into(), |parent| parent.display().to_string())
}

fn experiment(name: &str, experiment: &Experiment, text: String) -> Shown {
    let inside = if Path::new(name).is_file() { name.to_string() } else { "inside iclab".into() };
    let mut facts = described(experiment);
    facts.push(("at", inside));
    let next = vec![format!("iclab train {name}"), format!("iclab show {name} --toml > mine.toml")];
    let name = experiment.name.clone();
    Shown { kind: "experiment", name, about: String::new(), facts, next, experiment: Some(text) }
}

/// What an experiment trains, on what, and how.
fn described(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let Experiment { about, training, .. } = experiment;
    let network = match &experiment.network {
        NetworkSpec::Gpt2 { layers, heads, width, .. } => {
            let (layers, heads) = (counted(*layers, "layer", "layers"), counted(*heads, "head", "heads"));
            format!("GPT-2, {layers}, {heads}, {width} wide")
        }
        NetworkSpec::Lstm { layers, width } => {
            format!("LSTM, {}, {width} wide", counted(*layers, "layer", "layers"))
        }
    };
    let recipe = format!(
        "{} of {}, {:?} at {}, seed {}",
        counted(training.steps as usize, "step", "steps"),
        counted(training.batch, "prompt", "prompts"),
        training.optimiser,
        training.rate,
        training.seed
    );
    let mut facts = vec![("task", task(&experiment.task)), ("network", network), ("recipe", recipe)];
    if !about.is_empty() {
        facts.insert(0, ("about", about.clone()));
    }
    facts
}

fn task(task: &TaskSpec) -> String {
    let TaskSpec { function, inputs, dim, points } = task;
    format!("{function} of {inputs} inputs, d={dim}, {}", counted(*points, "point", "points"))
}
