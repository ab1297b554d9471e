//! The theorem and its lemmas, as weights: `TH…`.

mod constructed;
mod th1_prime_compact;
mod th1_prime_prime_starts;
mod th1_theorem;
mod th2_th3_operations;
mod th4_causal;
mod th5_e3_moments;
mod th6_span;
mod th7_other_moments;

use crate::analyses::Analysis;

/// The rows of each file.
pub const ROWS: &[&[Analysis]] = &[
    th1_prime_compact::ROWS,
    th1_prime_prime_starts::ROWS,
    th1_theorem::ROWS,
    th2_th3_operations::ROWS,
    th4_causal::ROWS,
    th5_e3_moments::ROWS,
    th6_span::ROWS,
    th7_other_moments::ROWS,
];
