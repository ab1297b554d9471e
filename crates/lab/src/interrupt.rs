//! Stopping long computations from outside: somebody asks, and the next look unwinds.
//!
//! A process that ends on Ctrl-C needs none of this. Where iclab is part of another program, such as Python, that program
//! goes on, and what was asked for must end without a result.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

/// What unwinds from a computation that was asked to stop; whoever asked catches it.
#[derive(Debug)]
pub struct Interrupted;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Asks all computations to stop, or no longer.
pub fn ask(stop: bool) {
    ASKED.store(stop, Ordering::Relaxed);
}

/// Whether somebody has asked.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Unwinds if somebody has asked; loops over prompts look once for each.
pub(crate) fn look() {
    if asked() {
        resume_unwind(Box::new(Interrupted));
    }
}
