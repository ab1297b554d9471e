//! What the paper says between its figures: `Q…`.

mod q01_steps_to_accuracy;
mod q02_newest_pair;
mod q04_q05_q06_other_measures;
mod q07_hardly_hurt;
mod q08_q10_architectures;
mod q11_q12_preconditioning;

use crate::analyses::Analysis;

/// The rows of each file.
pub const ROWS: &[&[Analysis]] = &[
    q01_steps_to_accuracy::ROWS,
    q02_newest_pair::ROWS,
    q04_q05_q06_other_measures::ROWS,
    q07_hardly_hurt::ROWS,
    q08_q10_architectures::ROWS,
    q11_q12_preconditioning::ROWS,
];
