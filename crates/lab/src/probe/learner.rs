//! Networks by their text, as the command line and plans write them: `runs/NAME`, `runs/NAME,skip=7`, `model.safetensors,readout=trained`.

use std::path::Path;

use super::{Change, Instead, MEAN_PROMPTS, Means, Opened, Options, Probed, find, usual_task};
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::Result;
use crate::registry::{Setting, Spec};

/// The settings of a network, which follow its path after commas.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "readout",
        default: "fitted",
        help: "fitted: a read-out per layer; trained: the network's own, at every layer through the final LayerNorm",
    },
    Setting {
        name: "raw",
        default: "false",
        help: "true reads the last layer from the raw stream like the others",
    },
    Setting { name: "skip", default: "", help: "layers that add nothing, from 1: 7 or 7+8" },
    Setting {
        name: "mean",
        default: "",
        help: "layers that add their mean over prompts, position by position",
    },
    Setting {
        name: "silence",
        default: "",
        help: "heads that say nothing, as LAYER.HEAD, heads from 0: 7.3 or 7.0+7.1",
    },
    Setting {
        name: "head",
        default: "",
        help: "heads that say their mean over prompts, position by position",
    },
];

/// The settings that take parts of a network out.
const CHANGES: [&str; 4] = ["skip", "mean", "silence", "head"];

/// Builds the network of a text (what follows `run:`). Also returns what the user should know, in full sentences.
pub fn build(text: &str, tell: &(dyn Fn(&str) + Sync)) -> Result<(Probed, Vec<String>)> {
    let (path, rest) =
        if Path::new(text).exists() { (text, "") } else { text.split_once(',').unwrap_or((text, "")) };
    let settings = Spec::parse(&format!("run:{rest}"))?.settings(SETTINGS)?;
    let mut changes = Vec::new();
    for name in CHANGES {
        if !settings.text(name).is_empty() {
            changes.extend(Change::parse(name, settings.text(name))?);
        }
    }
    let options = Options { raw: settings.flag("raw")?, ..Options::default() };
    let trained = settings.choice("readout", &[("fitted", false), ("trained", true)])?;
    let found = find(Path::new(path))?;
    let (mut probed, task, seed, notes) = if trained {
        let task = found.task.unwrap_or_else(|| usual_task(found.weights.network.features()));
        (Probed::trained(found.name, found.weights), task, found.seed.unwrap_or(0), Vec::new())
    } else {
        let Opened { probed, task, seed, notes, .. } = found.open(None, &options, tell)?;
        (probed, task, seed, notes)
    };
    if options.raw && !trained {
        probed.id.given.insert("raw".into(), "true".into());
    }
    if !changes.is_empty() {
        // Refuses parts that do not exist before anything is measured.
        probed.changed(
            &changes.iter().map(|c| Change { to: Instead::Nothing, ..*c }).collect::<Vec<_>>(),
            None,
        )?;
        let task = Task::new(&task.function, &task.inputs, task.dim, task.points)?;
        let mean = changes.iter().any(|change| change.to == Instead::Mean);
        let measure = || Means::measure(probed.weights(), &task, Seed(seed), MEAN_PROMPTS);
        let means = mean.then(measure).transpose()?;
        probed = probed.changed(&changes, means.as_ref())?;
    }
    Ok((probed, notes))
}
