//! Builds checkpoints by hand, right or wrong.

use std::io::{Cursor, Write};
use std::path::Path;

use engine::interchange::{Imported, InterchangeError, pt};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// An archive of named members, not compressed.
pub fn zip(members: &[(impl AsRef<str>, impl AsRef<[u8]>)]) -> Vec<u8> {
    pack(members, CompressionMethod::Stored)
}

/// An archive with a compression.
pub fn pack(members: &[(impl AsRef<str>, impl AsRef<[u8]>)], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in members {
        writer.start_file(name.as_ref(), options).unwrap();
        writer.write_all(bytes.as_ref()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A text in a pickle.
pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A whole number in a pickle.
pub fn int(number: i64) -> Vec<u8> {
    [&[0x8a, 8][..], &number.to_le_bytes()].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

/// A tensor of a state dict.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub class: &'static str,
    pub key: String,
    pub elements: i64,
    pub offset: i64,
    pub shape: Vec<i64>,
    pub stride: Vec<i64>,
    /// Bytes stored for it.
    pub bytes: usize,
}

impl Tensor {
    /// A whole float32 tensor of ones with a storage of its own.
    pub fn float(name: &str, shape: &[i64]) -> Self {
        let elements: i64 = shape.iter().product();
        let mut stride = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            stride[axis - 1] = stride[axis] * shape[axis];
        }
        let (name, class, key) = (name.to_string(), "FloatStorage", name.to_string());
        Self {
            name,
            class,
            key,
            elements,
            offset: 0,
            shape: shape.to_vec(),
            stride,
            bytes: 4 * elements as usize,
        }
    }

    /// The tensor in a pickle.
    pub fn pickle(&self) -> Vec<u8> {
        let class = format!("ctorch\n{}\n", self.class).into_bytes();
        let id = tuple(&[text("storage"), class, text(&self.key), text("cpu"), int(self.elements)]);
        let sizes = |list: &[i64]| tuple(&list.iter().map(|&size| int(size)).collect::<Vec<_>>());
        let storage = [&id[..], b"Q"].concat();
        let arguments =
            tuple(&[storage, int(self.offset), sizes(&self.shape), sizes(&self.stride), vec![0x89]]);
        [b"ctorch._utils\n_rebuild_tensor_v2\n", &arguments[..], b"R"].concat()
    }
}

/// A small LSTM.
pub fn lstm() -> Vec<Tensor> {
    let mut list = vec![Tensor::float("_read_in.weight", &[3, 2]), Tensor::float("_read_in.bias", &[3])];
    for (name, shape) in
        [("weight_ih", &[12, 3][..]), ("weight_hh", &[12, 3]), ("bias_ih", &[12]), ("bias_hh", &[12])]
    {
        list.push(Tensor::float(&format!("_backbone.{name}_l0"), shape));
    }
    list.extend([Tensor::float("_read_out.weight", &[1, 3]), Tensor::float("_read_out.bias", &[1])]);
    list
}

/// A checkpoint with these tensors.
pub fn checkpoint(state: &[Tensor]) -> Vec<u8> {
    let items: Vec<u8> = state.iter().flat_map(|t| [text(&t.name), t.pickle()].concat()).collect();
    let pickle = [b"\x80\x02}(", &items[..], b"u."].concat();
    let mut members = vec![("archive/data.pkl".to_string(), pickle)];
    members.push(("archive/byteorder".into(), b"little".to_vec()));
    for tensor in state {
        let bytes: Vec<u8> = 1f32.to_le_bytes().into_iter().cycle().take(tensor.bytes).collect();
        if !members.iter().any(|(name, _)| name.ends_with(&tensor.key)) {
            members.push((format!("archive/data/{}", tensor.key), bytes));
        }
    }
    zip(&members)
}

/// Reads bytes as a checkpoint.
pub fn read_bytes(bytes: Vec<u8>) -> Result<Imported, InterchangeError> {
    pt::read_from(Path::new("hostile.pt"), Cursor::new(bytes), Some(1))
}

/// Reads a checkpoint with these tensors.
pub fn read(state: &[Tensor]) -> Result<Imported, InterchangeError> {
    read_bytes(checkpoint(state))
}

/// Reads an archive that holds a pickle alone.
pub fn read_pickle(pickle: &[u8]) -> Result<Imported, InterchangeError> {
    read_bytes(zip(&[("archive/data.pkl", pickle)]))
}

/// A golden checkpoint after a change to the bytes of its members.
pub fn changed(golden: &str, change: impl Fn(&str, &mut Vec<u8>)) -> Vec<u8> {
    let mut members = members(&std::fs::read(crate::golden(golden)).unwrap());
    members.iter_mut().for_each(|(name, bytes)| change(name, bytes));
    zip(&members)
}

/// The members of an archive.
pub fn members(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut member = archive.by_index(index).unwrap();
            let mut content = Vec::new();
            std::io::copy(&mut member, &mut content).unwrap();
            (member.name().unwrap().into_owned(), content)
        })
        .collect()
}
