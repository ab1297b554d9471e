//! Misprints, both ways: `E…`.

mod e1_newton_start;
mod e2_relu_heads;
mod e4_bfgs_is_dfp;
mod e5_gd_is_geometric;
mod e6_test_column;
mod e7_gd_step_size;

use crate::analyses::Analysis;

/// The rows of each file.
pub const ROWS: &[&[Analysis]] = &[
    e1_newton_start::ROWS,
    e2_relu_heads::ROWS,
    e4_bfgs_is_dfp::ROWS,
    e5_gd_is_geometric::ROWS,
    e6_test_column::ROWS,
    e7_gd_step_size::ROWS,
];
