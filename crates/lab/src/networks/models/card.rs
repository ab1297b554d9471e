//! The card of a shipped network: how it was trained, how good it is, and what its files must be.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use engine::hash::{checksum, stable_id_of};
use serde::{Deserialize, Serialize};

use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::stats::mean;
use crate::text::wrap_by;

/// `card.toml` in a network's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// `r1`, …
    pub name: String,
    /// What it is.
    pub about: String,
    /// Experiment it was trained by; `plan.toml` beside the card has every setting.
    pub experiment: String,
    /// Seed of its training.
    pub seed: u64,
    /// Gradient steps.
    pub steps: u64,
    /// Steps that its experiment asks for, where it was not trained to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_asked: Option<u64>,
    /// Where it was trained.
    pub device: String,
    /// Seconds that took.
    pub seconds: f64,
    /// Parameters.
    pub parameters: usize,
    /// How the weights are stored.
    pub stored: String,
    /// Fresh prompts on which the float32 weights were evaluated after training.
    pub prompts: usize,
    /// Mean squared error over all positions.
    pub mean_loss: f64,
    /// Bayes loss: the smallest possible one, where known.
    #[serde(rename = "bayes_floor")]
    pub bayes_loss: Option<f64>,
    /// Mean squared error over d after all pairs.
    pub last_error_over_d: f64,
    /// Anything else one should know.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remark: String,
    /// How good it is on prompts that everyone can draw again, with intervals.
    #[serde(rename = "judged", skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
    /// Every file beside the card.
    pub files: BTreeMap<String, FileRecord>,
}

/// What is shipped, evaluated on the first evaluation prompts of seed 0 through the last layer's fitted read-out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// How many prompts.
    pub prompts: usize,
    /// Mean squared error over all positions, and its interval over resampled prompts.
    pub mean_loss: [f64; 3],
    /// Mean squared error over d after all pairs, and its interval.
    pub last_error_over_d: [f64; 3],
}

impl Evaluation {
    /// Evaluates a network on some prompts.
    pub fn of(network: &dyn Learner, prompts: &Prompts) -> Result<Evaluation> {
        let last = network.default_steps().last();
        let errors = network.trajectory(prompts, &Steps::single(last))?.errors(prompts, 0).mapv(|e| e * e);
        let of = |values: Vec<f64>| {
            let found = mean(Seed(0), &values);
            [found.value, found.low, found.high]
        };
        let points = prompts.points();
        let scale = 1.0 / prompts.dim() as f64;
        Ok(Evaluation {
            prompts: prompts.count(),
            mean_loss: of(errors.rows().into_iter().map(|row| row.sum() / points as f64).collect()),
            last_error_over_d: of(errors.column(points - 1).iter().map(|e| e * scale).collect()),
        })
    }
}

/// What a file must be: its size and one checksum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 of its bytes, 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
    /// FNV-1a of its bytes, 16 hex digits: how cards were sealed before BLAKE3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

impl FileRecord {
    /// The record of some bytes.
    pub fn of(bytes: &[u8]) -> FileRecord {
        FileRecord { bytes: bytes.len() as u64, blake3: Some(checksum(bytes)), checksum: None }
    }

    /// Whether bytes are what they must be; if not, why.
    fn check(&self, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 != self.bytes {
            return Err(format!("has {} bytes where its card says {}", bytes.len(), self.bytes));
        }
        let altered = |said: &str, found: String| match said == found {
            true => Ok(()),
            false => Err(format!("was altered: checksum {found} where its card says {said}")),
        };
        match (&self.blake3, &self.checksum) {
            (Some(said), _) => altered(said, checksum(bytes)),
            (None, Some(said)) => altered(said, format!("{:016x}", stable_id_of(bytes.iter().copied()))),
            (None, None) => Err("has no checksum in its card; accepted: blake3 = \"64 hex digits\"".into()),
        }
    }
}

impl Card {
    /// Its name in a folder.
    pub const FILE: &str = "card.toml";

    /// Reads the card of a folder.
    pub fn read(dir: &Path) -> Result<Card> {
        let path = dir.join(Card::FILE);
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        toml::from_str(&text).map_err(|e| Error::content(path, e.message()))
    }

    /// The same card of a network whose training ended without an evaluation of its own.
    pub(super) fn judged_by(self, found: &Evaluation) -> Card {
        let (mean_loss, last_error_over_d) = (found.mean_loss[0], found.last_error_over_d[0]);
        Card { prompts: found.prompts, mean_loss, last_error_over_d, ..self }
    }

