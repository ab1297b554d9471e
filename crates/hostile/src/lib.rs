//! Hostile inputs, for tests alone. A reader of outside bytes is given seeded mutations of good files and files that are
//! wrong by design; whatever it is given, it must return a value or one sentence, without a panic, soon, and with no more
//! memory than the input is worth.
//!
//! random: every case is a pure function of (seed, reader, case); mutate: any bytes; text: numbers, words and lines of JSON,
//! TOML and tables; zip, npy, safetensors: files with wrong parts in the right places; allocator: counts bytes;
//! alone: a test in a process of its own.

mod allocator;
mod alone;
mod mutate;
mod npy;
mod random;
mod run;
mod safetensors;
mod text;
mod zip;

pub use allocator::{Counting, measured};
pub use alone::{is_alone, passed_alone};
pub use mutate::{NUMBERS, bend};
pub use npy::{Npy, bend_npz, npz};
pub use random::Random;
pub use run::{Cost, READERS, Reader, check, check_file, place, share};
pub use safetensors::{bend_safetensors, join, split};
pub use text::bend_text;
pub use zip::{Member, archive};
