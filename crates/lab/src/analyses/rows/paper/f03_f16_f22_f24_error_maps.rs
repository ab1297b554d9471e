//! F3, F16, F22, F24: every layer against every step of Newton and of GD, by similarity of errors.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, ONE_HEAD, SKEWED};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F3",
        paper: Some(("Figure 3", "4.2")),
        headline: Some(Headline {
            rank: 1,
            figure: "best",
            claims: &["newton-linear", "newton-slope", "gd-exponential", "last-layer"],
        }),
        order: 30,
        title: "Do the layers match Newton's steps on a line and gradient descent's on an exponential?",
        summary: "For each layer the most similar number of Newton iterations and of GD steps, by similarity of errors. A straight \
                  line means that a layer does the work of a fixed number of steps; an exponential means that the other is \
                  exponentially slower.",
        needs: &["r1"],
        run: |lab, note| {
            let slope = Within(2.0, 4.5);
            maps(lab, note, &ISOTROPIC, slope, "about 3 per layer over layers 3 to 9")?;
            linear_axis(lab, note)
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F16",
        paper: Some(("Figure 16", "A.3.1")),
        order: 160,
        title: "Do the layers match Newton's steps on a line on ill-conditioned data?",
        summary: "The maps of F3 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| maps(lab, note, &SKEWED, Bound::None, "similar to Newton rather than GD"),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F22",
        paper: Some(("Figure 22", "A.4.1")),
        order: 220,
        seconds: 11.5,
        title: "Do the layers match Newton's steps on a line with one head per layer?",
        summary: "The maps of F3 for a Transformer of 12 layers with a single head each.",
        needs: &["r4"],
        run: |lab, note| maps(lab, note, &ONE_HEAD, Bound::None, "not restricted to a configuration"),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F24",
        paper: Some(("Figure 24", "A.4.2")),
        order: 240,
        title: "Do the layers match Newton's steps on a line with 24 of them?",
        summary: "The maps of F3 for a Transformer of 24 layers with 8 heads.",
        needs: &["r5"],
        run: |lab, note| maps(lab, note, &DEEP, Bound::None, "deeper models behave alike"),
        ..Analysis::FIGURE
    },
];

const PAPERS_LAST: &str = "paper: 21 at layers 10 to 12";

/// The maps of errors with Newton and GD, their best matches and the rate of those.
pub fn maps(lab: &Lab, note: &mut Notebook, setting: &Setting, slope: Bound, quoted: &str) -> Result<()> {
    let (newton, gd) = (setting.errors(lab, setting.newton)?, setting.errors(lab, setting.gd)?);
    note.trend("newton-linear", &newton, Trend::Linear).quoted("linear trend with Newton").figure("best");
    note.slope("newton-slope", &newton, Trend::Linear, slope).quoted(quoted).figure("best");
    note.trend("gd-exponential", &gd, Trend::Exponential).quoted("exponential trend with GD").figure("best");
    note.slope("gd-slope", &gd, Trend::Exponential, Bound::None)
        .quoted("exponential trend with GD")
        .figure("best");
    note.claim("last-layer", newton.last_similarity(), AtLeast(0.99))
        .says("SimE of the last layer with its best Newton step")
        .quoted("very high; .991 in Table 1")
        .figure("maps");
    note.claim("last-step", newton.last_step(), Within(18.0, 24.0))
        .says("Best Newton step of the last layer")
        .quoted("near 21 at layers 10 to 12")
        .figure("maps")
        .why(by_size(lab, setting, newton.last_step().value)?);
    let lowest = newton.matching.similarity.iter().copied().fold(f64::INFINITY, f64::min);
    note.claim("all-layers", lowest, Bound::None)
        .says("Lowest SimE of any layer with its best Newton step")
        .quoted("very high at all layers")
        .figure("maps");
    let jumps = gd.best_steps().windows(2).map(|w| w[1] - w[0]).fold(f64::NAN, f64::max);
    note.claim("gd-jump", jumps, AtLeast(100.0))
        .says("GD steps that a single layer is worth at most")
        .quoted("hundreds of steps")
        .figure("best");
    // the paper names a step for its main network alone
    let newton = if setting.network == ISOTROPIC.network { newton.mark_y(PAPERS_LAST, 21.0) } else { newton };
    let both = [&newton, &gd];
    let title = "Similarity of errors with Newton and gradient descent";
    let outlined = "Outlined: best match of each layer, with a whisker where its 95 % bootstrap interval is wider than one step. ";
    note.maps("maps", title, setting, &both, outlined);
    note.best(setting, &both);
    note.best_matches("best-matches", &both);
    note.other_layers(&both);
    Ok(())
}

/// Why the last layer matches another step than the paper's: which one it would be by the size of the error alone.
fn by_size(lab: &Lab, setting: &Setting, best: f64) -> Result<String> {
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let newton = setting.path(lab, setting.newton)?;
    let median = |of: &Trajectory, step: u64| median_error(of, &prompts, step, setting.data.dim);
    let own = median(&network, network.steps.last());
    let apart = |step: &u64| (median(&newton, *step) / own).ln().abs();
    let steps = newton.steps.as_slice().iter().copied();
    let nearest = steps.min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or_default();
    Ok(format!(
        "At t = d, where errors are largest, the last layer's median error/d is {own:.1e}, nearest to Newton's after {nearest} iterations ({:.1e}). \
         SimE, which weighs directions over all t, prefers {best}.",
        median(&newton, nearest)
    ))
}

/// GD on an axis that is not logarithmic, as the paper draws it.
fn linear_axis(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let gd = ISOTROPIC.errors(lab, Baseline { steps: "0..=1500/75", ..ISOTROPIC.gd })?;
    let caption = format!(
        "SimE of every layer with GD ({}). Steps of gradient descent on an axis that is not logarithmic, as the paper has it: an \
         exponential bends upwards. A match at the upper end may lie beyond it. {}",
        ISOTROPIC.words,
        gd.floor_words(&ISOTROPIC)
    );
    note.figure("gd", "Gradient descent on a linear axis", caption, [gd.map_panel("")]);
    Ok(())
}
