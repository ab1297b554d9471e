//! Which machine this is. Its name is for people; what tells machines apart is a boot of a kernel.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// The name of this machine.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "this machine".into() } else { name.trim().to_string() }
}

/// What this boot of this machine's kernel has alone; empty where it cannot be told. Names of machines may be shared: by
/// containers, by copies of one image.
pub fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let linux = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let text = linux.ok().or_else(|| {
            let mac = Command::new("sysctl").args(["-n", "kern.bootsessionuuid"]).output().ok()?;
            mac.status.success().then(|| String::from_utf8_lossy(&mac.stdout).into_owned())
        });
        text.unwrap_or_default().trim().to_string()
    })
}

/// What this machine keeps from boot to boot, in sixteen hexadecimal digits: of its name and what systemd made when it was
/// installed. Empty where there is no such thing, as in most containers; copies of an image may share it.
pub fn installation() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    if id.trim().is_empty() {
        return String::new();
    }
    format!("{:016x}", crate::hash::stable_id(&format!("{} {}", name(), id.trim())))
}

/// How long this kernel has been running, where it tells.
pub fn uptime() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()
}

/// What this boot of this machine's kernel is called in names of files, in eight hexadecimal digits.
pub fn machine_tag() -> String {
    format!("{:08x}", crate::hash::stable_id(&format!("{} {}", name(), boot())) as u32)
}

/// A name for this process that no other has, on whatever machine: for files that several may write side by side.
pub fn process_tag() -> String {
    format!("{}-{}", machine_tag(), std::process::id())
}
