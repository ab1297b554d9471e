//! Tests on a CUDA device in software (`scripts/emulate-gpu`), those of other crates, too.

use std::process::Command;
use std::sync::Arc;

use engine::cuda::Device;

/// Set in the process of a test that has the device.
const EMULATED: &str = "ICLAB_TEST_IS_EMULATED";

/// The device, in a process of its own. In that of the caller: what the test said there, and no device.
pub enum Emulated {
    Device(Arc<Device>),
    Said(String),
    Skipped,
}

/// Runs a test by its name once more, with the device.
pub fn emulated(test: &str) -> Emulated {
    if std::env::var_os(EMULATED).is_some() {
        return Emulated::Device(Device::open(0).unwrap());
    }
    let compiler = Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
    if !compiler || cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        eprintln!("skipped: needs a C++ compiler on Linux and x86-64");
        return Emulated::Skipped;
    }
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/emulate-gpu"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(EMULATED, "1")
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    Emulated::Said(said)
}
