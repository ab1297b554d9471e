//! F9, F17, F23: the maps again by similarity of induced weights.

use super::f03_f16_f22_f24_error_maps::{MIDDLE_LAYERS, Said, rates};
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{ONE_HEAD, SKEWED};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F9",
        paper: Some(("Figure 9", "A.2.2")),
        order: 90,
        seconds: 2.0,
        cost: Cost::Minutes,
        title: "Do induced weights show the same trends?",
        summary: "After each prefix a layer answers 200 fresh queries; the weights that fit its answers are compared with the \
                  weights of the algorithms. Similarity of weights asks what would be predicted anywhere, not only at the next input.",
        needs: &["r1"],
        run: |lab, note| {
            let same = "the same trends when using similarity of induced weights as our similarity metric";
            maps(lab, note, &ISOTROPIC, same)
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F17",
        paper: Some(("Figure 17", "A.3.1")),
        order: 170,
        seconds: 2.0,
        cost: Cost::Minutes,
        title: "Do induced weights show the same trends on ill-conditioned data?",
        summary: "The maps of F9 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| {
            let similar = "Transformers are similar to Newton's method than GD in ill-conditioned data";
            maps(lab, note, &SKEWED, similar)
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F23",
        paper: Some(("Figure 23", "A.4.1")),
        order: 230,
        seconds: 2.0,
        cost: Cost::Minutes,
        title: "Do induced weights show the same trends with one head per layer?",
        summary: "The maps of F9 for a Transformer of 12 layers with a single head each.",
        needs: &["r4"],
        run: |lab, note| {
            let suffice = "more similar than gradient descents, in terms of rate of convergence";
            maps(lab, note, &ONE_HEAD, suffice)
        },
        ..Analysis::FIGURE
    },
];

fn maps(lab: &Lab, note: &mut Notebook, setting: &Setting, quoted: &'static str) -> Result<()> {
    let of = |baseline: Baseline| -> Result<Compared> {
        let compare = |baseline| setting.compare(lab, baseline, Measure::Weights);
        // the authors' grids on our prompts: answers of the network to theirs would take as long again
        Ok(compare(baseline)?.with_authors(compare(baseline.by_authors())?))
    };
    let (newton, gd) = (of(setting.newton)?, of(setting.gd)?);
    rates(note, &newton, &gd, &Said { newton: quoted, gd: quoted, slope: Some(MIDDLE_LAYERS) });
    let last = note
        .claim("last-layer", newton.last_similarity(), AtLeast(0.99))
        .says("SimW of the last layer with its best Newton step")
        .figure("maps");
    // said of the main network alone
    if setting.network == ISOTROPIC.network {
        last.quoted("the last few layers of the Transformer also basically compute OLS");
    } else {
        last.ours("as F9: the last layers compute what Newton converges to");
    }
    let both = [&newton, &gd];
    let title = "Similarity of induced weights with Newton and gradient descent";
    note.maps("maps", title, setting, &both, "T=200 queries after each of 1…40 pairs. ");
    let theirs: Vec<&Compared> = both.iter().filter_map(|of| of.authors()).collect();
    let title = "Similarity of induced weights, steps as in the authors' code";
    note.maps(
        "authors",
        title,
        setting,
        &theirs,
        "Steps of gradient descent on an axis that is not logarithmic. ",
    );
    note.best(setting, &both);
    note.best_matches("best-matches", &both);
    Ok(())
}
