//! F5, right: who forgets early pairs.

use crate::analyses::{Analysis, DIM, Lab, Outcome, solver};
use crate::compare::forgetting::forgetting;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::stats::{bootstrap, mean};

/// Pairs read before the re-asked one.
const READ: usize = 20;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F5",
    order: 50,
    title: "Online gradient descent forgets, five steps of Newton do not",
    summary: "After 20 pairs one of the inputs already seen is asked again; the gap is how long ago it was. Online \
              gradient descent is exact on the newest pair and worse the older the pair is. Newton after five steps, \
              far from converged, errs alike on all. The networks' parts of the figure are F5-R1 and F5-R7.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let curve = |name: &str, step: u64| -> Result<Vec<Vec<f64>>> {
        let errors = forgetting(&*solver(name)?, &prompts, READ, step)?;
        Ok(errors.into_iter().map(|gap| gap.into_iter().map(|e| e / DIM as f64).collect()).collect())
    };
    let (ogd, newton, gd) = (curve("ogd", 1)?, curve("newton", 5)?, curve("gd", 8)?);
    let ols = curve("ols", 1)?;

    // Slope of error against gap, as a share of the mean error: 0 is flat.
    let tilt = |errors: &[Vec<f64>]| {
        bootstrap(lab.seed, prompts.count(), |chosen| {
            let at = |gap: usize| chosen.iter().map(|&b| errors[gap][b]).sum::<f64>() / chosen.len() as f64;
            let points: Vec<(f64, f64)> = (0..READ).map(|gap| (gap as f64, at(gap))).collect();
            let (_, slope, _) = crate::stats::line(&points);
            slope * READ as f64 / (points.iter().map(|p| p.1).sum::<f64>() / READ as f64)
        })
    };
    let at = |errors: &[Vec<f64>], gap: usize| mean(lab.seed, &errors[gap]);
    let claims = vec![
        Claim::of(
            "F5.ogd-forgets",
            Kind::Paper,
            "Online GD: error grows with the gap (rise over 20 pairs, relative to its mean)",
            tilt(&ogd),
            Bound::AtLeast(0.8),
        )
        .quoted("recency-biased")
        .figure("f5-forgetting"),
        Claim::of(
            "F5.newton-flat",
            Kind::Paper,
            "Newton after 5 steps: error does not depend on the gap (same measure)",
            tilt(&newton),
            Bound::Within(-0.25, 0.25),
        )
        .quoted("same error for recent and early examples")
        .figure("f5-forgetting"),
        Claim::of(
            "F5.ogd-gap-5",
            Kind::Reference,
            "Online GD: error/d at gap 5",
            at(&ogd, 5),
            Bound::near(0.081, 0.25),
        )
        .quoted("0.081"),
        Claim::of(
            "F5.ogd-gap-19",
            Kind::Reference,
            "Online GD: error/d at gap 19",
            at(&ogd, 19),
            Bound::near(0.205, 0.25),
        )
        .quoted("0.205"),
        Claim::of(
            "F5.newton-gap-0",
            Kind::Reference,
            "Newton-5: error/d at gap 0",
            at(&newton, 0),
            Bound::Within(0.045, 0.085),
        )
        .quoted("0.053 to 0.072 over all gaps"),
        Claim::of(
            "F5.newton-gap-19",
            Kind::Reference,
            "Newton-5: error/d at gap 19",
            at(&newton, 19),
            Bound::Within(0.045, 0.085),
        )
        .quoted("0.053 to 0.072 over all gaps"),
    ];
    let series = |label: &str, errors: &[Vec<f64>]| {
        let estimates: Vec<_> = (0..READ).map(|gap| at(errors, gap)).collect();
        let points = estimates.iter().enumerate().map(|(gap, e)| (gap as f64, e.value)).collect();
        let band = estimates.iter().map(|e| (e.low, e.high)).collect();
        Series::new(label, points).band(band).stroke(Stroke::LineMarkers)
    };
    let figure = Figure {
        id: "f5-forgetting".into(),
        title: "Error on a pair seen before, by its age".into(),
        caption: format!(
            "After {READ} pairs the input x_(n−g) is asked again; squared error over d against the gap g, mean over {} \
             prompts with 95 % bands. OLS interpolates and is exact.",
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("gap g (pairs since it was seen)", Scale::Linear),
            y: Axis::new("mean squared error / d", Scale::Linear).range(0.0, 0.26),
            series: vec![
                series("online GD", &ogd),
                series("Newton, 5 steps", &newton),
                series("GD, 8 steps", &gd),
                series("OLS", &ols),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
