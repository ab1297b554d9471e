//! Writing tensors as one or several safetensors files, whole or not at all.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::json;

use super::error::InterchangeError;
use crate::model::checkpoint::write_whole;
use crate::parts;

/// The index of a sharded model.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// A model in one file.
pub(super) const SINGLE: &str = "model.safetensors";

/// A number of bytes, read from texts such as `500KB`, `14MiB` or `1GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units, largest first.
const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let lower = trimmed.to_ascii_lowercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|&(unit, factor)| Some((lower.strip_suffix(&unit.to_ascii_lowercase())?, factor)))
            .unwrap_or((&lower, 1));
        let number: Option<u64> = digits.trim().parse().ok();
        match number.and_then(|number| number.checked_mul(factor)) {
            Some(bytes) if bytes > 0 => Ok(ByteSize(bytes)),
            _ => Err(format!(
                "`{trimmed}` is no size; accepted: a whole number with B, KB, KiB, MB, MiB, GB or GiB"
            )),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (unit, factor) in UNITS {
            if self.0 > 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// A tensor ready to be written.
pub(super) struct Blob {
    pub name: String,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Blob {
    /// Bytes in a file, at most, with the entry in the header.
    fn cost(&self) -> u64 {
        (self.bytes.len() + self.name.len() + 24 * self.shape.len() + 120) as u64
    }
}

/// Tensors on their way to files.
pub(super) struct Blobs {
    /// `F32` or `F16`.
    pub dtype: &'static str,
    pub list: Vec<Blob>,
    pub metadata: BTreeMap<&'static str, String>,
}

impl Blobs {
    /// Bytes of a header without tensors, at most.
    fn base(&self) -> u64 {
        let texts: usize = self.metadata.iter().map(|(key, value)| 2 * (key.len() + value.len()) + 8).sum();
        texts as u64 + 256
    }

    /// Splits the tensors, in order, into groups whose files have at most `most` bytes.
    fn groups(&self, most: u64) -> Result<Vec<&[Blob]>, InterchangeError> {
        let mut groups = Vec::new();
        let (mut start, mut size) = (0, self.base());
        for (index, blob) in self.list.iter().enumerate() {
            let alone = self.base() + blob.cost();
            if alone > most {
                return Err(InterchangeError::Unsupported(format!(
                    "a file of {most} bytes cannot hold the tensor `{}`; accepted: a shard size of at least {alone}B",
                    blob.name
                )));
            }
            if index > start && size + blob.cost() > most {
                groups.push(&self.list[start..index]);
                (start, size) = (index, self.base());
            }
            size += blob.cost();
        }
        groups.push(&self.list[start..]);
        Ok(groups)
    }

    /// A safetensors file: the length of the header, the header, the values. Written here and not by the crate, whose
    /// metadata come in another order each time: the same network gives the same bytes.
    fn serialize(&self, group: &[Blob]) -> Vec<u8> {
        let mut header = BTreeMap::from([("__metadata__", json!(self.metadata))]);
        let mut end = 0;
        for Blob { name, shape, bytes } in group {
            let start = end;
            end += bytes.len();
            let entry = json!({ "dtype": self.dtype, "shape": shape, "data_offsets": [start, end] });
            header.insert(name, entry);
        }
        let mut text = json!(header).to_string();
        // Values begin at a multiple of 8 bytes.
        text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
        let mut file = (text.len() as u64).to_le_bytes().to_vec();
        file.reserve_exact(text.len() + end);
        file.extend(text.as_bytes());
        group.iter().for_each(|blob| file.extend(&blob.bytes));
        file
    }

    /// Writes one file.
    pub(super) fn write_file(&self, path: &Path, most: Option<u64>) -> Result<u64, InterchangeError> {
        if self.groups(most.unwrap_or(u64::MAX))?.len() > 1 {
            let reason = "one file would be larger than a shard may be; accepted: a folder (a name without .safetensors)";
            return Err(InterchangeError::format(path, reason));
        }
        if path.is_dir() {
            return Err(InterchangeError::format(path, "it is a folder; accepted: the name of a file"));
        }
        let bytes = self.serialize(&self.list);
        write_whole(path, &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Writes a folder: shards and their index, or one file if that suffices, and `extra` files. Returns names and
    /// sizes.
    pub(super) fn write_folder(
        &self,
        folder: &Path,
        most: Option<u64>,
        extra: &[(&str, String)],
    ) -> Result<Vec<(String, u64)>, InterchangeError> {
        let groups = self.groups(most.unwrap_or(u64::MAX))?;
        let part = Part::begin(folder)?;
        let mut written = Vec::new();
        let mut put = |name: &str, bytes: &[u8]| -> Result<(), InterchangeError> {
            part.write(name, bytes).map_err(InterchangeError::io(&folder.join(name), "write"))?;
            written.push((name.to_string(), bytes.len() as u64));
            Ok(())
        };
        for (name, text) in extra {
            put(name, text.as_bytes())?;
        }
        if let [group] = groups[..] {
            put(SINGLE, &self.serialize(group))?;
        } else {
            let mut weight_map = BTreeMap::new();
            for (index, group) in groups.iter().enumerate() {
                let name = format!("model-{:05}-of-{:05}.safetensors", index + 1, groups.len());
                put(&name, &self.serialize(group))?;
                weight_map.extend(group.iter().map(|blob| (blob.name.as_str(), name.clone())));
            }
            let total: usize = self.list.iter().map(|blob| blob.bytes.len()).sum();
            let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
            put(INDEX, format!("{index:#}\n").as_bytes())?;
        }
        part.finish()?;
        Ok(written)
    }
}

/// A folder being filled under a temporary name; removed again unless finished.
struct Part {
    target: PathBuf,
    temporary: parts::Part,
}

impl Part {
    fn begin(target: &Path) -> Result<Self, InterchangeError> {
        let fail = || InterchangeError::io(target, "write");
        if target.exists() {
            let empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
            if !empty {
                let reason =
                    "it exists already and is not an empty folder; accepted: a new name or an empty folder";
                return Err(InterchangeError::format(target, reason));
            }
        }
        if target.file_name().is_none() {
            return Err(InterchangeError::format(
                target,
                "it has no name of its own; accepted: a new folder",
            ));
        }
        Ok(Self { target: target.into(), temporary: parts::folder(target).map_err(fail())? })
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(self.temporary.path.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn finish(self) -> Result<(), InterchangeError> {
        let fail = || InterchangeError::io(&self.target, "write");
        let sync = |folder: &Path| File::open(folder).map_or(Ok(()), |folder| folder.sync_all());
        sync(&self.temporary.path).map_err(fail())?;
        if self.target.is_dir() {
            fs::remove_dir(&self.target).map_err(fail())?; // it was empty
        }
        fs::rename(&self.temporary.path, &self.target).map_err(fail())?;
        let parent = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new("."))).map_err(fail())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a rename nothing is left to remove.
        let _ = fs::remove_dir_all(&self.temporary.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units() {
        for (text, bytes) in
            [("500KB", 500_000), ("14MiB", 14 << 20), ("1GB", 1_000_000_000), ("7", 7), (" 2 kib", 2048)]
        {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size, ByteSize(bytes));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["", "MB", "0", "-1KB", "1.5GB", "99999999999GiB", "12 parsecs"] {
            assert!(text.parse::<ByteSize>().unwrap_err().contains("accepted"), "{text}");
        }
    }
}
