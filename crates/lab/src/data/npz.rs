//! NumPy's .npz files: a zip of .npy arrays. Every claim of a header is checked against the bytes that are there before
//! [`ndarray_npy`] reads them, so that a damaged or foreign file gives a sentence and never a large allocation.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use engine::interchange::open_zip;
use ndarray::{Array, Array1, ArrayD, ArrayViewD, Dimension, Ix1, Ix2, Ix3};
use ndarray_npy::npy::header::Header;
use ndarray_npy::{ReadNpyExt, ReadableElement, WriteNpyError, WriteNpyExt};
use zip::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::learners::Trajectory;

/// Most bytes of one array that is read: 4 GiB.
const LARGEST: u64 = 4 << 30;
/// What an array may unpack to in a file of any size, and how many times the file's size beyond that: numbers that were
/// measured hardly shrink, and a megabyte of zeros that become a gigabyte are no data.
const SMALL: u64 = 64 << 20;
const GROWTH: u64 = 256;
/// Most bytes of a header: NumPy itself reads no longer ones.
const LONGEST_HEADER: usize = 10_000;

/// A file that was opened for reading.
pub struct Reader<'a> {
    path: &'a Path,
    zip: ZipArchive<File>,
    /// Most bytes that an array may unpack to.
    most: u64,
}

impl<'a> Reader<'a> {
    /// Opens a file and reads its table of contents.
    pub fn open(path: &'a Path) -> Result<Reader<'a>> {
        let file = File::open(path).map_err(Error::file("read", path))?;
        let length = file.metadata().map_err(Error::file("read", path))?.len();
        let zip = open_zip(file).map_err(|e| {
            Error::content(path, format!("not a readable .npz file ({e}); accepted: what numpy.savez writes"))
        })?;
        Ok(Reader { path, zip, most: length.saturating_mul(GROWTH).clamp(SMALL, LARGEST) })
    }

    /// Reads an array as float64, in C order; `axes` names its axes, as many as `D` has.
    pub fn array<D: Dimension>(&mut self, name: &str, axes: &[&str]) -> Result<Array<f64, D>> {
        let array = self.any_array(name)?;
        let shape = array.shape().to_vec();
        array.into_dimensionality().map_err(|_| {
            let (count, axes) = (axes.len(), axes.join(", "));
            let why = format!("array '{name}' has shape {shape:?}; accepted: {count} axes [{axes}]");
            Error::content(self.path, why)
        })
    }

    /// Whether there is an array of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().iter().any(|n| n == name)
    }

    /// Reads whole numbers `[n]` of 64 bits as they are, which float64 could not hold.
    pub fn bits(&mut self, name: &str) -> Result<Vec<u64>> {
        let shape = self.array::<Ix1>(name, &["prompt"])?.dim();
        let bytes = self.bytes(name)?;
        let unsigned = Array1::<u64>::read_npy(&bytes[..]).map(|found| found.to_vec());
        let signed = || Array1::<i64>::read_npy(&bytes[..]).map(|found| found.mapv(|v| v as u64).to_vec());
        unsigned.or_else(|_| signed()).map_err(|_| {
            let why = format!(
                "array '{name}' of {shape} numbers is not whole; accepted: dtype uint64, as it was read"
            );
            Error::content(self.path, why)
        })
    }

    fn names(&self) -> Vec<String> {
        let names = self.zip.file_names().flatten().map(|n| n.trim_end_matches(".npy").to_string());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn any_array(&mut self, name: &str) -> Result<ArrayD<f64>> {
        let bytes = self.bytes(name)?;
        parse(&bytes).map_err(|why| Error::content(self.path, format!("array '{name}' {why}")))
    }

    /// The bytes of an array's .npy, if there are not too many.
    fn bytes(&mut self, name: &str) -> Result<Vec<u8>> {
        let entry = format!("{name}.npy");
        let names = self.names();
        if !names.iter().any(|n| n == name) {
            let why = format!("has no array '{name}'; it holds: {}", names.join(", "));
            return Err(Error::content(self.path, why));
        }
        let bad = |why: String| Error::content(self.path, format!("array '{name}' {why}"));
        let file = self.zip.by_name(&entry).map_err(|e| bad(format!("cannot be opened: {e}")))?;
        let most = self.most;
        let large =
            || bad(format!("unpacks to more than {} MiB; accepted: at most that of such a file", most >> 20));
        if file.size() > most {
            return Err(large());
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(|e| bad(format!("is damaged: {e}")))?;
        if bytes.len() as u64 > most {
            return Err(large());
        }
        Ok(bytes)
    }
}

/// Whether brackets are nested deeper than in any header: the time to parse them doubles with each.
fn too_deep(header: &[u8]) -> bool {
    const DEEPEST: i32 = 4;
    let mut depth = 0;
    header.iter().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        depth > DEEPEST
    })
}

