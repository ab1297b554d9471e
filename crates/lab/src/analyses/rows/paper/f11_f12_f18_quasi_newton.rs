//! F11, F12, F18: BFGS, L-BFGS and conjugate gradient, with the line search named.

use crate::analyses::kit::notebook::Entry;
use crate::analyses::kit::paired::paired;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::SKEWED;
use crate::compare::matching::Matching;
use crate::compare::rates::fit_rate;
use crate::findings::Reading;

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
        run: |lab, note| {
            let said = Said {
                layers: (6, 11),
                bfgs: "from layers 6 to 11, has a linear correspondence with BFGS",
                lbfgs: "results in a slower convergence rate than Transformers",
            };
            maps(lab, note, &ISOTROPIC, &said)
        },
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
            let said = Said {
                layers: (4, 11),
                bfgs: "Transformer also matches BFGS linearly, from layers 4 to 11",
                lbfgs: "L-BFGS still suffers due to its limited memory",
            };
            maps(lab, note, &SKEWED, &said)?;
            lbfgs_before_gd(lab, note, &SKEWED, said.layers)
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

const NO_NUMBER: &str = "the paper has no number";
const BFGS_EXACT: Baseline = Baseline::new("BFGS (exact)", "bfgs", "0..=25");
const CONJUGATE: Baseline = Baseline::new("CG", "cg", "0..=25");

/// What the paper says of a network and quasi-Newton methods, literally, and of which layers.
struct Said {
    layers: (u64, u64),
    bfgs: &'static str,
    lbfgs: &'static str,
}

fn maps(lab: &Lab, note: &mut Notebook, setting: &Setting, said: &Said) -> Result<()> {
    let of = |baseline| -> Result<Compared> {
        let compared = setting.errors(lab, baseline)?.with_authors(setting.by_authors(lab, baseline)?);
        Ok(compared.over_layers(said.layers))
    };
    let (bfgs, lbfgs, exact) = (of(setting.bfgs)?, of(setting.lbfgs)?, of(BFGS_EXACT)?);
    note.trend("bfgs-linear", &bfgs, Trend::Linear).quoted(said.bfgs).figure("best");
    note.straight("bfgs-straight", &bfgs).quoted(said.bfgs).figure("best");
    note.slope("bfgs-slope", &bfgs, Trend::Linear, Bound::None).ours(NO_NUMBER).figure("best");
    faster(note, "lbfgs-faster", &lbfgs).quoted(said.lbfgs);
    let (first, last) = said.layers;
    let per_layer = |of: &Matching| fit_rate(of, first, last).map_or(f64::NAN, |fit| fit.linear.slope);
    note.claim("lbfgs-slower", paired(&lbfgs, &bfgs, |l, b| per_layer(l) / per_layer(b)), AtLeast(1.0))
        .says(format!("L-BFGS steps per layer over BFGS steps per layer (Armijo, layers {first} to {last})"))
        .quoted("it will converge slower than full BFGS")
        .why(format!("L-BFGS: {} BFGS: {}", lbfgs.why_not(Trend::Linear), bfgs.why_not(Trend::Linear)))
        .figure("best");
    let all = [&bfgs, &lbfgs, &exact];
    let ends = "BFGS with the exact line search ends after d steps, so that its matches cannot grow exponentially: it is drawn, and \
                nothing is claimed of it. ";
    note.maps("maps", "Similarity of errors with quasi-Newton methods", setting, &all, ends);
    note.best(setting, &all);
    note.best_matches("best-matches", &all);
    Ok(())
}

/// The claim that the network converges faster than a method, as the paper reads it off a map: the best matches are no line.
fn faster<'a>(note: &'a mut Notebook, name: &str, of: &Compared) -> Entry<'a> {
    let evidence = |of: &Compared| of.evidence(Trend::Linear);
    let ours = of.over_our_layers().map_or(Estimate::NONE, |fit| fit.evidence(Trend::Linear));
    let entry = note
        .claim(name, evidence(of), AtMost(0.0))
        .says(format!(
            "SimE: a line fits the best {} steps no better than an exponential ({}, BIC difference)",
            of.baseline.label,
            of.layers()
        ))
        .also(Reading::OUR_LAYERS, ours)
        .why(of.why_not(Trend::Exponential))
        .figure("best");
    match of.authors() {
        Some(authors) => entry.authors(evidence(authors)),
        None => entry,
    }
}

/// How many more steps gradient descent takes than L-BFGS to match the same layers.
fn lbfgs_before_gd(
    lab: &Lab,
    note: &mut Notebook,
    setting: &Setting,
    (first, last): (u64, u64),
) -> Result<()> {
    let (lbfgs, gd) = (setting.errors(lab, setting.lbfgs)?, setting.errors(lab, setting.gd)?);
    let layers = (0..gd.matching.a.len()).filter(|&i| (first..=last).contains(&gd.matching.a.as_slice()[i]));
    let layers: Vec<usize> = layers.collect();
    let over = paired(&gd, &lbfgs, |gd, lbfgs| {
        let logs = layers.iter().map(|&i| (gd.interpolated[i] / lbfgs.interpolated[i]).ln());
        (logs.sum::<f64>() / layers.len() as f64).exp()
    });
    note.claim("lbfgs-before-gd", over, AtLeast(1.0))
        .says(format!(
            "Best GD steps over best L-BFGS steps (Armijo), geometric mean over layers {first} to {last}"
        ))
        .quoted("still better than … because L-BFGS also attempts to approximate second-order information")
        .figure("best");
    Ok(())
}

fn conjugate(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let cg = ISOTROPIC.errors(lab, CONJUGATE)?.with_authors(ISOTROPIC.by_authors(lab, CONJUGATE)?);
    faster(note, "linear", &cg)
        .quoted("Transformer's convergence rate is still faster than conjugate gradient methods");
    note.slope("slope", &cg, Trend::Linear, Bound::None).ours(NO_NUMBER).figure("best");
    note.maps("map", "Similarity of errors with conjugate gradient", &ISOTROPIC, &[&cg], "");
    note.best(&ISOTROPIC, &[&cg]);
    note.best_matches("best-matches", &[&cg]);
    Ok(())
}
