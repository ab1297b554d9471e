//! Networks by their text, as the command line and plans write them: `runs/NAME`, `runs/NAME,ablate=zero:7`,
//! `model.safetensors,readout=trained`.

use std::path::Path;

use super::ablation::{ABLATE, OLDER};
use super::{Ablation, LoadedProbe, MEAN_PROMPTS, MeanOutputs, Options, Probed, Replacement, load};
use crate::Progress;
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
        help: "true reads the last layer from the raw residual stream like the others",
    },
    Setting {
        name: ABLATE,
        default: "",
        help: "parts whose output is replaced by zero, or by its mean over prompts at each position: layers from 1, \
               heads as LAYER.HEAD from 0: zero:7+8, mean:7.3",
    },
    Setting { name: "skip", default: "", help: "older spelling: skip=7 is ablate=zero:7" },
    Setting { name: "mean", default: "", help: "older spelling: mean=7 is ablate=mean:7" },
    Setting { name: "silence", default: "", help: "older spelling: silence=7.3 is ablate=zero:7.3" },
    Setting { name: "head", default: "", help: "older spelling: head=7.3 is ablate=mean:7.3" },
];

/// Builds the network of a text (what follows `run:`). Also returns what the user should know, in full sentences.
pub fn build(text: &str, progress: Progress) -> Result<(Probed, Vec<String>)> {
    let (path, rest) =
        if Path::new(text).exists() { (text, "") } else { text.split_once(',').unwrap_or((text, "")) };
    let settings = Spec::parse(&format!("run:{rest}"))?.settings(SETTINGS)?;
    let mut ablations = Vec::new();
    for name in std::iter::once(ABLATE).chain(OLDER.map(|(name, ..)| name)) {
        if !settings.text(name).is_empty() {
            ablations.extend(Ablation::parse(name, settings.text(name))?);
        }
    }
    let options = Options { raw: settings.flag("raw")?, ..Options::default() };
    let trained = settings.choice("readout", &[("fitted", false), ("trained", true)])?;
    let network = load(Path::new(path))?;
    let (mut probed, task, seed, notes) = if trained {
        let (task, seed) = (network.task_or_usual(), network.seed_or_zero());
        (Probed::trained(network.name, network.weights), task, seed, Vec::new())
    } else {
        let LoadedProbe { probed, task, seed, notes, .. } = network.probe(None, &options, progress)?;
        (probed, task, seed, notes)
    };
    if options.raw && !trained {
        probed.id.given.insert("raw".into(), "true".into());
    }
    if !ablations.is_empty() {
        // Refuses parts that do not exist before anything is measured.
        let zeroed = ablations.iter().map(|a| Ablation { with: Replacement::Zero, ..*a });
        probed.ablated(&zeroed.collect::<Vec<_>>(), None)?;
        let mean = ablations.iter().any(|ablation| ablation.with == Replacement::Mean);
        let measure = || MeanOutputs::measure(probed.weights(), &task.build()?, Seed(seed), MEAN_PROMPTS);
        let means = mean.then(measure).transpose()?;
        probed = probed.ablated(&ablations, means.as_ref())?;
    }
    Ok((probed, notes))
}
