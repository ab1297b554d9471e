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
    summary: "Error on the next label along the iterations, a curve for each number of pairs read, and the other way round. The \
              order of convergence is taken with more pairs than dimensions: above one when each step removes a larger factor \
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

    // Order q of convergence, |e₊| ~ |e|^q, from three successive squared errors at t=40.
    let order = |path: &Trajectory, steps: [u64; 3], count: usize, centre: fn(&[f64], &[usize]) -> f64| {
        let errors = steps.map(|k| path.squared_errors(&prompts, k, LAST));
        bootstrap(lab.seed, count, |chosen| {
            let [ea, eb, ec] = [0, 1, 2].map(|i| centre(&errors[i], chosen).ln());
            (ec - eb) / (eb - ea)
        })
    };
    let ours = |path: &Trajectory, steps| order(path, steps, prompts.count(), median_of);
    let theirs = ISOTROPIC.authors_prompts(lab)?.count();
    let authors = |path: &Trajectory, steps| order(path, steps, theirs, mean_of);
    let steps = [10, 11, 12];
    note.claim("newton-superlinear", ours(&newton, steps), AtLeast(1.0))
        .says("Newton's order of convergence at t=40, from medians after 10, 11 and 12 iterations; superlinear is above 1")
        .quoted("both converge at a superlinear rate")
        .authors(authors(&newton, steps))
        .figure("steps");
    let (slow, steps) = (of("gd", "100,150,200")?, [100, 150, 200]);
    note.claim("gd-order-one", ours(&slow, steps), Within(0.8, 1.1))
        .says("Gradient descent's order of convergence at t=40, from medians after 100, 150 and 200 steps; 1 is linear, and \
               errors that fall as 1/k would have 0.71 here")
        .quoted("GD, with fixed step size, is sublinear")
        .kind(Kind::Erratum)
        .authors(authors(&slow, steps))
        .figure("steps");
    let dense = of("gd", "10..=800/10")?;
    let [newton_errors, gd_errors] = [&newton, &dense].map(|path| all_errors(path, &prompts));
    let steps_over = bootstrap(lab.seed, prompts.count(), |chosen| {
        let reached = |path: &Trajectory, errors: &[Vec<f64>]| {
            // medians fall from step to step, so the first below the target is found by bisection
            let log = |i: usize| (median_of(&errors[i], chosen) / DIM as f64 / TARGET).ln();
            let first = errors.partition_point(|of| median_of(of, chosen) / DIM as f64 >= TARGET);
            let step = |i: usize| path.steps.as_slice()[i] as f64;
            match first {
                0 => f64::NAN,
                first if first == errors.len() => f64::NAN,
                // between the two steps where the logarithm crosses it
                first => {
                    step(first) + (step(first) - step(first - 1)) * log(first) / (log(first - 1) - log(first))
                }
            }
        };
        reached(&dense, &gd_errors) / reached(&newton, &newton_errors)
    });
    note.claim("gd-slower", steps_over, AtLeast(10.0))
        .says("Steps of gradient descent per step of Newton to a median error/d of 10⁻¹² at t=40; substantially: by ten or more")
        .quoted("substantially faster than the rate of convergence of GD")
        .figure("rate");

    let about = format!("isotropic, d=20, {} prompts", prompts.count());
    let caption = format!(
        "Mean squared error over d on the next label along the iterations, a curve for each number n of pairs read ({about}), as \
         the paper draws it. Left: Newton's iterations with α = 1/‖SSᵀ‖_F. Right: gradient descent with η = 0.01."
    );
    let panels = [
        by_steps("Newton", &newton, &prompts, Axis::linear("iterations")),
        by_steps("Gradient descent", &dense, &prompts, Axis::linear("steps")),
    ];
    note.figure("steps", "Error along the iterations, by pairs read", caption, panels);
    let newton_steps = [0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 20, 24];
    let caption = format!(
        "The same errors against the pairs read, a curve for each number of iterations ({about}). Steps of gradient descent double."
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

/// Numbers of pairs read for which the paper's figure has a curve, up to a choice of ours: below, at and above d.
const PAIRS: [usize; 8] = [5, 10, 15, 20, 25, 30, 35, 40];

/// Mean error along layers or steps, a curve per number of pairs read.
pub fn by_steps(title: &str, of: &Trajectory, prompts: &Prompts, x: Axis) -> LinesPanel {
    let shown = of.steps.as_slice().iter().copied().filter(|&s| s > 0 || x.scale == Scale::Linear);
    let shown: Vec<u64> = shown.collect();
    let series = PAIRS.iter().enumerate().map(|(i, &t)| {
        let points = shown.iter().map(|&s| (s as f64, mean_error(of, prompts, s, t))).collect();
        Series::new(format!("n = {t}"), points).grade(i as f64 / (PAIRS.len() - 1) as f64)
    });
    let y = Axis::log10("mean squared error / d").range(1e-10, 10.0);
    LinesPanel::new(x, y, series).titled(title)
}

/// Squared errors at t=40, per step.
fn all_errors(path: &Trajectory, prompts: &Prompts) -> Vec<Vec<f64>> {
    path.steps.as_slice().iter().map(|&step| path.squared_errors(prompts, step, LAST)).collect()
}

/// Mean of the chosen values.
pub fn mean_of(values: &[f64], chosen: &[usize]) -> f64 {
    chosen.iter().map(|&b| values[b]).sum::<f64>() / chosen.len() as f64
}
