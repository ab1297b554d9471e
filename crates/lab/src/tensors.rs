//! Safetensors files of the lab: named arrays, and metadata that say what they mean.

use std::collections::HashMap;
use std::path::Path;

use engine::model::checkpoint::{with_sorted_header, write_whole};
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::{Error, Result};

/// A tensor to be written: name, type, shape and bytes.
pub type Named = (String, Dtype, Vec<usize>, Vec<u8>);

/// A tensor of float64.
pub fn f64s<'a>(name: &str, shape: &[usize], values: impl IntoIterator<Item = &'a f64>) -> Named {
    (name.into(), Dtype::F64, shape.into(), values.into_iter().flat_map(|v| v.to_le_bytes()).collect())
}

/// Writes a file, whole or not at all; the same content makes the same bytes.
pub fn write(path: &Path, tensors: &[Named], metadata: HashMap<String, String>) -> Result<()> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name, view))
    });
    let bytes = views.collect::<Result<Vec<_>, _>>();
    let bytes = bytes.and_then(|views| safetensors::serialize(views, Some(metadata)));
    let bytes = bytes.map_err(|e| Error::content(path, e.to_string()))?;
    Ok(write_whole(path, &with_sorted_header(bytes))?)
}

/// The tensors and the metadata of a file's bytes.
pub fn parse(bytes: &[u8]) -> Result<(SafeTensors<'_>, HashMap<String, String>), SafeTensorError> {
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    Ok((SafeTensors::deserialize(bytes)?, header.metadata().clone().unwrap_or_default()))
}

/// The numbers of a tensor of float64.
pub fn numbers(tensor: &TensorView) -> Vec<f64> {
    tensor.data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
}
