//! E6: the test column must be kept out of S.

use crate::analyses::{Analysis, DIM, Lab, Outcome, POINTS};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series, Stroke};
use crate::linalg::{add_outer, axpy, dot, frobenius_of_square, matvec, newton_schulz};
use crate::stats::{Estimate, mean};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E6",
    order: 60,
    title: "Full attention must not see the test column",
    summary: "The construction runs full attention over all columns, the test input among them, so that the layers build \
              S + x_test x_testᵀ in place of S. Then the converged prediction is shrunk towards zero, by the factor \
              1/(1 + x_testᵀS⁻¹x_test). Newton is run to convergence both ways.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::ERRATUM
}];

const STEPS: usize = 30;

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let lengths = [22, 24, 26, 28, 30, 32, 34, 36, 38, 40];
    let error = |t: usize, with_test: bool| -> Estimate {
        let errors: Vec<f64> = (0..prompts.count().min(640))
            .map(|b| {
                let (xs, ys) = prompts.prompt(b);
                (predict(&xs[..(t + 1) * DIM], &ys[..t], with_test) - ys[t]).powi(2) / DIM as f64
            })
            .collect();
        mean(lab.seed, &errors)
    };
    let inside: Vec<Estimate> = lengths.iter().map(|&t| error(t, true)).collect();
    let outside: Vec<Estimate> = lengths.iter().map(|&t| error(t, false)).collect();
    let claims = vec![
        Claim::of(
            "E6.printed",
            Kind::Erratum,
            "Test column inside S: error/d at t=40 after convergence",
            inside[inside.len() - 1],
            Bound::AtLeast(0.05),
        )
        .quoted("exact Newton")
        .figure("e6-test-column"),
        Claim::of(
            "E6.right",
            Kind::Erratum,
            "Test column kept out of S: the same",
            outside[outside.len() - 1],
            Bound::AtMost(1e-15),
        )
        .quoted("x_test must not enter S")
        .figure("e6-test-column"),
    ];
    let curve =
        |estimates: &[Estimate]| lengths.iter().zip(estimates).map(|(&t, e)| (t as f64, e.value)).collect();
    let figure = Figure {
        id: "e6-test-column".into(),
        title: "What x_test x_testᵀ in S costs".into(),
        caption: format!(
            "Mean squared error over d after {STEPS} Newton iterations against the pairs read, with the test column inside \
             full attention and kept out of it ({} prompts).",
            prompts.count().min(640)
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("in-context pairs t", Scale::Linear),
            y: Axis::new("mean squared error / d", Scale::Log10).range(1e-30, 10.0),
            series: vec![
                Series::new("printed: test column inside", curve(&inside)).stroke(Stroke::Dashed),
                Series::new("right: test column outside", curve(&outside)).stroke(Stroke::LineMarkers),
            ],
            references: vec![Reference { label: "zero prediction".into(), at: At::Y(1.0) }],
        })],
    };
    debug_assert!(lengths.iter().all(|&t| t < POINTS));
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
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
    let alpha = 1.0 / frobenius_of_square(&s, DIM);
    let mut m: Vec<f64> = s.iter().map(|v| alpha * v).collect();
    let mut scratch = m.clone();
    (0..STEPS).for_each(|_| newton_schulz(&s, &mut m, &mut scratch, DIM));
    let mut w = vec![0.0; DIM];
    matvec(&m, &c, &mut w);
    dot(&w, test)
}
