//! Networks by their text, as the command line and plans write them: `r1`, `runs/NAME,ablate=zero:7`,
//! `model.safetensors@own`.

use std::path::Path;

use super::ablation::{ABLATE, OLDER};
use super::patches::PATCH;
use super::{Ablation, LoadedProbe, Options, Probed, Replaced, load};
use crate::Progress;
use crate::data::seed::Seed;
use crate::error::Result;
use crate::networks::experiment::TaskSpec;
use crate::networks::{Found, find};
use crate::registry::{Setting, Settings, Spec};

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
    Setting {
        name: PATCH,
        default: "",
        help: "activations that are replaced by zero, by their mean over prompts at each position, or by those of a donor, one other \
               prompt of the task: zero:blocks.7.attn.z.3, mean:blocks.5.mlp.hidden@x, donor:blocks.2.resid_pre@y; @x and @y are tokens \
               of that kind alone; resid_pre, attn.z, attn.z.HEAD, resid_mid, mlp.hidden, resid_post, out; several joined by +",
    },
    Setting { name: "skip", default: "", help: "older spelling: skip=7 is ablate=zero:7" },
    Setting { name: "mean", default: "", help: "older spelling: mean=7 is ablate=mean:7" },
    Setting { name: "silence", default: "", help: "older spelling: silence=7.3 is ablate=zero:7.3" },
    Setting { name: "head", default: "", help: "older spelling: head=7.3 is ablate=mean:7.3" },
];

/// What follows a network's name where its own output is meant.
const OWN: &str = "@own";

/// A network as a text names it (what follows `run:`): where it is, and how it is to be read.
pub struct NamedNetwork {
    /// Where it is.
    pub found: Found,
    /// Whether its own output is meant, `NAME@own`.
    pub own: bool,
    settings: Settings,
    /// What follows its name.
    rest: String,
}

impl NamedNetwork {
    /// Finds the network of a text.
    pub fn parse(text: &str) -> Result<NamedNetwork> {
        let is_path = |text: &str| Path::new(text).exists();
        let (name, rest) =
            if is_path(text) { (text, "") } else { text.split_once(',').unwrap_or((text, "")) };
        let (name, own) = match name.strip_suffix(OWN) {
            Some(name_alone) if !is_path(name) => (name_alone, true),
            _ => (name, false),
        };
        let settings = Spec::parse(&format!("run:{rest}"))?.settings(SETTINGS)?;
        Ok(NamedNetwork { found: find(name)?, own, settings, rest: rest.into() })
    }

    /// Whether it is to be read the usual way, whole and by fitted read-outs.
    pub fn as_usual(&self) -> bool {
        !self.own && self.rest.is_empty()
    }

    /// The same text with the path in place of a name, for plans.
    pub fn resolved(&self) -> String {
        let own = if self.own { OWN } else { "" };
        let rest = if self.rest.is_empty() { String::new() } else { format!(",{}", self.rest) };
        format!("{}{own}{rest}", self.found.path.display())
    }
}

/// Builds the network of a text (what follows `run:`) for prompts of a task, if it is known. Also returns what the user should
/// know, in full sentences.
pub fn build(text: &str, asked: Option<&TaskSpec>, progress: Progress) -> Result<(Probed, Vec<String>)> {
    let NamedNetwork { found, own, settings, .. } = NamedNetwork::parse(text)?;
    let mut replaced = Vec::new();
    for name in std::iter::once(ABLATE).chain(OLDER.map(|(name, ..)| name)) {
        if !settings.text(name).is_empty() {
            replaced.extend(Ablation::parse(name, settings.text(name))?.iter().map(Ablation::replaced));
        }
    }
    let options = Options { raw: settings.flag("raw")?, ..Options::default() };
    let trained = settings.choice("readout", &[("fitted", false), ("trained", true)])?;
    let network = load(&found.path)?;
    if !settings.text(PATCH).is_empty() {
        replaced.extend(Replaced::parse(&network.weights.network, settings.text(PATCH))?);
    }
    if let Some(asked) = asked {
        network.check_size(asked)?;
    }
    let known = network.task.is_some();
    let (mut probed, task, seed, mut notes) = if own || trained {
        let (task, seed) = (network.known_task(), network.seed_or_zero());
        let notes = network.unfinished().iter().map(|run| run.to_string()).collect();
        let probed = match own {
            true => Probed::own(format!("{}{OWN}", network.name), network.weights),
            false => Probed::trained(network.name, network.weights),
        };
        (probed, task, seed, notes)
    } else {
        let task = network.task_to_fit(asked);
        let LoadedProbe { probed, task, seed, notes, .. } = network.probe(task, &options, progress)?;
        (probed, task, seed, notes)
    };
    let of_read_outs = !(own || trained || known);
    if known || of_read_outs {
        let what = if of_read_outs { "its read-outs were fitted to" } else { "it was trained on" };
        notes.extend(
            asked
                .and_then(|asked| beyond(&task, asked))
                .map(|other| format!("{}: {what} {other}", probed.id)),
        );
    }
    if options.raw && !trained && !own {
        probed.id.given.insert("raw".into(), "true".into());
    }
    if !replaced.is_empty() {
        probed = probed.replaced_on(&replaced, &task.build()?, Seed(seed))?;
    }
    Ok((probed, found.note.into_iter().chain(notes).collect()))
}

/// Where the prompts asked for are other than those a network knows, in words; fewer points are no other prompts.
fn beyond(known: &TaskSpec, asked: &TaskSpec) -> Option<String> {
    let mut other = Vec::new();
    let mut differs = |differs: bool, known: String, asked: String| {
        if differs {
            other.push(format!("{known} (here {asked})"));
        }
    };
    let (k, a) = (known, asked);
    differs(k.function != a.function, k.function.clone(), a.function.clone());
    differs(k.inputs != a.inputs, format!("{} inputs", k.inputs), a.inputs.clone());
    differs(k.dim != a.dim, format!("{} dimensions", k.dim), a.dim.to_string());
    differs(k.points < a.points, format!("{} points", k.points), a.points.to_string());
    (!other.is_empty()).then(|| other.join(", "))
}
