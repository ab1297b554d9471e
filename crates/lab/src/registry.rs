//! Registries: named rows with settings, from which config names, `iclab list`, help and the property tests derive.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, Result, hint};

/// The value of a name among a few, each with what it is, or a sentence that says what there is.
pub fn one_of<T: Copy>(what: &str, given: &str, all: &[(T, &str, &str)]) -> Result<T> {
    let found = all.iter().find(|(_, name, _)| *name == given).map(|(value, ..)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(_, name, _)| *name).collect();
        Error::BadData(format!("{what} '{given}' is unknown; accepted: {}", names.join(", ")))
    })
}

/// One setting of a row, as shown in `iclab list`.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name on the left of `=`.
    pub name: &'static str,
    /// Value when it is not given.
    pub default: &'static str,
    /// What it does and what is accepted.
    pub help: &'static str,
}

/// One row of a registry of `T`, with what rows of this registry promise.
pub struct Row<T: ?Sized, P = ()> {
    /// Name in configs and on the command line.
    pub name: &'static str,
    /// What it is, one line.
    pub summary: &'static str,
    /// Where it comes from; empty where everybody knows.
    pub cite: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// What it promises; the property tests hold it to that.
    pub properties: P,
    /// Builds it.
    pub build: fn(&Settings) -> Result<Box<T>>,
}

/// A row's name with the settings given to it: `gd:eta=0.01,lambda=0.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Row name.
    pub name: String,
    /// Settings given, by name.
    pub given: BTreeMap<String, String>,
}

impl Spec {
    /// Reads `name` or `name:setting=value,setting=value`.
    pub fn parse(text: &str) -> Result<Spec> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut given = BTreeMap::new();
        for part in rest.split(',').filter(|p| !p.is_empty()) {
            let bad = |value: &str| Error::BadSetting {
                row: name.to_string(),
                setting: part.to_string(),
                value: value.to_string(),
                accepted: "settings written once each as name=value, separated by commas".into(),
            };
            let (key, value) = part.split_once('=').ok_or_else(|| bad(""))?;
            if given.insert(key.trim().to_string(), value.trim().to_string()).is_some() {
                return Err(bad(value));
            }
        }
        Ok(Spec { name: name.trim().to_string(), given })
    }

    /// Builds what is named from the rows of a registry of `kind`.
    pub fn build<T: ?Sized, P>(&self, kind: &'static str, rows: &[Row<T, P>]) -> Result<Box<T>> {
        let (row, settings) = self.find(kind, rows)?;
        (row.build)(&settings)
    }

    /// Finds the row and checks that it has every setting that was given.
    pub fn find<'r, T: ?Sized, P>(
        &self,
        kind: &'static str,
        rows: &'r [Row<T, P>],
    ) -> Result<(&'r Row<T, P>, Settings)> {
        let row = rows.iter().find(|row| row.name == self.name).ok_or_else(|| Error::UnknownName {
            kind,
            name: self.name.clone(),
            hint: hint(&self.name, rows.iter().map(|row| row.name)),
        })?;
        Ok((row, self.settings(row.settings)?))
    }

    /// All of `declared`, as given here or by default; refuses what is not declared.
    pub fn settings(&self, declared: &'static [Setting]) -> Result<Settings> {
        let known = declared.iter().map(|s| s.name);
        for setting in self.given.keys() {
            if !known.clone().any(|k| k == setting) {
                return Err(Error::UnknownSetting {
                    row: self.name.clone(),
                    setting: setting.clone(),
                    hint: hint(setting, known),
                });
            }
        }
        let mut values: BTreeMap<&'static str, String> =
            declared.iter().map(|s| (s.name, s.default.to_string())).collect();
        for (name, value) in &mut values {
            if let Some(given) = self.given.get(*name) {
                *value = given.clone();
            }
        }
        Ok(Settings { row: self.name.clone(), given: self.given.clone(), values })
    }
}

/// All settings of a row, defaults filled in, with readers that give clear errors.
#[derive(Clone, Debug)]
pub struct Settings {
    row: String,
    given: BTreeMap<String, String>,
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// The value as text. Panics if the row does not declare the setting, which is a mistake in the row.
    pub fn text(&self, name: &str) -> &str {
        self.values
            .get(name)
            .unwrap_or_else(|| panic!("row '{}' does not declare setting '{name}'", self.row))
    }

    /// The error for a setting whose value is not accepted.
    pub fn reject(&self, name: &str, accepted: impl Into<String>) -> Error {
        Error::BadSetting {
            row: self.row.clone(),
            setting: name.to_string(),
            value: self.text(name).to_string(),
            accepted: accepted.into(),
        }
    }

    /// A finite number in `[low, high]`.
    pub fn number(&self, name: &str, low: f64, high: f64) -> Result<f64> {
        match self.text(name).parse::<f64>() {
            Ok(value) if value.is_finite() && value >= low && value <= high => Ok(value),
            _ if high == f64::MAX => Err(self.reject(name, format!("a number of at least {low:e}"))),
            _ => Err(self.reject(name, format!("a number from {low} to {high}"))),
        }
    }

    /// A whole number in `[low, high]`.
    pub fn whole(&self, name: &str, low: usize, high: usize) -> Result<usize> {
        match self.text(name).parse::<usize>() {
            Ok(value) if value >= low && value <= high => Ok(value),
            _ => Err(self.reject(name, format!("a whole number from {low} to {high}"))),
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T> {
        choices.iter().find(|(word, _)| *word == self.text(name)).map(|(_, value)| *value).ok_or_else(|| {
            self.reject(name, choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "))
        })
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Result<bool> {
        self.choice(name, &[("true", true), ("false", false)])
    }

    /// `name:setting=value,…` with only the settings that were given: short, and enough to build it again.
    pub fn id(&self) -> Id {
        Id { name: self.row.clone(), given: self.given.clone() }
    }

    /// The same with every default written out, for plans.
    pub fn resolved(&self) -> String {
        let all = self.values.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
        Id { name: self.row.clone(), given: all }.to_string()
    }
}

/// Name and settings of something built from a registry; keys caches, legends and plans.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Row name.
    pub name: String,
    /// Settings that were given.
    pub given: BTreeMap<String, String>,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.given.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}
