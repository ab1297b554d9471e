//! Weights that are an algorithm are compared with *their* algorithm: one that is named without settings takes those that the
//! weights hold.

use std::path::Path;

use crate::constructions::{Constructed, Variant, file};
use crate::error::Result;
use crate::registry::{Id, Spec};

/// Two learners by name, an algorithm beside `construct:FILE` with the settings that the file's weights hold, and what the user
/// should know of that, in full sentences.
pub(crate) fn as_constructed(mut names: [String; 2]) -> Result<([String; 2], Vec<String>)> {
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
    if held.name != spec.name || chosen(&held, &spec) {
        return Ok(None);
    }
    if recipe.variant == Variant::Causal {
        let note = format!("{who} is Newton with α/t² after t pairs, for which {given} has no setting");
        return Ok(Some((given.into(), note)));
    }
    let mut taken = held.given;
    taken.retain(|name, _| !spec.given.contains_key(name));
    let words: Vec<String> = taken.iter().map(|(name, value)| format!("{name}={value}")).collect();
    spec.given.extend(taken);
    let note = format!("{given} takes {} from the weights of {who}", words.join(" and "));
    Ok(Some((Id { name: spec.name, given: spec.given }.to_string(), note)))
}

/// Whether what is asked for has a step of its own, or another start than the weights hold: then it stays as it is.
fn chosen(held: &Spec, asked: &Spec) -> bool {
    let held_start = held.given.get("start").map_or("gram", String::as_str);
    let other_start = asked.given.get("start").is_some_and(|start| start != held_start);
    other_start || ["alpha", "eta"].iter().any(|step| asked.given.contains_key(*step))
}
