//! F11, F12, F18: BFGS, L-BFGS and conjugate gradient, with the line search named.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::{best_figure, best_table, maps_figure};
use crate::analyses::kit::setting::{Baseline, ISOTROPIC, SKEWED, Setting};
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::Scale;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F11",
        order: 110,
        title: "BFGS keeps pace with the layers, BFGS of limited memory does not",
        summary: "The maps of F3 against quasi-Newton methods. The paper does not name its line search; with the exact one BFGS, L-BFGS and \
              conjugate gradient are the same iteration (E4), so these take Armijo's: from 1 down until the loss falls. \
              BFGS with the exact search is shown beside them.",
        needs: &["r1"],
        run: |lab, note| note.adopt(maps(lab, &ISOTROPIC, "F11", "linear over layers 6 to 11")),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F18",
        order: 180,
        title: "Quasi-Newton methods on ill-conditioned data",
        summary: "The maps of F11 for a Transformer trained on inputs with κ = 100, and gradient descent beside them.",
        needs: &["r2"],
        run: |lab, note| {
            let found = || {
                let mut outcome = maps(lab, &SKEWED, "F18", "linear over layers 4 to 11")?;
                let [lbfgs, gd] =
                    [SKEWED.lbfgs, SKEWED.gd].map(|baseline| Compared::new(lab, &SKEWED, baseline, ERRORS));
                outcome.claims.push(
                    Claim::new(
                        "F18.lbfgs-before-gd",
                        Kind::Paper,
                        "GD steps beyond L-BFGS's at the last of the middle layers",
                        gd?.at_end() - lbfgs?.at_end(),
                        Bound::AtLeast(1.0),
                    )
                    .quoted("better than GD")
                    .figure("f18-best"),
                );
                Ok(outcome)
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F12",
        order: 120,
        title: "A layer is worth more than a step of conjugate gradient",
        summary: "The map of F3 against conjugate gradient: first-order information alone, at its best on a quadratic.",
        needs: &["r1"],
        run: |lab, note| note.adopt(conjugate(lab)),
        ..Analysis::FIGURE
    },
];

const ERRORS: Measure = Measure::Errors(View { first: 1 });
const BFGS_EXACT: Baseline = Baseline { label: "BFGS (exact)", solver: "bfgs", steps: "0..=25" };
const CG_BASELINE: Baseline = Baseline { label: "CG", solver: "cg", steps: "0..=25" };

fn maps(lab: &Lab, setting: &Setting, id: &str, quoted: &str) -> Result<Outcome> {
    let bfgs = Compared::new(lab, setting, setting.bfgs, ERRORS)?;
    let lbfgs = Compared::new(lab, setting, setting.lbfgs, ERRORS)?;
    let exact = Compared::new(lab, setting, BFGS_EXACT, ERRORS)?;
    let stem = id.to_lowercase();
    let (map_id, best_id) = (format!("{stem}-maps"), format!("{stem}-best"));
    let claims = vec![
        bfgs.trend_claim(&format!("{id}.bfgs-linear"), Trend::Linear, quoted, &best_id),
        bfgs.slope_claim(&format!("{id}.bfgs-slope"), Trend::Linear, Bound::None, "", &best_id),
        exact.trend_claim(&format!("{id}.bfgs-exact-linear"), Trend::Linear, quoted, &best_id),
        Claim::new(
            &format!("{id}.lbfgs-slower"),
            Kind::Paper,
            "L-BFGS steps beyond BFGS's at the last of the middle layers (Armijo)",
            lbfgs.at_end() - bfgs.at_end(),
            Bound::AtLeast(1.0),
        )
        .quoted("slower, due to its limited memory")
        .figure(&best_id),
    ];
    let figures = vec![
        maps_figure(
            lab,
            &map_id,
            "Similarity of errors with quasi-Newton methods",
            setting,
            &[&bfgs, &lbfgs, &exact],
            "",
        ),
        best_figure(
            &best_id,
            setting,
            &[(&bfgs, Scale::Linear), (&lbfgs, Scale::Linear), (&exact, Scale::Linear)],
        ),
    ];
    Ok(Outcome {
        claims,
        figures,
        tables: vec![best_table(lab, &format!("{stem}-best-matches"), &[&bfgs, &lbfgs, &exact])],
    })
}

fn conjugate(lab: &Lab) -> Result<Outcome> {
    let cg = Compared::new(lab, &ISOTROPIC, CG_BASELINE, ERRORS)?;
    let claims = vec![
        cg.slope_claim(
            "F12.faster",
            Trend::Linear,
            Bound::AtLeast(1.0),
            "faster than conjugate gradient",
            "f12-best",
        ),
        cg.trend_claim("F12.linear", Trend::Linear, "", "f12-best"),
    ];
    let claims = claims.into_iter().map(|c| if c.id == "F12.linear" { undecided(c) } else { c }).collect();
    let figures = vec![
        maps_figure(lab, "f12-map", "Similarity of errors with conjugate gradient", &ISOTROPIC, &[&cg], ""),
        best_figure("f12-best", &ISOTROPIC, &[(&cg, Scale::Linear)]),
    ];
    Ok(Outcome { claims, figures, tables: vec![best_table(lab, "f12-best-matches", &[&cg])] })
}

/// The same claim where the paper says nothing of the trend.
fn undecided(claim: Claim) -> Claim {
    let interval = claim.interval;
    let new =
        Claim::new(&claim.id, claim.kind, claim.statement, claim.measured, Bound::None).figure("f12-best");
    interval.map_or(new.clone(), |(low, high)| new.interval(low, high))
}
