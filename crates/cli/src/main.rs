//! `iclab`: the command line as a program.

use std::process::ExitCode;

/// `iclab … | head` ends when nobody reads any more, as other programs do, instead of with a panic.
#[cfg(unix)]
fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no other thread runs yet, and the default action runs no code of ours.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

fn main() -> ExitCode {
    #[cfg(unix)]
    end_with_the_reader();
    cli::complete();
    ExitCode::from(cli::run(std::env::args_os()))
}
