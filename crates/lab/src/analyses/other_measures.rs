//! Q4, Q5, Q6: distance instead of angle; read-outs that are not retrained; least squares at the end.

use super::compared::{Compared, Measure, maps_figure};
use super::convergence::by_length;
use super::study::ISOTROPIC;
use super::{Analysis, LAST, Lab, Outcome};
use crate::claims::{Bound, Claim, Kind};
use crate::error::Result;
use crate::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::rates::Trend;
use crate::similarity::View;

/// Registry row.
pub const DISTANCE: Analysis = Analysis {
    id: "Q4",
    title: "Distance instead of angle gives the same trends",
    summary: "The maps of F3 by root mean square difference of errors, as the paper says in a footnote.",
    needs: &["r1"],
    run: distance,
};

/// Registry row.
pub const OWN_READ_OUT: Analysis = Analysis {
    id: "Q5",
    title: "Without read-outs of their own the layers do not progress",
    summary: "The network's own read-out, trained on its last layer, applied to every layer; beside it the fitted ones. Only with a \
              read-out of its own does a layer show what it knows.",
    needs: &["r1"],
    run: own_read_out,
};

/// Registry row.
pub const LEAST_SQUARES: Analysis = Analysis {
    id: "Q6",
    title: "The last layers are least squares",
    summary: "Similarity of each layer with least squares, beside what Newton and gradient descent have once they have converged.",
    needs: &["r1"],
    run: least_squares,
};

fn distance(lab: &Lab) -> Result<Outcome> {
    let study = &ISOTROPIC;
    let newton = Compared::new(lab, study, study.newton, Measure::ErrorDistance)?;
    let gd = Compared::new(lab, study, study.gd, Measure::ErrorDistance)?;
    let claims = vec![
        newton.trend_claim(
            "Q4.newton-linear",
            Trend::Linear,
            "ℓ2 distance gives the same observation",
            "q4-maps",
        ),
        newton.slope_claim("Q4.newton-slope", Trend::Linear, Bound::Within(2.0, 4.5), "the same", "q4-maps"),
        gd.trend_claim(
            "Q4.gd-exponential",
            Trend::Exponential,
            "ℓ2 distance gives the same observation",
            "q4-maps",
        ),
    ];
    let note = "Smaller is more alike. ";
    let figures = vec![maps_figure(
        lab,
        "q4-maps",
        "Distance of errors to Newton and gradient descent",
        study,
        &[&newton, &gd],
        note,
    )];
    Ok(Outcome { claims, figures, tables: vec![] })
}

fn own_read_out(lab: &Lab) -> Result<Outcome> {
    let study = &ISOTROPIC;
    let prompts = lab.sample(&study.data)?;
    let layers = lab.layers(study.network)?;
    let fitted = lab.path(study.network, &study.data, &layers)?;
    let own = lab.under_own_read_out(study.network, &study.data, &layers)?;
    let before = layers.last().saturating_sub(1).max(1);
    let error = |of, layer| lab.error(of, &prompts, layer, LAST);
    let lost = error(&own, before).value / error(&fitted, before).value;
    // layers before the last that predict better than saying zero
    let better = (1..layers.last()).filter(|&l| error(&own, l).value < 1.0).count();
    let claims = vec![
        Claim::new("Q5.lost", Kind::Paper, format!("Layer {before}, t=40: error under the network's own read-out over that under a fitted one"), lost, Bound::AtLeast(10.0))
            .quoted("the read-out must be re-trained for every layer")
            .figure("q5-read-outs"),
        Claim::new("Q5.useless", Kind::Paper, format!("Layers before the last that beat a prediction of zero at t=40 under the network's own read-out (of {})", layers.last() - 1), better as f64, Bound::None)
            .figure("q5-read-outs"),
    ];
    let figure = Figure {
        id: "q5-read-outs".into(),
        title: "Error by pairs read, with fitted read-outs and with the network's own".into(),
        caption: format!(
            "Mean squared error over d after t pairs, a curve per layer ({}, {} prompts).",
            study.setting,
            prompts.count()
        ),
        panels: vec![
            Panel::Lines(by_length("a fitted read-out per layer", &fitted, &prompts, layers.as_slice())),
            Panel::Lines(by_length("the network's own read-out", &own, &prompts, layers.as_slice())),
        ],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

fn least_squares(lab: &Lab) -> Result<Outcome> {
    let study = &ISOTROPIC;
    let errors = Measure::Errors(View::default());
    let ols = Compared::new(lab, study, study.exact, errors)?;
    let newton = Compared::new(lab, study, study.newton, errors)?;
    let gd = Compared::new(lab, study, study.gd, errors)?;
    let claim = Claim::of(
        "Q6.last",
        Kind::Paper,
        "SimE of the last layer with OLS",
        ols.last(lab),
        Bound::AtLeast(0.98),
    )
    .quoted("the last few layers basically compute OLS")
    .figure("q6-ols");
    let found: Vec<_> = (0..ols.matching.best.len()).map(|i| ols.at_best(lab, i)).collect();
    let points = ols.matching.a.as_slice().iter().zip(&found).map(|(&l, e)| (l as f64, e.value)).collect();
    let constant = |value: f64| ols.matching.a.as_slice().iter().map(|&l| (l as f64, value)).collect();
    let figure = Figure {
        id: "q6-ols".into(),
        title: "Similarity with least squares, by layer".into(),
        caption: format!(
            "SimE with OLS ({}, {} prompts, 95 % band). Dashed: the most that any step of Newton and of GD has with OLS.",
            study.setting, lab.count
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("Transformer layers", Scale::Linear),
            y: Axis::new("SimE with OLS", Scale::Linear),
            series: vec![
                Series::new(study.who, points)
                    .band(found.iter().map(|e| (e.low, e.high)).collect())
                    .stroke(Stroke::LineMarkers),
                Series::new("Newton at most", constant(newton.floor)).stroke(Stroke::Dashed),
                Series::new("GD at most", constant(gd.floor)).stroke(Stroke::Dashed),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims: vec![claim], figures: vec![figure], tables: vec![] })
}
