//! F19: with noisy labels the Transformer is superlinear, too, and matches Newton on S + λI.

use super::f02r1_f15_f25_layer_errors::superlinear;
use super::f03_f16_f22_f24_error_maps::maps;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::NOISY;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F19",
    paper: Some(("Figure 19", "A.3.2")),
    order: 190,
    seconds: 13.3,
    title: "Do the layers match Newton on S + λI when labels are noisy?",
    summary: "The curves of F2 and the maps of F3 for a Transformer trained on labels with noise of σ = 0.1. The best predictor is \
              ridge regression with λ = σ², so Newton and gradient descent act on S + λI.",
    needs: &["r3"],
    run: |lab, note| {
        superlinear(lab, note, &NOISY, "still superlinear")?;
        maps(lab, note, &NOISY, Bound::None, "rates match linearly")
    },
    ..Analysis::FIGURE
}];
