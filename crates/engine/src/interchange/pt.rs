//! PyTorch checkpoints (`torch.save`), read without Python and without executing their pickle.
//!
//! Accepted: a state dict, or a dict with one under `model_state_dict` (as Garg et al. write `state.pt`),
//! `state_dict` or `model`. Optimiser states are passed over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use super::Imported;
use super::archive::Archive;
use super::error::{InterchangeError, short};
use super::names::{Recognised, recognise};
use super::pickle::{self, Id, Pickle, TensorValue, Value};
use super::tensor::{Dtype, FLOATS};

/// Keys under which programs keep the state dict.
const STATE_DICTS: [&str; 3] = ["model_state_dict", "state_dict", "model"];
/// Keys under which programs keep the number of steps taken.
const STEPS: [&str; 3] = ["train_step", "global_step", "step"];

/// Reads a checkpoint. Weights do not show the number of heads: without `heads` it is
/// [`DEFAULT_HEADS`](super::DEFAULT_HEADS).
pub fn read(path: &Path, heads: Option<usize>) -> Result<Imported, InterchangeError> {
    let file = File::open(path).map_err(InterchangeError::io(path, "read"))?;
    read_from(path, BufReader::new(file), heads)
}

/// As [`read`], from anything that can be read; `path` is for messages.
pub fn read_from<R: Read + Seek>(
    path: &Path,
    reader: R,
    heads: Option<usize>,
) -> Result<Imported, InterchangeError> {
    let mut archive = Archive::open(path, reader)?;
    let bytes = archive.pickle()?;
    let pickle = pickle::read(&bytes).map_err(|fault| InterchangeError::Pickle {
        path: path.into(),
        offset: fault.offset,
        reason: fault.reason,
    })?;
    drop(bytes);
    let state = state_dict(path, &pickle)?;
    let mut tensors: BTreeMap<&str, &TensorValue> = BTreeMap::new();
    for (name, id) in pickle.entries(state).into_iter().flatten() {
        // What is no tensor has no place in a network: version numbers, counters.
        match pickle.get(id) {
            Value::Tensor(tensor) => drop(tensors.insert(name, tensor)),
            _ => drop(tensors.remove(name)),
        }
    }
    let shapes = tensors.iter().map(|(name, t)| (name.to_string(), t.view.shape.clone())).collect();
    let recognised = recognise(path, &shapes, heads, None)?;
    if recognised.values as u64 > archive.most_values() {
        let reason = format!("{} parameters cannot be in so small a file", recognised.values);
        return Err(InterchangeError::format(path, reason));
    }
    let mut params = vec![0.0; recognised.values];
    // Storage by storage, so that each is read once, however many tensors share it.
    let mut by_storage: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (name, place) in &recognised.sources {
        let tensor = tensors[name.as_str()];
        by_storage.entry(text(&pickle, tensor.key)).or_default().push((name, tensor, *place));
    }
    for (key, users) in by_storage {
        let first = users.first().map(|(name, ..)| name.as_str()).unwrap_or_default();
        let Some(storage) = archive.storage(key)? else {
            let expected = format!("stored as data/{}", short(key));
            return Err(InterchangeError::tensor(path, first, expected, "not in the archive"));
        };
        for (name, tensor, place) in users {
            let dtype = check(path, name, tensor, storage.len() as u64)?;
            tensor.view.gather(dtype, &storage, archive.big, place.of_mut(&mut params));
        }
    }
    let step = step(&pickle);
    let Recognised { network, dropped, heads_assumed, .. } = recognised;
    Ok(Imported { network, params, step, dropped, heads_assumed })
}

fn text(pickle: &Pickle, id: Id) -> &str {
    match pickle.get(id) {
        Value::Text(text) => text,
        _ => "",
    }
}

/// The value of a key, the last one if there are several.
fn find(pickle: &Pickle, dict: Id, key: &str) -> Option<Id> {
    pickle.entries(dict)?.filter(|(name, _)| *name == key).last().map(|(_, id)| id)
}

/// The dict that holds the weights.
fn state_dict(path: &Path, pickle: &Pickle) -> Result<Id, InterchangeError> {
    let root = pickle.root;
    if pickle.entries(root).is_none() {
        let reason = "it holds no state dict but a Python object, which is not executed; accepted: \
                      torch.save(model.state_dict(), …) or a dict with model_state_dict";
        return Err(InterchangeError::format(path, reason));
    }
    let inner = STATE_DICTS.iter().find_map(|key| find(pickle, root, key));
    Ok(inner.filter(|&id| matches!(pickle.get(id), Value::Dict(_))).unwrap_or(root))
}

/// Steps taken in training, if the file says.
fn step(pickle: &Pickle) -> Option<u64> {
    STEPS.iter().find_map(|key| match pickle.get(find(pickle, pickle.root, key)?) {
        Value::Int(step) => u64::try_from(*step).ok(),
        _ => None,
    })
}

/// Checks a tensor against the bytes of its storage.
fn check(path: &Path, name: &str, tensor: &TensorValue, bytes: u64) -> Result<Dtype, InterchangeError> {
    let fail = |expected: String, found: String| Err(InterchangeError::tensor(path, name, expected, found));
    let dtype = match tensor.dtype {
        Some(dtype) if dtype.is_float() => dtype,
        Some(dtype) => return fail(FLOATS.into(), format!("{dtype:?}")),
        None => return fail(FLOATS.into(), "of an unknown type".into()),
    };
    let view = &tensor.view;
    let inside = bytes / dtype.size() as u64;
    let end = view.end().filter(|&end| end <= inside);
    if end.is_none() {
        let (offset, shape, stride) = (view.offset, &view.shape, &view.stride);
        return fail(
            format!("within the {inside} elements stored for it"),
            format!("a view of shape {shape:?} with strides {stride:?} from element {offset}"),
        );
    }
    // A view that repeats elements could be far larger than its file.
    if view.values().is_none_or(|values| values > inside) {
        return fail(format!("at most {inside} values, as many as are stored"), format!("{:?}", view.shape));
    }
    Ok(dtype)
}
