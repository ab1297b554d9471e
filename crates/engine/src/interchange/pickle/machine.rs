//! The stack machine behind the opcodes: its stack, its memo, and what is built from values.

use std::collections::HashMap;

use super::input::Input;
use super::{Fault, MOST_TENSORS, MOST_VALUES};
use super::{Id, Marker, TensorValue, Value};
use crate::interchange::tensor::{Dtype, MOST_AXES, View};

/// Values that always exist.
pub(super) const NONE: Id = 0;
pub(super) const TRUE: Id = 1;
pub(super) const FALSE: Id = 2;
pub(super) const OPAQUE: Id = 3;

/// Values made so far, the stack and the memo.
pub(super) struct Machine<'a> {
    pub(super) input: Input<'a>,
    pub(super) values: Vec<Value>,
    pub(super) stack: Vec<Id>,
    pub(super) marks: Vec<usize>,
    pub(super) memo: HashMap<u32, Id>,
    copied: usize,
    tensors: usize,
}

impl<'a> Machine<'a> {
    pub(super) fn new(input: Input<'a>) -> Self {
        let values = vec![Value::None, Value::Bool(true), Value::Bool(false), Value::Opaque];
        Self {
            input,
            values,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            copied: 0,
            tensors: 0,
        }
    }

    pub(super) fn fault<T>(&self, reason: impl Into<String>) -> Result<T, Fault> {
        Err(self.input.fault(reason))
    }

    pub(super) fn push(&mut self, id: Id) -> Result<(), Fault> {
        if self.stack.len() >= MOST_VALUES {
            return self.fault(format!("the stack would hold more than {MOST_VALUES} values"));
        }
        self.stack.push(id);
        Ok(())
    }

    /// A new value, not yet on the stack.
    pub(super) fn make(&mut self, value: Value) -> Result<Id, Fault> {
        if self.values.len() >= MOST_VALUES {
            return self.fault(format!("it holds more than {MOST_VALUES} values"));
        }
        self.values.push(value);
        Ok(self.values.len() as Id - 1)
    }

    pub(super) fn put(&mut self, value: Value) -> Result<(), Fault> {
        let id = if value == Value::Opaque { OPAQUE } else { self.make(value)? };
        self.push(id)
    }

    /// The lowest place that may be taken from the stack: what is below the last mark belongs to others.
    pub(super) fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    pub(super) fn pop(&mut self) -> Result<Id, Fault> {
        if self.stack.len() > self.floor() {
            return Ok(self.stack.pop().unwrap_or(OPAQUE));
        }
        self.fault("a value is needed, but the stack is empty")
    }

    pub(super) fn top(&self) -> Result<Id, Fault> {
        match self.stack.last() {
            Some(&id) if self.stack.len() > self.floor() => Ok(id),
            _ => self.fault("a value is needed, but the stack is empty"),
        }
    }

