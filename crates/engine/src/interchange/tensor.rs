//! Element types of other programs, and strided views turned into plain float32.

use half::{bf16, f16};

/// The most axes a tensor may have.
pub(super) const MOST_AXES: usize = 8;

/// What weights may be stored as, for messages.
pub(super) const FLOATS: &str = "float32, float64, float16 or bfloat16";

/// Element types that occur in checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dtype {
    F32,
    F64,
    F16,
    Bf16,
    I64,
    I32,
    U8,
    Bool,
}

impl Dtype {
    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 => 8,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::U8 | Dtype::Bool => 1,
        }
    }

    /// Whether weights may have this type.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Dtype::F32 | Dtype::F64 | Dtype::F16 | Dtype::Bf16)
    }

    /// Turns bytes, as many as fit, into values; types that are not floats are left alone.
    pub(super) fn decode(self, bytes: &[u8], big: bool, out: &mut [f32]) {
        fn each<const N: usize>(bytes: &[u8], big: bool, out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
            for (value, chunk) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
                let mut chunk = *chunk;
                if big {
                    chunk.reverse();
                }
                *value = read(chunk);
            }
        }
        match self {
            Dtype::F32 => each(bytes, big, out, f32::from_le_bytes),
            Dtype::F64 => each(bytes, big, out, |b| f64::from_le_bytes(b) as f32),
            Dtype::F16 => each(bytes, big, out, |b| f16::from_le_bytes(b).to_f32()),
            Dtype::Bf16 => each(bytes, big, out, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::I64 | Dtype::I32 | Dtype::U8 | Dtype::Bool => {}
        }
    }
}

/// A view into a storage, in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub offset: u64,
    pub shape: Vec<u64>,
    pub stride: Vec<u64>,
}

impl View {
    /// Number of values; nothing if the number is beyond all bounds.
    pub(super) fn values(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size))
    }

    /// The first element after the view; nothing if it is beyond all bounds.
    pub(super) fn end(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(self.offset);
        }
        let last = self.shape.iter().zip(&self.stride).try_fold(self.offset, |last, (&size, &stride)| {
            last.checked_add((size - 1).checked_mul(stride)?)
        })?;
        last.checked_add(1)
    }

    /// Copies the view out of its storage, row by row. The caller has checked that the view lies in the storage and
    /// that `out` has its number of values.
    pub(super) fn gather(&self, dtype: Dtype, storage: &[u8], big: bool, out: &mut [f32]) {
        let size = dtype.size();
        let at = |element: u64| storage.get(element as usize * size..).unwrap_or_default();
        let (&columns, &step) = match (self.shape.last(), self.stride.last()) {
            (Some(columns), Some(step)) => (columns, step),
            _ => return dtype.decode(at(self.offset), big, out),
        };
        if out.is_empty() {
            return;
        }
        let outer = self.shape.len() - 1;
        let mut index = [0u64; MOST_AXES];
        for row in out.chunks_mut(columns as usize) {
            let start = self.offset + (0..outer).map(|axis| index[axis] * self.stride[axis]).sum::<u64>();
            if step == 1 {
                dtype.decode(at(start), big, row);
            } else {
                for (column, value) in row.iter_mut().enumerate() {
                    dtype.decode(at(start + column as u64 * step), big, std::slice::from_mut(value));
                }
            }
            for axis in (0..outer).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_views_and_byte_orders() {
        let little: Vec<u8> = (0..12u8).flat_map(|v| f32::from(v).to_le_bytes()).collect();
        let big: Vec<u8> = (0..12u8).flat_map(|v| f32::from(v).to_be_bytes()).collect();
        let view = View { offset: 1, shape: vec![2, 3], stride: vec![1, 4] };
        assert_eq!((view.values(), view.end()), (Some(6), Some(11)));
        for (bytes, order) in [(little, false), (big, true)] {
            let mut out = [0.0; 6];
            view.gather(Dtype::F32, &bytes, order, &mut out);
            assert_eq!(out, [1.0, 5.0, 9.0, 2.0, 6.0, 10.0]);
        }
        let huge = View { offset: 0, shape: vec![u64::MAX, 3], stride: vec![u64::MAX, 1] };
        assert_eq!((huge.values(), huge.end()), (None, None));
    }

    #[test]
    fn half_precisions() {
        let mut out = [0.0; 2];
        Dtype::Bf16.decode(&[0x80, 0x3f, 0x00, 0xc0], false, &mut out);
        assert_eq!(out, [1.0, -2.0]);
        Dtype::F16.decode(&[0x00, 0x3c, 0x00, 0xc0], false, &mut out);
        assert_eq!(out, [1.0, -2.0]);
    }
}
