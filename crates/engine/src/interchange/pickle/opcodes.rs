//! The opcodes of pickle, protocols 0 to 5, with every call left out.

use super::input::Input;
use super::machine::{FALSE, Machine, NONE, OPAQUE, TRUE};
use super::value::{Id, Marker, Pickle, Value};
use super::{Fault, MOST_VALUES};

/// Reads a pickle.
pub(in crate::interchange) fn read(bytes: &[u8]) -> Result<Pickle, Fault> {
    let mut machine = Machine::new(Input::new(bytes));
    while machine.step()? {}
    let root = machine.pop()?;
    Ok(Pickle { values: machine.values, root })
}

impl Machine<'_> {
    /// One opcode; false at the end.
    fn step(&mut self) -> Result<bool, Fault> {
        let start = self.input.at();
        match self.input.u8()? {
            b'.' => return Ok(false),
            0x80 => match self.input.u8()? {
                0..=5 => {}
                version => return self.fault(format!("protocol {version} is not known; accepted: 0 to 5")),
            },
            0x95 => drop(self.input.u64()?), // a frame: only a hint for buffering
            b'(' => {
                if self.marks.len() >= MOST_VALUES {
                    return self.fault(format!("there are more than {MOST_VALUES} marks"));
                }
                self.marks.push(self.stack.len());
            }
            b'0' if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.since_mark()?),
            b'2' => self.push(self.top()?)?,
            b'N' => self.push(NONE)?,
            0x88 => self.push(TRUE)?,
            0x89 => self.push(FALSE)?,
            b'I' => match self.input.line()? {
                "00" => self.push(FALSE)?,
                "01" => self.push(TRUE)?,
                line => match line.parse() {
                    Ok(number) => self.put(Value::Int(number))?,
                    Err(_) => return self.fault("a line should be a number, but it is not"),
                },
            },
            b'J' => {
                let number = self.input.i32()?;
                self.put(Value::Int(number.into()))?;
            }
            b'K' => {
                let number = self.input.u8()?;
                self.put(Value::Int(number.into()))?;
            }
            b'M' => {
                let number = self.input.u16()?;
                self.put(Value::Int(number.into()))?;
            }
            b'L' => {
                let number = self.input.number()?;
                self.put(Value::Int(number))?;
            }
            0x8a => {
                let count = self.input.u8()?;
                self.long(count.into())?;
            }
            0x8b => {
                let count = self.input.u32()?;
                self.long(count.into())?;
            }
            b'F' => {
                let number = self.input.number()?;
                self.put(Value::Float(number))?;
            }
            b'G' => {
                let number = f64::from_be_bytes(self.input.array()?);
                self.put(Value::Float(number))?;
            }
            // texts
            b'S' => {
                let line = self.input.line()?;
                let quotes: &[char] = &['\'', '"'];
                self.put(Value::Text(line.trim_matches(quotes).into()))?;
            }
            b'V' => {
                let line = self.input.line()?;
                self.put(Value::Text(line.into()))?;
            }
            b'X' | b'T' => {
                let count = self.input.u32()?;
                self.text(count.into())?;
            }
            0x8c | b'U' => {
                let count = self.input.u8()?;
                self.text(count.into())?;
            }
            0x8d => {
                let count = self.input.u64()?;
                self.text(count)?;
            }
            // bytes: no state dict needs them
            b'C' => {
                let count = self.input.u8()?;
                self.bytes(count.into())?;
            }
            b'B' => {
                let count = self.input.u32()?;
                self.bytes(count.into())?;
            }
            0x8e | 0x96 => {
                let count = self.input.u64()?;
                self.bytes(count)?;
            }
            0x97 => self.push(OPAQUE)?,
            0x98 => drop(self.top()?),
            // collections
            b')' => self.put(Value::Tuple(Vec::new()))?,
            b']' => self.put(Value::List(Vec::new()))?,
            b'}' => self.put(Value::Dict(Vec::new()))?,
            0x8f => self.push(OPAQUE)?,
            0x91 => {
                self.since_mark()?;
                self.push(OPAQUE)?;
            }
            0x90 => {
                self.since_mark()?;
                self.top()?;
            }
            b't' => {
                let items = self.since_mark()?;
                self.put(Value::Tuple(items))?;
            }
            count @ 0x85..=0x87 => {
                let mut items = (0x85..=count).map(|_| self.pop()).collect::<Result<Vec<Id>, _>>()?;
                items.reverse();
                self.put(Value::Tuple(items))?;
            }
            b'l' => {
                let items = self.since_mark()?;
                self.put(Value::List(items))?;
            }
            b'd' => {
                let items = self.since_mark()?;
                self.put(Value::Dict(Vec::new()))?;
                self.set_items(&items)?;
            }
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
            // memo
            b'q' => {
                let index = self.input.u8()?;
                self.remember(index.into())?;
            }
            b'r' => {
                let index = self.input.u32()?;
                self.remember(index)?;
            }
            b'p' => {
                let index = self.input.number()?;
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
            b'g' => {
                let index = self.input.number()?;
                self.recall(index)?;
            }
            // names of Python things, and what Python would do with them
            b'c' => {
                let module = self.input.line()?;
                let name = self.input.line()?;
                self.put_marker(Marker::of(module, name))?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let marker = match (self.get(module), self.get(name)) {
                    (Value::Text(module), Value::Text(name)) => Marker::of(module, name),
                    _ => None,
                };
                self.put_marker(marker)?;
            }
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
            b'P' => {
                self.input.line()?;
                self.push(OPAQUE)?;
            }
            b'b' => {
                self.pop()?; // the state of an object: for state dicts only version numbers
                self.top()?;
            }
            0x81 => {
                self.pop()?;
                self.pop()?;
                self.push(OPAQUE)?;
            }
            0x92 => {
                for _ in 0..3 {
                    self.pop()?;
                }
                self.push(OPAQUE)?;
            }
            b'i' => {
                self.input.line()?;
                self.input.line()?;
                self.since_mark()?;
                self.push(OPAQUE)?;
            }
            b'o' => {
                self.since_mark()?;
                self.push(OPAQUE)?;
            }
            extension @ 0x82..=0x84 => {
                self.input.take([1, 2, 4][usize::from(extension - 0x82)])?;
                self.push(OPAQUE)?;
            }
            code => {
                return Err(Fault { offset: start, reason: format!("{code:#04x} is no opcode of pickle") });
            }
        }
        Ok(true)
    }
}
