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
/// The iterations after which the paper stops Newton.
const PAPERS: u64 = 21;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &SKEWED;
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let (newton, gd) = (setting.path(lab, setting.newton)?, setting.path(lab, GD_COUNTED)?);
    let depth = network.steps.last();
    let along = |of: &Trajectory| Along::new(of, &prompts);
    let (layers, iterations, steps) = (along(&network), along(&newton), along(&gd));
    note.claim("newton-steps", iterations.to_reach(lab, &layers, depth), Within(18.0, 24.0))
        .says("κ=100, t=40: Newton iterations to the error of the Transformer's last layer")
        .quoted("closely matches Iterative Newton's Method with 21 iterations");
    note.claim("gd-steps", steps.to_reach(lab, &iterations, PAPERS), Within(1000.0, 4000.0))
        .says(format!("κ=100, t=40: GD steps to the error of Newton after {PAPERS} iterations"))
        .quoted("GD requires 2,000 steps to converge");
    let suffers = steps.to_reach(lab, &layers, depth);
    let per_layer = |steps: f64| steps / depth as f64;
    let suffers = Estimate {
        value: per_layer(suffers.value),
        low: per_layer(suffers.low),
        high: per_layer(suffers.high),
    };
    note.claim("gd-suffers", suffers, AtLeast(50.0))
        .says("κ=100, t=40: GD steps to the error of the Transformer's last layer, per layer")
        .quoted("making it impossible for a 12-layer Transformers to implement these many gradient updates");
    let curve = |label: &str, of: &Trajectory| {
        let steps = of.steps.as_slice().iter().filter(|s| **s > 0);
        Series::estimates(label, steps.map(|&s| (s as f64, lab.error(of, &prompts, s, LAST))))
    };
    let caption = format!(
        "Mean squared error relative to the labels at t=40, with 95 % bands ({}).",
        setting.about(prompts.count())
    );
    let curves = [
        curve(setting.who, &network),
        curve(setting.newton.label, &newton),
        curve(setting.gd.label, &*setting.path(lab, setting.gd)?),
    ];
    let y = Axis::log10("mean squared error / d").range(1e-7, 3.0);
    let panel = LinesPanel::new(Axis::log2("layers or steps"), y, curves)
        .mark_x("paper, Newton: 21", 21.0)
        .mark_x("paper, GD: 2,000", 2000.0);
    note.figure("ill", "Error after 40 pairs of ill-conditioned inputs", caption, [panel]);
    Ok(())
}

/// Squared errors after all pairs along the steps of a learner, one per prompt.
struct Along {
    steps: Vec<u64>,
    errors: Vec<Vec<f64>>,
}

impl Along {
    fn new(of: &Trajectory, prompts: &Prompts) -> Along {
        let steps = of.steps.as_slice().to_vec();
        let errors = steps.iter().map(|&step| of.squared_errors(prompts, step, LAST)).collect();
        Along { steps, errors }
    }

    /// Steps to the mean error of another learner at one of its steps, both on the same resampled prompts.
    fn to_reach(&self, lab: &Lab, other: &Along, step: u64) -> Estimate {
        let target = &other.errors[other.steps.iter().position(|s| *s == step).expect("recorded")];
        let sum = |errors: &[f64], chosen: &[usize]| chosen.iter().map(|&b| errors[b]).sum::<f64>();
        bootstrap(lab.seed, target.len(), |chosen| self.reached(sum(target, chosen), |e| sum(e, chosen)))
    }

    /// Where the error first falls to `target`, between recorded steps by its logarithm; infinite where it never does.
    fn reached(&self, target: f64, error: impl Fn(&[f64]) -> f64) -> f64 {
        let mut before: Option<(f64, f64)> = None;
        for (&step, errors) in self.steps.iter().zip(&self.errors) {
            let here = (step as f64, error(errors));
            if here.1 <= target {
                return before.map_or(here.0, |(step, error)| {
                    step + (here.0 - step) * (error / target).ln() / (error / here.1).ln()
                });
            }
            before = Some(here);
        }
        f64::INFINITY
    }
}