    /// Checks that every file beside the card is there and is what it was.
    pub fn verify(&self, dir: &Path) -> Result<()> {
        let help = format!(
            "restore it from the repository, or train the network again (iclab train experiments/{}.toml) and add it \
             (iclab models add {} RUN)",
            self.experiment, self.name
        );
        for (file, record) in &self.files {
            let path = dir.join(file);
            // A card lists what lies beside it; one that leads elsewhere could have anything read, a device included.
            if !Path::new(file).components().all(|part| matches!(part, Component::Normal(_))) {
                let why = format!("lists the file '{file}'; accepted: files in its own folder");
                return Err(Error::content(dir.join(Card::FILE), why));
            }
            let wrong = |why: String| Error::content(&path, format!("{why}; {help}"));
            let bytes = std::fs::read(&path).map_err(|e| wrong(format!("cannot be read ({e})")))?;
            record.check(&bytes).map_err(wrong)?;
        }
        Ok(())
    }

    /// The card in words, as Markdown.
    pub fn text(&self) -> String {
        let remark = self.remark_text();
        let remark = if remark.is_empty() { remark } else { format!("\n{remark}\n") };
        let shipped = self.evaluation.as_ref().map_or(String::new(), |found| {
            let ([loss, low, high], [error, least, most]) = (found.mean_loss, found.last_error_over_d);
            format!(
                "- as shipped, on the first {} evaluation prompts: mean loss {loss:.4} [{low:.4}, {high:.4}], error/d \
                 {error:.2e} [{least:.2e}, {most:.2e}]\n",
                found.prompts
            )
        });
        let size: u64 = self.files.values().map(|file| file.bytes).sum();
        format!(
            "# {}: {}\n\n\
             - {}; every setting is in `plan.toml`\n\
             - {} parameters; stored: {}; {:.1} MiB in all\n\
             - {}\n{shipped}{remark}\n\
             ![loss during training](loss.svg)\n",
            self.name,
            self.about,
            self.training_text(),
            self.parameters,
            self.stored,
            size as f64 / (1 << 20) as f64,
            self.result_text()
        )
    }

    /// By which experiment, how long and where it was trained.
    pub fn training_text(&self) -> String {
        let asked = self.steps_asked.map_or(String::new(), |asked| format!(" of {asked}"));
        format!(
            "trained by `experiments/{}.toml`, seed {}, {}{asked} steps, {:.0} s on {}",
            self.experiment, self.seed, self.steps, self.seconds, self.device
        )
    }

    /// How good its own output was when it was trained.
    pub fn result_text(&self) -> String {
        result_text(self.prompts, self.mean_loss, self.bayes_loss, self.last_error_over_d)
    }

    /// The remark, in lines.
    pub fn remark_text(&self) -> String {
        wrap_by(&self.remark, 120.0, |line| line.chars().count() as f64).join("\n")
    }
}

/// How good a network is on fresh prompts, in words.
pub(in crate::networks) fn result_text(prompts: usize, loss: f64, bayes: Option<f64>, error: f64) -> String {
    let least = bayes.map_or(String::new(), |f| format!(" (smallest possible {f:.4})"));
    format!("over {prompts} fresh prompts: mean loss {loss:.4}{least}, error/d after all pairs {error:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_old_and_new_notice_every_change() {
        let blake3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"; // of "abc"
        let old: FileRecord = toml::from_str("bytes = 3\nchecksum = \"e71fa2190541574b\"").unwrap();
        let new: FileRecord = toml::from_str(&format!("bytes = 3\nblake3 = \"{blake3}\"")).unwrap();
        assert_eq!(new, FileRecord::of(b"abc"));
        for mark in [&old, &new] {
            assert_eq!(mark.check(b"abc"), Ok(()));
            assert!(mark.check(b"abd").unwrap_err().contains("was altered"));
            assert!(mark.check(b"abcd").unwrap_err().contains("4 bytes where its card says 3"));
        }
        // With both, the stronger one decides.
        let both = FileRecord { checksum: old.checksum, ..FileRecord::of(b"abd") };
        assert!(both.check(b"abc").is_err());
        let bare: FileRecord = toml::from_str("bytes = 3").unwrap();
        assert!(bare.check(b"abc").unwrap_err().contains("accepted"));
    }
}
