//! Findings kept from one run to the next, so that an interrupted run goes on and a changed input costs only what rests on it.
//!
//! ```text
//! .iclab/cache/build-0123456789abcdef/   a folder per build of this program: other code may find something else
//!   F26-0123456789abcdef.json            what was asked and a checksum on the first line, the findings on the second
//! ```
//!
//! Nothing in here is ever needed: what is missing, damaged or of another question is measured again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use engine::hash::{checksum, stable_id};
use engine::model::checkpoint::write_whole;
use serde::{Deserialize, Serialize};

use crate::analyses::Analysis;
use crate::findings::Findings;
use crate::networks::evaluation;
use crate::networks::models::{Models, NETWORKS};
use crate::program::Program;

/// Where findings are kept when nobody says where.
pub const CACHE: &str = ".iclab/cache";
/// Builds whose findings stay.
const BUILDS: usize = 4;

/// All that the findings of an analysis follow from, beside the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    analysis: String,
    seed: u64,
    prompts: usize,
    /// Digest of every network that it may ask.
    networks: BTreeMap<String, String>,
    /// Where these are evaluated: devices round differently.
    device: String,
}

#[derive(Serialize, Deserialize)]
struct Head {
    question: Question,
    checksum: String,
}

/// Digests of networks, each taken once.
pub struct Digests {
    models: Models,
    known: BTreeMap<&'static str, Option<String>>,
}

impl Digests {
    /// Of these networks.
    pub fn of(models: Models) -> Digests {
        Digests { models, known: BTreeMap::new() }
    }

    /// What the findings of an analysis follow from.
    pub fn question(&mut self, analysis: &Analysis, seed: u64, prompts: usize) -> Question {
        let asked = NETWORKS.iter().filter(|network| analysis.may_ask(network.name));
        let mut networks = BTreeMap::new();
        for network in asked {
            let known = self.known.entry(network.name);
            let digest = known.or_insert_with(|| self.models.digest(network.name));
            networks.extend(digest.clone().map(|digest| (network.name.to_string(), digest)));
        }
        let device = if networks.is_empty() { String::new() } else { evaluation::device().name() };
        Question { analysis: analysis.id.to_string(), seed, prompts, networks, device }
    }

    /// Takes them anew: read-outs are saved beside a network when it is first asked.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

/// A folder of findings.
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// The findings of this very program under `root`; `None` when the program cannot be read.
    pub fn under(root: &Path) -> Option<Cache> {
        let build = checksum(&Program::running().ok()?.code().ok()?);
        Some(Cache { dir: root.join(format!("build-{}", &build[..16])) })
    }

    fn path(&self, question: &Question) -> PathBuf {
        let text = serde_json::to_string(question).expect("plain data");
        self.dir.join(format!("{}-{:016x}.json", question.analysis, stable_id(&text)))
    }

    /// What was found before, if it is there and whole.
    pub fn get(&self, question: &Question) -> Option<Findings> {
        let text = fs::read_to_string(self.path(question)).ok()?;
        let (head, body) = text.split_once('\n')?;
        let head: Head = serde_json::from_str(head).ok()?;
        if head.question != *question || head.checksum != checksum(body.as_bytes()) {
            return None;
        }
        let found: Findings = serde_json::from_str(body).ok()?;
        (found.analysis == question.analysis && found.is_sound()).then_some(found)
    }

    /// Keeps findings. Where that cannot be done the next run only takes longer, so nobody is told.
    pub fn put(&self, question: &Question, found: &Findings) {
        let new = !self.dir.exists();
        if fs::create_dir_all(&self.dir).is_err() {
            return;
        }
        if new {
            self.tidy();
        }
        let body = serde_json::to_string(found).expect("findings are plain data");
        let head = Head { question: question.clone(), checksum: checksum(body.as_bytes()) };
        let head = serde_json::to_string(&head).expect("plain data");
        let _ = write_whole(&self.path(question), format!("{head}\n{body}").as_bytes());
    }

    /// Removes the findings of all but the newest builds; folders with other names are not ours.
    fn tidy(&self) {
        let Some(root) = self.dir.parent() else { return };
        let ours = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let digits = name.strip_prefix("build-").unwrap_or_default();
            digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()) && path != self.dir
        };
        let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut builds: Vec<_> = entries
            .filter(|path| ours(path))
            .map(|path| (path.metadata().and_then(|m| m.modified()).ok(), path))
            .collect();
        builds.sort();
        for (_, old) in builds.iter().rev().skip(BUILDS - 1) {
            let _ = fs::remove_dir_all(old);
        }
    }
}
