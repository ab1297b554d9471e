//! NumPy's .npz files: a zip of .npy arrays. Read with every claim of a header checked against the bytes that
//! are there, so that a damaged or foreign file gives a sentence and never a large allocation.

use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use ndarray::{Array2, Array3};
use zip::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::learners::Trajectory;

/// Most bytes of one array that is read: 4 GiB.
const LARGEST: u64 = 4 << 30;

/// One array, numbers as float64.
#[derive(Debug)]
pub struct Array {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers in C order.
    pub values: Vec<f64>,
}

/// A file that was opened for reading.
pub struct Reader<'a> {
    path: &'a Path,
    zip: ZipArchive<File>,
}

impl<'a> Reader<'a> {
    /// Opens a file and reads its table of contents.
    pub fn open(path: &'a Path) -> Result<Reader<'a>> {
        let file = File::open(path).map_err(Error::file("read", path))?;
        let zip = ZipArchive::new(file).map_err(|e| {
            Error::content(path, format!("not a readable .npz file ({e}); accepted: what numpy.savez writes"))
        })?;
        Ok(Reader { path, zip })
    }

    /// Reads an array of the given number of axes.
    pub fn array(&mut self, name: &str, axes: &[&str]) -> Result<Array> {
        let array = self.any_array(name)?;
        if array.shape.len() != axes.len() {
            let why = format!(
                "array '{name}' has shape {:?}; accepted: {} axes [{}]",
                array.shape,
                axes.len(),
                axes.join(", ")
            );
            return Err(Error::content(self.path, why));
        }
        Ok(array)
    }

    fn any_array(&mut self, name: &str) -> Result<Array> {
        let entry = format!("{name}.npy");
        let mut names: Vec<String> =
            self.zip.file_names().flatten().map(|n| n.trim_end_matches(".npy").to_string()).collect();
        names.sort();
        if !names.iter().any(|n| n == name) {
            let why = format!("has no array '{name}'; it holds: {}", names.join(", "));
            return Err(Error::content(self.path, why));
        }
        let bad = |why: String| Error::content(self.path, format!("array '{name}' {why}"));
        let file = self.zip.by_name(&entry).map_err(|e| bad(format!("cannot be opened: {e}")))?;
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| bad(format!("is damaged: {e}")))?;
        if bytes.len() as u64 > LARGEST {
            return Err(bad("is larger than 4 GiB".into()));
        }
        parse(&bytes).map_err(bad)
    }
}

/// Reads the .npy format, versions 1 to 3.
fn parse(bytes: &[u8]) -> Result<Array, String> {
    let damaged = || "is truncated or not in .npy format".to_string();
    if bytes.len() < 12 || &bytes[..6] != b"\x93NUMPY" {
        return Err(damaged());
    }
    let (length, start): (usize, usize) = if bytes[6] == 1 {
        (u16::from_le_bytes([bytes[8], bytes[9]]) as usize, 10)
    } else {
        (u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize, 12)
    };
    let header = bytes.get(start..start.saturating_add(length)).ok_or_else(damaged)?;
    let header = std::str::from_utf8(header).map_err(|_| damaged())?;
    let field = |key: &str| {
        header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start()).ok_or_else(damaged)
    };
    let kind = field("descr")?.trim_start_matches('\'').split('\'').next().unwrap_or_default().to_string();
    let fortran = field("fortran_order")?.starts_with("True");
    let inside = field("shape")?.trim_start_matches('(').split(')').next().unwrap_or_default();
    let shape: Vec<usize> = inside
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_err(|_| damaged()))
        .collect::<Result<_, String>>()?;
    if fortran && shape.len() > 1 {
        return Err("is stored in Fortran order; accepted: C order (numpy.ascontiguousarray)".into());
    }
    let data = &bytes[start + length..];
    let count = shape.iter().try_fold(1usize, |n, s| n.checked_mul(*s)).ok_or_else(damaged)?;
    let values = numbers(&kind, data)?;
    if values.len() != count {
        return Err(format!(
            "has shape {shape:?}, {count} numbers, but holds {}: it is truncated or damaged",
            values.len()
        ));
    }
    Ok(Array { shape, values })
}

