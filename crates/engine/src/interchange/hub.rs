//! `config.json` as the Hugging Face hub shows it and as `from_pretrained` reads it.

use serde_json::{Value, json};

use super::error::InterchangeError;
use crate::model::networks::{Gpt2Config, LstmConfig, Network};
use crate::model::ops::{Activation, AttentionKind};

/// The config of any network.
pub(super) fn config(network: &Network) -> Result<String, InterchangeError> {
    match network {
        Network::Gpt2(config) => gpt2(config),
        Network::Lstm(config) => Ok(lstm(config)),
    }
}

/// What `GPT2Model.from_pretrained` reads.
pub(super) fn gpt2(config: &Gpt2Config) -> Result<String, InterchangeError> {
    if config.attention != AttentionKind::default() {
        let reason = "Hugging Face's GPT-2 has causal softmax attention only; this network's attention cannot be exported";
        return Err(InterchangeError::Unsupported(reason.into()));
    }
    let activation = match config.activation {
        Activation::Gelu => "gelu_new",
        Activation::Relu => "relu",
    };
    Ok(text(json!({
        "model_type": "gpt2", "architectures": ["GPT2Model"], "activation_function": activation,
        "n_embd": config.width, "n_layer": config.layers, "n_head": config.heads, "n_positions": config.positions,
        "vocab_size": 1, "bos_token_id": 0, "eos_token_id": 0, "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": false,
    })))
}

/// `transformers` has no LSTM: this says what PyTorch is to build.
fn lstm(config: &LstmConfig) -> String {
    text(json!({
        "model_type": "lstm", "architectures": ["torch.nn.LSTM"],
        "about": "a linear read-in, torch.nn.LSTM with batch_first, a linear read-out to one number",
        "features": config.features, "hidden_size": config.width, "num_layers": config.layers,
    }))
}

fn text(json: Value) -> String {
    format!("{json:#}\n")
}
