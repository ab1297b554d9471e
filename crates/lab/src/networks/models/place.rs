//! Where shipped networks are: in the folder that a variable names, under `models/`, or beside the program.

use std::path::{Path, PathBuf};

use super::{FOLDER, NETWORKS};
use crate::program::Program;

/// The variable that names the folder of networks.
pub const VARIABLE: &str = "ICLAB_MODELS";

/// The folder of shipped networks: what `ICLAB_MODELS` says, or the first of `models/`, `models/` beside the program and
/// `share/iclab/models` beside its folder that holds a network; `models/` where none does.
pub fn folder() -> PathBuf {
    let said = std::env::var_os(VARIABLE).filter(|said| !said.is_empty()).map(PathBuf::from);
    said.unwrap_or_else(|| choose(beside_program()))
}

/// Where [`folder`] looks, for messages.
pub fn looked_in() -> String {
    match std::env::var(VARIABLE) {
        Ok(said) if !said.is_empty() => format!("{VARIABLE}={said}"),
        _ => {
            let places: Vec<String> =
                beside_program().iter().map(|place| format!(", {}", place.display())).collect();
            format!("{VARIABLE} (not set), {FOLDER}/{}", places.concat())
        }
    }
}

/// What to do where networks are missing: they are part of the repository, not of the program.
pub fn how_to_get() -> String {
    format!("the repository has them: set {VARIABLE}=CLONE/{FOLDER}, or run iclab in the clone")
}

fn choose(others: Vec<PathBuf>) -> PathBuf {
    let here = PathBuf::from(FOLDER);
    let found = std::iter::once(here.clone()).chain(others).find(|place| holds_a_network(place));
    found.unwrap_or(here)
}

/// A folder called models may hold anything: ours has a network of the paper.
fn holds_a_network(place: &Path) -> bool {
    NETWORKS.iter().any(|network| place.join(network.name).is_dir())
}

fn beside_program() -> Vec<PathBuf> {
    let program = Program::running().and_then(|program| program.file.canonicalize());
    let Ok(program) = program else { return Vec::new() };
    let folder = program.parent().map(|folder| folder.join(FOLDER));
    let shared = program.ancestors().nth(2).map(|prefix| prefix.join("share/iclab").join(FOLDER));
    folder.into_iter().chain(shared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_with_a_network_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let [strange, ours, later] = ["strange", "ours", "later"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(strange.join("resnet")).unwrap();
        assert_eq!(choose(vec![strange.clone(), ours.clone()]), Path::new(FOLDER));
        std::fs::create_dir_all(ours.join("r4")).unwrap();
        std::fs::create_dir_all(later.join("r1")).unwrap();
        assert_eq!(choose(vec![strange, ours.clone(), later]), ours);
    }
}
