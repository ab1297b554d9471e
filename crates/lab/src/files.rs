//! What lies in a folder besides what was put there.

use std::ffi::OsStr;

/// Whether a name is one that NFS gives to a file that was removed while somebody had it open; it goes when that ends.
pub fn is_remnant(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".nfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nfs_keeps_is_a_remnant() {
        let names = [".nfs0000000000a1b2c300000001", ".iclab-files", "nfs.toml", "checkpoint.safetensors"];
        assert_eq!(names.map(|name| is_remnant(OsStr::new(name))), [true, false, false, false]);
    }
}
