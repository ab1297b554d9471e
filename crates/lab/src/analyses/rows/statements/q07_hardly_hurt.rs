//! Q7: the condition number hardly hurts the Transformer.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::SKEWED;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q7",
    paper: Some(("Text", "4.3")),
    order: 70,
    title: "Does the condition number hurt the Transformer?",
    summary: "Steps that match the last layer of a Transformer on isotropic and on ill-conditioned data, \
              of Newton and of gradient descent. The paper has as many of the one and many more of the other.",
    needs: &["r1", "r2"],
    run,
    ..Analysis::STATEMENT
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let newton = [ISOTROPIC.errors(lab, ISOTROPIC.newton)?, SKEWED.errors(lab, SKEWED.newton)?];
    let gd = [ISOTROPIC.errors(lab, ISOTROPIC.gd)?, SKEWED.errors(lab, SKEWED.gd)?];
    // A match at the end of the search says only that the true one is not before it.
    let step = |c: &Compared| {
        let edge = c.matching.best.last().copied().flatten().is_none_or(|best| c.matching.at_edge(best));
        if edge { f64::NAN } else { c.last_step().value }
    };
    note.claim("newton", step(&newton[1]) - step(&newton[0]), Within(-4.0, 4.0))
        .says("Newton iterations that match the last layer: κ=100 minus isotropic")
        .quoted("21 iterations, same as when Σ = I");
    note.claim("gd", step(&gd[1]) / step(&gd[0]), AtLeast(2.0))
        .says("GD steps that match the last layer: κ=100 over isotropic")
        .quoted("GD is affected polynomially by conditioning")
        .why(
            "SimE is ruled by the errors around t = d, where prompts of both kinds are ill-conditioned. By the error after 40 pairs \
             ill-conditioned inputs do cost GD many times the steps (F4).",
        );
    let curve = |(c, label): (&Compared, &str)| {
        let layers = c.matching.a.as_slice().iter();
        let best = |layer: u64| c.step_for(layer).filter(|s| *s > 0).map_or(f64::NAN, |s| s as f64);
        Series::new(label, layers.map(|&l| (l as f64, best(l))).collect()).markers()
    };
    let panel = |(pair, scale): (&[Compared; 2], Scale)| {
        let y = Axis::new(format!("best {} steps", pair[0].baseline.label), scale);
        let curves = [(&pair[0], "isotropic"), (&pair[1], "κ = 100")].map(curve);
        LinesPanel::new(Axis::linear("Transformer layers"), y, curves)
    };
    note.figure(
        "best",
        "Best-matching steps on isotropic and on ill-conditioned data",
        format!("Two networks, each trained and asked on its own data ({} prompts).", lab.count),
        [(&newton, Scale::Linear), (&gd, Scale::Log2)].map(panel),
    );
    let rows = [newton, gd].map(|pair| {
        let cell =
            |c: &Compared| format!("{} ({:.4})", step(c), c.matching.similarity.last().expect("never empty"));
        vec![pair[0].baseline.label.to_string(), cell(&pair[0]), cell(&pair[1])]
    });
    let caption = "Best-matching step of the last layer, with SimE there.";
    let columns = ["algorithm", "isotropic", "κ = 100"];
    note.table("last", "Steps that match the last layer", caption, columns, rows);
    Ok(())
}
