//! Memory for large buffers, and for what a thread works in.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut, Range};

use crate::cpu::simd::LANES;

thread_local! {
    /// What a thread works in: it goes through all its prompts in the same place, which stays in its caches.
    static SCRATCH: RefCell<Buffer> = const { RefCell::new(Buffer::EMPTY) };
}

/// Borrows the thread's scratch, `len` values of whatever was there before. Work may not borrow it again.
pub(crate) fn with_scratch(len: usize, work: impl FnOnce(&mut [f32])) {
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < len {
            *scratch = Buffer::zeros(len);
        }
        work(&mut scratch[..len]);
    });
}

/// A buffer that begins with a cache line: a register that is read across two cache lines takes twice as long. A large
/// one begins with a huge page.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    /// Where the first cache line begins.
    first: usize,
}

impl Buffer {
    const EMPTY: Self = Self { values: Vec::new(), first: 0 };

    /// Zeros, in huge pages where the system has them: a network's buffers take hundreds of megabytes, and looking up
    /// the addresses of small pages costs some percent of a training step.
    pub fn zeros(len: usize) -> Self {
        if len == 0 {
            return Self::EMPTY;
        }
        let begin = if len * size_of::<f32>() >= HUGE_PAGE { HUGE_PAGE } else { LANES * size_of::<f32>() };
        // What lies before the beginning is never touched, and so takes no memory.
        let mut values = vec![0.0; len + begin / size_of::<f32>()];
        let first = values.as_ptr().align_offset(begin).min(values.len() - len);
        values.truncate(first + len);
        let buffer = Self { values, first };
        #[cfg(all(target_os = "linux", not(miri)))] // Miri has no such call
        advise_huge_pages(&buffer);
        buffer
    }
}

/// Values before the first cache line.
pub(crate) fn first_cache_line(values: &[f32]) -> usize {
    values.as_ptr().align_offset(4 * LANES).min(values.len())
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.first..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.first..]
    }
}

/// Bytes of a huge page, or more on no system we know.
const HUGE_PAGE: usize = 2 << 20;

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(buffer: &[f32]) {
    let start = buffer.as_ptr().cast_mut();
    if start.addr().is_multiple_of(HUGE_PAGE) {
        // SAFETY: the range lies within the buffer and begins at a page; the advice changes no contents. Where it is not
        // understood, the pages stay small.
        unsafe { libc::madvise(start.cast(), size_of_val(buffer), libc::MADV_HUGEPAGE) };
    }
}

/// Where each of many parts lies in one buffer, in their order.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<Range<usize>>,
    end: usize,
}

impl Parts {
    /// A part of so many values at the end. It begins with a cache line, and not as far into a page as the one before
    /// it: values at the same distance from a page's beginning push each other out of L1.
    pub fn push(&mut self, len: usize) {
        const GAP: usize = 17 * LANES;
        self.parts.push(self.end..self.end + len);
        self.end += if len == 0 { 0 } else { len.next_multiple_of(LANES) + GAP };
    }

    /// Values that all of them take.
    pub fn len(&self) -> usize {
        self.end
    }

    /// One of them.
    pub fn of<'a>(&self, buffer: &'a [f32], part: usize) -> &'a [f32] {
        &buffer[self.parts[part].clone()]
    }

    /// One of them.
    pub fn of_mut<'a>(&self, buffer: &'a mut [f32], part: usize) -> &'a mut [f32] {
        &mut buffer[self.parts[part].clone()]
    }

    /// All of them.
    pub fn all<'a>(&self, buffer: &'a mut [f32]) -> Vec<&'a mut [f32]> {
        let (mut rest, mut begin) = (buffer, 0);
        let take = |part: &Range<usize>| {
            let (taken, later) = std::mem::take(&mut rest)[part.start - begin..].split_at_mut(part.len());
            (rest, begin) = (later, part.end);
            taken
        };
        self.parts.iter().map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_with_cache_lines_and_do_not_overlap() {
        let lengths = [5, 0, 1024, 16, HUGE_PAGE];
        let mut parts = Parts::default();
        lengths.iter().for_each(|&len| parts.push(len));
        let mut buffer = Buffer::zeros(parts.len());
        assert!(buffer.as_ptr().addr().is_multiple_of(HUGE_PAGE));
        for (i, part) in parts.all(&mut buffer).into_iter().enumerate() {
            assert_eq!((part.len(), part.len().min(1) * first_cache_line(part)), (lengths[i], 0));
            part.fill(i as f32 + 1.0);
        }
        for (i, &len) in lengths.iter().enumerate() {
            assert!(
                parts.of(&buffer, i).len() == len
                    && parts.of(&buffer, i).iter().all(|&x| x == i as f32 + 1.0)
            );
        }
        assert_eq!(buffer.iter().filter(|&&x| x > 0.0).count(), lengths.iter().sum::<usize>());
    }

    #[test]
    fn small_buffers_begin_with_a_cache_line() {
        for len in [1, 16, 100, 70_000] {
            let buffer = Buffer::zeros(len);
            assert!(buffer.len() == len && first_cache_line(&buffer) == 0);
        }
    }
}
