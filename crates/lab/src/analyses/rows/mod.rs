//! The table of analyses, by chapter: one file for one question, named after the rows that it defines.

pub mod beyond;
pub mod errata;
pub mod paper;
pub mod statements;
pub mod theory;

use super::Analysis;

/// The rows of each file of each chapter.
pub const CHAPTERS: &[&[&[Analysis]]] =
    &[paper::ROWS, errata::ROWS, theory::ROWS, statements::ROWS, beyond::ROWS];
