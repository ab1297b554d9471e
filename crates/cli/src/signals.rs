//! Requests to stop: the first lets the current steps finish and saves, a second one ends at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);
static PATIENT: AtomicBool = AtomicBool::new(false);

/// Listens for Ctrl-C, SIGTERM, SIGHUP, and SIGUSR1, by which clusters say that the time is nearly up. Once is enough.
pub fn listen() -> Result<()> {
    static LISTENING: Once = Once::new();
    let mut result = Ok(());
    LISTENING.call_once(|| result = begin());
    result
}

fn begin() -> Result<()> {
    #[cfg(unix)]
    on_user_signal().map_err(|e| Error::Usage(format!("cannot listen for SIGUSR1: {e}")))?;
    ctrlc::set_handler(|| {
        if REQUESTS.fetch_add(1, Ordering::Relaxed) > 0 && !PATIENT.load(Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|e| Error::Usage(format!("cannot listen for Ctrl-C: {e}")))
}

/// From now on a second request does not end the process: clusters repeat theirs, and kill when they mean it.
pub fn be_patient() {
    PATIENT.store(true, Ordering::Relaxed);
}

/// Whether anyone has asked to stop.
pub fn asked() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 0
}

#[cfg(unix)]
fn on_user_signal() -> nix::Result<()> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    extern "C" fn count(_: std::ffi::c_int) {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only adds to an atomic number, which may be done at any moment.
    unsafe { signal(Signal::SIGUSR1, SigHandler::Handler(count)) }.map(|_| ())
}
