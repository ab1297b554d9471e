//! Weights that are an algorithm are compared with *their* algorithm: one that is named without settings takes those that the
//! weights hold.

use std::path::Path;

use crate::constructions::{Constructed, Variant, file};
use crate::error::Result;
use crate::registry::{Id, Spec};

/// Two learners by name, an algorithm beside `construct:FILE` with the settings that the file's weights hold, and what the user
/// should know of that, in full sentences.
pub(super) fn as_constructed(mut names: [String; 2]) -> Result<([String; 2], Vec<String>)> {
    let mut notes = Vec::new();
    for (one, other) in [(0, 1), (1, 0)] {
        let Some(path) = names[one].strip_prefix("construct:") else { continue };
        let constructed = Constructed::new(&*names[one], file::read(Path::new(path))?);
        let given = names[other].clone();
        if let Some((name, note)) = of_construction(&constructed, &names[one], &given)? {
            names[other] = name;
            notes.push(note);
        }
    }
    Ok((names, notes))
}

/// The algorithm `given` with the settings of a construction of it; `None` where it is another or has them all.
fn of_construction(constructed: &Constructed, who: &str, given: &str) -> Result<Option<(String, String)>> {
    if given.contains(':') && ["run:", "file:", "construct:"].iter().any(|kind| given.starts_with(kind)) {
        return Ok(None);
    }
    let recipe = &constructed.construction().recipe;
    let (held, mut spec) = (Spec::parse(&constructed.solver(recipe.pairs))?, Spec::parse(given)?);
    let step = if recipe.variant == Variant::Gd { "eta" } else { "alpha" };
    if held.name != spec.name || spec.given.contains_key(step) {
        return Ok(None);
    }
    if recipe.variant == Variant::Causal {
        let note = format!("{who} is Newton with α/t² after t pairs, for which {given} has no setting");
        return Ok(Some((given.into(), note)));
    }
    for (name, value) in held.given {
        spec.given.entry(name).or_insert(value);
    }
    let note = format!("{given} takes {step}={} from the weights of {who}", spec.given[step]);
    Ok(Some((Id { name: spec.name, given: spec.given }.to_string(), note)))
}
