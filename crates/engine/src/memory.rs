//! Memory for large buffers, and for what a thread works in.

use std::cell::RefCell;

thread_local! {
    /// What a thread works in: it goes through all its prompts in the same place, which stays in its caches.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Lends the thread's scratch, `len` values of whatever was there before. Work may not ask for it again.
pub(crate) fn with_scratch(len: usize, work: impl FnOnce(&mut [f32])) {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.resize(scratch.len().max(len), 0.0);
        work(&mut scratch[..len]);
    });
}

/// Zeros, in large pages where the system lends them: a network's buffers take hundreds of megabytes, and looking up the
/// addresses of small pages costs some percent of a training step.
pub(crate) fn zeros(len: usize) -> Vec<f32> {
    let buffer = vec![0.0; len];
    #[cfg(target_os = "linux")]
    advise_large_pages(&buffer);
    buffer
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
