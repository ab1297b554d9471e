//! CUDA sources, by the module that they are compiled to: the files of each, in order.

const COMMON: &str = include_str!("common.cuh");
const MMA: &str = include_str!("mma.cuh");
const GELU: &str = include_str!("gelu.cuh");

/// Everything with a row of the residual stream per warp or block: LayerNorm, read-in, read-out and loss, activations,
/// patches.
pub(crate) const ROWS: &[&str] = &[
    COMMON,
    GELU,
    include_str!("layer_norm.cu"),
    include_str!("read_in.cu"),
    include_str!("read_out.cu"),
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
    include_str!("lstm_common.cuh"),
    include_str!("lstm_forward.cu"),
    include_str!("lstm_backward.cu"),
];

pub(crate) const MLP_HOPPER: &[&str] = &[COMMON, GELU, include_str!("mlp_hopper.cu")];

pub(crate) const OPTIMISER: &[&str] = &[COMMON, include_str!("adam.cu"), include_str!("muon.cu")];
