//! What is trained, whatever the device: parameters, networks as plans of operations, optimisers, checkpoints.

pub mod checkpoint;
pub mod graph;
pub mod hooks;
pub mod networks;
pub mod ops;
pub mod optim;
pub mod parameters;
pub mod plan;
