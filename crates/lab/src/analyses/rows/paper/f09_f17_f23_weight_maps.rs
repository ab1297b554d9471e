//! F9, F17, F23: the maps again by similarity of induced weights.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{ONE_HEAD, SKEWED};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F9",
        paper: Some(("Figure 9", "A.2.2")),
        order: 90,
        seconds: 105.6,
        cost: Cost::Minutes,
        title: "Do induced weights show the same trends?",
        summary: "After each prefix a layer answers 200 fresh queries; the weights that fit its answers are compared with the \
                  weights of the algorithms. Similarity of weights asks what would be predicted anywhere, not only at the next input.",
        needs: &["r1"],
        run: |lab, note| maps(lab, note, &ISOTROPIC, Within(2.0, 4.5)),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F17",
        paper: Some(("Figure 17", "A.3.1")),
        order: 170,
        seconds: 52.0,
        cost: Cost::Minutes,
        title: "Do induced weights show the same trends on ill-conditioned data?",
        summary: "The maps of F9 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| maps(lab, note, &SKEWED, Bound::None),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F23",
        paper: Some(("Figure 23", "A.4.1")),
        order: 230,
        seconds: 52.1,
        cost: Cost::Minutes,
        title: "Do induced weights show the same trends with one head per layer?",
        summary: "The maps of F9 for a Transformer of 12 layers with a single head each.",
        needs: &["r4"],
        run: |lab, note| maps(lab, note, &ONE_HEAD, Bound::None),
        ..Analysis::FIGURE
    },
];

fn maps(lab: &Lab, note: &mut Notebook, setting: &Setting, slope: Bound) -> Result<()> {
    let of = |baseline| setting.compare(lab, baseline, Measure::Weights);
    let (newton, gd) = (of(setting.newton)?, of(setting.gd)?);
    let quoted = "the same trends";
    note.trend("newton-linear", &newton, Trend::Linear).quoted(quoted).figure("best");
    note.slope("newton-slope", &newton, Trend::Linear, slope).quoted(quoted).figure("best");
    note.trend("gd-exponential", &gd, Trend::Exponential).quoted(quoted).figure("best");
    note.claim("last-layer", newton.last_similarity(), Bound::None)
        .says("SimW of the last layer with its best Newton step");
    let both = [&newton, &gd];
    let title = "Similarity of induced weights with Newton and gradient descent";
    note.maps("maps", title, setting, &both, "T=200 queries after each of 1…40 pairs. ");
    note.best(setting, &both);
    note.best_matches("best-matches", &both);
    Ok(())
}
