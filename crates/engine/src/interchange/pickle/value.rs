//! What a pickle can hold.

use crate::interchange::tensor::{Dtype, View};

/// A value, by its place in the list of values.
pub(in crate::interchange) type Id = u32;

/// The Python names that mean something in a state dict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::interchange) enum Marker {
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
    pub(super) fn of(module: &str, name: &str) -> Option<Marker> {
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
pub(in crate::interchange) struct TensorValue {
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
pub(in crate::interchange) enum Value {
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
pub(in crate::interchange) struct Pickle {
    pub values: Vec<Value>,
    pub root: Id,
}

impl Pickle {
    /// A value by its place.
    pub(in crate::interchange) fn get(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::Opaque)
    }

    /// The pairs of a dict whose keys are texts.
    pub(in crate::interchange) fn entries(&self, id: Id) -> Option<impl Iterator<Item = (&str, Id)>> {
        let Value::Dict(pairs) = self.get(id) else { return None };
        Some(pairs.iter().filter_map(|&(key, value)| match self.get(key) {
            Value::Text(key) => Some((key.as_str(), value)),
            _ => None,
        }))
    }
}
