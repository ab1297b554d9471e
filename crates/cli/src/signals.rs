//! Requests to stop: the first lets the current steps finish and saves, a second one ends at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lab::networks::pool::JobOutcome;

use crate::error::{Error, Result};

/// Exit code of a command that was asked to stop and saved what was done: 128 and the number of SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Hidden variable that makes a trainer deaf to a second request: whoever started it hears the same Ctrl-C, and passes on
/// what reaches nobody else.
pub const PATIENT_VARIABLE: &str = "ICLAB_PATIENT";

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
    if std::env::var_os(PATIENT_VARIABLE).is_some() {
        be_patient();
    }
    #[cfg(unix)]
    on_user_signal().map_err(|e| Error::Usage(format!("cannot listen for SIGUSR1: {e}")))?;
    ctrlc::set_handler(|| {
        if REQUESTS.fetch_add(1, Ordering::Relaxed) > 0 && !PATIENT.load(Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })
    .map_err(|e| Error::Usage(format!("cannot listen for Ctrl-C: {e}")))
}

/// From now on a second request does not end the process: clusters repeat theirs, and kill when they mean it.
pub fn be_patient() {
    PATIENT.store(true, Ordering::Relaxed);
}

/// An error for runs that a request to stop left unfinished, if there are any.
pub fn refuse_unfinished<'a>(outcomes: impl ExactSizeIterator<Item = &'a JobOutcome>) -> Result<()> {
    let of = outcomes.len();
    match outcomes.filter(|o| matches!(o, JobOutcome::Interrupted(_) | JobOutcome::NotBegun)).count() {
        0 => Ok(()),
        _ if of == 1 => Err(Error::Interrupted("the run was interrupted; the same command goes on".into())),
        left => {
            let what = format!("{left} of {of} runs were interrupted; the same command goes on with them");
            Err(Error::Interrupted(what))
        }
    }
}

/// Passes a request to stop on to a process that this one has started: Ctrl-C on a terminal reaches both, a signal to this
/// process alone does not. A second request does it no harm.
#[cfg(unix)]
pub fn ask_to_stop(child: &std::process::Child) {
    use nix::sys::signal::{Signal, kill};
    if let Ok(id) = i32::try_from(child.id()) {
        let _ = kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM);
    }
}

#[cfg(not(unix))]
pub fn ask_to_stop(_: &std::process::Child) {}

/// Whether anyone has asked to stop.
pub fn asked() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 0
}

/// Whether anyone has asked more than once.
pub fn insisted() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 1
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
