//! Changes to an experiment by the paths of its fields, as `--set training.rate=3e-4` and sweeps write them.

use std::path::Path;
use std::str::FromStr;

use toml::{Table, Value};

use super::{Experiment, slips};
use crate::error::{Error, Result};
use crate::networks::sweeps::assign;

/// Parts of a field's path: far more than any has.
const DEEPEST: usize = 8;

/// One field and what it becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Path of the field: `training.rate`.
    pub field: String,
    /// As written.
    text: String,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        match text.split_once('=').map(|(field, value)| (field.trim(), value.trim())) {
            Some((field, value))
                if !value.is_empty()
                    && field.split('.').all(|part| !part.is_empty())
                    && field.split('.').count() <= DEEPEST =>
            {
                Ok(Change { field: field.into(), text: value.into() })
            }
            _ => Err("accepted: FIELD=VALUE, as in training.rate=3e-4".into()),
        }
    }
}

impl Change {
    /// What the text may mean: a value of TOML, or else itself, so that words need no quotes.
    fn values(&self) -> Vec<Value> {
        let table = format!("value = {}", self.text).parse::<Table>().ok().filter(|table| table.len() == 1);
        let value = table.and_then(|mut table| table.remove("value"));
        value.into_iter().chain([Value::String(self.text.clone())]).collect()
    }

    fn refused(&self, why: &str) -> Error {
        Error::BadData(format!("--set {}={}: {why}", self.field, self.text))
    }
}

impl Experiment {
    /// The experiment of a file with some of its fields changed; the whole is checked like a file that has them so.
    pub fn read_changed(path: &Path, changes: &[Change]) -> Result<Experiment> {
        let mut experiment = Experiment::read(path)?;
        for change in changes {
            experiment = experiment.changed(change)?;
        }
        let list = || changes.iter().map(|c| format!(" --set {}={}", c.field, c.text)).collect::<String>();
        experiment.check().map_err(|e| Error::content(path, format!("with{}: {e}", list())))?;
        Ok(experiment)
    }

    fn changed(&self, change: &Change) -> Result<Experiment> {
        let mut first = None;
        for value in change.values() {
            let mut table: Table = self.to_toml().parse().expect("an experiment is a table");
            let tried = assign(&mut table, &change.field, &value)
                .and_then(|()| table.try_into().map_err(|e: toml::de::Error| e.message().to_string()));
            match tried {
                Ok(experiment) => return Ok(experiment),
                Err(why) => first = first.or(Some(why)),
            }
        }
        let why = first.unwrap_or_default();
        let hint = slips::hint_for(&why).map_or(String::new(), |hint| format!("; {hint}"));
        Err(change.refused(&format!("{why}{hint}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Result<Experiment> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/miniature.toml");
        let changes: Vec<Change> = text.split(' ').map(|change| change.parse().unwrap()).collect();
        Experiment::read_changed(&path, &changes)
    }

    #[test]
    fn fields_take_numbers_words_and_tables() {
        let changed =
            set("training.rate=3e-4 training.optimiser=adam task.inputs=skewed:kappa=10 name=7").unwrap();
        assert_eq!((changed.training.rate, changed.name.as_str()), (3e-4, "7"));
        assert_eq!(changed.training.optimiser, super::super::Optimiser::Adam);
        assert_eq!(changed.task.inputs, "skewed:kappa=10");
        assert_ne!(changed.hash(), set("training.rate=3e-4").unwrap().hash());
        let table = set("training.dims={start=2,end=5,over=0.5}").unwrap();
        assert_eq!(table.training.dims.map(|ramp| ramp.start), Some(2));
        assert_eq!(set("training.steps=9").unwrap().training.steps, 9);
    }

    #[test]
    fn what_is_not_a_field_or_not_its_value_is_refused() {
        for (text, words) in [
            ("training.rat=1", &["--set training.rat=1", "did you mean rate"][..]),
            ("training.lr=1", &["did you mean 'rate' under [training]"]),
            ("trainin.rate=1", &["--set trainin.rate=1", "did you mean training"]),
            ("training.rate=fast", &["--set training.rate=fast", "expected f64"]),
            ("training.rate=-1", &["miniature.toml", "with --set training.rate=-1", "above 0"]),
            ("training=3", &["'training' is a table"]),
            ("network.heads=3", &["network.heads", "divisor"]),
        ] {
            let said = set(text).unwrap_err().to_string();
            words.iter().for_each(|word| assert!(said.contains(word), "{text}: {said}: {word}"));
        }
        for text in ["rate", "=3", "rate=", "a..b=3"] {
            assert!(text.parse::<Change>().is_err(), "{text}");
        }
    }
}
