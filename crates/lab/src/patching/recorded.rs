//! What a network answered once with its streams patched: for networks whose weights are not kept, and for the others at once.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors};

use super::{Donor, Part, Patched, Place};
use crate::Progress;
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::Weights;
use crate::networks::experiment::TaskSpec;
use crate::tensors::{self, Named};

/// What is asked: how donors differ, and pairs before the query.
pub const ASKED: [(Donor, usize); 5] =
    [(Donor::Labels, 10), (Donor::Labels, 20), (Donor::Labels, 30), (Donor::Labels, 40), (Donor::Inputs, 30)];
/// Prompts of seed 0, each with a donor.
pub const PATCHED: usize = 32;

/// Answers with the residual stream before each layer taken from donors, at each of [`Place::ROLES`].
pub struct RecordedPatches {
    asked: Vec<Asked>,
}

/// Answers to some prompts.
struct Asked {
    /// How donors differ and pairs before the query, for the names of tensors: `labels-30`.
    name: String,
    /// Of prompts and donors ([`Prompts::digest`]).
    digests: [Vec<u64>; 2],
    answers: Patched,
}

/// The arrays of an [`Asked`], each `NAME.…` in the file.
const BASE: &str = "base"; // [b]
const DONOR: &str = "donor"; // [b]
const ANSWERS: &str = "patched"; // [layer, place, b]
const DIGESTS: &str = "prompts"; // [2, b]

impl RecordedPatches {
    /// Its name in a folder.
    pub const FILE: &str = "patched.safetensors";

    /// Asks a network on all of [`ASKED`] that its task has points for.
    pub fn of(weights: &Weights, task: &TaskSpec, progress: Progress) -> Result<RecordedPatches> {
        let mut asked = Vec::new();
        for (donor, pairs) in ASKED.into_iter().filter(|(_, pairs)| *pairs < task.points) {
            progress(&format!("patching by other {donor} after {pairs} pairs"));
            let task = Task::new(&task.function, &task.inputs, task.dim, pairs + 1)?;
            let (prompts, donors) = donor.pairs(&task, Seed(0), PATCHED);
            let answers = Patched::of(weights, [&prompts, &donors], Part::Stream, &Place::ROLES)?;
            let digests = [prompts.digest(), donors.digest()];
            asked.push(Asked { name: format!("{donor}-{pairs}"), digests, answers });
        }
        Ok(RecordedPatches { asked })
    }

    /// Answers to these prompts with these donors, if they are the first of some that were asked.
    pub fn find(&self, pair: [&Prompts; 2]) -> Option<Patched> {
        let wanted = pair.map(Prompts::digest);
        let begins =
            |asked: &&Asked| asked.digests.iter().zip(&wanted).all(|(all, few)| all.starts_with(few));
        let count = pair[0].count();
        Some(self.asked.iter().find(begins)?.answers.head(count))
    }

    /// Writes the file, whole or not at all. Networks answer in single precision, so that nothing is lost.
    pub fn write(&self, path: &Path) -> Result<()> {
        let tensors: Vec<Named> = self.asked.iter().flat_map(Asked::tensors).collect();
        tensors::write(path, &tensors, HashMap::new())
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<RecordedPatches> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        let parsed = || -> Result<RecordedPatches, String> {
            let (file, _) =
                tensors::parse(&bytes).map_err(|e| format!("not a whole safetensors file: {e}"))?;
            let mut names: Vec<&str> = file.names().iter().filter_map(|n| n.strip_suffix(".base")).collect();
            names.sort_unstable();
            let asked = names.into_iter().map(|name| Asked::parse(name, &file)).collect::<Result<_, _>>()?;
            Ok(RecordedPatches { asked })
        };
        parsed().map_err(|why| Error::content(path, why))
    }
}

impl Asked {
    fn tensors(&self) -> [Named; 4] {
        let Patched { base, donor, patched } = &self.answers;
        let (layers, count) = (patched.len(), base.len());
        let floats = |name: &str, shape: Vec<usize>, values: &mut dyn Iterator<Item = &f64>| {
            let bytes = values.flat_map(|v| (*v as f32).to_le_bytes()).collect();
            (format!("{}.{name}", self.name), Dtype::F32, shape, bytes)
        };
        let digests = self.digests.iter().flatten().flat_map(|d| d.to_le_bytes()).collect();
        [
            floats(BASE, vec![count], &mut base.iter()),
            floats(DONOR, vec![count], &mut donor.iter()),
            floats(ANSWERS, vec![layers, Place::ROLES.len(), count], &mut patched.iter().flatten().flatten()),
            (format!("{}.{DIGESTS}", self.name), Dtype::U64, vec![2, count], digests),
        ]
    }

    fn parse(name: &str, file: &SafeTensors) -> Result<Asked, String> {
        let tensor = |array: &str, dtype: Dtype| {
            let full = format!("{name}.{array}");
            let found = file.tensor(&full).ok().filter(|tensor| tensor.dtype() == dtype);
            found.ok_or(format!("it has no tensor '{full}' of type {dtype:?}"))
        };
        let floats = |array: &str| -> Result<(Vec<usize>, Vec<f64>), String> {
            let tensor = tensor(array, Dtype::F32)?;
            let number = |v: &[u8; 4]| f64::from(f32::from_le_bytes(*v));
            let values: Vec<f64> = tensor.data().as_chunks::<4>().0.iter().map(number).collect();
            match values.iter().find(|v| !v.is_finite()) {
                Some(v) => Err(format!("tensor '{name}.{array}' holds {v}; accepted: finite numbers")),
                None => Ok((tensor.shape().to_vec(), values)),
            }
        };
        let digests = tensor(DIGESTS, Dtype::U64)?;
        let ((base_shape, base), (donor_shape, donor)) = (floats(BASE)?, floats(DONOR)?);
        let (shape, patched) = floats(ANSWERS)?;
        let (count, places) = (base.len(), Place::ROLES.len());
        let fits = matches!(shape[..], [_, p, b] if p == places && b == count)
            && count > 0
            && [&base_shape, &donor_shape].iter().all(|shape| shape[..] == [count])
            && digests.shape() == [2, count];
        if !fits {
            return Err(format!(
                "the arrays of '{name}' have shapes {base_shape:?}, {donor_shape:?}, {shape:?} and {:?}; accepted: [b], [b], \
                 [layer, {places}, b] and [2, b]",
                digests.shape()
            ));
        }
        let layer = |of: &[f64]| of.chunks_exact(count).map(<[f64]>::to_vec).collect();
        let patched = patched.chunks_exact(places * count).map(layer).collect();
        let digests: Vec<u64> =
            digests.data().as_chunks::<8>().0.iter().map(|d| u64::from_le_bytes(*d)).collect();
        let (prompts, donors) = digests.split_at(count);
        Ok(Asked {
            name: name.into(),
            digests: [prompts.to_vec(), donors.to_vec()],
            answers: Patched { base, donor, patched },
        })
    }
}
