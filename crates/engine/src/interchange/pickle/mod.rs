//! A reader of pickles that executes nothing.
//!
//! The opcodes build plain values in one flat list; a value refers to others by their index, so depth costs nothing
//! and a cycle is harmless. Names of Python classes and functions become inert markers: the few that occur in state
//! dicts are known (see [`Marker`]), everything else, and everything made from it, is [`Value::Opaque`].

mod input;
mod machine;
mod opcodes;

pub(super) use opcodes::read;

use super::tensor::{Dtype, View};

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

/// A value, by its place in the list of values.
pub(super) type Id = u32;

/// The Python names that mean something in a state dict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`: storage, offset, size, stride, …
    Tensor,
    /// `torch._utils._rebuild_tensor_v3`: as above, with the element type as the seventh argument.
    TensorV3,
    /// `torch._utils._rebuild_parameter`: its first argument is the tensor.
    Parameter,
    /// `collections.OrderedDict`
    OrderedDict,
    /// `torch.Size`
    Size,
    /// A storage class with its element type.
    Storage(Dtype),
    /// A storage class without one.
    Untyped,
    /// An element type, such as `torch.float32`.
    Dtype(Dtype),
}

impl Marker {
    /// The marker of a Python name, if it is one of the few.
    fn of(module: &str, name: &str) -> Option<Marker> {
        Some(match (module, name) {
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Marker::Tensor,
            ("torch._utils", "_rebuild_tensor_v3") => Marker::TensorV3,
            ("torch._utils", "_rebuild_parameter") => Marker::Parameter,
            ("collections", "OrderedDict") => Marker::OrderedDict,
            ("torch", "Size") => Marker::Size,
            ("torch" | "torch.cuda", "FloatStorage") => Marker::Storage(Dtype::F32),
            ("torch" | "torch.cuda", "DoubleStorage") => Marker::Storage(Dtype::F64),
            ("torch" | "torch.cuda", "HalfStorage") => Marker::Storage(Dtype::F16),
            ("torch" | "torch.cuda", "BFloat16Storage") => Marker::Storage(Dtype::Bf16),
            ("torch" | "torch.cuda", "LongStorage") => Marker::Storage(Dtype::I64),
            ("torch" | "torch.cuda", "IntStorage") => Marker::Storage(Dtype::I32),
            ("torch" | "torch.cuda", "ByteStorage") => Marker::Storage(Dtype::U8),
            ("torch" | "torch.cuda", "BoolStorage") => Marker::Storage(Dtype::Bool),
            ("torch.storage" | "torch", "UntypedStorage" | "TypedStorage") => Marker::Untyped,
            ("torch", "float32") => Marker::Dtype(Dtype::F32),
            ("torch", "float64") => Marker::Dtype(Dtype::F64),
            ("torch", "float16") => Marker::Dtype(Dtype::F16),
            ("torch", "bfloat16") => Marker::Dtype(Dtype::Bf16),
            _ => return None,
        })
    }
}

/// A tensor: a view into a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorValue {
    /// The element type; unknown for storages without one.
    pub dtype: Option<Dtype>,
    /// The text that names the storage.
    pub key: Id,
    /// Elements that the storage should have (for storages without a type: bytes).
    pub elements: u64,
    /// What the tensor sees of it.
    pub view: View,
}

/// A value.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    /// Pairs in the order of insertion; of equal keys the last one counts.
    Dict(Vec<(Id, Id)>),
    Marker(Marker),
    /// A storage: element type, name, elements.
    Storage(Option<Dtype>, Id, u64),
    Tensor(Box<TensorValue>),
    /// Something that is not looked into.
    Opaque,
}

/// All values of a pickle and the one it stands for.
#[derive(Debug)]
pub(super) struct Pickle {
    pub values: Vec<Value>,
    pub root: Id,
}

impl Pickle {
    /// A value by its place.
    pub(super) fn get(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::Opaque)
    }

    /// The pairs of a dict whose keys are texts.
    pub(super) fn entries(&self, id: Id) -> Option<impl Iterator<Item = (&str, Id)>> {
        let Value::Dict(pairs) = self.get(id) else { return None };
        Some(pairs.iter().filter_map(|&(key, value)| match self.get(key) {
            Value::Text(key) => Some((key.as_str(), value)),
            _ => None,
        }))
    }
}
