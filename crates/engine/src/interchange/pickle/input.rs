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

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    /// The text up to the next newline, which is read too.
    pub(super) fn line(&mut self) -> Result<&'a str, Fault> {
        let left = &self.bytes[self.at..];
        let Some(length) = left.iter().position(|&byte| byte == b'\n') else {
            return Err(self.fault("a line should end here with a newline, but it does not"));
        };
        let line = self.text(length as u64)?;
        self.at += 1;
        Ok(line.strip_suffix('\r').unwrap_or(line))
    }

    /// The next bytes as UTF-8.
    pub(super) fn text(&mut self, count: u64) -> Result<&'a str, Fault> {
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes).map_err(|_| self.fault("a text is not UTF-8"))
    }

    /// A number written in decimal on a line of its own.
    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, Fault> {
        let line = self.line()?;
        line.strip_suffix('L')
            .unwrap_or(line)
            .parse()
            .map_err(|_| self.fault("a line should be a number, but it is not"))
    }
}
