//! The paper's figures and its table: `F…` and `T…`.

mod f01_prompt_layout;
mod f02_convergence;
mod f02r1_f15_f25_layer_errors;
mod f03_f16_f22_f24_error_maps;
mod f04_ill_conditioned;
mod f05_forgetting;
mod f05r1_f05r7_networks;
mod f06_widths;
mod f07_progression;
mod f08_told_apart;
mod f09_f17_f23_weight_maps;
mod f10_log_steps;
mod f11_f12_f18_quasi_newton;
mod f13_over_layers;
mod f14_over_pairs;
mod f19_noisy_labels;
mod f20_f21_two_layer_networks;
mod f26_known_algorithms;
mod f27_span;
mod t1_one_number;

use crate::analyses::Analysis;

/// The rows of each file.
pub const ROWS: &[&[Analysis]] = &[
    f01_prompt_layout::ROWS,
    f02_convergence::ROWS,
    f02r1_f15_f25_layer_errors::ROWS,
    f03_f16_f22_f24_error_maps::ROWS,
    f04_ill_conditioned::ROWS,
    f05_forgetting::ROWS,
    f05r1_f05r7_networks::ROWS,
    f06_widths::ROWS,
    f07_progression::ROWS,
    f08_told_apart::ROWS,
    f09_f17_f23_weight_maps::ROWS,
    f10_log_steps::ROWS,
    f11_f12_f18_quasi_newton::ROWS,
    f13_over_layers::ROWS,
    f14_over_pairs::ROWS,
    f19_noisy_labels::ROWS,
    f20_f21_two_layer_networks::ROWS,
    f26_known_algorithms::ROWS,
    f27_span::ROWS,
    t1_one_number::ROWS,
];
