//! The model card: YAML that the hub reads, then what the network is, how it was trained and how to use it.

use std::fmt::Write;

use engine::interchange::hf::Precision;
use engine::model::networks::Network;

use super::Shared;
use crate::findings::numbers::{counted, grouped};
use crate::networks::experiment::{Experiment, TaskSpec};
use crate::networks::models::result_text;
use crate::text::wrap_by;

const CITATION: &str = "\
@inproceedings{fu2024transformers,
  title     = {Transformers Learn to Achieve Second-Order Convergence Rates for In-Context Linear Regression},
  author    = {Fu, Deqing and Chen, Tian-Qi and Jia, Robin and Sharan, Vatsal},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024},
  url       = {https://arxiv.org/abs/2310.17086}
}";
const BACK: &str = "`iclab import DIR --out model.safetensors` reads this folder back, and `iclab probe model.safetensors` asks \
                    which Newton step each of its layers is. Without the number of heads that the file says, import takes 8: \
                    say `--heads` for weights that another program wrote again.";

impl Shared {
    /// The text of `README.md`. Nothing that a user wrote is in the YAML, so that it can always be read.
    pub fn readme(&self, precision: Precision) -> String {
        let mut text = self.front_matter();
        let about = self.card.as_ref().map(|card| &card.about);
        let about = about.or(self.experiment.as_ref().map(|e| &e.about)).filter(|about| !about.is_empty());
        let about = about.map_or(String::new(), |about| format!(": {about}"));
        let _ = write!(
            text,
            "\n# {}{about}\n\n{}\n\n## Training\n\n{}\n## Use\n\n{}\n## Back to iclab\n\n{}\n\n## Licence\n\n{}\n\n\
             ## Citation\n\n```bibtex\n{CITATION}\n```\n",
            self.name,
            wrapped(&self.network_text(precision)),
            self.training_text(),
            self.use_text(),
            wrapped(BACK),
            self.licence_text()
        );
        text
    }

    fn front_matter(&self) -> String {
        let mut lines = vec!["---"];
        // The weights of others are theirs to license. The hub takes one name; MIT is one of the two to choose from.
        lines.extend(self.card.is_some().then_some("license: mit"));
        // The hub shows how a library loads a network, and knows none for a bare LSTM.
        lines.extend(matches!(self.model.network, Network::Gpt2(_)).then_some("library_name: transformers"));
        lines.extend(["tags:", "- in-context-learning", "- linear-regression", "- iclab", "---"]);
        lines.join("\n") + "\n"
    }

    fn network_text(&self, precision: Precision) -> String {
        let layers = |layers| counted(layers, "layer", "layers");
        let backbone = match &self.model.network {
            Network::Gpt2(config) => format!(
                "A GPT-2 of {} and {}, {} wide, for prompts of at most {} tokens,",
                layers(config.layers),
                counted(config.heads, "head", "heads"),
                config.width,
                config.positions
            ),
            Network::Lstm(config) => format!("An LSTM of {}, {} wide,", layers(config.layers), config.width),
        };
        let numbers = match precision {
            Precision::F32 => "float32",
            Precision::F16 => "float16",
        };
        format!(
            "{backbone} between a linear read-in of {} and a linear read-out to one; {} parameters in {numbers}. It reads \
             tokens x_0, y_0, x_1, y_1, … (a label as y, 0, …, 0) and says at each x_t what y_t is, having seen the t pairs \
             before it: it learns the function within the prompt.",
            counted(self.model.network.features(), "number", "numbers"),
            grouped(self.model.params.len() as u64)
        )
    }

    /// A list of what is known, the remark of a card, and every setting.
    fn training_text(&self) -> String {
        let Some(experiment) = &self.experiment else {
            return "Not recorded: the checkpoint came from another program, or says nothing of its training.\n"
                .into();
        };
        let mut facts = vec![task_text(&experiment.task), recipe_text(experiment)];
        let training = &experiment.training;
        match (&self.card, &self.unfinished) {
            (Some(card), _) => facts.extend([card.training_text(), card.result_text()]),
            (None, Some(left)) => facts.push(format!(
                "unfinished: step {} of {}, seed {}",
                grouped(left.step),
                grouped(left.steps),
                training.seed
            )),
            (None, None) => {
                facts.push(format!("all {} steps, seed {}", grouped(training.steps), training.seed))
            }
        }
        if let (None, None, Some(found)) = (&self.card, &self.unfinished, &self.result) {
            let (loss, error) = (found.mean_loss, found.last_error_over_d);
            facts.push(result_text(found.prompts, loss, found.bayes_loss, error));
        }
        let remark = self.card.as_ref().map_or(String::new(), |card| card.remark_text());
        let remark = if remark.is_empty() { remark } else { format!("\n{remark}\n") };
        let list: String = facts.iter().map(|fact| format!("- {fact}\n")).collect();
        let plan = experiment.to_toml();
        format!(
            "{list}{remark}\nEvery setting, as `iclab train` takes it:\n\n```toml\n{}\n```\n",
            plan.trim_end()
        )
    }

    fn use_text(&self) -> String {
        let (packages, code) = match &self.model.network {
            Network::Gpt2(_) => ("torch transformers safetensors", include_str!("gpt2.py")),
            Network::Lstm(_) => ("torch safetensors", include_str!("lstm.py")),
        };
        let dim = self.model.network.features();
        let points = match (&self.experiment, &self.model.network) {
            (Some(experiment), _) => experiment.task.points,
            (None, Network::Gpt2(config)) => config.positions / 2,
            (None, Network::Lstm(_)) => 2 * dim + 1,
        };
        let example = include_str!("example.py")
            .replace("POINTS", &points.to_string())
            .replace("DIM", &dim.to_string());
        let warned = match &self.model.network {
            Network::Gpt2(_) => {
                "\nTransformers reports `wte.weight` as missing, which embeds words and is not used, and the read-in and read-out \
                 as\nunexpected: GPT2Model has none, and the lines above take them from the file.\n"
            }
            Network::Lstm(_) => "",
        };
        format!("In this folder, with `pip install {packages}`:\n\n```python\n{code}{example}```\n{warned}")
    }

    fn licence_text(&self) -> &'static str {
        match self.card {
            Some(_) => "MIT or Apache-2.0, at your choice, as iclab, with which this network is shipped.",
            None => {
                "Not stated: whoever trained the network says it, by a line `license: …` at the top of this file."
            }
        }
    }
}

fn wrapped(text: &str) -> String {
    wrap_by(text, 120.0, |line| line.chars().count() as f64).join("\n")
}

fn task_text(task: &TaskSpec) -> String {
    let TaskSpec { function, inputs, dim, points } = task;
    format!(
        "task: functions `{function}` of inputs `{inputs}`, d = {dim}, {points} points; prompts of it:\n  \
         `iclab sample --function {function} --inputs {inputs} --dim {dim} --points {points} --out p.npz`"
    )
}

fn recipe_text(experiment: &Experiment) -> String {
    let (training, batch) = (&experiment.training, experiment.training.batch);
    let words = training.other_than_the_papers().unwrap_or_else(|| {
        format!("that of the paper, Adam at {:e} in {} steps", training.rate, grouped(training.steps))
    });
    format!("recipe: {words}, {batch} prompts a step")
}
