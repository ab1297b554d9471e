//! TensorBoard's event files: length-prefixed, checksummed protocol-buffer records, written by hand (two message
//! types and one checksum are less than any dependency).

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// An event file being written.
pub struct EventFile {
    file: File,
}

impl EventFile {
    /// Creates a file in `dir`. Several files in one directory are one run to TensorBoard; `seconds` orders them.
    pub fn create(dir: &Path, seconds: u64, step: u64) -> io::Result<EventFile> {
        let mut file = File::create(dir.join(format!("events.out.tfevents.{seconds:010}.iclab.{step}")))?;
        // Event { wall_time = 1, file_version = 3 }
        let mut event = fixed64(1, (seconds as f64).to_bits());
        event.extend(bytes(3, b"brain.Event:2"));
        file.write_all(&record(&event))?;
        Ok(EventFile { file })
    }

    /// Writes scalars of one step.
    pub fn scalars(&mut self, seconds: f64, step: u64, scalars: &[(&str, f64)]) -> io::Result<()> {
        // Summary { repeated Value value = 1 }, Value { tag = 1, simple_value = 2 }
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            let mut entry = bytes(1, tag.as_bytes());
            entry.push(2 << 3 | 5);
            entry.extend((*value as f32).to_le_bytes());
            summary.extend(bytes(1, &entry));
        }
        // Event { wall_time = 1, step = 2, summary = 5 }
        let mut event = fixed64(1, seconds.to_bits());
        event.push(2 << 3);
        event.extend(varint(step));
        event.extend(bytes(5, &summary));
        self.file.write_all(&record(&event))?;
        self.file.flush()
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn fixed64(field: u8, bits: u64) -> Vec<u8> {
    let mut out = vec![field << 3 | 1];
    out.extend(bits.to_le_bytes());
    out
}

fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    out.extend(varint(content.len() as u64));
    out.extend(content);
    out
}

/// Length, its masked CRC, data, its masked CRC.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut out = length.to_vec();
    out.extend(masked(&length).to_le_bytes());
    out.extend(data);
    out.extend(masked(data).to_le_bytes());
    out
}

fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: a few hundred bytes per row of metrics.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_standard_vector() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_are_encoded_as_protocol_buffers_say() {
        assert_eq!(varint(1), [1]);
        assert_eq!(varint(300), [0xac, 0x02]);
        assert_eq!(bytes(3, b"ab"), [0x1a, 2, b'a', b'b']);
    }
}
