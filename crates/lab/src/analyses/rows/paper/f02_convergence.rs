//! F2, the parts that need no network: errors by step for Newton and GD.

use crate::analyses::kit::prelude::*;
use crate::stats::median_of;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F2",
    paper: Some(("Figure 2", "4.2")),
    order: 20,
    seconds: 3.8,
    title: "How fast do Newton's method and gradient descent converge?",
    summary: "Error on the next label as a function of the pairs read, for growing numbers of iterations. The order of \
              convergence is taken with more pairs than dimensions: above one when each step removes a larger factor \
              than the one before, one when each removes the same. The Transformer's part of the figure is F2-R1.",
    needs: &[],
    run,
    ..Analysis::FIGURE
}];

/// Median error that both must reach.
const TARGET: f64 = 1e-12;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let of = |name: &str, steps: &str| lab.trajectory(name, "gaussian", &Steps::parse(steps)?);
    let (newton, gd) = (of("newton", "0..=24")?, of("gd", "pow2:0..=12")?);

    // Order q of convergence, |e₊| ~ |e|^q, from three successive medians of the squared error at t=40.
    let order = |trajectory: &Trajectory, steps: [u64; 3]| {
        let errors = steps.map(|k| trajectory.squared_errors(&prompts, k, LAST));
        bootstrap(lab.seed, prompts.count(), |chosen| {
            let [ea, eb, ec] = [0, 1, 2].map(|i| median_of(&errors[i], chosen).ln());
            (ec - eb) / (eb - ea)
        })
    };
    let reached = |trajectory: &Trajectory| {
        let below = |step: &&u64| median_error(trajectory, &prompts, **step, LAST) < TARGET;
        trajectory.steps.as_slice().iter().find(below).map_or(f64::NAN, |&step| step as f64)
    };
    note.claim("newton-superlinear", order(&newton, [10, 11, 12]), AtLeast(1.5))
        .says("Newton's order of convergence at t=40 is above one")
        .quoted("superlinear for n > d");
    note.claim("gd-order-one", order(&*of("gd", "100,150,200")?, [100, 150, 200]), Within(0.8, 1.1))
        .says("Gradient descent's order of convergence at t=40 is one")
        .quoted("not superlinear");
    let ratio = reached(&*of("gd", "10..=800/10")?) / reached(&newton);
    note.claim("gd-slower", ratio, AtLeast(10.0))
        .says("Steps of gradient descent per step of Newton to a median error/d of 10⁻¹² at t=40")
        .quoted("GD far slower");

    let newton_steps = [0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 20, 24];
    let caption = format!(
        "Mean squared error over d on the next label after t pairs (isotropic, d=20, {} prompts). Left: Newton's \
         iterations with α = 1/‖SSᵀ‖_F. Right: gradient descent with η = 0.01.",
        prompts.count()
    );
    let panels = [
        by_pairs("Newton", &newton, &prompts, &newton_steps),
        by_pairs("Gradient descent", &gd, &prompts, gd.steps.as_slice()),
    ];
    note.figure("convergence", "Error by pairs read, along the iterations", caption, panels);
    let progress = |label: &str, of: &Trajectory| {
        let points = of.steps.as_slice().iter().filter(|s| **s > 0);
        let error = |s: u64| median_error(of, &prompts, s, LAST).max(1e-32);
        Series::new(label, points.map(|&s| (s as f64, error(s))).collect()).markers()
    };
    let caption = "Median over prompts of the squared error over d after all 40 pairs. On this scale a geometric rate \
                   bends down gently with log₂ of the steps, a superlinear one falls off within a few.";
    let y = Axis::log10("median squared error / d").range(1e-32, 10.0);
    let curves = [progress("Newton", &newton), progress("gradient descent, η = 0.01", &gd)];
    let panel = LinesPanel::new(Axis::log2("steps"), y, curves).mark_y("10⁻¹²", TARGET);
    note.figure("rate", "Median error at t=40, along the iterations", caption, [panel]);
    Ok(())
}
