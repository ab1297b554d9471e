//! Q4, Q5, Q6: distance instead of angle; read-outs that are not retrained; least squares at the end.

use crate::analyses::kit::prelude::*;
use crate::probe::ReadPoint;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "Q4",
        paper: Some(("Footnote", "3.3")),
        order: 40,
        title: "Does distance in place of angle give the same trends?",
        summary: "The maps of F3 by root mean square difference of errors, as the paper says in a footnote.",
        needs: &["r1"],
        run: distance,
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q5",
        paper: Some(("Text", "3.2")),
        order: 50,
        seconds: 8.0,
        cost: Cost::Minutes,
        title: "Do the layers progress without read-outs of their own?",
        summary: "The network's own read-out, trained on its last layer, applied to every layer, to the residual \
                  stream as it is and after the final LayerNorm; beside them the fitted ones.",
        needs: &["r1"],
        run: own_read_out,
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q6",
        paper: Some(("Text", "4.2")),
        order: 60,
        title: "Are the last layers least squares?",
        summary: "Similarity of each layer with least squares, beside what Newton and gradient descent have once \
                  they have converged.",
        needs: &["r1"],
        run: least_squares,
        ..Analysis::STATEMENT
    },
];

/// A factor of ten or so shows on few prompts.
const READ_OUT_PROMPTS: usize = 320;

fn distance(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let of = |baseline| -> Result<Compared> {
        let theirs = setting.errors_by_authors(lab, baseline, Metric::Distance)?;
        Ok(setting.compare(lab, baseline, Measure::ErrorDistance)?.with_authors(theirs))
    };
    let (newton, gd) = (of(setting.newton)?, of(setting.gd)?);
    let quoted = "Alternative metrics such as ℓ₂ distance gives the same observation";
    note.trend("newton-linear", &newton, Trend::Linear).quoted(quoted);
    note.slope("newton-slope", &newton, Trend::Linear, Within(2.5, 3.5))
        .ours("The same observation as in F3: about 3 per layer");
    note.trend("gd-exponential", &gd, Trend::Exponential).quoted(quoted);
    let title = "Distance of errors to Newton and gradient descent";
    note.maps("maps", title, setting, &[&newton, &gd], "Smaller is more alike. ");
    Ok(())
}

fn own_read_out(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let prompts = setting.prompts(lab)?.head(READ_OUT_PROMPTS, POINTS);
    let layers = lab.layers(setting.network)?;
    let fitted = lab.network(setting.network)?.trajectory(&prompts, &layers)?;
    let own = |state| lab.own_read_out(setting.network, state)?.trajectory(&prompts, &layers);
    let (raw, normalised) = (own(ReadPoint::Raw)?, own(ReadPoint::Normalised)?);
    let before = layers.last().saturating_sub(1).max(1);
    // the smallest of all layers from `first` on: one that needed no read-out of its own would show
    let smallest_ratio = |of: &Trajectory, first: u64| {
        let errors = |of: &Trajectory| -> Vec<Vec<f64>> {
            (first..=before).map(|layer| of.squared_errors(&prompts, layer, LAST)).collect()
        };
        let (own, fitted) = (errors(of), errors(&fitted));
        let sum = |values: &[f64], chosen: &[usize]| chosen.iter().map(|&b| values[b]).sum::<f64>();
        bootstrap(lab.seed, prompts.count(), |chosen| {
            least(own.iter().zip(&fitted).map(|(own, fitted)| sum(own, chosen) / sum(fitted, chosen)))
        })
    };
    let begun = setting.layers.0.min(before);
    for (name, how, of, first) in [
        ("raw", "of the residual stream, as in the authors' code", &raw, begun),
        ("normalised", "after the final LayerNorm", &normalised, before),
    ] {
        note.claim(name, smallest_ratio(of, first), AtLeast(10.0))
            .says(format!(
                "t=40: error under the network's own read-out ({how}) over that under a fitted one, the smallest of layers \
                 {first} to {before}"
            ))
            .quoted(
                "we need to re-train the ReadOut layer for every layer index ℓ so that they can improve progressively",
            );
    }
    let panel = |(title, of): (&str, &Trajectory)| {
        let panel = by_pairs(title, of, &prompts, layers.as_slice());
        LinesPanel { y: panel.y.clone().range(1e-5, 1e3), ..panel }
    };
    let caption = format!(
        "Mean squared error over d after t pairs, a curve per layer ({}). The last layer's own read-out \
         is the trained network itself.",
        setting.about(prompts.count())
    );
    let shown = [
        ("fitted read-outs", &fitted),
        ("own, of the residual stream", &raw),
        ("own, after LayerNorm", &normalised),
    ];
    let title = "Error by pairs read, with fitted read-outs and with the network's own";
    note.figure("read-outs", title, caption, shown.map(panel));
    Ok(())
}

fn least_squares(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let of = |baseline| setting.errors(lab, baseline);
    let (ols, newton, gd) = (of(setting.exact)?, of(setting.newton)?, of(setting.gd)?);
    note.claim("last", ols.last_similarity(), AtLeast(0.98))
        .says("SimE of the last layer with OLS")
        .quoted("the last few layers of the Transformer also basically compute OLS")
        .authors(setting.by_authors(lab, setting.exact)?.last_similarity());
    let layers = ols.matching.a.as_slice();
    let at_most = |label: &str, of: &Compared| {
        Series::new(label, layers.iter().map(|&l| (l as f64, of.floor)).collect()).dashed()
    };
    let own = Series { label: setting.who.into(), ..ols.curve() };
    let curves = [own, at_most("Newton at most", &newton), at_most("GD at most", &gd)];
    let caption = format!(
        "SimE with OLS ({}, 95 % band). Dashed: the most that any step of Newton and of GD has with OLS.",
        setting.about(lab.count)
    );
    let panel = LinesPanel::new(Axis::linear("Transformer layers"), Axis::linear("SimE with OLS"), curves);
    note.figure("ols", "Similarity with least squares, by layer", caption, [panel]);
    Ok(())
}
