//! F19: with noisy labels the Transformer is superlinear, too, and matches Newton on S + λI.

use super::{f02r1_f15_f25_layer_errors as errors, f03_f16_f22_f24_error_maps as maps};
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
              ridge regression with λ = σ², so Newton and gradient descent act on S + λI, and what converges is the distance from \
              ridge regression, not the error on labels.",
    needs: &["r3"],
    run: |lab, note| {
        let linear = "rates match linearly, as in the noiseless linear regression tasks";
        let faster = "Transformers match Iterative Newton's rate and are exponentially faster than";
        let said = errors::Said {
            superlinear: Some(
                "Transformers still show superlinear convergence on noisy linear regression tasks",
            ),
            newton: Some(linear),
            gd: Some(faster),
            ..errors::Said::NOTHING
        };
        errors::layer_errors(lab, note, &NOISY, &said)?;
        let said = maps::Said { newton: linear, gd: faster, slope: Some(maps::MIDDLE_LAYERS) };
        maps::maps(lab, note, &NOISY, &said)
    },
    ..Analysis::FIGURE
}];
