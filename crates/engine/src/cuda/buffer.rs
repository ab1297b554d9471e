//! Buffers in device memory that know their type and length: whoever copies, cuts or hands them on is checked.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use thiserror::Error;

use super::Precision;

/// An address in device memory, for kernels and cuBLASLt alone.
pub(crate) type Pointer = u64;

/// A buffer that is too short, or of another type, for what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BufferError {
    /// A copy between host and device of another length than the buffer's.
    #[error("a copy of {found} values, but the device buffer '{buffer}' has {len}")]
    Copy {
        /// Which buffer.
        buffer: &'static str,
        /// Its values.
        len: usize,
        /// Values on the host.
        found: usize,
    },
    /// A part that does not lie within the buffer.
    #[error("values {start} to {end} of the device buffer '{buffer}', which has {len}")]
    Part {
        /// Which buffer.
        buffer: &'static str,
        /// Its values.
        len: usize,
        /// The first value asked for.
        start: usize,
        /// The one after the last.
        end: usize,
    },
    /// A kernel or matmul that would touch more values than the buffer has.
    #[error("{needed} values are needed of the device buffer '{buffer}', which has {len}")]
    Short {
        /// Which buffer.
        buffer: &'static str,
        /// Its values.
        len: usize,
        /// Values that would be touched.
        needed: usize,
    },
    /// Values of another type than a kernel or matmul takes.
    #[error("the device buffer '{buffer}' holds {found:?}, but {expected:?} is needed")]
    Type {
        /// Which buffer.
        buffer: &'static str,
        /// What it holds.
        found: DType,
        /// What is needed.
        expected: DType,
    },
}

/// Numbers that buffers hold.
///
/// # Safety
/// Every pattern of bits must be a value, and every byte of a value must be initialised.
pub(crate) unsafe trait Element: Copy + Default + 'static {}

// SAFETY: plain numbers without padding, of which every pattern of bits is one; so are those below.
unsafe impl Element for f32 {}
// SAFETY: as above.
unsafe impl Element for f64 {}
// SAFETY: as above.
unsafe impl Element for u8 {}
// SAFETY: as above; a bf16 by its bits.
unsafe impl Element for u16 {}
// SAFETY: as above.
unsafe impl Element for u32 {}
// SAFETY: as above.
unsafe impl Element for i32 {}
// SAFETY: as above.
unsafe impl Element for u64 {}

/// Values in device memory; they live as long as the [`DeviceMemory`](super::memory::DeviceMemory) that made them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceBuffer<T> {
    at: Pointer,
    len: usize,
    label: &'static str,
    element: PhantomData<T>,
}

impl<T: Element> DeviceBuffer<T> {
    /// `len` values at an address; of memory that was allocated for them.
    pub(super) fn new(label: &'static str, at: Pointer, len: usize) -> Self {
        Self { at, len, label, element: PhantomData }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Some of the values.
    pub(crate) fn part(&self, range: impl RangeBounds<usize>) -> Result<Self, BufferError> {
        let start = match range.start_bound() {
            Bound::Included(&first) => first,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(BufferError::Part { buffer: self.label, len: self.len, start, end });
        }
        let at = self.at + (start * size_of::<T>()) as u64;
        Ok(Self { at, len: end - start, ..*self })
    }

    /// The address, for a kernel or cuBLASLt that touches the first `needed` values and none after them.
    pub(crate) fn pointer(&self, needed: usize) -> Result<Pointer, BufferError> {
        match needed <= self.len {
            true => Ok(self.at),
            false => Err(BufferError::Short { buffer: self.label, len: self.len, needed }),
        }
    }

    /// The address of a copy from or to `found` values on the host: all of the buffer, no more and no less.
    pub(super) fn copied(&self, found: usize) -> Result<Pointer, BufferError> {
        match found == self.len {
            true => Ok(self.at),
            false => Err(BufferError::Copy { buffer: self.label, len: self.len, found }),
        }
    }

    /// Whether the first value lies at a multiple of `bytes`.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        self.at.is_multiple_of(bytes)
    }
}

/// The element type of a buffer whose type depends on the precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    /// float32.
    Float,
    /// bf16.
    Bf16,
}

impl DType {
    /// The storage type of activations at a precision.
    pub(crate) fn storage(precision: Precision) -> Self {
        if precision == Precision::Bf16 { DType::Bf16 } else { DType::Float }
    }
}

/// A buffer whose type is chosen at run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum StorageBuffer {
    Float(DeviceBuffer<f32>),
    /// By their bits.
    Bf16(DeviceBuffer<u16>),
}

