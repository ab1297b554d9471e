//! E4: the update printed as BFGS is DFP, and with exact line search they are all conjugate gradient.

use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome, heatmap_panel};
use crate::compare::matching;
use crate::compare::similarity::{Metric, View, of_errors};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::Trajectory;
use crate::learners::steps::Steps;
use crate::solvers;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E4",
    order: 40,
    title: "The line search decides: BFGS, DFP, L-BFGS and CG are one method when it is exact",
    summary: "The inverse update that the paper prints under the name BFGS is DFP's. On a quadratic with exact line search \
              BFGS, DFP and L-BFGS all make the steps of conjugate gradient, so a figure that tells BFGS from L-BFGS or CG \
              depends on the line search, which must be named. With Armijo backtracking from 1 the four differ, and only \
              then is L-BFGS slower than BFGS.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::ERRATUM
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let steps = Steps::range(0, 15);
    let of = |name: &str| lab.trajectory(name, "gaussian", &steps);
    let cg = of("cg")?;
    // Largest difference of predictions at t=40, relative to the typical label, over the first steps.
    let apart = |other: &Trajectory, last: u64| {
        let scale = prompts.label_power().sqrt();
        let mut worst = 0.0_f64;
        for s in 0..=last as usize {
            for b in 0..prompts.count() {
                worst = worst.max((other.values[[s, b, LAST]] - cg.values[[s, b, LAST]]).abs());
            }
        }
        worst / scale
    };
    let exact = ["bfgs", "dfp", "lbfgs"];
    let armijo = ["bfgs:line_search=armijo", "dfp:line_search=armijo", "lbfgs:line_search=armijo"];
    let mut claims = Vec::new();
    for name in exact {
        let id = format!("E4.{name}-exact");
        let statement = format!(
            "{name} with exact line search: largest difference from CG over 8 steps at t=40, relative to the labels"
        );
        claims.push(
            Claim::new(&id, Kind::Erratum, statement, apart(&*of(name)?, 8), Bound::AtMost(1e-6))
                .quoted("BFGS, L-BFGS and CG are told apart")
                .figure("e4-difference"),
        );
    }
    let separated = apart(&*of(armijo[0])?, 8);
    claims.push(
        Claim::new(
            "E4.armijo-differs",
            Kind::Erratum,
            "BFGS with Armijo backtracking: the same difference",
            separated,
            Bound::AtLeast(0.1),
        )
        .quoted("line search not named")
        .figure("e4-difference"),
    );
    let mut series = Vec::new();
    for (names, stroke) in [(exact, Stroke::LineMarkers), (armijo, Stroke::Dashed)] {
        for name in names {
            let other = of(name)?;
            let points = steps.as_slice().iter().map(|&k| (k as f64, apart(&other, k).max(1e-17))).collect();
            let label = solvers::label(&other.learner).replace("(line_search=armijo)", "with Armijo");
            series.push(Series::new(label, points).stroke(stroke));
        }
    }
    // Sixty backtracking steps at every position are the slowest thing here, and 320 prompts show it as well.
    let lab = &Lab::new(lab.seed, lab.count.min(320));
    let prompts = lab.prompts("gaussian")?;
    let newton = lab.trajectory("newton", "gaussian", &Steps::range(0, 24))?;
    let long = Steps::range(0, 60);
    let mut panels = Vec::new();
    let mut late = Vec::new();
    for (title, name) in
        ["BFGS, Armijo", "DFP, Armijo (the printed update)", "L-BFGS(5), Armijo"].into_iter().zip(armijo)
    {
        let other = lab.trajectory(name, "gaussian", &long)?;
        let map = of_errors(&newton, &other, &prompts, View::default(), Metric::Cosine)?;
        let matching = matching::bootstrap(&map, lab.seed);
        late.push(matching.step_for(20).unwrap_or(0) as f64);
        panels.push(heatmap_panel(title, &map, &matching));
    }
    claims.push(
        Claim::new(
            "E4.printed-is-slower",
            Kind::Erratum,
            "Armijo: steps of DFP (the printed update) per step of BFGS at Newton's step 20",
            late[1] / late[0],
            Bound::AtLeast(1.3),
        )
        .quoted("the BFGS update")
        .figure("e4-armijo"),
    );
    claims.push(
        Claim::new(
            "E4.lbfgs-slower",
            Kind::Paper,
            "Armijo: steps of L-BFGS(5) per step of BFGS at Newton's step 20",
            late[2] / late[0],
            Bound::AtLeast(1.02),
        )
        .quoted("L-BFGS slower than BFGS")
        .figure("e4-armijo"),
    );
    let figures = vec![
        Figure {
            id: "e4-difference".into(),
            title: "Difference from conjugate gradient".into(),
            caption: format!(
                "Largest difference of predictions from CG's up to each step, at t=40 over all prompts (d={DIM}), relative to \
                 the labels. With exact line search (solid) only round-off separates the methods; with Armijo \
                 backtracking (dashed) they are different methods."
            ),
            panels: vec![Panel::Lines(LinesPanel {
                title: String::new(),
                x: Axis::new("steps", Scale::Linear),
                y: Axis::new("largest relative difference", Scale::Log10).range(1e-17, 10.0),
                series,
                references: vec![],
            })],
        },
        Figure {
            id: "e4-armijo".into(),
            title: "Newton against quasi-Newton methods with Armijo backtracking".into(),
            caption: format!(
                "SimE, isotropic, d={DIM}, {} prompts; best match of each Newton step outlined.",
                prompts.count()
            ),
            panels,
        },
    ];
    Ok(Outcome { claims, figures, tables: vec![] })
}
