//! Printing that cannot panic: a full device, or a reader who has left, is an error like any other.
//!
//! `print!`, `println!` and `eprintln!` of the standard library panic when they cannot write. Those below stand in their
//! place in every module of the program: the first failure is kept, work goes on (a training is not lost because its
//! log is), and [`finish`] says what happened.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

use crate::error::{Error, Result};

/// The first failure to write.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

macro_rules! print {
    ($($text:tt)*) => { $crate::say::out(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::say::out(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::say::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output.
pub fn out(text: Arguments) {
    keep(io::stdout().write_fmt(text));
}

/// Writes to standard error. Where that fails nobody can be told.
pub fn err(text: Arguments) {
    let _ = io::stderr().write_fmt(text);
}

/// Keeps a failure to write, if it is the first.
pub fn keep(written: io::Result<()>) {
    if let Err(error) = written {
        FAILED.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
    }
}

/// Whether everything that was said has arrived. That nobody reads any more (`| head`) is the reader's choice.
pub fn finish() -> Result<()> {
    keep(io::stdout().flush());
    match FAILED.lock().unwrap_or_else(|e| e.into_inner()).take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::file("write to", "standard output")(error))
        }
        _ => Ok(()),
    }
}
