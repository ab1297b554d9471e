//! Zip archives written by hand, so that they can lie about their members.

use crate::{NUMBERS, Random};

/// A member of an archive.
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its bytes as they are stored.
    pub stored: Vec<u8>,
    /// 0 stored, 8 deflated.
    pub method: u16,
    /// Bytes when unpacked, and their CRC-32.
    pub unpacked: (u32, u32),
}

impl Member {
    /// A member that is not compressed.
    pub fn plain(name: &str, bytes: &[u8]) -> Member {
        Member {
            name: name.into(),
            stored: bytes.into(),
            method: 0,
            unpacked: (bytes.len() as u32, crc32(bytes)),
        }
    }
}

/// An archive of members; with `random`, one that lies about some of them.
pub fn archive(members: &[Member], mut random: Option<&mut Random>) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let start = file.len() as u32;
        // version, flags, method, time, date, CRC, size, unpacked size, length of the name, of what follows it
        let head = |random: &mut Option<&mut Random>| {
            let mut fields = [20u16, 0, member.method, 0, 0].map(u32::from).to_vec();
            fields.extend([member.unpacked.1, member.stored.len() as u32, member.unpacked.0]);
            fields.extend([member.name.len() as u32, 0]);
            if let Some(random) = random
                && random.once_in(3)
            {
                let field = random.of(&[1usize, 2, 5, 6, 7, 7, 7, 8, 9]);
                fields[field] = random.of(&NUMBERS) as u32;
            }
            let width = |field: usize| if (5..8).contains(&field) { 4 } else { 2 };
            let bytes = fields.iter().enumerate().flat_map(|(i, v)| v.to_le_bytes()[..width(i)].to_vec());
            bytes.collect::<Vec<u8>>()
        };
        file.extend([b"PK\x03\x04", &head(&mut random)[..], member.name.as_bytes(), &member.stored].concat());
        let lie = random.as_mut().and_then(|random| random.once_in(6).then(|| random.of(&NUMBERS) as u32));
        let place = lie.unwrap_or(start);
        // made by, head, comment, disk, attributes, place
        let tail = [&[0; 10][..], &place.to_le_bytes(), member.name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\0", &head(&mut random)[..], &tail].concat());
    }
    let (start, length, count) = (file.len() as u32, directory.len() as u32, members.len() as u16);
    file.extend(directory);
    let end = [b"PK\x05\x06\0\0\0\0", &count.to_le_bytes()[..], &count.to_le_bytes()].concat();
    file.extend([&end[..], &length.to_le_bytes(), &start.to_le_bytes(), &[0; 2]].concat());
    file
}

/// The checksum of zip.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
