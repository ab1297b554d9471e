//! The opcodes of pickle that `torch.save` writes, with every call left out: protocol 2 unless told otherwise, 3 to 5 on
//! request. Text opcodes (protocols 0 and 1), the registry of extensions and buffers kept outside are refused.

use super::input::Input;
use super::machine::{FALSE, Machine, NONE, TRUE};
use super::{Fault, Id, MOST_VALUES, Marker, Pickle, Value};

/// Reads a pickle.
pub(in crate::interchange) fn read(bytes: &[u8]) -> Result<Pickle, Fault> {
    let mut machine = Machine::new(Input::new(bytes));
    if bytes.first() != Some(&0x80) {
        return machine.fault("it begins like pickle protocol 0 or 1, but torch.save writes 2 to 5");
    }
    while machine.step()? {}
    let root = machine.pop()?;
    Ok(Pickle { values: machine.values, root })
}

/// An integer of any length, little-endian; one that has no 64 bits' worth is not looked into.
fn long(bytes: &[u8]) -> Value {
    if bytes.len() > 8 {
        return Value::Opaque;
    }
    let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
    let mut all = [fill; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(all))
}

/// A text; one that is not UTF-8 is not looked into.
fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or(Value::Opaque, |text| Value::Text(text.into()))
}

/// The marker of a Python name, or something opaque.
fn marker(module: &str, name: &str) -> Value {
    Marker::of(module, name).map_or(Value::Opaque, Value::Marker)
}

impl Machine<'_> {
    /// One opcode; false at the end.
    fn step(&mut self) -> Result<bool, Fault> {
        let start = self.input.at();
        let code = self.input.u8()?;
        if let Some(value) = self.new_value(code)? {
            self.put(value)?;
            return Ok(true);
        }
        match code {
            b'.' => return Ok(false),
            0x80 => match self.input.u8()? {
                2..=5 => {}
                version => {
                    return self.fault(format!("it says protocol {version}, but torch.save writes 2 to 5"));
                }
            },
            0x95 => drop(self.input.take(8)?), // a frame: only a hint for buffering
            b'(' => {
                if self.marks.len() >= MOST_VALUES {
                    return self.fault(format!("there are more than {MOST_VALUES} marks"));
                }
                self.marks.push(self.stack.len());
            }
            b'0' if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.since_mark()?),
            b'N' => self.push(NONE)?,
            0x88 => self.push(TRUE)?,
            0x89 => self.push(FALSE)?,
            // additions to a list, a dict or a set
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' => {
                let items = self.since_mark()?;
                self.append(&items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set_items(&items)?;
            }
            0x90 => {
                self.since_mark()?;
                self.top()?;
            }
            // memo
            b'q' => {
                let index = self.input.u8()?;
                self.remember(index.into())?;
            }
            b'r' => {
                let index = self.input.u32()?;
                self.remember(index)?;
            }
            0x94 => self.remember(self.memo.len() as u32)?,
            b'h' => {
                let index = self.input.u8()?;
                self.recall(index.into())?;
            }
            b'j' => {
                let index = self.input.u32()?;
                self.recall(index)?;
            }
            // what Python would do with names of classes and functions
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let result = self.reduce(function, arguments)?;
                self.push(result)?;
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = self.storage(id)?;
                self.push(storage)?;
            }
            b'b' => {
                self.pop()?; // the state of an object: for state dicts only version numbers
                self.top()?;
            }
            code => {
                let reason = format!("torch.save writes no opcode {code:#04x} (pickle protocols 2 to 5)");
                return Err(Fault { offset: start, reason });
            }
        }
        Ok(true)
    }

    /// The value that an opcode puts on the stack, made from what follows it or from what it takes from the stack.
    fn new_value(&mut self, code: u8) -> Result<Option<Value>, Fault> {
        Ok(Some(match code {
            b'J' => Value::Int(self.input.i32()?.into()),
            b'K' => Value::Int(self.input.u8()?.into()),
            b'M' => Value::Int(self.input.u16()?.into()),
            0x8a => long(self.input.counted(1)?),
            0x8b => long(self.input.counted(4)?),
            b'G' => Value::Float(f64::from_be_bytes(self.input.array()?)),
            0x8c => text(self.input.counted(1)?),
            b'X' => text(self.input.counted(4)?),
            0x8d => text(self.input.counted(8)?),
            // bytes and sets: no state dict needs them
            b'C' => self.input.counted(1).map(|_| Value::Opaque)?,
            b'B' => self.input.counted(4).map(|_| Value::Opaque)?,
            0x8e | 0x96 => self.input.counted(8).map(|_| Value::Opaque)?,
            0x8f => Value::Opaque,
            0x91 => self.since_mark().map(|_| Value::Opaque)?,
            b')' => Value::Tuple(Vec::new()),
            b']' => Value::List(Vec::new()),
            b'}' => Value::Dict(Vec::new()),
            b't' => Value::Tuple(self.since_mark()?),
            0x85..=0x87 => {
                let mut items = (0x85..=code).map(|_| self.pop()).collect::<Result<Vec<Id>, _>>()?;
                items.reverse();
                Value::Tuple(items)
            }
            // names of Python things, and objects that would be made from them
            b'c' => marker(self.input.line()?, self.input.line()?),
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.get(module), self.get(name)) {
                    (Value::Text(module), Value::Text(name)) => marker(module, name),
                    _ => Value::Opaque,
                }
            }
            0x81 | 0x92 => {
                for _ in 0..if code == 0x81 { 2 } else { 3 } {
                    self.pop()?;
                }
                Value::Opaque
            }
            _ => return Ok(None),
        }))
    }
}
