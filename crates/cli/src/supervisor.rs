//! Training in a process of its own, which is started again when a GPU, its driver or the system ends it: a CUDA context that
//! failed cannot be used again within the process.

use std::ffi::OsString;
use std::process::{Child, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use lab::findings::numbers::counted;
use lab::program::Program;

use crate::error::{Error, Result};
use crate::signals::{self, INTERRUPTED, PATIENT_VARIABLE};

/// Hidden variable that says to a process that it is watched.
const VARIABLE: &str = "ICLAB_SUPERVISED";
/// Exit code by which a watched process says that its device failed: "try again" among those of `sysexits.h`.
pub const DEVICE_FAILED: u8 = 75;
/// Time between two looks at the process.
const LOOK: Duration = Duration::from_millis(100);

static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Keeps the command line, without the program's name, as what is started again.
pub fn remember(arguments: &[OsString]) {
    let _ = ARGUMENTS.set(arguments.iter().skip(1).cloned().collect());
}

/// Whether this process is the one that is watched.
pub fn is_watched() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs this very command in a process of its own until that ends by itself, starting it again at most `restarts` times; its exit
/// code.
pub fn run(restarts: u32) -> Result<u8> {
    signals::listen()?;
    signals::be_patient(); // it is the watched process that saves
    let program = Program::running().map_err(Error::file("find", "iclab"))?;
    for left in (0..=restarts).rev() {
        let mut command = program.command();
        command.args(ARGUMENTS.get().into_iter().flatten());
        command.env(VARIABLE, "1").env(PATIENT_VARIABLE, "1");
        let mut child = command.spawn().map_err(Error::file("start", &program.file))?;
        let status = wait(&mut child).map_err(Error::file("wait for", &program.file))?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        if let Some(code) = code.filter(|code| *code != DEVICE_FAILED) {
            return Ok(code);
        }
        if signals::asked() && code.is_none() {
            return Ok(INTERRUPTED); // the second request, which does not wait for anything to be saved
        }
        let how = code.map_or_else(|| format!("it was ended ({status})"), |_| "its device failed".into());
        if left == 0 {
            let often = counted(restarts as usize, "restart", "restarts");
            let why =
                format!("training did not end by itself: {how}, after {often}; the same command goes on");
            return Err(Error::Usage(why));
        }
        eprintln!(
            "note: {how}; training goes on from its last checkpoints ({left} of {restarts} restarts left)"
        );
    }
    unreachable!("the last one returns")
}

/// Waits for a process; a request to stop is passed on, a second one ends it at once.
fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if signals::asked() && !std::mem::replace(&mut told, true) {
            signals::ask_to_stop(child);
        }
        if signals::insisted() {
            child.kill()?;
        }
        std::thread::sleep(LOOK);
    }
}
