//! The engine's own checkpoints, for programs that do not know the network beforehand: the file names it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;

use super::config::parameters;
use super::error::InterchangeError;
use super::{Imported, NETWORK, network_from_json, network_to_json};
use crate::model::checkpoint;

/// The metadata entry that holds the number of steps taken.
const STEP: &str = "step";

/// Writes a model as a checkpoint of weights alone, with its network and its step in the metadata beside `entries`.
pub fn save_model(
    path: &Path,
    model: &Imported,
    entries: impl IntoIterator<Item = (String, String)>,
) -> Result<(), InterchangeError> {
    let mut metadata: BTreeMap<String, String> = entries.into_iter().collect();
    metadata.insert(NETWORK.into(), network_to_json(&model.network));
    metadata.extend(model.step.map(|step| (STEP.into(), step.to_string())));
    if path.is_dir() {
        return Err(InterchangeError::format(path, "it is a folder; accepted: the name of a file"));
    }
    Ok(checkpoint::save(path, &model.network.layout(), &model.params, None, &metadata)?)
}

/// Reads the weights of a checkpoint whose metadata name the network, as training and import write it.
pub fn load_model(path: &Path) -> Result<Imported, InterchangeError> {
    let bytes = fs::read(path).map_err(InterchangeError::io(path, "read"))?;
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|reason| {
        InterchangeError::format(path, format!("not a whole safetensors file: {reason}"))
    })?;
    let Some(json) = header.metadata().as_ref().and_then(|entries| entries.get(NETWORK)) else {
        let reason = format!(
            "its metadata hold no `{NETWORK}`; accepted: a checkpoint of iclab train or iclab import"
        );
        return Err(InterchangeError::format(path, reason));
    };
    let network =
        network_from_json(json).map_err(|error| InterchangeError::format(path, error.to_string()))?;
    // Weights take at least two bytes each.
    if parameters(&network).is_none_or(|count| count * 2 > bytes.len() as u128) {
        let reason =
            format!("the file is too small for the network that it names: {}", network_to_json(&network));
        return Err(InterchangeError::format(path, reason));
    }
    let read = checkpoint::parse(path, &bytes, &network.layout())?;
    let written = read.metadata.get(STEP).and_then(|step| step.parse().ok());
    let step = read.optimiser.map(|state| state.step).or(written);
    Ok(Imported { network, params: read.params, step, dropped: Vec::new(), heads_assumed: false })
}
