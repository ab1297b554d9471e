//! Learners by name: an algorithm of the registry, constructed weights, a trained network, or recorded predictions.

use std::path::Path;

use super::Learner;
use super::recorded::Recorded;
use crate::Progress;
use crate::constructions::{Constructed, file};
use crate::error::{Error, Result};
use crate::networks::experiment::TaskSpec;
use crate::networks::{find, models};
use crate::probe::{self, NamedNetwork};
use crate::solvers;

/// A learner that was found by its name.
pub struct Resolved {
    /// The learner.
    pub learner: Box<dyn Learner>,
    /// What the user should know about how it was made, in full sentences.
    pub notes: Vec<String>,
}

/// Builds the learner of a name; `progress` hears what is going on.
///
/// | name | learner |
/// |---|---|
/// | `newton`, `gd:eta=0.01` | an algorithm, with settings |
/// | `construct:w.safetensors` | weights that are an algorithm |
/// | `run:r1`, `run:DIRECTORY,ablate=…` | a trained network with a read-out per layer: those saved beside it, or fresh ones |
/// | `run:r1@own` | its own output |
/// | `file:o.npz`, `file:predictions.safetensors` | predictions that were made before |
///
/// ```
/// let gd = lab::learners::build("gd:eta=lmax", &|_| ())?.learner;
/// assert_eq!(gd.id().to_string(), "gd:eta=lmax");
/// let Err(error) = lab::learners::build("newtn", &|_| ()) else { unreachable!() };
/// assert!(error.to_string().contains("did you mean newton"));
/// # Ok::<(), lab::Error>(())
/// ```
pub fn build(name: &str, progress: Progress) -> Result<Resolved> {
    build_for(name, None, progress)
}

/// The same for prompts of a task, to which a network that does not say its own gets its read-outs fitted.
pub fn build_for(name: &str, asked: Option<&TaskSpec>, progress: Progress) -> Result<Resolved> {
    let alone = |learner: Box<dyn Learner>| Resolved { learner, notes: Vec::new() };
    Ok(match name.split_once(':') {
        Some(("file", path)) => {
            let recorded = Recorded::open(Path::new(path))?;
            let notes = recorded.warning().into_iter().collect();
            Resolved { learner: Box::new(recorded), notes }
        }
        Some(("construct", path)) => alone(Box::new(Constructed::new(name, file::read(Path::new(path))?))),
        Some(("run", text)) => network(text, asked, progress)?,
        _ => alone(solvers::build(name).map_err(|error| meant(name, error))?),
    })
}

/// A network, or what it predicted where only that is kept.
fn network(text: &str, asked: Option<&TaskSpec>, progress: Progress) -> Result<Resolved> {
    let named = NamedNetwork::parse(text)?;
    if models::only_recorded(&named.found.path) {
        if !named.as_usual() {
            let why = "only what its fitted read-outs predict is kept, not its weights; accepted: no @own and no settings";
            return Err(Error::content(&named.found.path, why));
        }
        let learner = Recorded::read(&named.found.path.join(Recorded::FILE), text)?;
        return Ok(Resolved { learner: Box::new(learner), notes: named.found.note.into_iter().collect() });
    }
    let (probed, notes) = probe::build(text, asked, progress)?;
    Ok(Resolved { learner: Box::new(probed), notes })
}

/// The name with every default written out, for plans.
pub fn resolve(name: &str) -> Result<String> {
    match name.split_once(':') {
        Some(("file" | "construct", _)) => Ok(name.into()),
        Some(("run", text)) => Ok(format!("run:{}", NamedNetwork::parse(text)?.resolved())),
        _ => solvers::resolve(name).map_err(|error| meant(name, error)),
    }
}

/// An algorithm that is not known may be the name of a file or a network without the word before its colon.
fn meant(name: &str, error: Error) -> Error {
    let Error::UnknownName { kind: "solver", .. } = error else { return error };
    let path = Path::new(name);
    let ends = |ending: &str| path.extension().is_some_and(|found| found == ending);
    let word = match () {
        () if ends("npz") || Recorded::is(path) => "file",
        () if ends("safetensors") && file::read(path).is_ok() => "construct",
        () if ends("safetensors")
            || ends("pt")
            || find(name.split([',', '@']).next().unwrap_or(name)).is_ok() =>
        {
            "run"
        }
        () => return error,
    };
    let hint = format!("did you mean {word}:{name}?");
    Error::UnknownName { kind: "solver", name: name.into(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prompts::Task;
    use crate::data::seed::Seed;

    #[test]
    fn a_network_of_which_predictions_are_kept_answers_in_one_way() {
        let dir = tempfile::tempdir().unwrap();
        let prompts = Task::new("linear", "gaussian", 2, 5).unwrap().sample(Seed(0), "eval", 0, 3);
        let gd = solvers::build("gd").unwrap();
        Recorded::of(&*gd, &prompts).unwrap().write(&dir.path().join(Recorded::FILE)).unwrap();
        let name = format!("run:{}", dir.path().display());
        let learner = build(&name, &|_| ()).unwrap().learner;
        assert_eq!(learner.trajectory(&prompts, &learner.default_steps()).unwrap().values.dim().1, 3);
        for more in ["@own", ",readout=trained", ",ablate=zero:1"] {
            let Err(error) = build(&format!("{name}{more}"), &|_| ()) else { panic!("{more} is answered") };
            assert!(error.to_string().contains("not its weights"), "{error}");
        }
    }

    #[test]
    fn a_file_without_its_word_is_understood() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().display().to_string();
        for (name, meant) in [
            ("mine.npz", "file:mine.npz".to_string()),
            ("m.safetensors", "run:m.safetensors".into()),
            (&folder, format!("run:{folder}")),
        ] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.ends_with(&format!("did you mean {meant}?")), "{error}");
        }
        let error = resolve("newtn").unwrap_err().to_string();
        assert!(error.contains("did you mean newton?"), "{error}");
        let error = resolve("newton:alpa=1").unwrap_err().to_string();
        assert!(error.contains("no setting 'alpa'"), "{error}");
    }
}
