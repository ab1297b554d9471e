//! F6: how wide a Transformer must be.

use crate::analyses::kit::prelude::*;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F6",
    paper: Some(("Figure 6", "4.4")),
    order: 60,
    seconds: 1.6,
    title: "How wide must a Transformer be to act as least squares?",
    summary: "Transformers of 12 layers with one head, 8, 16, 32 and 64 wide, on d = 20. To act as least squares is taken as a SimE with it \
              of at least 0.9; Newton reaches that after 12 steps.",
    needs: &["r6-8", "r6-16", "r6-32", "r6-64"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = ISOTROPIC.prompts(lab)?;
    let curve = |label: &str, path: &Trajectory| {
        let error = |t: usize| {
            let squares = path.squared_errors(&prompts, path.steps.last(), t);
            (squares.iter().sum::<f64>() / (prompts.count() * DIM) as f64).max(1e-5)
        };
        Series::new(label, (0..POINTS).map(|t| (t as f64, error(t))).collect())
    };
    let mut curves = Vec::new();
    for (width, name) in [(8, "r6-8"), (16, "r6-16"), (32, "r6-32"), (64, "r6-64")] {
        let setting = Setting { network: name, ..ISOTROPIC };
        let wide_enough = width >= DIM;
        let bound = if wide_enough { AtLeast(0.9) } else { AtMost(0.9) };
        note.claim(&format!("width-{width}"), setting.errors(lab, setting.exact)?.last_similarity(), bound)
            .asks(&[name])
            .says(format!("{width} wide: SimE of the last layer with OLS"))
            .quoted(if wide_enough {
                "Transformers can mimic OLS solution when the hidden size is 32 or 64"
            } else {
                "but fail with smaller sizes"
            })
            .authors(setting.by_authors(lab, setting.exact)?.last_similarity());
        curves.push(curve(&format!("{width} wide"), &*setting.layers(lab)?));
    }
    curves.push(curve("OLS", &*ISOTROPIC.path(lab, ISOTROPIC.exact)?));
    let caption = format!(
        "Mean squared error over d after t pairs, up to t = {LAST} ({}; values below 10⁻⁵ are drawn there).",
        ISOTROPIC.about(prompts.count())
    );
    let y = Axis::log10("mean squared error / d").range(1e-5, 5.0);
    let panel = LinesPanel::new(Axis::linear("in-context pairs t"), y, curves).mark_x("t = d", DIM as f64);
    note.figure("widths", "Error by pairs read, by the width of the network", caption, [panel]);
    Ok(())
}
