//! Guard regions: bytes before and after every buffer, filled with a pattern, that nobody may touch. `iclab doctor` runs its checks
//! with them; otherwise there are none.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::error::CudaError;

/// Bytes of a guard: more than the tile of any kernel is wide, and buffers stay aligned as the allocation is.
pub(crate) const GUARD: usize = 4096;

/// What guards are filled with. As float32 or bf16 it is NaN, so that whoever reads a guard computes what no comparison accepts.
pub(crate) const PATTERN: u8 = 0xff;

/// Which end of a buffer a guard is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before its first value.
    Before,
    /// After its last.
    After,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Before => "before",
            Side::After => "after",
        })
    }
}

/// Where buffers of one size lie in their allocation: the first from `offset` on, with guards around each of them, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Of the first value.
    pub offset: usize,
    /// Of the values of one buffer.
    pub bytes: usize,
    /// Between the starts of two buffers.
    pub step: usize,
    pub count: usize,
    /// Of the whole allocation.
    pub size: usize,
}

/// What the start of a buffer is a multiple of, as the start of an allocation is.
const ALIGNMENT: usize = 256;

impl Layout {
    pub(super) fn new(bytes: usize, guarded: bool) -> Self {
        Self::stacked(bytes, 1, guarded)
    }

    pub(super) fn stacked(bytes: usize, count: usize, guarded: bool) -> Self {
        let offset = if guarded { GUARD } else { 0 };
        let step = (bytes + offset).next_multiple_of(ALIGNMENT);
        let end = offset + count.saturating_sub(1) * step + bytes;
        // The driver allocates nothing for nothing.
        Self { offset, bytes, step, count, size: (end + offset).max(1) }
    }

    /// The guards, as ranges of the allocation: all bytes that belong to no buffer.
    pub(super) fn guards(&self) -> Vec<(Side, Range<usize>)> {
        let mut guards = vec![(Side::Before, 0..self.offset)];
        for start in (0..self.count).map(|place| self.offset + place * self.step) {
            let end = if start + self.step < self.size { start + self.step } else { self.size };
            guards.push((Side::After, start + self.bytes..end));
        }
        guards.retain(|(_, guard)| self.offset > 0 && !guard.is_empty());
        guards
    }
}

/// How far from its buffer the nearest overwritten byte of a guard is; 0 is next to it.
pub(super) fn overwritten(side: Side, guard: &[u8]) -> Option<usize> {
    let changed = |byte: &u8| *byte != PATTERN;
    match side {
        Side::Before => guard.iter().rev().position(changed),
        Side::After => guard.iter().position(changed),
    }
}

/// What became of guards.
#[derive(Debug, Default)]
pub struct GuardReport {
    /// Buffers whose guards are as they were filled.
    pub intact: usize,
    /// One for each memory of which a guard was overwritten or could not be read.
    pub failures: Vec<CudaError>,
}

impl GuardReport {
    /// Adds what was found in one memory.
    fn add(&mut self, found: Result<usize, CudaError>) {
        match found {
            Ok(intact) => self.intact += intact,
            Err(error) => self.failures.push(error),
        }
    }
}

/// Whether buffers made from now on have guards, and what became of those that are gone.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    on: AtomicBool,
    report: Mutex<GuardReport>,
}

impl Guards {
    /// Switched on from the beginning.
    pub(crate) fn on() -> Self {
        Self { on: AtomicBool::new(true), report: Mutex::default() }
    }

    pub(crate) fn are_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(super) fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    fn report(&self) -> MutexGuard<'_, GuardReport> {
        self.report.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Keeps what was found in one memory.
    pub(super) fn file(&self, found: Result<usize, CudaError>) {
        self.report().add(found);
    }

    /// What was filed since the last time.
    pub(super) fn take(&self) -> GuardReport {
        std::mem::take(&mut *self.report())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_without_guards_is_its_allocation() {
        let alone = Layout { offset: 0, bytes: 10, step: 256, count: 1, size: 10 };
        assert_eq!(Layout::new(10, false), alone);
        assert_eq!(alone.guards(), []);
        assert_eq!(Layout::new(0, false).size, 1);
        let stack = Layout::stacked(10, 3, false);
        assert_eq!((stack.size, stack.guards()), (2 * 256 + 10, vec![]));
    }

    #[test]
    fn guards_touch_their_buffer_at_both_ends() {
        let layout = Layout::new(10, true);
        assert_eq!((layout.offset, layout.size), (GUARD, 2 * GUARD + 10));
        let guards = [(Side::Before, 0..GUARD), (Side::After, GUARD + 10..layout.size)];
        assert_eq!(layout.guards(), guards);
    }

    #[test]
    fn every_byte_of_a_stack_is_a_buffers_or_a_guards() {
        for (bytes, count) in [(10, 3), (256, 2), (4096 - 256, 5)] {
            let layout = Layout::stacked(bytes, count, true);
            let mut owners = vec![0; layout.size];
            let buffers = (0..count).map(|place| layout.offset + place * layout.step);
            let buffers = buffers.map(|start| start..start + bytes);
            let guards = layout.guards().into_iter().map(|(_, guard)| guard);
            assert!(guards.clone().all(|guard| guard.len() >= GUARD));
            guards.chain(buffers).flatten().for_each(|byte| owners[byte] += 1);
            assert!(owners.iter().all(|&owners| owners == 1), "{count} of {bytes}");
        }
    }

    /// On the bytes of an allocation, as they would come back from a device.
    #[test]
    fn one_byte_beyond_either_end_is_seen() {
        let layout = Layout::new(10, true);
        let mut bytes = vec![PATTERN; layout.size];
        bytes[layout.offset..layout.offset + layout.bytes].fill(0);
        let seen = |bytes: &[u8]| -> Vec<_> {
            layout.guards().into_iter().map(|(side, range)| overwritten(side, &bytes[range])).collect()
        };
        assert_eq!(seen(&bytes), [None, None]);
        for (place, expected) in [
            (GUARD - 1, [Some(0), None]),
            (0, [Some(GUARD - 1), None]),
            (GUARD + 10, [None, Some(0)]),
            (layout.size - 1, [None, Some(GUARD - 1)]),
        ] {
            bytes[place] = 0;
            assert_eq!(seen(&bytes), expected);
            bytes[place] = PATTERN;
        }
        // The nearest byte is named, from either side.
        (bytes[7], bytes[9]) = (1, 1);
        (bytes[GUARD + 13], bytes[GUARD + 15]) = (1, 1);
        assert_eq!(seen(&bytes), [Some(GUARD - 10), Some(3)]);
    }

    #[test]
    fn reading_a_guard_gives_nan() {
        assert!(f32::from_ne_bytes([PATTERN; 4]).is_nan());
        assert!(half::bf16::from_bits(u16::from_ne_bytes([PATTERN; 2])).is_nan());
    }

    #[test]
    fn what_is_filed_is_told_once() {
        let guards = Guards::on();
        assert!(guards.are_on() && !Guards::default().are_on());
        guards.file(Ok(3));
        guards.file(Err(CudaError::Overrun { buffer: "x", bytes: 8, side: Side::After, offset: 0 }));
        guards.file(Ok(2));
        let report = guards.take();
        assert_eq!((report.intact, report.failures.len()), (5, 1));
        assert_eq!(
            report.failures[0].to_string(),
            "the guard after the device buffer 'x' of 8 bytes was overwritten, 0 bytes from it"
        );
        assert_eq!(guards.take().intact, 0);
    }
}
