//! F4 and Q7: ill-conditioned data hurt gradient descent, not Newton and hardly the Transformer.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::setting::{Baseline, ISOTROPIC, SKEWED};
use crate::analyses::{Analysis, LAST, Lab, Outcome};
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::learners::Trajectory;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F4",
        order: 40,
        title: "On ill-conditioned data the Transformer does what Newton does in 21 steps",
        summary: "Error after 40 pairs of inputs with κ = 100 along layers, Newton iterations and GD steps. Newton's need grows with the \
              logarithm of κ, gradient descent's in proportion.",
        needs: &["r2"],
        run: |lab, note| note.adopt(run(lab)),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "Q7",
        order: 70,
        title: "The condition number hardly hurts the Transformer",
        summary: "Steps that match the last layer of a Transformer on isotropic and on ill-conditioned data: as many Newton iterations, but \
              many times the GD steps.",
        needs: &["r1", "r2"],
        run: |lab, note| note.adopt(hardly_hurt(lab)),
        ..Analysis::STATEMENT
    },
];

/// Fine enough to count steps to an error.
const GD_COUNTED: Baseline = Baseline { steps: "0,100..=8000/100", ..SKEWED.gd };

fn run(lab: &Lab) -> Result<Outcome> {
    let setting = &SKEWED;
    let prompts = lab.sample(&setting.data)?;
    let layers = lab.layers(setting.network)?;
    let network = lab.path(setting.network, &setting.data, &layers)?;
    let newton = lab.path(setting.newton.solver, &setting.data, &setting.newton.steps()?)?;
    let gd = lab.path(GD_COUNTED.solver, &setting.data, &GD_COUNTED.steps()?)?;
    let last = lab.error(&network, &prompts, layers.last(), LAST);
    let reached = |of: &Trajectory, target: f64| {
        let below = |step: &&u64| lab.error(of, &prompts, **step, LAST).value <= target;
        of.steps.as_slice().iter().find(below).map_or(f64::NAN, |&s| s as f64)
    };
    let newton_21 = lab.error(&newton, &prompts, 21, LAST);
    let claims = vec![
        Claim::new(
            "F4.newton-steps",
            Kind::Paper,
            "κ=100, t=40: Newton iterations to the error of the Transformer's last layer",
            reached(&newton, last.value),
            Bound::Within(18.0, 24.0),
        )
        .interval(reached(&newton, last.high), reached(&newton, last.low))
        .quoted("closely matches Newton with 21 iterations")
        .figure("f4-ill"),
        Claim::new(
            "F4.gd-steps",
            Kind::Paper,
            "κ=100, t=40: GD steps to the error of Newton after 21 iterations",
            reached(&gd, newton_21.value),
            Bound::Within(1000.0, 4000.0),
        )
        .interval(reached(&gd, newton_21.high), reached(&gd, newton_21.low))
        .quoted("about 2,000")
        .figure("f4-ill"),
        Claim::new(
            "F4.gd-suffers",
            Kind::Paper,
            "κ=100, t=40: GD steps to the error of the Transformer's last layer, per layer",
            reached(&gd, last.value) / layers.last() as f64,
            Bound::AtLeast(50.0),
        )
        .quoted("impossible for a 12-layer Transformer to implement")
        .figure("f4-ill"),
    ];
    let along = |label: &str, of: &Trajectory| {
        let found: Vec<_> = of
            .steps
            .as_slice()
            .iter()
            .filter(|s| **s > 0)
            .map(|&s| (s as f64, lab.error(of, &prompts, s, LAST)))
            .collect();
        let points = found.iter().map(|(s, e)| (*s, e.value)).collect();
        Series::new(label, points)
            .band(found.iter().map(|(_, e)| (e.low, e.high)).collect())
            .stroke(Stroke::LineMarkers)
    };
    let shown = lab.path(setting.gd.solver, &setting.data, &setting.gd.steps()?)?;
    let figure = Figure {
        id: "f4-ill".into(),
        title: "Error after 40 pairs of ill-conditioned inputs".into(),
        caption: format!(
            "Mean squared error relative to the labels at t=40, with 95 % bands ({}, {} prompts).",
            setting.words,
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("layers or steps", Scale::Log2),
            y: Axis::new("mean squared error / d", Scale::Log10).range(1e-7, 3.0),
            series: vec![
                along(setting.who, &network),
                along(setting.newton.label, &newton),
                along(setting.gd.label, &shown),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

fn hardly_hurt(lab: &Lab) -> Result<Outcome> {
    let errors = Measure::Errors(View::default());
    let of = |setting: &'static crate::analyses::kit::setting::Setting, baseline: Baseline| {
        Compared::new(lab, setting, baseline, errors)
    };
    let pairs = [
        (of(&ISOTROPIC, ISOTROPIC.newton)?, of(&SKEWED, SKEWED.newton)?),
        (of(&ISOTROPIC, ISOTROPIC.gd)?, of(&SKEWED, SKEWED.gd)?),
    ];
    // A match at the end of the search says only that the true one is not before it.
    let step = |c: &Compared| {
        let edge = c.matching.best.last().copied().flatten().is_none_or(|best| c.matching.at_edge(best));
        if edge { f64::NAN } else { c.last_step().value }
    };
    let (newton, gd) = (&pairs[0], &pairs[1]);
    let claims = vec![
        Claim::new(
            "Q7.newton",
            Kind::Paper,
            "Newton iterations that match the last layer: κ=100 minus isotropic",
            step(&newton.1) - step(&newton.0),
            Bound::Within(-4.0, 4.0),
        )
        .quoted("21 iterations, same as when Σ = I")
        .figure("q7-best"),
        Claim::new(
            "Q7.gd",
            Kind::Paper,
            "GD steps that match the last layer: κ=100 over isotropic",
            step(&gd.1) / step(&gd.0),
            Bound::AtLeast(2.0),
        )
        .quoted("GD is affected polynomially by conditioning")
        .why(
            "SimE is ruled by the errors around t = d, where prompts of both kinds are ill-conditioned. By the error after 40 pairs \
             ill-conditioned inputs do cost GD many times the steps (F4).",
        )
        .figure("q7-best"),
    ];
    let series = |c: &Compared, label: &str| {
        let points =
            c.matching.a.as_slice().iter().map(|&l| {
                (l as f64, c.matching.step_for(l).filter(|s| *s > 0).map_or(f64::NAN, |s| s as f64))
            });
        Series::new(label, points.collect()).stroke(Stroke::LineMarkers)
    };
    let panels = pairs.iter().zip([Scale::Linear, Scale::Log2]).map(|((plain, skewed), scale)| {
        Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("Transformer layers", Scale::Linear),
            y: Axis::new(format!("best {} steps", plain.baseline.label), scale),
            series: vec![series(plain, "isotropic"), series(skewed, "κ = 100")],
            references: vec![],
        })
    });
    let rows = [newton, gd].map(|(plain, skewed)| {
        let cell =
            |c: &Compared| format!("{} ({:.4})", step(c), c.matching.similarity.last().expect("never empty"));
        vec![plain.baseline.label.to_string(), cell(plain), cell(skewed)]
    });
    let table = Table {
        id: "q7-last".into(),
        title: "Steps that match the last layer".into(),
        caption: "Best-matching step of the last layer, with SimE there.".into(),
        columns: ["algorithm", "isotropic", "κ = 100"].map(String::from).to_vec(),
        rows: rows.to_vec(),
    };
    let figure = Figure {
        id: "q7-best".into(),
        title: "Best-matching steps on isotropic and on ill-conditioned data".into(),
        caption: format!("Two networks, each trained and asked on its own data ({} prompts).", lab.count),
        panels: panels.collect(),
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![table] })
}
