//! A network's sizes and variants as JSON, the form in which checkpoints carry them.

use serde::{Deserialize, Serialize};

use super::error::InterchangeError;
use crate::model::networks::{Gpt2Config, LstmConfig, Network};
use crate::model::ops::{Activation, AttentionKind, Mask, Weighting};

/// The metadata entry of a checkpoint that holds the network as JSON.
pub const NETWORK: &str = "network";

/// The most parameters that a network read from a file may have.
const MOST_PARAMETERS: u128 = 1 << 32;
/// The most layers that a network read from a file may have.
const MOST_LAYERS: usize = 10_000;

/// The kind of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// A Transformer.
    Gpt2,
    /// A stack of LSTM layers.
    Lstm,
}

// Names of the variants in JSON.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Mask", rename_all = "lowercase")]
enum MaskName {
    Causal,
    Full,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Weighting", rename_all = "lowercase")]
enum WeightingName {
    Softmax,
    Relu,
    Linear,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Activation", rename_all = "lowercase")]
enum ActivationName {
    Gelu,
    Relu,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The plain form of a network. `heads`, `positions` and the variants are GPT-2's alone; variants are left out when
/// they are GPT-2's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkConfig {
    architecture: Architecture,
    inputs: usize,
    layers: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heads: Option<usize>,
    width: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    positions: Option<usize>,
    #[serde(default, skip_serializing_if = "is_default", with = "MaskName")]
    mask: Mask,
    #[serde(default, skip_serializing_if = "is_default", with = "WeightingName")]
    weighting: Weighting,
    #[serde(default, skip_serializing_if = "is_default", with = "ActivationName")]
    activation: Activation,
}

impl From<&Network> for NetworkConfig {
    fn from(network: &Network) -> Self {
        let mut config = NetworkConfig {
            architecture: Architecture::Lstm,
            inputs: network.features(),
            layers: network.layers(),
            heads: None,
            width: network.width(),
            positions: None,
            mask: Mask::default(),
            weighting: Weighting::default(),
            activation: Activation::default(),
        };
        if let Network::Gpt2(gpt2) = network {
            config.architecture = Architecture::Gpt2;
            config.heads = Some(gpt2.heads);
            config.positions = Some(gpt2.positions);
            AttentionKind { mask: config.mask, weighting: config.weighting } = gpt2.attention;
            config.activation = gpt2.activation;
        }
        config
    }
}

impl NetworkConfig {
    fn network(self) -> Result<Network, InterchangeError> {
        let gpt2_only = |field: &'static str| config_error(field, "it belongs to gpt2 alone");
        let network = match self.architecture {
            Architecture::Lstm => {
                if self.heads.is_some() {
                    return Err(gpt2_only("heads"));
                }
                if self.positions.is_some() {
                    return Err(gpt2_only("positions"));
                }
                if !(is_default(&self.mask) && is_default(&self.weighting) && is_default(&self.activation)) {
                    return Err(gpt2_only("mask, weighting or activation"));
                }
                Network::Lstm(LstmConfig { features: self.inputs, width: self.width, layers: self.layers })
            }
            Architecture::Gpt2 => Network::Gpt2(Gpt2Config {
                features: self.inputs,
                positions: self.positions.ok_or_else(|| config_error("positions", "gpt2 needs it"))?,
                width: self.width,
                layers: self.layers,
                heads: self.heads.ok_or_else(|| config_error("heads", "gpt2 needs it"))?,
                attention: AttentionKind { mask: self.mask, weighting: self.weighting },
                activation: self.activation,
            }),
        };
        checked(network)
    }
}

fn config_error(field: &'static str, rule: impl Into<String>) -> InterchangeError {
    InterchangeError::Config { field, rule: rule.into() }
}

/// Refuses sizes that cannot be built or whose parameters could not be counted.
pub(super) fn checked(network: Network) -> Result<Network, InterchangeError> {
    let sizes = [("inputs", network.features()), ("width", network.width()), ("layers", network.layers())];
    for (field, value) in sizes {
        if value == 0 {
            return Err(config_error(field, "it is 0, but it must be at least 1"));
        }
    }
    if network.layers() > MOST_LAYERS {
        let rule = format!("it is {}, but it may be {MOST_LAYERS} at most", network.layers());
        return Err(config_error("layers", rule));
    }
    if let Network::Gpt2(config) = &network {
        if config.positions == 0 {
            return Err(config_error("positions", "it is 0, but it must be at least 1"));
        }
        if config.heads == 0 || !config.width.is_multiple_of(config.heads) {
            let rule = format!("it is {}, but it must divide the width {}", config.heads, config.width);
            return Err(config_error("heads", rule));
        }
    }
    let parameters = parameters(&network);
    if parameters.is_none_or(|count| count > MOST_PARAMETERS) {
        let rule = format!("the network would have more than {MOST_PARAMETERS} parameters");
        return Err(config_error("width", rule));
    }
    Ok(network)
}

/// Number of parameters, without laying them out; nothing if the number is beyond all bounds.
pub(super) fn parameters(network: &Network) -> Option<u128> {
    let size = |value: usize| value as u128;
    let (d, e, l) = (size(network.features()), size(network.width()), size(network.layers()));
    let square = e.checked_mul(e)?;
    let outside = d.checked_mul(e)?.checked_add(e.checked_mul(2)?)?.checked_add(1)?;
    let (layer, rest) = match network {
        Network::Gpt2(config) => (
            square.checked_mul(12)?.checked_add(e.checked_mul(13)?)?,
            size(config.positions).checked_mul(e)?.checked_add(e.checked_mul(2)?)?,
        ),
        Network::Lstm(_) => (square.checked_mul(8)?.checked_add(e.checked_mul(8)?)?, 0),
    };
    layer.checked_mul(l)?.checked_add(rest)?.checked_add(outside)
}

/// The network as JSON, such as `{"architecture":"gpt2","inputs":20,"layers":12,"heads":8,"width":256,"positions":202}`.
pub fn network_to_json(network: &Network) -> String {
    serde_json::to_string(&NetworkConfig::from(network)).expect("numbers and names always have a JSON form")
}

/// The network that [`network_to_json`] wrote; sizes that cannot be built are refused.
pub fn network_from_json(json: &str) -> Result<Network, InterchangeError> {
    let config: NetworkConfig =
        serde_json::from_str(json).map_err(|reason| config_error("network", reason.to_string()))?;
    config.network()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_come_back_from_json() {
        let paper = Network::Gpt2(Gpt2Config::default());
        assert_eq!(
            network_to_json(&paper),
            r#"{"architecture":"gpt2","inputs":20,"layers":12,"heads":8,"width":256,"positions":202}"#
        );
        let relu = Gpt2Config {
            attention: AttentionKind { mask: Mask::Full, weighting: Weighting::Relu },
            activation: Activation::Relu,
            ..Default::default()
        };
        for network in [paper, Network::Gpt2(relu), Network::Lstm(LstmConfig::default())] {
            assert_eq!(network_from_json(&network_to_json(&network)).unwrap(), network);
            assert_eq!(parameters(&network), Some(network.layout().len() as u128));
        }
    }

    #[test]
    fn impossible_networks_are_refused() {
        let cases = [
            (r#"{"architecture":"gpt2","inputs":1,"layers":1,"heads":3,"width":8,"positions":4}"#, "divide"),
            (r#"{"architecture":"gpt2","inputs":0,"layers":1,"heads":2,"width":8,"positions":4}"#, "inputs"),
            (r#"{"architecture":"gpt2","inputs":1,"layers":1,"width":8,"positions":4}"#, "heads"),
            (r#"{"architecture":"lstm","inputs":1,"layers":1,"heads":2,"width":8}"#, "gpt2 alone"),
            (r#"{"architecture":"lstm","inputs":1,"layers":1,"width":18446744073709551615}"#, "parameters"),
            (r#"{"architecture":"lstm","inputs":1,"layers":999999999,"width":1}"#, "layers"),
            (r#"{"architecture":"lstm","inputs":1,"layers":0,"width":1}"#, "layers"),
            (r#"{"architecture":"rnn","inputs":1,"layers":1,"width":1}"#, "rnn"),
            (r#"{"architecture":"lstm","inputs":1,"layers":1,"width":1,"depth":3}"#, "depth"),
            ("", "EOF"),
        ];
        for (json, word) in cases {
            let sentence = network_from_json(json).unwrap_err().to_string();
            assert!(sentence.contains(word), "{json}: {sentence}");
        }
    }
}