/// Does the same with either of the two.
macro_rules! either {
    ($buffer:expr, $typed:ident => $do:expr) => {
        match $buffer {
            StorageBuffer::Float($typed) => $do,
            StorageBuffer::Bf16($typed) => $do,
        }
    };
}

impl StorageBuffer {
    /// What it holds.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            StorageBuffer::Float(_) => DType::Float,
            StorageBuffer::Bf16(_) => DType::Bf16,
        }
    }

    /// Some of the values.
    pub(crate) fn part(&self, range: impl RangeBounds<usize>) -> Result<Self, BufferError> {
        Ok(match self {
            StorageBuffer::Float(buffer) => StorageBuffer::Float(buffer.part(range)?),
            StorageBuffer::Bf16(buffer) => StorageBuffer::Bf16(buffer.part(range)?),
        })
    }

    /// The address, as [`DeviceBuffer::pointer`].
    pub(crate) fn pointer(&self, needed: usize) -> Result<Pointer, BufferError> {
        either!(self, buffer => buffer.pointer(needed))
    }

    /// Whether the first value lies at a multiple of `bytes`.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        either!(self, buffer => buffer.is_aligned(bytes))
    }

    /// The same buffer where it holds what is expected.
    pub(crate) fn of(self, expected: DType) -> Result<Self, BufferError> {
        match self.dtype() == expected {
            true => Ok(self),
            false => Err(self.other_type(expected)),
        }
    }

    /// As float32, which it must be.
    pub(crate) fn float(self) -> Result<DeviceBuffer<f32>, BufferError> {
        match self {
            StorageBuffer::Float(buffer) => Ok(buffer),
            StorageBuffer::Bf16(_) => Err(self.other_type(DType::Float)),
        }
    }

    fn other_type(&self, expected: DType) -> BufferError {
        let buffer = either!(self, buffer => buffer.label);
        BufferError::Type { buffer, found: self.dtype(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten() -> DeviceBuffer<f32> {
        DeviceBuffer::new("ten", 4096, 10)
    }

    #[test]
    fn a_part_lies_within_its_buffer() {
        let part = ten().part(3..7).unwrap();
        assert_eq!((part.at, part.len()), (4096 + 12, 4));
        assert_eq!(part.part(1..).unwrap(), ten().part(4..=6).unwrap());
        assert_eq!(ten().part(..).unwrap(), ten());
        assert_eq!(ten().part(10..).unwrap().len(), 0);
        let outside = BufferError::Part { buffer: "ten", len: 10, start: 8, end: 11 };
        assert_eq!(ten().part(8..11).unwrap_err(), outside);
        // A part knows its own end, not its buffer's.
        assert!(part.part(..5).is_err() && part.part(5..).is_err());
        assert!(ten().part(..=usize::MAX).is_err());
        let (first, end) = (6, 4);
        assert!(ten().part(first..end).is_err());
    }

    #[test]
    fn a_part_of_halves_is_counted_in_values() {
        let halves = StorageBuffer::Bf16(DeviceBuffer::new("halves", 4096, 10));
        let part = halves.part(3..).unwrap();
        assert_eq!(part.pointer(7), Ok(4096 + 6));
        assert!(part.pointer(8).is_err());
        assert!(halves.is_aligned(16) && !part.is_aligned(4) && part.is_aligned(2));
    }

    #[test]
    fn nothing_reaches_beyond_the_end() {
        assert_eq!(ten().pointer(10), Ok(4096));
        let short = BufferError::Short { buffer: "ten", len: 10, needed: 11 };
        assert_eq!(ten().pointer(11).unwrap_err(), short);
        assert_eq!(ten().copied(10), Ok(4096));
        for found in [9, 11] {
            assert_eq!(ten().copied(found), Err(BufferError::Copy { buffer: "ten", len: 10, found }));
        }
        let text = short.to_string();
        assert_eq!(text, "11 values are needed of the device buffer 'ten', which has 10");
    }

    #[test]
    fn a_buffer_is_not_taken_for_another_type() {
        let float = StorageBuffer::Float(ten());
        assert_eq!(float.float(), Ok(ten()));
        assert_eq!(float.of(DType::Float), Ok(float));
        let wrong = BufferError::Type { buffer: "ten", found: DType::Float, expected: DType::Bf16 };
        assert_eq!(float.of(DType::Bf16), Err(wrong));
        let halves = StorageBuffer::Bf16(DeviceBuffer::new("halves", 0, 1));
        assert!(halves.float().is_err());
        assert_eq!(DType::storage(Precision::Tf32), DType::Float);
    }
}
