//! E4: the update printed as BFGS is DFP, and with exact line search they are all conjugate gradient.

use crate::analyses::kit::prelude::*;
use crate::solvers;
use crate::stats::interval;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E4",
    paper: Some(("Text", "A.2.3")),
    order: 40,
    seconds: 2.1,
    title: "Is the printed update BFGS, and what does the line search decide?",
    summary: "The inverse update that the paper prints under the name BFGS is DFP's. On a quadratic with exact line \
              search BFGS, DFP and L-BFGS all make the steps of conjugate gradient, so a figure that tells BFGS from \
              L-BFGS or CG depends on the line search, which must be named. All are run with the exact search and with \
              Armijo backtracking from 1.",
    run,
    ..Analysis::ERRATUM
}];

const EXACT: [&str; 3] = ["bfgs", "dfp", "lbfgs"];
const ARMIJO: [&str; 3] = ["bfgs:line_search=armijo", "dfp:line_search=armijo", "lbfgs:line_search=armijo"];
/// Prompts for the maps: sixty backtracking steps at every position are the slowest thing here.
const MAPPED: usize = 320;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let steps = Steps::range(0, 15);
    let of = |name: &str| lab.trajectory(name, "gaussian", &steps);
    let cg = of("cg")?;
    // Largest difference of predictions at t=40, relative to the typical label, over the first steps.
    let apart = |other: &Trajectory, last: u64| {
        let places = (0..=last as usize).flat_map(|s| (0..prompts.count()).map(move |b| [s, b, LAST]));
        worst(places.map(|at| (other.values[at] - cg.values[at]).abs())) / prompts.label_power().sqrt()
    };
    let from_cg = "largest difference from CG over 8 steps at t=40, relative to the labels";
    for name in EXACT {
        note.claim(&format!("{name}-exact"), apart(&*of(name)?, 8), AtMost(1e-6))
            .says(format!("{name} with exact line search: {from_cg}"))
            .ours("The paper tells BFGS, L-BFGS and CG apart");
    }
    note.claim("armijo-differs", apart(&*of(ARMIJO[0])?, 8), AtLeast(0.1))
        .says("BFGS with Armijo backtracking: the same difference")
        .ours("The paper names no line search");
    let mut series = Vec::new();
    for (names, stroke) in [(EXACT, Stroke::LineMarkers), (ARMIJO, Stroke::Dashed)] {
        for name in names {
            let other = of(name)?;
            let points = steps.as_slice().iter().map(|&k| (k as f64, apart(&other, k).max(1e-17))).collect();
            let label = solvers::label(&other.learner).replace("(line_search=armijo)", "with Armijo");
            series.push(Series::new(label, points).stroke(stroke));
        }
    }
    let caption = format!(
        "Largest difference of predictions from CG's up to each step, at t=40 over all prompts (d={DIM}), relative to \
         the labels. With exact line search (solid) only round-off separates the methods; with Armijo \
         backtracking (dashed) they are different methods."
    );
    let y = Axis::log10("largest relative difference").range(1e-17, 10.0);
    let panel = LinesPanel::new(Axis::linear("steps"), y, series);
    note.figure("difference", "Difference from conjugate gradient", caption, [panel]);
    armijo(&Lab::new(lab.seed, lab.count.min(MAPPED)), note)
}

/// Newton against the three methods with backtracking.
fn armijo(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let newton = lab.trajectory("newton", "gaussian", &Steps::range(0, 24))?;
    let maps = ARMIJO
        .iter()
        .map(|name| {
            let other = lab.trajectory(name, "gaussian", &Steps::range(0, 60))?;
            Ok(Comparison::of_errors(&newton, &other, &prompts)?.resampled(lab.seed))
        })
        .collect::<Result<Vec<_>>>()?;
    // the maps are resampled alike, so that ratios are of the same prompts
    let per_bfgs = |other: usize| {
        let [of, bfgs] = [&maps[other].matching, &maps[0].matching];
        let at = bfgs.a.position(20).expect("recorded");
        let resampled = of.resampled_interpolated.iter().zip(&bfgs.resampled_interpolated);
        let (low, high) = interval(resampled.map(|(of, bfgs)| of[at] / bfgs[at]).collect());
        Estimate { value: of.interpolated[at] / bfgs.interpolated[at], low, high }
    };
    note.claim("printed-is-slower", per_bfgs(1), AtLeast(1.3))
        .says("Armijo: steps of DFP (the printed update) per step of BFGS at Newton's step 20")
        .quoted("The BFGS updates are given by")
        .figure("armijo");
    note.claim("lbfgs-slower", per_bfgs(2), AtLeast(1.0))
        .says("Armijo: steps of L-BFGS(5) per step of BFGS at Newton's step 20")
        .quoted("it will converge slower than full BFGS")
        .figure("armijo")
        .kind(Kind::Paper);
    let titles = ["BFGS, Armijo", "DFP, Armijo (the printed update)", "L-BFGS(5), Armijo"];
    let panels = titles.iter().zip(&maps).map(|(title, c)| c.panel(title));
    let title = "Newton against quasi-Newton methods with Armijo backtracking";
    let prompts = prompts.count();
    let caption =
        format!("SimE, isotropic, d={DIM}, {prompts} prompts; best match of each Newton step outlined.");
    note.figure("armijo", title, caption, panels);
    Ok(())
}
