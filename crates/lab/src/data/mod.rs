//! Prompts: inputs from a distribution, labels from a function class, every number a pure function of (seed, stream, index).

pub mod functions;
pub mod inputs;
pub mod npz;
pub mod prompts;
pub mod sampling;
pub mod seed;
