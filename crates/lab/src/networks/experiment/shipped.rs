//! The experiments and sweeps of the repository, inside the program: they can be trained anywhere, by name.

use std::path::{Component, Path};

macro_rules! shipped {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../experiments/", $name, ".toml")))
    };
}

/// Where they lie in the repository.
const FOLDER: &str = "experiments";

/// Name and text of each file under `experiments/`.
const FILES: &[(&str, &str)] = &[
    shipped!("miniature"),
    shipped!("r1"),
    shipped!("r1-along-fast"),
    shipped!("r1-fast"),
    shipped!("r1-relu-fast"),
    shipped!("r1-seed1-fast"),
    shipped!("r1-seed2-fast"),
    shipped!("r1-seed3-fast"),
    shipped!("r1-seed4-fast"),
    shipped!("r2"),
    shipped!("r2-fast"),
    shipped!("r3"),
    shipped!("r3-fast"),
    shipped!("r4"),
    shipped!("r4-fast"),
    shipped!("r5"),
    shipped!("r5-fast"),
    shipped!("r6-16"),
    shipped!("r6-16-fast"),
    shipped!("r6-32"),
    shipped!("r6-32-fast"),
    shipped!("r6-64"),
    shipped!("r6-64-fast"),
    shipped!("r6-8"),
    shipped!("r6-8-fast"),
    shipped!("r7"),
    shipped!("r7-fast"),
    shipped!("r7-wide-fast"),
    shipped!("r8"),
    shipped!("r8-fast"),
    shipped!("r9"),
    shipped!("r9-fast"),
    shipped!("sweeps/kappa"),
    shipped!("sweeps/miniature"),
    shipped!("sweeps/r1-seeds"),
    shipped!("sweeps/widths"),
];

/// Names of the experiments.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FILES.iter().map(|(name, _)| *name).filter(|name| !name.contains('/'))
}

/// The text of an experiment or sweep that the program has, asked for as it lies in the repository
/// (`experiments/miniature.toml`); an experiment also by its name alone (`miniature`).
pub fn text(path: &Path) -> Option<&'static str> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let joined = parts.join("/");
    let in_folder = joined.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let name = match in_folder {
        Some(file) => file.strip_suffix(".toml")?,
        None => Some(&*joined).filter(|name| !name.contains('/'))?,
    };
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_inside() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let mut found: Vec<String> = Vec::new();
        for below in ["", "sweeps/"] {
            let entries = std::fs::read_dir(folder.join(below)).unwrap().map(|entry| entry.unwrap().path());
            let files = entries.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
            found.extend(files.map(|path| format!("{below}{}", path.file_stem().unwrap().to_str().unwrap())));
        }
        let mut known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, found);
    }

    #[test]
    fn they_are_found_by_name_and_as_they_lie() {
        let of = |path: &str| text(Path::new(path));
        let miniature = of("miniature").unwrap();
        assert!(miniature.contains("name = \"miniature\""));
        for path in ["experiments/miniature.toml", "./experiments/sweeps/../miniature.toml"] {
            assert_eq!(of(path), Some(miniature), "{path}");
        }
        assert!(of("experiments/sweeps/miniature.toml").unwrap().contains("[axes]"));
        for path in [
            "/experiments/miniature.toml",
            "mine/miniature.toml",
            "../miniature",
            "miniature.toml",
            "sweeps/miniature",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
