//! F2, the parts that need no network: errors by step for Newton and GD.

use crate::analyses::{Analysis, LAST, Lab, Outcome};
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series, Stroke};
use crate::learners::Trajectory;
use crate::learners::steps::Steps;
use crate::stats::{bootstrap, median_of};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F2",
    order: 20,
    title: "Newton converges superlinearly, gradient descent far more slowly",
    summary: "Error on the next label as a function of the pairs read, for growing numbers of iterations. With more \
              pairs than dimensions Newton's error falls faster and faster, while each step of gradient descent \
              removes the same share. The Transformer's part of the figure is F2-R1.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let newton = lab.trajectory("newton", "gaussian", &Steps::range(0, 24))?;
    let gd = lab.trajectory("gd", "gaussian", &Steps::powers_of_two(0, 12))?;

    // Order q of convergence, |e₊| ~ |e|^q, from three successive medians of the squared error at t=40.
    let order = |trajectory: &Trajectory, a: u64, b: u64, c: u64| {
        let errors = [a, b, c].map(|k| trajectory.squared_errors(&prompts, k, LAST));
        bootstrap(lab.seed, prompts.count(), |chosen| {
            let [ea, eb, ec] = [0, 1, 2].map(|i| median_of(&errors[i], chosen).ln());
            (ec - eb) / (eb - ea)
        })
    };
    let newton_order = order(&newton, 10, 11, 12);
    let gd_steps = Steps::parse("100,150,200")?;
    let gd_even = lab.trajectory("gd", "gaussian", &gd_steps)?;
    let gd_order = order(&gd_even, 100, 150, 200);

    let target = 1e-12;
    let reached = |trajectory: &Trajectory| {
        let below = |step: &&u64| median_of_step(trajectory, &prompts, **step) < target;
        trajectory.steps.as_slice().iter().find(below).map_or(f64::NAN, |&step| step as f64)
    };
    let every = Steps::parse("10..=800/10")?;
    let gd_every = lab.trajectory("gd", "gaussian", &every)?;
    let ratio = reached(&gd_every) / reached(&newton);

    let claims = vec![
        Claim::of(
            "F2.newton-superlinear",
            Kind::Paper,
            "Newton's order of convergence at t=40 is above one",
            newton_order,
            Bound::AtLeast(1.5),
        )
        .quoted("superlinear for n > d")
        .figure("f2-convergence"),
        Claim::of(
            "F2.gd-order-one",
            Kind::Paper,
            "Gradient descent's order of convergence at t=40 is one",
            gd_order,
            Bound::Within(0.8, 1.1),
        )
        .quoted("not superlinear")
        .figure("f2-convergence"),
        Claim::new(
            "F2.gd-slower",
            Kind::Paper,
            "Steps of gradient descent per step of Newton to a median error/d of 10⁻¹² at t=40",
            ratio,
            Bound::AtLeast(10.0),
        )
        .quoted("GD far slower")
        .figure("f2-convergence"),
    ];

    let newton_steps = [0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 20, 24];
    let gd_steps: Vec<u64> = (0..=12).map(|e| 1 << e).collect();
    let by_length = Figure {
        id: "f2-convergence".into(),
        title: "Error by pairs read, along the iterations".into(),
        caption: format!(
            "Mean squared error over d on the next label after t pairs (isotropic, d=20, {} prompts). Left: Newton's \
             iterations with α = 1/‖SSᵀ‖_F. Right: gradient descent with η = 0.01.",
            prompts.count()
        ),
        panels: vec![
            Panel::Lines(by_length("Newton", &newton, &prompts, &newton_steps)),
            Panel::Lines(by_length("Gradient descent", &gd, &prompts, &gd_steps)),
        ],
    };
    let progress = |label: &str, trajectory: &Trajectory| {
        let points = trajectory.steps.as_slice().iter().filter(|s| **s > 0);
        let points =
            points.map(|&s| (s as f64, median_of_step(trajectory, &prompts, s).max(1e-32))).collect();
        Series::new(label, points).stroke(Stroke::LineMarkers)
    };
    let by_step = Figure {
        id: "f2-rate".into(),
        title: "Median error at t=40, along the iterations".into(),
        caption: "Median over prompts of the squared error over d after all 40 pairs. On this scale a geometric rate \
                  bends down gently with log₂ of the steps; Newton drops off a cliff within four iterations."
            .into(),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("steps", Scale::Log2),
            y: Axis::new("median squared error / d", Scale::Log10).range(1e-32, 10.0),
            series: vec![progress("Newton", &newton), progress("gradient descent, η = 0.01", &gd)],
            references: vec![Reference { label: "10⁻¹²".into(), at: At::Y(target) }],
        })],
    };
    Ok(Outcome { claims, figures: vec![by_length, by_step], tables: vec![] })
}

/// Median squared error over d at t=40.
pub fn median_of_step(trajectory: &Trajectory, prompts: &Prompts, step: u64) -> f64 {
    let errors = trajectory.squared_errors(prompts, step, LAST);
    let all: Vec<usize> = (0..errors.len()).collect();
    median_of(&errors, &all) / prompts.dim() as f64
}

/// Mean error by pairs read, a curve per step.
pub fn by_length(title: &str, trajectory: &Trajectory, prompts: &Prompts, steps: &[u64]) -> LinesPanel {
    let series = steps.iter().enumerate().map(|(i, &step)| {
        let error = |t| {
            let errors = trajectory.squared_errors(prompts, step, t);
            errors.iter().sum::<f64>() / errors.len() as f64 / prompts.dim() as f64
        };
        let points = (0..prompts.points()).map(|t| (t as f64, error(t))).collect();
        Series::new(format!("{step}"), points).grade(i as f64 / (steps.len() - 1) as f64)
    });
    LinesPanel {
        title: title.into(),
        x: Axis::new("in-context pairs t", Scale::Linear),
        y: Axis::new("mean squared error / d", Scale::Log10).range(1e-10, 10.0),
        series: series.collect(),
        references: vec![Reference { label: "t = d".into(), at: At::X(prompts.dim() as f64) }],
    }
}
