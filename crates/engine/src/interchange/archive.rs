//! The zip archive that `torch.save` writes: one pickle, and one file per storage.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::read::Config;
use zip::result::{ZipError, ZipResult};
use zip::unstable::read::ZipIterable;

use super::error::{InterchangeError, short};
use super::pickle;

/// What a file may unpack to, beyond a multiple of its own size.
const SLACK: u64 = 1 << 20;
/// How many times its own size a file may unpack to.
const GROWTH: u64 = 4;
/// The beginning of a checkpoint from before PyTorch 1.6: a pickle of its magic number.
const LEGACY: [u8; 5] = [0x80, 0x02, 0x8a, 0x0a, 0x6c];

/// Opens a zip archive whose directory is whole.
///
/// `ZipArchive` reserves a table for as many members as the archive claims, over a hundred bytes for every byte of a hostile file;
/// walking through the directory first costs nothing and ends at the first member that is not there.
pub fn open_zip<R: Read + Seek>(mut reader: R) -> ZipResult<ZipArchive<R>> {
    let mut directory = ZipIterable::try_new(&mut reader, Config::default())?;
    directory.files()?.try_for_each(|member| member.map(|_| ()))?;
    ZipArchive::new(reader)
}

/// An open archive.
pub(super) struct Archive<R> {
    path: PathBuf,
    zip: ZipArchive<R>,
    folder: String,
    length: u64,
    budget: u64,
    /// Whether numbers in storages are big-endian.
    pub big: bool,
}

impl<R: Read + Seek> Archive<R> {
    /// Opens an archive and finds its parts; `path` is for messages.
    pub(super) fn open(path: &Path, mut reader: R) -> Result<Self, InterchangeError> {
        let io = || InterchangeError::io(path, "read");
        let length = reader.seek(SeekFrom::End(0)).map_err(io())?;
        reader.seek(SeekFrom::Start(0)).map_err(io())?;
        let mut start = Vec::new();
        reader.by_ref().take(LEGACY.len() as u64).read_to_end(&mut start).map_err(io())?;
        let format = |reason: String| InterchangeError::format(path, reason);
        if start == LEGACY {
            let reason = "it has the format of before PyTorch 1.6; accepted: the zip format (load it and save it \
                          again with torch.save in PyTorch 1.6 or later)";
            return Err(format(reason.into()));
        }
        if !start.starts_with(b"PK") {
            let reason = "it is no PyTorch checkpoint: the zip archive that torch.save writes begins with PK";
            return Err(format(reason.into()));
        }
        let zip = open_zip(reader).map_err(|error| format(damage(error)))?;
        const PICKLE: &str = "data.pkl";
        let mut folder: Option<String> = None;
        for name in zip.file_names() {
            // A name that is not text belongs to nothing that torch.save wrote.
            let Ok(name) = name else { continue };
            if let Some(found) = name.strip_suffix(PICKLE)
                && (found.is_empty() || found.ends_with('/'))
                && folder.as_deref().is_none_or(|folder| (found.len(), found) < (folder.len(), folder))
            {
                folder = Some(found.to_string());
            }
        }
        let Some(folder) = folder else {
            return Err(format("the zip archive holds no data.pkl, so torch.save did not write it".into()));
        };
        let budget = length.saturating_mul(GROWTH).saturating_add(SLACK);
        let mut archive = Self { path: path.into(), zip, folder, length, budget, big: false };
        archive.big = match archive.member("byteorder", 64)?.as_deref() {
            None | Some(b"little") => false,
            Some(b"big") => true,
            Some(_) => return Err(format("its byteorder is neither little nor big".into())),
        };
        Ok(archive)
    }

    /// The most values that the file can hold.
    pub(super) fn most_values(&self) -> u64 {
        self.length.saturating_add(SLACK / 4)
    }

    /// The pickle.
    pub(super) fn pickle(&mut self) -> Result<Vec<u8>, InterchangeError> {
        Ok(self.member("data.pkl", pickle::MOST_BYTES as u64)?.unwrap_or_default())
    }

    /// The bytes of a storage; nothing if it is not there.
    pub(super) fn storage(&mut self, key: &str) -> Result<Option<Vec<u8>>, InterchangeError> {
        self.member(&format!("data/{key}"), u64::MAX)
    }

    /// A member of the archive, at most so many bytes long.
    fn member(&mut self, name: &str, most: u64) -> Result<Option<Vec<u8>>, InterchangeError> {
        let path = &self.path;
        let fail = |reason: String| {
            Err(InterchangeError::format(path, format!("`{}` in the archive {reason}", short(name))))
        };
        let member = match self.zip.by_name(&format!("{}{name}", self.folder)) {
            Ok(member) => member,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return fail(format!("cannot be read: {}", damage(error))),
        };
        let limit = most.min(self.budget);
        if member.size() > limit {
            return fail(format!("says that it has {} bytes; accepted: at most {limit}", member.size()));
        }
        let mut bytes = Vec::with_capacity(member.size().min(self.length) as usize);
        if let Err(error) = member.take(limit + 1).read_to_end(&mut bytes) {
            return fail(format!("cannot be read: {error}"));
        }
        if bytes.len() as u64 > limit {
            return fail(format!("has more than {limit} bytes"));
        }
        self.budget -= bytes.len() as u64;
        Ok(Some(bytes))
    }
}

/// A zip error in words.
fn damage(error: ZipError) -> String {
    match error {
        ZipError::InvalidArchive(_) => format!("the zip archive is damaged or cut off ({error})"),
        error => error.to_string(),
    }
}
