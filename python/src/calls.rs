//! Long computations called from Python: the interpreter is let go, Ctrl-C is heard, and no panic crosses.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lab::interrupt::{self, Interrupted};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::errors::{failed, raised};

/// How often Python is asked for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Main threads have as much; decompositions recurse.
const STACK: usize = 16 << 20;

/// What a Python function that was called on the way has raised.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

fn raised_slot() -> MutexGuard<'static, Option<PyErr>> {
    RAISED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Keeps what a Python function has raised; the call that it was part of raises it again.
pub fn keep(error: PyErr) -> lab::Error {
    let sentence = error.to_string();
    raised_slot().get_or_insert(error);
    lab::Error::BadData(sentence)
}

/// Does work of the laboratory without holding the interpreter.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> lab::Result<T> + Send) -> PyResult<T> {
    raised_slot().take();
    let (result, stopped) = py.detach(|| on_a_thread(work));
    if let Some(signal) = stopped {
        interrupt::ask(false);
        return Err(signal);
    }
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(raised_slot().take().unwrap_or_else(|| raised(error))),
        Err(panic) if panic.is::<Interrupted>() => Err(PyKeyboardInterrupt::new_err(())),
        Err(panic) => Err(failed(&format!("iclab failed, which is a mistake in iclab: {}", words(&*panic)))),
    }
}

type Outcome<T> = std::thread::Result<lab::Result<T>>;

/// The outcome, and the exception of a signal that came meanwhile.
fn on_a_thread<T: Send>(work: impl FnOnce() -> lab::Result<T> + Send) -> (Outcome<T>, Option<PyErr>) {
    std::thread::scope(|scope| {
        let (done, waiting) = channel();
        let worker = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let _ = done.send(());
            result
        });
        let worker = match worker {
            Ok(worker) => worker,
            Err(error) => {
                let why = lab::Error::Training(format!("no thread could be started: {error}"));
                return (Ok(Err(why)), None);
            }
        };
        let mut stopped = None;
        while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(LOOK) {
            if stopped.is_none()
                && let Err(signal) = Python::attach(|py| py.check_signals())
            {
                interrupt::ask(true);
                stopped = Some(signal);
            }
        }
        (worker.join().unwrap_or_else(Err), stopped)
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}