/// Reads the .npy format.
fn parse(bytes: &[u8]) -> Result<ArrayD<f64>, String> {
    let damaged = || "is truncated or not in .npy format".to_string();
    // Byte 6 is the version; the length of the header follows in two bytes, from version 2 on in four.
    let length = match bytes {
        [_, _, _, _, _, _, 1, _, low, high, ..] => usize::from(u16::from_le_bytes([*low, *high])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => return Err(damaged()),
    };
    if bytes.starts_with(b"\x93NUMPY") && length > LONGEST_HEADER {
        return Err(format!("has a header of {length} bytes; accepted: at most {LONGEST_HEADER}"));
    }
    if too_deep(&bytes[..bytes.len().min(12 + length)]) {
        return Err(damaged());
    }
    let mut data = bytes;
    let header = Header::from_reader(&mut data).map_err(|_| damaged())?;
    let kind = header.type_descriptor.to_string();
    let kind = kind.trim_matches('\'').trim_start_matches(['<', '>']);
    let (read, size): (fn(&[u8]) -> _, usize) = match kind {
        "f8" => (|bytes| numbers(bytes, |v: f64| v), 8),
        "f4" => (|bytes| numbers(bytes, |v: f32| v.into()), 4),
        "i8" => (|bytes| numbers(bytes, |v: i64| v as f64), 8),
        "u8" => (|bytes| numbers(bytes, |v: u64| v as f64), 8),
        "i4" => (|bytes| numbers(bytes, |v: i32| v.into()), 4),
        "u4" => (|bytes| numbers(bytes, |v: u32| v.into()), 4),
        _ => {
            let accepted = "float64, float32, int64, int32, uint64, uint32";
            return Err(format!("has dtype {}; accepted: {accepted}", header.type_descriptor));
        }
    };
    let count = header.shape.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
    if count.and_then(|count| count.checked_mul(size)) != Some(data.len()) {
        let (shape, held) = (&header.shape, data.len() / size);
        return Err(format!("has shape {shape:?}, but holds {held} numbers: it is truncated or damaged"));
    }
    read(bytes)
}

fn numbers<T: ReadableElement + Clone>(bytes: &[u8], as_f64: fn(T) -> f64) -> Result<ArrayD<f64>, String> {
    let array = ArrayD::<T>::read_npy(bytes).map_err(|e| format!("is damaged: {e}"))?;
    Ok(array.as_standard_layout().mapv(as_f64))
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
    let shaped = "as many values as the shape says";
    for (name, shape, values) in arrays {
        zip.start_file(format!("{name}.npy"), options).map_err(|e| failed(e.into()))?;
        let written = match values {
            Values::Real(v) => ArrayViewD::from_shape(*shape, v).expect(shaped).write_npy(&mut zip),
            Values::Whole(v) => ArrayViewD::from_shape(*shape, v).expect(shaped).write_npy(&mut zip),
        };
        written.map_err(|e| match e {
            WriteNpyError::Io(e) => failed(e),
            e => failed(std::io::Error::other(e)),
        })?;
    }
    let bytes = zip.finish().map_err(|e| failed(e.into()))?.into_inner();
    if path.is_dir() {
        return Err(Error::content(path, "is a directory; accepted: the name of a file"));
    }
    Ok(engine::model::checkpoint::write_whole(path, &bytes)?)
}

/// The array that says which prompts a file is about: [`Prompts::digest`].
pub const DIGEST: &str = "fingerprint";

/// Reads prompts from `xs` `[b,n,d]` and `ys` `[b,n]`; a `fingerprint` `[b]` must be theirs.
pub fn read_prompts(path: &Path) -> Result<Prompts> {
    let mut reader = Reader::open(path)?;
    let xs = reader.array::<Ix3>("xs", &["prompt", "point", "dimension"])?;
    let ys = reader.array::<Ix2>("ys", &["prompt", "point"])?;
    let prompts = Prompts::new(xs, ys).map_err(|e| Error::content(path, e.to_string()))?;
    if reader.has(DIGEST) && reader.bits(DIGEST)? != prompts.digest() {
        let why = "array 'fingerprint' belongs to other prompts than 'xs' and 'ys'; accepted: that of iclab sample, or \
                   none where the prompts were changed";
        return Err(Error::content(path, why));
    }
    Ok(prompts)
}

/// Writes prompts as `xs` `[b,n,d]`, `ys` `[b,n]` and `fingerprint` `[b]`.
pub fn write_prompts(path: &Path, prompts: &Prompts) -> Result<()> {
    let (b, n, d) = prompts.xs.dim();
    let slice = "prompts are stored in standard layout";
    let digest = prompts.digest();
    write(
        path,
        &[
            ("xs", &[b, n, d], Values::Real(prompts.xs.as_slice().expect(slice))),
            ("ys", &[b, n], Values::Real(prompts.ys.as_slice().expect(slice))),
            (DIGEST, &[b], Values::Whole(&digest)),
        ],
    )
}

/// Writes predictions for `prompts` as `steps` `[s]`, `values` `[s,b,n]`, `diverged` `[s]`, the number of prompts left for good
/// at each step, and the prompts' `fingerprint` `[b]`.
pub fn write_predictions(path: &Path, found: &Trajectory, prompts: &Prompts) -> Result<()> {
    let (s, b, n) = found.values.dim();
    let diverged: Vec<u64> = found.outcomes.iter().map(|o| o.diverged as u64).collect();
    write(
        path,
        &[
            ("steps", &[s], Values::Whole(found.steps.as_slice())),
            ("values", &[s, b, n], Values::Real(found.values.as_slice().expect("standard layout"))),
            ("diverged", &[s], Values::Whole(&diverged)),
            (DIGEST, &[b], Values::Whole(&prompts.digest())),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let length = &(header.len() as u32).to_le_bytes()[..if version == 1 { 2 } else { 4 }];
        [b"\x93NUMPY", &[version, 0][..], length, header.as_bytes(), data].concat()
    }

    fn header(kind: &str, fortran: &str, shape: &str) -> String {
        format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
    }

    #[test]
    fn every_number_and_order_becomes_float64_in_c_order() {
        let bytes = |values: &[[u8; 8]]| values.concat();
        let cases = [
            ("<f8", bytes(&[1, 2, 3, 4].map(|v| f64::to_le_bytes(v.into())))),
            (">f8", bytes(&[1, 2, 3, 4].map(|v| f64::to_be_bytes(v.into())))),
            ("<i8", bytes(&[1i64, 2, 3, 4].map(i64::to_le_bytes))),
            ("<u8", bytes(&[1u64, 2, 3, 4].map(u64::to_le_bytes))),
            ("<f4", [1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()),
            ("<i4", [1i32, 2, 3, 4].map(i32::to_le_bytes).concat()),
            ("<u4", [1u32, 2, 3, 4].map(u32::to_le_bytes).concat()),
        ];
        for (kind, data) in &cases {
            for version in [1, 2, 3] {
                let found = parse(&npy(version, &header(kind, "False", "(2, 2)"), data)).unwrap();
                assert_eq!(found.as_slice(), Some(&[1.0, 2.0, 3.0, 4.0][..]), "{kind}");
            }
            let turned = parse(&npy(1, &header(kind, "True", "(2, 2)"), data)).unwrap();
            assert_eq!(turned.as_slice(), Some(&[1.0, 3.0, 2.0, 4.0][..]), "{kind}");
        }
    }

    #[test]
    fn hostile_arrays_give_a_sentence() {
        let nested = format!("{}{}", "(".repeat(4_000), ")".repeat(4_000));
        let good = npy(1, &header("<f8", "False", "(2,)"), &[0; 16]);
        let mut foreign = good.clone();
        foreign[0] = b'x';
        for (bytes, word) in [
            (vec![], "truncated"),
            (b"\x93NUMPY\x01".to_vec(), "truncated"),
            (foreign, "not in .npy format"),
            (good[..30].to_vec(), "truncated"),
            (good[..good.len() - 1].to_vec(), "holds 1 numbers"),
            ([&good[..], &[0; 8]].concat(), "holds 3 numbers"),
            (npy(1, &header("<f8", "False", "(100000000000,)"), &[0; 16]), "holds 2 numbers"),
            (npy(1, &header("<f8", "False", "(4294967296, 4294967296)"), &[]), "truncated"),
            (npy(1, &header("<f8", "False", &nested), &[]), "not in .npy format"),
            (npy(2, &header("<f8", "False", &"(".repeat(20_000)), &[]), "at most 10000"),
            ([b"\x93NUMPY\x02\x00\xff\xff\xff\xff", &[0; 99][..]].concat(), "at most 10000"),
            (npy(1, &header("<c16", "False", "(1,)"), &[0; 16]), "float64, float32, int64"),
            (npy(1, &header("|O", "False", "(1,)"), &[0; 16]), "dtype '|O'"),
            (npy(1, "[('a', '<f8')]\n", &[0; 16]), "not in .npy format"),
        ] {
            let sentence = parse(&bytes).unwrap_err();
            assert!(sentence.contains(word) && sentence.lines().count() == 1, "{word}: {sentence}");
        }
    }

    #[test]
    fn files_name_what_is_wrong_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        write(&path, &[("xs", &[2, 1], Values::Real(&[1.0, 2.0])), ("n", &[1], Values::Whole(&[7]))])
            .unwrap();
        let whole = std::fs::read(&path).unwrap();
        write(&path, &[("xs", &[2, 1], Values::Real(&[1.0, 2.0])), ("n", &[1], Values::Whole(&[7]))])
            .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole, "the same arrays give the same bytes");
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(reader.array::<Ix2>("xs", &["a", "b"]).unwrap().as_slice(), Some(&[1.0, 2.0][..]));
        let said = |error: Error| error.to_string();
        let sentence = said(reader.array::<Ix3>("xs", &["a", "b", "c"]).unwrap_err());
        assert!(sentence.contains("[2, 1]") && sentence.contains("3 axes [a, b, c]"), "{sentence}");
        let sentence = said(reader.array::<Ix3>("ys", &[]).unwrap_err());
        assert!(sentence.contains("has no array 'ys'; it holds: n, xs"), "{sentence}");
        File::create(&path).unwrap().write_all(&whole[..whole.len() / 2]).unwrap();
        assert!(said(Reader::open(&path).map(drop).unwrap_err()).contains("numpy.savez"));
    }
}
