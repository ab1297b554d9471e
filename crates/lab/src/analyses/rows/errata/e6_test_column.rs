//! E6: the test column must be kept out of S.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::newton_iterates;
use crate::linalg::{add_outer, axpy, dot, matvec};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E6",
    paper: Some(("Theorem 5.1", "B.2")),
    order: 60,
    title: "May full attention see the test column?",
    summary: "The construction runs full attention over all columns, the test input among them, so that the layers \
              build S + x_test x_testᵀ in place of S. Then the converged prediction is shrunk towards zero, by the \
              factor 1/(1 + x_testᵀS⁻¹x_test). Newton is run to convergence both ways.",
    run,
    ..Analysis::ERRATUM
}];

const STEPS: usize = 30;
/// Prompts, each solved at ten lengths both ways.
const PROMPTS: usize = 640;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let count = prompts.count().min(PROMPTS);
    let error = |t: usize, with_test: bool| -> Estimate {
        let squared = |b: usize| {
            let (xs, ys) = prompts.prompt(b);
            (predict(&xs[..(t + 1) * DIM], &ys[..t], with_test) - ys[t]).powi(2) / DIM as f64
        };
        mean(lab.seed, &(0..count).map(squared).collect::<Vec<_>>())
    };
    note.claim("printed", error(LAST, true), AtLeast(0.05))
        .says("Test column inside S: error/d at t=40 after convergence")
        .quoted("each exact Newton's iteration");
    note.claim("right", error(LAST, false), AtMost(1e-15))
        .says("Test column kept out of S: the same")
        .ours("x_test must not enter S");
    let curve = |label: &str, with_test: bool| {
        let lengths = (22..=LAST).step_by(2);
        Series::new(label, lengths.map(|t| (t as f64, error(t, with_test).value)).collect())
    };
    let series = [
        curve("printed: test column inside", true).dashed(),
        curve("right: test column outside", false).markers(),
    ];
    let caption = format!(
        "Mean squared error over d after {STEPS} Newton iterations against the pairs read, with the test column inside \
         full attention and kept out of it ({count} prompts)."
    );
    let y = Axis::log10("mean squared error / d").range(1e-30, 10.0);
    let panel = LinesPanel::new(Axis::linear("in-context pairs t"), y, series).mark_y("zero prediction", 1.0);
    note.figure("test-column", "Error with the test column inside S and outside", caption, [panel]);
    Ok(())
}

/// Newton's prediction for the last input, with or without it in S.
fn predict(xs: &[f64], ys: &[f64], with_test: bool) -> f64 {
    let test = &xs[ys.len() * DIM..];
    let (mut s, mut c) = (vec![0.0; DIM * DIM], vec![0.0; DIM]);
    for (x, y) in xs.chunks_exact(DIM).zip(ys) {
        add_outer(x, &mut s);
        axpy(*y, x, &mut c);
    }
    if with_test {
        add_outer(test, &mut s);
    }
    let (_, iterates) = newton_iterates(&s, DIM, STEPS);
    let mut w = vec![0.0; DIM];
    matvec(&iterates[STEPS], &c, &mut w);
    dot(&w, test)
}