fn numbers(kind: &str, data: &[u8]) -> Result<Vec<f64>, String> {
    fn each<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        data.as_chunks::<N>().0.iter().map(|bytes| read(*bytes)).collect()
    }
    Ok(match kind {
        "<f8" => each(data, f64::from_le_bytes),
        "<f4" => each(data, |b| f64::from(f32::from_le_bytes(b))),
        "<i8" => each(data, |b| i64::from_le_bytes(b) as f64),
        "<u8" => each(data, |b| u64::from_le_bytes(b) as f64),
        "<i4" => each(data, |b| f64::from(i32::from_le_bytes(b))),
        "<u4" => each(data, |b| f64::from(u32::from_le_bytes(b))),
        _ => {
            return Err(format!(
                "has dtype '{kind}'; accepted: float64, float32, int64, int32 (little-endian)"
            ));
        }
    })
}

/// What an array to be written holds.
pub enum Values<'a> {
    /// float64
    Real(&'a [f64]),
    /// uint64
    Whole(&'a [u64]),
}

/// Writes arrays (name, shape, values in C order) to a file that appears complete or not at all.
pub fn write(path: &Path, arrays: &[(&str, &[usize], Values)]) -> Result<()> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed time stamp: the same arrays give the same bytes.
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .large_file(true);
    let failed = |e: std::io::Error| Error::File { action: "write", path: path.into(), source: e };
    for (name, shape, values) in arrays {
        zip.start_file(format!("{name}.npy"), options).map_err(|e| failed(e.into()))?;
        let (kind, bytes): (&str, Vec<u8>) = match values {
            Values::Real(v) => ("<f8", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Values::Whole(v) => ("<u8", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        zip.write_all(&header(kind, shape)).and_then(|()| zip.write_all(&bytes)).map_err(failed)?;
    }
    let bytes = zip.finish().map_err(|e| failed(e.into()))?.into_inner();
    if path.is_dir() {
        return Err(Error::content(path, "is a directory; accepted: the name of a file"));
    }
    Ok(engine::model::checkpoint::write_whole(path, &bytes)?)
}

/// Reads prompts from `xs` `[b,n,d]` and `ys` `[b,n]`.
pub fn read_prompts(path: &Path) -> Result<Prompts> {
    let mut reader = Reader::open(path)?;
    let xs = reader.array("xs", &["prompt", "point", "dimension"])?;
    let ys = reader.array("ys", &["prompt", "point"])?;
    let bad = |e: String| Error::content(path, e);
    let xs = Array3::from_shape_vec((xs.shape[0], xs.shape[1], xs.shape[2]), xs.values)
        .map_err(|e| bad(e.to_string()))?;
    let ys = Array2::from_shape_vec((ys.shape[0], ys.shape[1]), ys.values).map_err(|e| bad(e.to_string()))?;
    Prompts::new(xs, ys).map_err(|e| bad(e.to_string()))
}

/// Writes prompts as `xs` `[b,n,d]` and `ys` `[b,n]`.
pub fn write_prompts(path: &Path, prompts: &Prompts) -> Result<()> {
    let (b, n, d) = prompts.xs.dim();
    let slice = "prompts are stored in standard layout";
    write(
        path,
        &[
            ("xs", &[b, n, d], Values::Real(prompts.xs.as_slice().expect(slice))),
            ("ys", &[b, n], Values::Real(prompts.ys.as_slice().expect(slice))),
        ],
    )
}

/// Writes predictions as `steps` `[s]`, `values` `[s,b,n]` and `diverged` `[s]`, the number of prompts left for good at each step.
pub fn write_predictions(path: &Path, found: &Trajectory) -> Result<()> {
    let (s, b, n) = found.values.dim();
    let diverged: Vec<u64> = found.outcomes.iter().map(|o| o.diverged as u64).collect();
    write(
        path,
        &[
            ("steps", &[s], Values::Whole(found.steps.as_slice())),
            ("values", &[s, b, n], Values::Real(found.values.as_slice().expect("standard layout"))),
            ("diverged", &[s], Values::Whole(&diverged)),
        ],
    )
}

fn header(kind: &str, shape: &[usize]) -> Vec<u8> {
    let shape: String = shape.iter().map(|s| format!("{s},")).collect();
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Padded so that the data begins at a multiple of 64 bytes.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{text:<width$}\n", width = length - 1).bytes());
    bytes
}
