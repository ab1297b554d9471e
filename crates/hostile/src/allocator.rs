//! Counts the bytes in use in this process, on whatever threads, so that tests can bound them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::is_alone;

/// Whether something is being measured: otherwise nothing is counted.
static MEASURING: AtomicBool = AtomicBool::new(false);
/// Bytes in use since then: fewer than none where older ones are given back.
static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// More than any reader may ask for at once while it is measured: the machine should not have to find out.
const ABSURD: usize = 4 << 30;

/// The system's allocator, counted; a test that measures declares it as its `#[global_allocator]`.
pub struct Counting;

// Relaxed: of one thread the order is certain, and threads that end before the measurement does are waited for, which
// orders more than these.
fn change(bytes: isize) {
    if !MEASURING.load(Relaxed) {
        return;
    }
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    if bytes > 0 && live > PEAK.load(Relaxed) {
        PEAK.fetch_max(live, Relaxed);
    }
}

fn refuse_absurd(size: usize) {
    if size >= ABSURD && MEASURING.swap(false, Relaxed) {
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

/// Runs something; returns its result and the most bytes that this process had in use at once for it, on all threads. One at
/// a time; what other threads do meanwhile counts, so that a test must be [`alone`](crate::alone!) in its process.
///
/// # Panics
///
/// Where other tests run in this process.
pub fn measured<T>(run: impl FnOnce() -> T) -> (T, usize) {
    static ONE: Mutex<()> = Mutex::new(());
    assert!(
        is_alone(),
        "other tests would be measured, too; accepted: hostile::alone!() at the beginning of this one"
    );
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    MEASURING.store(true, Relaxed);
    let result = run();
    MEASURING.store(false, Relaxed);
    (result, PEAK.load(Relaxed) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn bytes_of_all_threads_count() {
        crate::alone!();
        const SIZE: usize = 8 << 20;
        /// What the test's harness, on its own thread, may take or give back meanwhile.
        const SLACK: usize = 4 << 10;
        let threads = 3;
        let gathered = std::sync::Barrier::new(threads);
        let (_, used) = measured(|| {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        let bytes = std::hint::black_box(vec![1u8; SIZE]);
                        gathered.wait(); // all have theirs
                        drop(bytes);
                    });
                }
            });
        });
        assert!((threads * SIZE - SLACK..threads * SIZE + SIZE / 8).contains(&used), "{used}");
        // What another thread took before, and what is given back, count for nothing.
        let old = std::thread::spawn(|| vec![1u8; SIZE]).join().unwrap();
        let (_, used) = measured(|| drop(old));
        assert!(used <= SLACK, "{used}");
        let (bytes, used) = measured(|| std::thread::spawn(|| vec![1u8; SIZE]).join().unwrap());
        assert!((SIZE - SLACK..SIZE + SIZE / 8).contains(&used), "{used} of {}", bytes.len());
    }
}
