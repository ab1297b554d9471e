//! Ablations: a layer of a Transformer that adds nothing, a head that tells every prompt the same.

use std::sync::Arc;

/// A part of a Transformer whose output can be replaced. Layers count from 1: layer l makes hidden state l.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All that a block adds to the residual stream.
    Layer(usize),
    /// What one attention head hands to the projection.
    Head {
        /// The block.
        layer: usize,
        /// From 0.
        head: usize,
    },
}

/// A part of a network that gives the same output for every prompt: nothing (zero ablation) or, say, its mean.
#[derive(Debug, Clone, PartialEq)]
pub struct AblatedPart {
    /// Which part.
    pub part: Part,
    /// Its output instead, one row per position `[positions, width of the part]`; nothing at all when absent.
    pub output: Option<Arc<[f32]>>,
}
