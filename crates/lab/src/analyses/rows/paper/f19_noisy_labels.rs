//! F19: with noisy labels the Transformer is superlinear, too, and matches Newton on S + λI.

use super::f02r1_f15_f25_layer_errors::superlinear;
use super::f03_f16_f22_f24_error_maps::maps;
use crate::analyses::kit::setting::NOISY;
use crate::analyses::{Analysis, Lab, Outcome};
use crate::error::Result;
use crate::findings::claims::Bound;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F19",
    order: 190,
    title: "With noisy labels the layers match Newton on S + λI",
    summary: "The curves of F2 and the maps of F3 for a Transformer trained on labels with noise of σ = 0.1. The best predictor is \
              ridge regression with λ = σ², so Newton and gradient descent act on S + λI.",
    needs: &["r3"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let (mut claims, mut figures) = superlinear(lab, &NOISY, "F19", "still superlinear")?;
    let mut found = maps(lab, &NOISY, "F19", Bound::None, "rates match linearly")?;
    claims.append(&mut found.claims);
    figures.append(&mut found.figures);
    Ok(Outcome { claims, figures, tables: found.tables })
}
