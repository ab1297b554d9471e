//! Bytes of a pickle, read in order.

use super::Fault;

/// A place in the bytes.
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// A fault here.
    pub(super) fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault { offset: self.at, reason: reason.into() }
    }

    /// The next bytes, as many as asked for.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        let left = &self.bytes[self.at..];
        match usize::try_from(count).ok().and_then(|count| left.get(..count)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => {
                Err(self.fault(format!("{count} bytes should follow, but only {} are there", left.len())))
            }
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_le_bytes)
    }

    /// Bytes after their count, which is a little-endian number of `width` bytes.
    pub(super) fn counted(&mut self, width: usize) -> Result<&'a [u8], Fault> {
        let mut count = [0; 8];
        count[..width].copy_from_slice(self.take(width as u64)?);
        self.take(u64::from_le_bytes(count))
    }

    /// The text up to the next newline, which is read too.
    pub(super) fn line(&mut self) -> Result<&'a str, Fault> {
        let left = &self.bytes[self.at..];
        let Some(length) = left.iter().position(|&byte| byte == b'\n') else {
            return Err(self.fault("a line should end here with a newline, but it does not"));
        };
        let line = std::str::from_utf8(self.take(length as u64)?);
        self.at += 1;
        line.map_err(|_| self.fault("a name is not UTF-8"))
    }
}