    /// Everything above the last mark.
    pub(super) fn since_mark(&mut self) -> Result<Vec<Id>, Fault> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark.min(self.stack.len()))),
            None => self.fault("a mark is needed, but there is none"),
        }
    }

    pub(super) fn get(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::Opaque)
    }

    /// Adds to the list on top.
    pub(super) fn append(&mut self, items: &[Id]) -> Result<(), Fault> {
        let top = self.top()?;
        match self.values.get_mut(top as usize) {
            Some(Value::List(list)) => list.extend(items),
            Some(Value::Opaque) => {}
            _ => return self.fault("items are added to something that is no list"),
        }
        Ok(())
    }

    /// Adds keys and values, in turn, to the dict on top.
    pub(super) fn set_items(&mut self, items: &[Id]) -> Result<(), Fault> {
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return self.fault("a key has no value");
        }
        let top = self.top()?;
        match self.values.get_mut(top as usize) {
            Some(Value::Dict(dict)) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
            Some(Value::Opaque) => {}
            _ => return self.fault("keys are set in something that is no dict"),
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, index: u32) -> Result<(), Fault> {
        let top = self.top()?;
        if self.memo.len() >= MOST_VALUES {
            return self.fault(format!("the memo would hold more than {MOST_VALUES} values"));
        }
        self.memo.insert(index, top);
        Ok(())
    }

    pub(super) fn recall(&mut self, index: u32) -> Result<(), Fault> {
        match self.memo.get(&index) {
            Some(&id) => self.push(id),
            None => self.fault(format!("memo {index} is used before it is set")),
        }
    }

    fn items(&self, id: Id) -> &[Id] {
        match self.get(id) {
            Value::Tuple(items) | Value::List(items) => items,
            _ => &[],
        }
    }

    fn whole(&self, id: Id) -> Option<u64> {
        match self.get(id) {
            Value::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn sizes(&self, id: Id) -> Option<Vec<u64>> {
        let items = match self.get(id) {
            Value::Tuple(items) | Value::List(items) if items.len() <= MOST_AXES => items,
            _ => return None,
        };
        items.iter().map(|&item| self.whole(item)).collect()
    }

    /// What a call would give: known markers give plain values, anything else something opaque.
    pub(super) fn reduce(&mut self, function: Id, arguments: Id) -> Result<Id, Fault> {
        let Value::Marker(marker) = *self.get(function) else { return Ok(OPAQUE) };
        match marker {
            Marker::Tensor => self.tensor(arguments, None),
            Marker::TensorV3 => {
                let dtype = match self.items(arguments).get(6).map(|&id| self.get(id)) {
                    Some(Value::Marker(Marker::Dtype(dtype))) => Some(*dtype),
                    _ => None,
                };
                self.tensor(arguments, dtype)
            }
            Marker::Parameter | Marker::Size => match self.items(arguments) {
                &[first, ..] => Ok(first),
                [] => self.fault("a parameter or a size has no arguments"),
            },
            Marker::OrderedDict => self.ordered_dict(arguments),
            Marker::Storage(_) | Marker::Untyped | Marker::Dtype(_) => Ok(OPAQUE),
        }
    }

    /// An ordered dict, empty or from a list of pairs.
    fn ordered_dict(&mut self, arguments: Id) -> Result<Id, Fault> {
        let mut pairs = Vec::new();
        if let &[list, ..] = self.items(arguments) {
            // A list costs its pickle once, but could be copied any number of times.
            if self.copied.saturating_add(self.items(list).len()) > MOST_VALUES {
                return self.fault(format!("it copies more than {MOST_VALUES} values"));
            }
            for &pair in self.items(list) {
                let &[key, value] = self.items(pair) else {
                    return self.fault("an ordered dict is made from something else than pairs");
                };
                pairs.push((key, value));
            }
        }
        self.copied += pairs.len();
        self.make(Value::Dict(pairs))
    }

    fn tensor(&mut self, arguments: Id, stated: Option<Dtype>) -> Result<Id, Fault> {
        const RULE: &str = "a tensor should have a storage, an offset, sizes and strides, at most 8 axes";
        let &[storage, offset, shape, stride, ..] = self.items(arguments) else {
            return self.fault(RULE);
        };
        if self.tensors >= MOST_TENSORS {
            return self.fault(format!("it holds more than {MOST_TENSORS} tensors"));
        }
        let &Value::Storage(dtype, key, elements) = self.get(storage) else { return self.fault(RULE) };
        let view = self.whole(offset).zip(self.sizes(shape).zip(self.sizes(stride)));
        match view {
            Some((offset, (shape, stride))) if shape.len() == stride.len() => {
                self.tensors += 1;
                let view = View { offset, shape, stride };
                let tensor = TensorValue { dtype: stated.or(dtype), key, elements, view };
                self.make(Value::Tensor(Box::new(tensor)))
            }
            _ => self.fault(RULE),
        }
    }

    /// What a persistent id stands for: ('storage', class, name, device, elements).
    pub(super) fn storage(&mut self, id: Id) -> Result<Id, Fault> {
        const RULE: &str = "a storage should be named by its class, name, device and number of elements";
        let &[kind, class, key, _, elements, ..] = self.items(id) else { return self.fault(RULE) };
        let dtype = match (self.get(kind), self.get(class), self.get(key)) {
            (Value::Text(kind), Value::Marker(Marker::Storage(dtype)), Value::Text(_))
                if kind == "storage" =>
            {
                Some(*dtype)
            }
            (Value::Text(kind), Value::Marker(Marker::Untyped) | Value::Opaque, Value::Text(_))
                if kind == "storage" =>
            {
                None
            }
            _ => return self.fault(RULE),
        };
        match self.whole(elements) {
            Some(elements) => self.make(Value::Storage(dtype, key, elements)),
            None => self.fault(RULE),
        }
    }
}
