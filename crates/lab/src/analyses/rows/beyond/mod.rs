//! Beyond the paper: `N…`, `M1`, `REF`.

mod m1_miniature;
mod n10_where_labels_live;
mod n11_candidates;
mod n11_recursive;
mod n11_splices;
mod n11_tests;
mod n1_seeds;
pub mod n2_emergence;
pub mod n3_ablations;
mod n4_recipes;
mod n5_fingerprint;
mod n6_starts;
mod n7_other_networks;
mod n8_other_inputs;
mod n9_calibration;
mod n9_controls;
mod n9_known;
mod n9_weights;
mod ref_reference_numbers;
mod trained;

use crate::analyses::Analysis;

/// The rows of each file.
pub const ROWS: &[&[Analysis]] = &[
    m1_miniature::ROWS,
    n1_seeds::ROWS,
    n2_emergence::ROWS,
    n3_ablations::ROWS,
    n4_recipes::ROWS,
    n5_fingerprint::ROWS,
    n6_starts::ROWS,
    n7_other_networks::ROWS,
    n8_other_inputs::ROWS,
    n9_calibration::ROWS,
    n9_controls::ROWS,
    n10_where_labels_live::ROWS,
    n11_candidates::ROWS,
    ref_reference_numbers::ROWS,
];
