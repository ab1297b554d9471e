//! Counts the bytes in use on a thread, so that tests can bound them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// Whether something is being measured.
    static MEASURING: Cell<bool> = const { Cell::new(false) };
}

/// More than any reader may ask for at once while it is measured: the machine should not have to find out.
const ABSURD: usize = 4 << 30;

/// The system's allocator, counted; a test that measures declares it as its `#[global_allocator]`.
pub struct Counting;

fn change(bytes: isize) {
    let live = LIVE.get() + bytes;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

fn refuse_absurd(size: usize) {
    if size >= ABSURD && MEASURING.replace(false) {
        eprintln!("a reader asks for {size} bytes at once; ICLAB_HOSTILE_TRACE=1 names the case");
        std::process::abort(); // an allocator must not unwind
    }
}

// SAFETY: every call is handed to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        refuse_absurd(layout.size());
        change(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        refuse_absurd(layout.size());
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
        refuse_absurd(size);
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
    MEASURING.set(true);
    let result = run();
    MEASURING.set(false);
    (result, (PEAK.get() - before) as usize)
}
