//! Counts the bytes in use on a thread, so that tests can bound them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn change(bytes: isize) {
    let live = LIVE.get() + bytes;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: every call is handed to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it is moved, both the old and the new place may be in use.
        change(size as isize);
        change(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs something on this thread; returns its result and the most bytes that it had in use at once.
pub fn measured<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = run();
    (result, (PEAK.get() - before) as usize)
}
