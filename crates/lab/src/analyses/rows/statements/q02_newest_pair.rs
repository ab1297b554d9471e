//! Q2: online gradient descent makes no error on the newest pair.

use crate::analyses::kit::prelude::*;
use crate::compare::forgetting::forgetting;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q2",
    paper: Some(("Text", "3.1")),
    order: 20,
    title: "Is online gradient descent exact on the newest pair?",
    summary: "By theory the update with η_k = 1/‖x_k‖² makes the error on the pair just read zero. The pair is asked \
              again at once, for every number of pairs read, and the one before it as well.",
    run,
    ..Analysis::STATEMENT
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let ogd = solver("ogd")?;
    let scale = prompts.label_power();
    let (mut newest, mut before) = (Vec::new(), Vec::new());
    for n in 1..=40 {
        let errors = forgetting(&*ogd, &prompts, n, 1)?;
        let mean =
            |gap: usize| errors.get(gap).map_or(f64::NAN, |e| e.iter().sum::<f64>() / e.len() as f64 / scale);
        newest.push((n as f64, mean(0)));
        before.push((n as f64, mean(1)));
    }
    note.claim("exact", worst(newest.iter().map(|p| p.1)), AtMost(1e-20))
        .says("Largest mean squared error on the newest pair, relative to the labels, after 1…40 pairs")
        .quoted("ensures that the new weight vector … makes zero error");
    let drawn = newest.into_iter().map(|(x, y)| (x, y.max(1e-36))).collect();
    let curves = [("newest pair", drawn), ("the pair before it", before)];
    let curves = curves.map(|(label, points)| Series::new(label, points).markers());
    let caption = format!(
        "Mean squared error relative to the labels when the pair is asked again ({} prompts).",
        prompts.count()
    );
    let y = Axis::log10("relative squared error").range(1e-36, 1.0);
    let panel = LinesPanel::new(Axis::linear("pairs read"), y, curves);
    note.figure("newest", "Online GD on the newest pair and on the one before", caption, [panel]);
    Ok(())
}
