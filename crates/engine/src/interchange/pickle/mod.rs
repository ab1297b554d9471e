//! A reader of pickles that executes nothing.
//!
//! The opcodes build plain values in one flat list; a value refers to others by their index, so depth costs nothing
//! and a cycle is harmless. Names of Python classes and functions become inert markers: the few that occur in state
//! dicts are known (see [`value::Marker`]), everything else, and everything made from it, is [`value::Value::Opaque`].

mod input;
mod machine;
mod opcodes;
mod value;

pub(super) use opcodes::read;
pub(super) use value::{Id, Pickle, TensorValue, Value};

/// Most bytes of a pickle; those of real checkpoints have a few hundred kilobytes.
pub(super) const MOST_BYTES: usize = 32 << 20;
/// Most values of a pickle: on the stack, made, remembered or copied; real ones have tens of thousands.
const MOST_VALUES: usize = 1 << 18;
/// Most tensors of a pickle, the optimiser's included.
const MOST_TENSORS: usize = 1 << 16;

/// Where reading stopped, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub offset: usize,
    pub reason: String,
}
