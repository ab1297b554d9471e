//! Memory for large buffers, and for what a thread works in.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::simd::LANES;

thread_local! {
    /// What a thread works in: it goes through all its prompts in the same place, which stays in its caches.
    static SCRATCH: RefCell<Buffer> = const { RefCell::new(Buffer::EMPTY) };
}

/// Lends the thread's scratch, `len` values of whatever was there before. Work may not ask for it again.
pub(crate) fn with_scratch(len: usize, work: impl FnOnce(&mut [f32])) {
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < len {
            *scratch = Buffer::zeros(len);
        }
        work(&mut scratch[..len]);
    });
}

/// A buffer that begins with a line of the caches: a register that is read across two lines takes twice as long.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    /// Where the first line begins.
    first: usize,
}

impl Buffer {
    const EMPTY: Self = Self { values: Vec::new(), first: 0 };

    /// Zeros, in large pages where the system lends them: a network's buffers take hundreds of megabytes, and looking up
    /// the addresses of small pages costs some percent of a training step.
    pub fn zeros(len: usize) -> Self {
        if len == 0 {
            return Self::EMPTY;
        }
        let mut values = vec![0.0; len + LANES];
        #[cfg(target_os = "linux")]
        advise_large_pages(&values);
        let first = first_line(&values);
        values.truncate(first + len);
        Self { values, first }
    }
}

/// Values before the first line of the caches.
pub(crate) fn first_line(values: &[f32]) -> usize {
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

#[cfg(target_os = "linux")]
fn advise_large_pages(buffer: &[f32]) {
    /// Size of a large page, or more on no system we know.
    const LARGE: usize = 2 << 20;
    const SMALL: usize = 4 << 10;
    let range = buffer.as_ptr_range();
    let (start, end) = ((range.start as usize).next_multiple_of(SMALL), range.end as usize);
    if end.saturating_sub(start) >= 2 * LARGE {
        // SAFETY: the range lies within the buffer and begins at a page; the advice changes no contents. Where it is not
        // understood, the pages stay small.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}
