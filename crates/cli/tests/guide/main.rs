//! README and guide, run as they are printed: every fenced command, in order, page by page. What is not is in one table,
//! `exceptions.rs`, with the reason.

mod exceptions;
mod python;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use exceptions::{EXCEPTIONS, FILES, Instead};
use tempfile::TempDir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A fenced block: the words after the fence, and what is inside.
struct Block {
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(repository().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.into(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none() && !blocks.is_empty(), "{page}: a fence is not closed, or there is none");
    blocks
}

/// The commands of a block: comments left off, continued lines joined.
fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let bare = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_string();
    let lines = joined.lines().filter(|line| !line.starts_with('#')).map(bare);
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

/// A folder like the clone, for a page: networks are there, and the files that the table names.
struct Place {
    page: &'static str,
    dir: TempDir,
    /// Lines that later ones need: exports.
    before: String,
    /// Lines of the table that were met.
    met: Vec<&'static str>,
    said: String,
}

impl Place {
    fn new(page: &'static str) -> Place {
        let dir = TempDir::new().unwrap();
        let repository = repository();
        std::os::unix::fs::symlink(repository.join("models"), dir.path().join("models")).unwrap();
        fs::create_dir_all(dir.path().join("home")).unwrap();
        std::os::unix::fs::symlink(&repository, dir.path().join("home/iclab")).unwrap();
        for (_, name, from, (long, short)) in FILES.iter().filter(|(of, ..)| *of == page) {
            let to = dir.path().join(name);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(repository.join(from), &to).unwrap();
            if !long.is_empty() {
                let text = fs::read_to_string(&to).unwrap();
                assert!(text.contains(long), "{from} lacks '{long}'");
                fs::write(&to, text.replace(long, short)).unwrap();
            }
        }
        Place { page, dir, before: String::new(), met: Vec::new(), said: String::new() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Runs a line as printed, or what the table has for it.
    fn line(&mut self, line: &str) {
        let page = self.page;
        let listed = EXCEPTIONS.iter().find(|(of, printed, ..)| *of == page && *printed == line);
        match listed {
            None => self.shell(line),
            Some((_, printed, instead, _)) => {
                self.met.push(printed);
                if let Instead::Smaller(command) = instead {
                    self.shell(command);
                }
            }
        }
    }

    /// Runs a line with `iclab` on the path.
    fn shell(&mut self, line: &str) {
        let program = Path::new(env!("CARGO_BIN_EXE_iclab")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{}{line}", self.before)]).current_dir(self.dir.path());
        command.env("PATH", path).env("HOME", self.at("home")).env_remove("ICLAB_MODELS");
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {line}: {error}", self.page);
        assert!(!error.contains("panicked") && !error.contains("error:"), "{}: {line}: {error}", self.page);
        if line.starts_with("export ") {
            self.before += &format!("{line}; ");
        }
        self.said += &String::from_utf8_lossy(&output.stdout);
    }

    fn block(&mut self, block: &Block) {
        let words: Vec<&str> = block.info.split(' ').collect();
        match words[..] {
            ["sh"] => commands(&block.text).iter().for_each(|line| self.line(line)),
            ["toml", file] => fs::write(self.at(file), &block.text).unwrap(),
            ["python"] => python::run(self, &block.text),
            ["rust", file] => {
                let code = fs::read_to_string(repository().join(file)).unwrap();
                assert!(code.contains(&block.text), "{}: the code is not that of {file}", self.page);
            }
            // The README's lines of Rust are those of the library's front page, which are tested there.
            ["rust"] | ["toml"] | ["bibtex"] | ["text"] => {}
            _ => panic!("{}: a block of {:?}", self.page, block.info),
        }
    }
}

/// Runs a page to its end, in a folder of its own.
fn run(page: &'static str) -> Place {
    let mut place = Place::new(page);
    blocks(page).iter().for_each(|block| place.block(block));
    let listed = EXCEPTIONS.iter().filter(|(of, ..)| *of == page).map(|(_, line, ..)| line);
    for line in listed {
        assert!(place.met.contains(line), "{page} no longer has '{line}': take it out of the table");
    }
    place
}

#[test]
fn readme() {
    let place = run("README.md");
    for folder in ["newton-gd", "ill", "mine", "same", "layers", "filters", "needed", "miniature"] {
        assert!(place.at(folder).join("index.html").is_file(), "{folder}");
    }
    assert!(place.at("model.safetensors").is_file());
}

#[test]
fn first_page() {
    let place = run("docs/guide/README.md");
    let commands: usize =
        blocks(place.page).iter().filter(|b| b.info == "sh").map(|b| commands(&b.text).len()).sum();
    assert_eq!(commands, 6, "six commands from the clone to the map");
    assert!(
        place.at("layers/index.html").is_file() && place.said.contains(": the same network"),
        "{}",
        place.said
    );
}

#[test]
fn install() {
    let place = run("docs/guide/install.md");
    assert!(
        place.said.contains("miniature: experiment") && place.said.contains("finished"),
        "{}",
        place.said
    );
    assert!(place.at("home/.local/share/bash-completion/completions/iclab").is_file());
}

#[test]
fn reproduce() {
    let place = run("docs/guide/reproduce.md");
    assert!(place.said.contains("2 of 2 analyses kept"), "{}", place.said);
    assert!(place.at("f26/ledger.json").is_file());
}

#[test]
fn inside() {
    let place = run("docs/guide/inside.md");
    for folder in ["labels", "tokens"] {
        assert!(place.at(folder).join("index.html").is_file());
    }
}

#[test]
fn python_page() {
    run("docs/guide/python.md");
}

#[test]
fn own_variant() {
    let place = run("docs/guide/own-variant.md");
    for folder in ["newton", "gd"] {
        assert!(place.at(folder).join("index.html").is_file());
    }
}

#[test]
fn which_algorithm() {
    let place = run("docs/guide/which-algorithm.md");
    let printed = blocks(place.page).into_iter().filter(|block| block.info == "text");
    let printed: Vec<String> =
        printed.flat_map(|b| b.text.lines().map(String::from).collect::<Vec<_>>()).collect();
    let answers = printed.iter().filter(|line| line.starts_with("Closest") || line.starts_with("From"));
    for words in answers.map(|line| &**line).chain([
        "Closest is newton, which leaves",
        "Closest is gd:eta=fro, which leaves",
        "it cannot be told from gd:eta=0.02.",
    ]) {
        assert!(place.said.contains(words), "'{words}' is not what is printed: {}", place.said);
    }
    for folder in ["identity", "gram", "gd", "eta", "network", "mine"] {
        assert!(place.at(folder).join("fingerprint.npz").is_file(), "{folder}");
    }
}

#[test]
fn own_pytorch_model() {
    assert!(run("docs/guide/own-pytorch-model.md").at("mine/index.html").is_file());
}

#[test]
fn add_a_solver() {
    assert!(run("docs/guide/add-a-solver.md").at("two/index.html").is_file());
}

#[test]
fn share() {
    let place = run("docs/guide/share.md");
    assert!(place.at("r1-hub/README.md").is_file() && place.at("back.safetensors").is_file());
    assert!(place.said.contains("nothing was sent"), "{}", place.said);
}

#[test]
fn sweeps() {
    assert!(run("docs/guide/sweeps.md").at("miniature/index.html").is_file());
}

#[test]
fn every_page_is_run_and_every_file_it_names_is_there() {
    let here = fs::read_to_string(repository().join("crates/cli/tests/guide/main.rs")).unwrap();
    let mut pages = vec!["README.md".to_string()];
    let entries = fs::read_dir(repository().join("docs/guide")).unwrap();
    pages.extend(entries.map(|entry| format!("docs/guide/{}", entry.unwrap().file_name().display())));
    for page in pages {
        assert!(here.contains(&format!("run(\"{page}\")")), "{page} is not run");
        let path = repository().join(&page);
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let file = link.split('#').next().unwrap();
            let here = file.is_empty() || file.contains("://") || path.parent().unwrap().join(file).exists();
            assert!(here, "{page}: {link}");
        }
    }
}

#[test]
fn the_citation_is_of_this_version_and_of_the_paper() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let (citation, readme) = (read("CITATION.cff"), read("README.md"));
    assert!(citation.starts_with("cff-version: 1.2.0\n") && citation.contains("\npreferred-citation:\n"));
    assert!(citation.contains(&format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"))));
    for word in ["Fu", "Chen", "Jia", "Sharan", "2310.17086", "Second-Order Convergence Rates"] {
        assert!(citation.contains(word) && readme.contains(word), "{word}");
    }
}
