//! F5, the part that needs no network: which algorithms forget early pairs.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::ONLINE;
use crate::compare::forgetting::forgetting;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F5",
    paper: Some(("Figure 5", "4.5")),
    order: 50,
    title: "Which algorithms forget the pairs they read first?",
    summary: "After 20 pairs one of the inputs already seen is asked again; the gap is how long ago it was. Asked are \
              online gradient descent, which the newest pair moves most, and Newton after five steps, which sees all pairs \
              at once but is far from converged. The networks' parts of the figure are F5-R1 and F5-R7.",
    needs: &[],
    run: algorithms,
    ..Analysis::FIGURE
}];

/// Pairs read before one of them is asked again.
pub const READ: usize = 20;
/// The axis of gaps.
pub const GAP: &str = "gap g (pairs since it was seen)";
/// The title of a figure of errors by gap.
pub const AGE: &str = "Error on a pair seen before, by its age";

/// Errors by gap, or by pairs read, and by prompt.
pub type Errors = Vec<Vec<f64>>;

/// The same as shares of what a label varies.
pub fn over_d(errors: Errors) -> Errors {
    errors.into_iter().map(|e| e.into_iter().map(|e| e / DIM as f64).collect()).collect()
}

/// The sum over some prompts.
pub fn sum(errors: &[f64], chosen: &[usize]) -> f64 {
    chosen.iter().map(|&b| errors[b]).sum()
}

/// Slope of the error against the gap, as a share of the mean error: 0 is flat.
pub fn tilt(lab: &Lab, errors: &Errors) -> Estimate {
    bootstrap(lab.seed, errors[0].len(), |chosen| {
        let points: Vec<(f64, f64)> =
            errors.iter().enumerate().map(|(gap, e)| (gap as f64, sum(e, chosen))).collect();
        line(&points).1 * READ as f64 / (points.iter().map(|p| p.1).sum::<f64>() / READ as f64)
    })
}

fn algorithms(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let errors = |name: &str, step: u64| Ok(over_d(forgetting(&*solver(name)?, &prompts, READ, step)?));
    let random = ONLINE.by_authors().solver;
    let by_authors = over_d(forgetting(&*solver(random)?, &*ISOTROPIC.authors_prompts(lab)?, READ, 1)?);
    let curves: Result<Vec<Errors>> = [("ogd", 1), ("newton", 5), ("gd", 8), ("ols", 1)]
        .map(|(name, step)| errors(name, step))
        .into_iter()
        .collect();
    let curves = curves?;
    let [ogd, newton] = [&curves[0], &curves[1]];
    note.claim("ogd-forgets", tilt(lab, ogd), AtLeast(0.8))
        .says("Online GD: error grows with the gap (rise over 20 pairs, relative to its mean)")
        .quoted(
            "its predictions are biased towards getting more recent training examples correct … This property makes LSTMs similar to \
             online GD",
        )
        .authors(tilt(lab, &by_authors));
    note.claim("newton-flat", tilt(lab, newton), Within(-0.25, 0.25))
        .says("Newton after 5 steps: error does not depend on the gap (same measure)")
        .quoted("five steps of Newton's method has the same error on average for recent and early examples");
    let (ogd_5, ogd_19) = (Bound::near(0.081, 0.25), Bound::near(0.205, 0.25));
    let (flat, over_all) = (Within(0.045, 0.085), "0.053 to 0.072 over all gaps");
    for (name, who, errors, gap, bound, expected) in [
        ("ogd-gap-5", "Online GD", ogd, 5, ogd_5, "0.081"),
        ("ogd-gap-19", "Online GD", ogd, 19, ogd_19, "0.205"),
        ("newton-gap-0", "Newton-5", newton, 0, flat, over_all),
        ("newton-gap-19", "Newton-5", newton, 19, flat, over_all),
    ] {
        note.claim(name, mean(lab.seed, &errors[gap]), bound)
            .says(format!("{who}: error/d at gap {gap}"))
            .ours(expected)
            .kind(Kind::Reference);
    }
    let labels = ["online GD", "Newton, 5 steps", "GD, 8 steps", "OLS"];
    let series = labels.into_iter().zip(&curves).map(|(label, errors)| {
        Series::estimates(label, (0..READ).map(|gap| (gap as f64, mean(lab.seed, &errors[gap]))))
    });
    let caption = format!(
        "After {READ} pairs the input x_(n−g) is asked again; squared error over d against the gap g, mean over {} \
         prompts with 95 % bands. OLS interpolates and is exact.",
        prompts.count()
    );
    let y = Axis::linear("mean squared error / d").range(0.0, 0.26);
    note.figure("forgetting", AGE, caption, [LinesPanel::new(Axis::linear(GAP), y, series)]);
    Ok(())
}
