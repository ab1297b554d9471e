//! What a network's folder holds, as one short text: results that rest on it are worth keeping while it stays the same.

use std::path::PathBuf;

use engine::hash::checksum;

use super::{Models, files_under};
use crate::parallel;

impl Models {
    /// 64 hex digits that change with any plan, card or tensor in the folder of a network; `None` where it is not there or
    /// cannot be read.
    pub fn digest(&self, name: &str) -> Option<String> {
        let dir = self.directory(name);
        if !self.is_here(name) {
            return None;
        }
        let mut files = files_under(&dir).ok()?;
        // what training writes besides changes no result
        files.retain(|path| path.extension().is_some_and(|e| e == "toml" || e == "safetensors"));
        files.sort();
        let mark = |path: &PathBuf| -> Option<String> {
            let bytes = std::fs::read(path).ok()?;
            let name = path.strip_prefix(&dir).ok()?.to_string_lossy().into_owned();
            Some(format!("{name} {}\n", checksum(&bytes)))
        };
        let marks: Vec<String> = parallel::map_items(&files, mark).into_iter().collect::<Option<_>>()?;
        Some(checksum(marks.concat().as_bytes()))
    }
}
