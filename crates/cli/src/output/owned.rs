//! Which files of an output folder are iclab's: a list in the folder, `.iclab-files`. Everything else is the user's.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use lab::files::is_remnant;

/// The list, a relative path a line.
pub const LIST: &str = ".iclab-files";

const HEAD: &str =
    "# What iclab wrote here and replaces when it writes here again; other files are left alone.\n";

/// Pages, figures and tables of versions without a list; and files of shipped networks.
const PAGES: [&str; 6] =
    ["index.html", "ledger.json", "plan.toml", "points.csv", "points.npz", "result.json"];
const NETWORK: [&str; 7] = [
    "README.md",
    "card.toml",
    "checkpoint.safetensors",
    "loss.svg",
    "metrics.jsonl",
    "predictions.safetensors",
    "readouts.safetensors",
];

/// Files of a folder that iclab wrote, relative to it, with `/` between names.
pub type Files = BTreeSet<String>;

/// The files of a folder that are ours; `None` where nothing says that any is.
pub fn of(dir: &Path) -> io::Result<Option<Files>> {
    match fs::read_to_string(dir.join(LIST)) {
        Ok(text) => Ok(Some(parse(&text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => earlier(dir),
        Err(error) => Err(error),
    }
}

/// The paths of a list. One that leads out of the folder is nobody's: lists are read as data that may be wrong.
pub fn parse(text: &str) -> Files {
    let inside = |path: &&str| {
        let mut parts = Path::new(path).components();
        !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter(inside).map(str::to_string).collect()
}

/// The text of a list.
pub fn text(files: &Files) -> String {
    files.iter().fold(HEAD.to_string(), |text, file| text + file + "\n")
}

/// An output of a version that kept no list: known by its plan and page, or plan and card, its files by their names. A run's
/// folder has a plan, too, and neither of those: it is not an output.
fn earlier(dir: &Path) -> io::Result<Option<Files>> {
    let has = |name: &str| dir.join(name).is_file();
    let (page, card) = (has("index.html"), has("card.toml"));
    if !has("plan.toml") || !(page || card) {
        return Ok(None);
    }
    let known = |path: &String| {
        let ending = Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or_default();
        match path.split_once('/') {
            None => PAGES.contains(&&**path) || card && NETWORK.contains(&&**path),
            Some(("figures", name)) => !name.contains('/') && ["svg", "png", "csv"].contains(&ending),
            Some(("tables", name)) => !name.contains('/') && ending == "csv",
            Some(("kept", name)) => card && name.starts_with("step-") && ending == "safetensors",
            Some(_) => false,
        }
    };
    Ok(Some(under(dir)?.into_iter().filter(known).collect()))
}

/// Every file of a folder and of the folders in it, relative to it. Links are not followed.
pub fn under(dir: &Path) -> io::Result<Files> {
    let mut found = Files::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if let Some(text) = path.to_str().filter(|_| !is_remnant(&entry.file_name())) {
                found.insert(text.replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_back_and_never_lead_out_of_the_folder() {
        let files = Files::from(["figures/a.svg".to_string(), "index.html".into()]);
        assert_eq!(parse(&text(&files)), files);
        let hostile = "../a\n/etc/passwd\n\n# index.html\nfigures/../../b\n./c\nfine\n";
        assert_eq!(parse(hostile), Files::from(["fine".to_string()]));
    }

    #[test]
    fn outputs_of_earlier_versions_are_known_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        };
        ["plan.toml", "checkpoint.safetensors", "metrics.jsonl"].iter().for_each(|name| put(name));
        assert_eq!(of(dir.path()).unwrap(), None, "a run is not an output");
        ["index.html", "figures/f2.svg", "figures/mine.txt", "tables/t.csv", "notes/index.html", "README.md"]
            .iter()
            .for_each(|name| put(name));
        let found = of(dir.path()).unwrap().unwrap();
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["figures/f2.svg", "index.html", "plan.toml", "tables/t.csv"]
        );
        put("card.toml");
        assert!(of(dir.path()).unwrap().unwrap().contains("checkpoint.safetensors"));
    }
}
