//! CUDA sources, by the module that they are compiled to: the files of each, in order.

const COMMON: &str = include_str!("common.cuh");
const MMA: &str = include_str!("mma.cuh");
const GELU: &str = include_str!("gelu.cuh");
const HOPPER: &str = include_str!("hopper.cuh");
const GATES: &str = include_str!("gates.cuh");

/// Everything with a row of the residual stream per warp or block: LayerNorm, read-in, read-out and loss, read-outs of
/// hidden states, activations, patches.
pub(crate) const ROWS: &[&str] = &[
    COMMON,
    GELU,
    include_str!("layer_norm.cu"),
    include_str!("read_in.cu"),
    include_str!("read_out.cu"),
    include_str!("read_states.cu"),
    include_str!("activation.cu"),
    include_str!("reduce.cu"),
    include_str!("patch.cu"),
];

pub(crate) const ATTENTION: &[&str] = &[
    COMMON,
    MMA,
    include_str!("attention_common.cuh"),
    include_str!("attention_forward.cu"),
    include_str!("attention_backward.cu"),
];

pub(crate) const LSTM: &[&str] = &[
    COMMON,
    MMA,
    GATES,
    include_str!("lstm_common.cuh"),
    include_str!("lstm_forward.cu"),
    include_str!("lstm_backward.cu"),
];

/// Follows [`LSTM`].
pub(crate) const LSTM_PERSISTENT: &[&str] =
    &[include_str!("progress.cuh"), include_str!("lstm_persistent.cu")];

pub(crate) const QUERY_ATTENTION: &[&str] = &[COMMON, include_str!("query_attention.cu")];

pub(crate) const LSTM_QUERY: &[&str] = &[COMMON, GATES, include_str!("lstm_query.cu")];

pub(crate) const MLP_HOPPER: &[&str] = &[COMMON, GELU, HOPPER, include_str!("mlp_hopper.cu")];

pub(crate) const NORM_HOPPER: &[&str] = &[COMMON, HOPPER, include_str!("norm_hopper.cu")];

pub(crate) const OPTIMISER: &[&str] = &[COMMON, include_str!("adam.cu"), include_str!("muon.cu")];
