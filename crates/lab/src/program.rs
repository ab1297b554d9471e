//! The program that is running: whose code it is, and how it is started again.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program that is running.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file that holds its code.
    pub file: PathBuf,
    /// What starts it, before its arguments, where that is not the file itself: `python -m iclab`.
    pub starter: Vec<String>,
}

static EMBEDDED: OnceLock<Program> = OnceLock::new();

impl Program {
    /// What [`Program::running`] answers from now on in a process that another program started, such as Python; the first
    /// call counts.
    pub fn embed(self) {
        let _ = EMBEDDED.set(self);
    }

    /// The one that is running.
    pub fn running() -> io::Result<Program> {
        match EMBEDDED.get() {
            Some(program) => Ok(program.clone()),
            None => Ok(Program { file: std::env::current_exe()?, starter: Vec::new() }),
        }
    }

    /// Its code as it was when it was started, also after the file was replaced.
    pub fn code(&self) -> io::Result<Vec<u8>> {
        let running = Path::new("/proc/self/exe");
        let own = self.starter.is_empty() && running.exists();
        std::fs::read(if own { running } else { &self.file })
    }

    /// A command that starts it again.
    pub fn command(&self) -> Command {
        match self.starter.split_first() {
            None => Command::new(&self.file),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest);
                command
            }
        }
    }
}
