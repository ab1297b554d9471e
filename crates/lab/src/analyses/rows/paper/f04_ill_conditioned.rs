//! F4: ill-conditioned data hurt gradient descent, not Newton and hardly the Transformer.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::SKEWED;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F4",
    paper: Some(("Figure 4", "4.3")),
    order: 40,
    seconds: 14.6,
    title: "How many steps of Newton and of gradient descent is the Transformer worth on ill-conditioned data?",
    summary: "Error after 40 pairs of inputs with κ = 100 along layers, Newton iterations and GD steps, and the \
              steps of each that reach the error of another. By theory Newton's need grows with the logarithm of κ, gradient \
              descent's in proportion.",
    needs: &["r2"],
    run,
    ..Analysis::FIGURE
}];

/// Fine enough to count steps to an error.
const GD_COUNTED: Baseline = Baseline { steps: "0,100..=8000/100", ..SKEWED.gd };

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &SKEWED;
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let (newton, gd) = (setting.path(lab, setting.newton)?, setting.path(lab, GD_COUNTED)?);
    let depth = network.steps.last();
    let error = |of: &Trajectory, step: u64| lab.error(of, &prompts, step, LAST);
    let reached = |of: &Trajectory, target: f64| {
        let below = |step: &&u64| error(of, **step).value <= target;
        of.steps.as_slice().iter().find(below).map_or(f64::NAN, |&s| s as f64)
    };
    // a larger error is reached sooner
    let steps_to = |of: &Trajectory, target: Estimate| Estimate {
        value: reached(of, target.value),
        low: reached(of, target.high),
        high: reached(of, target.low),
    };
    let last = error(&network, depth);
    note.claim("newton-steps", steps_to(&newton, last), Within(18.0, 24.0))
        .says("κ=100, t=40: Newton iterations to the error of the Transformer's last layer")
        .quoted("closely matches Newton with 21 iterations");
    note.claim("gd-steps", steps_to(&gd, error(&newton, 21)), Within(1000.0, 4000.0))
        .says("κ=100, t=40: GD steps to the error of Newton after 21 iterations")
        .quoted("about 2,000");
    note.claim("gd-suffers", reached(&gd, last.value) / depth as f64, AtLeast(50.0))
        .says("κ=100, t=40: GD steps to the error of the Transformer's last layer, per layer")
        .quoted("impossible for a 12-layer Transformer to implement");
    let along = |label: &str, of: &Trajectory| {
        let steps = of.steps.as_slice().iter().filter(|s| **s > 0);
        Series::estimates(label, steps.map(|&s| (s as f64, error(of, s))))
    };
    let caption = format!(
        "Mean squared error relative to the labels at t=40, with 95 % bands ({}).",
        setting.about(prompts.count())
    );
    let curves = [
        along(setting.who, &network),
        along(setting.newton.label, &newton),
        along(setting.gd.label, &*setting.path(lab, setting.gd)?),
    ];
    let y = Axis::log10("mean squared error / d").range(1e-7, 3.0);
    let panel = LinesPanel::new(Axis::log2("layers or steps"), y, curves)
        .mark_x("paper, Newton: 21", 21.0)
        .mark_x("paper, GD: 2,000", 2000.0);
    note.figure("ill", "Error after 40 pairs of ill-conditioned inputs", caption, [panel]);
    Ok(())
}
