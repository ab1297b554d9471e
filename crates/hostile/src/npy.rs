//! NumPy's files: arrays with headers that lie, in archives that lie.

use crate::{Member, Random, archive, bend, bend_text};

/// An array as a file has it.
#[derive(Clone)]
pub struct Npy {
    /// Its name in the archive, without `.npy`.
    pub name: &'static str,
    /// The dictionary before the numbers.
    pub header: Vec<u8>,
    /// The numbers.
    pub data: Vec<u8>,
    version: u8,
}

impl Npy {
    /// A good array.
    pub fn new(name: &'static str, kind: &str, shape: &str, data: Vec<u8>) -> Npy {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
        Npy { name, header: header.into_bytes(), data, version: 1 }
    }

    fn bytes(&self) -> Vec<u8> {
        let width = if self.version == 1 { 2 } else { 4 };
        let length = &(self.header.len() as u32).to_le_bytes()[..width];
        [b"\x93NUMPY", &[self.version, 0][..], length, &self.header, &self.data].concat()
    }

    fn replace(&mut self, from: &str, to: &str) {
        let text = String::from_utf8_lossy(&self.header).replacen(from, to, 1);
        self.header = text.into_bytes();
    }
}

/// A good file of arrays.
pub fn npz(arrays: &[Npy]) -> Vec<u8> {
    let member = |npy: &Npy| Member::plain(&format!("{}.npy", npy.name), &npy.bytes());
    archive(&arrays.iter().map(member).collect::<Vec<_>>(), None)
}

/// Shapes that overflow, that are empty, that are not shapes.
const SHAPES: [&str; 14] = [
    "()",
    "(0,)",
    "(1,)",
    "(0, 0, 0)",
    "(4294967296, 4294967296)",
    "(9223372036854775807, 2, 1)",
    "(9223372036854775808,)",
    "(18446744073709551615, 1, 1)",
    "(0, 18446744073709551615, 18446744073709551615)",
    "(99999999999999999999999,)",
    "(-1, 3, 2)",
    "(2, 3, 2, 1, 1, 1, 1, 1)",
    "(1.0,)",
    "((2, 3), 2)",
];

/// Types that are not read, or read otherwise.
const KINDS: [&str; 16] = [
    "<f4", ">f8", "<i8", "<u8", ">u8", "<i4", "|b1", "<c16", "|O", "<f2", "<U4", "|V8", "f8", "", "=f8",
    "<f8\\n",
];

/// A file in which one or two things are wrong; `bombs` are members that unpack to far more than they are.
pub fn bend_npz(random: &mut Random, arrays: &[Npy], bombs: &[Member]) -> Vec<u8> {
    let mut arrays = arrays.to_vec();
    let other = npz(&arrays);
    let at = random.below(arrays.len());
    for _ in 0..1 + random.below(2) {
        let Some(array) = arrays.get_mut(at) else { break };
        match random.below(12) {
            0 | 1 => {
                let shape = random.of(&SHAPES);
                let found = String::from_utf8_lossy(&array.header).into_owned();
                if let Some((_, rest)) = found.split_once("'shape': ") {
                    let old = rest.trim_end().trim_end_matches(", }").to_string();
                    array.replace(&old, shape);
                }
            }
            2 => array.replace("<f8", random.of(&KINDS)),
            3 => array.replace("False", random.of(&["True", "1", "None", "false", "[]"])),
            4 => bend_text(random, &mut array.header, &other),
            5 => bend(random, &mut array.data, &other),
            6 => {
                // numbers that are none
                let value = random.of(&[f64::NAN, f64::INFINITY, -0.0, 1e308, -1.0, 0.5, 5e-324]);
                let numbers = array.data.as_chunks_mut::<8>().0;
                let at = random.below(numbers.len());
                numbers.iter_mut().skip(at).take(1).for_each(|bytes| *bytes = value.to_le_bytes());
            }
            7 => array.version = random.of(&[0, 2, 3, 4, 255]),
            8 => array.name = random.of(&["xs", "ys", "steps", "values", "", "../xs", "é"]),
            9 => drop(arrays.remove(at)),
            _ => {}
        }
    }
    let mut members: Vec<Member> =
        arrays.iter().map(|npy| Member::plain(&format!("{}.npy", npy.name), &npy.bytes())).collect();
    if !bombs.is_empty() && random.once_in(100) {
        let bomb = &bombs[random.below(bombs.len())];
        let Member { name, stored, method, unpacked } = bomb;
        members.retain(|member| member.name != *name);
        members.push(Member {
            name: name.clone(),
            stored: stored.clone(),
            method: *method,
            unpacked: *unpacked,
        });
    }
    let lies = random.once_in(3);
    let mut file = archive(&members, lies.then_some(&mut *random));
    if random.once_in(4) {
        bend(random, &mut file, &other);
    }
    file
}
