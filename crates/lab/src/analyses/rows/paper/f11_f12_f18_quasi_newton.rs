//! F11, F12, F18: BFGS, L-BFGS and conjugate gradient, with the line search named.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::SKEWED;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F11",
        paper: Some(("Figure 11", "A.2.3")),
        order: 110,
        seconds: 1.7,
        title: "Do BFGS and BFGS of limited memory keep pace with the layers?",
        summary: "The maps of F3 against quasi-Newton methods. The paper does not name its line search; with the exact one BFGS, L-BFGS and \
                  conjugate gradient are the same iteration (E4), so these take Armijo's: from 1 down until the loss falls. \
                  BFGS with the exact search is shown beside them.",
        needs: &["r1"],
        run: |lab, note| maps(lab, note, &ISOTROPIC, "linear over layers 6 to 11"),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F18",
        paper: Some(("Figure 18", "A.3.1")),
        order: 180,
        seconds: 5.2,
        title: "Do quasi-Newton methods keep pace with the layers on ill-conditioned data?",
        summary: "The maps of F11 for a Transformer trained on inputs with κ = 100, and gradient descent beside them.",
        needs: &["r2"],
        run: |lab, note| {
            maps(lab, note, &SKEWED, "linear over layers 4 to 11")?;
            let [lbfgs, gd] = [SKEWED.lbfgs, SKEWED.gd].map(|baseline| SKEWED.errors(lab, baseline));
            note.claim("lbfgs-before-gd", gd?.at_end() - lbfgs?.at_end(), AtLeast(1.0))
                .says("GD steps beyond L-BFGS's at the last of the middle layers")
                .quoted("better than GD")
                .figure("best");
            Ok(())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F12",
        paper: Some(("Figure 12", "A.2.3")),
        order: 120,
        title: "Is a layer worth more than a step of conjugate gradient?",
        summary: "The map of F3 against conjugate gradient, the best that first-order information can do on a quadratic.",
        needs: &["r1"],
        run: conjugate,
        ..Analysis::FIGURE
    },
];

const BFGS_EXACT: Baseline = Baseline::new("BFGS (exact)", "bfgs", "0..=25");
const CONJUGATE: Baseline = Baseline::new("CG", "cg", "0..=25");

fn maps(lab: &Lab, note: &mut Notebook, setting: &Setting, quoted: &str) -> Result<()> {
    let of = |baseline| setting.errors(lab, baseline);
    let (bfgs, lbfgs, exact) = (of(setting.bfgs)?, of(setting.lbfgs)?, of(BFGS_EXACT)?);
    note.trend("bfgs-linear", &bfgs, Trend::Linear).quoted(quoted).figure("best");
    note.slope("bfgs-slope", &bfgs, Trend::Linear, Bound::None).quoted(quoted).figure("best");
    note.trend("bfgs-exact-linear", &exact, Trend::Linear).quoted(quoted).figure("best");
    note.claim("lbfgs-slower", lbfgs.at_end() - bfgs.at_end(), AtLeast(1.0))
        .says("L-BFGS steps beyond BFGS's at the last of the middle layers (Armijo)")
        .quoted("slower, due to its limited memory")
        .figure("best");
    let all = [&bfgs, &lbfgs, &exact];
    note.maps("maps", "Similarity of errors with quasi-Newton methods", setting, &all, "");
    note.best(setting, &all);
    note.best_matches("best-matches", &all);
    Ok(())
}

fn conjugate(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let cg = ISOTROPIC.errors(lab, CONJUGATE)?;
    let quoted = "faster than conjugate gradient";
    note.slope("faster", &cg, Trend::Linear, AtLeast(1.0)).quoted(quoted).figure("best");
    note.trend("linear", &cg, Trend::Linear).figure("best");
    note.maps("map", "Similarity of errors with conjugate gradient", &ISOTROPIC, &[&cg], "");
    note.best(&ISOTROPIC, &[&cg]);
    note.best_matches("best-matches", &[&cg]);
    Ok(())
}
