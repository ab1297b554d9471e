//! Q4, Q5, Q6: distance instead of angle; read-outs that are not retrained; least squares at the end.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::maps_figure;
use crate::analyses::kit::setting::ISOTROPIC;
use crate::analyses::rows::paper::f02_convergence::by_length;
use crate::analyses::{Analysis, LAST, Lab, Outcome, POINTS};
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::Trajectory;
use crate::probe::ReadPoint;
use crate::stats::bootstrap;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "Q4",
        order: 40,
        title: "Distance instead of angle gives the same trends",
        summary: "The maps of F3 by root mean square difference of errors, as the paper says in a footnote.",
        needs: &["r1"],
        run: |lab, note| note.adopt(distance(lab)),
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q5",
        order: 50,
        cost: crate::analyses::Cost::Minutes,
        title: "Without read-outs of their own the layers do not progress",
        summary: "The network's own read-out, trained on its last layer, applied to every layer, to the \
              residual stream as it is and after the final LayerNorm; beside them the fitted ones.",
        needs: &["r1"],
        run: |lab, note| note.adopt(own_read_out(lab)),
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q6",
        order: 60,
        title: "The last layers are least squares",
        summary: "Similarity of each layer with least squares, beside what Newton and gradient descent have once they have converged.",
        needs: &["r1"],
        run: |lab, note| note.adopt(least_squares(lab)),
        ..Analysis::STATEMENT
    },
];

/// A factor of ten or so shows on few prompts.
const READ_OUT_PROMPTS: usize = 320;

fn distance(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let newton = Compared::new(lab, setting, setting.newton, Measure::ErrorDistance)?;
    let gd = Compared::new(lab, setting, setting.gd, Measure::ErrorDistance)?;
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
        setting,
        &[&newton, &gd],
        note,
    )];
    Ok(Outcome { claims, figures, tables: vec![] })
}

fn own_read_out(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let prompts = lab.sample(&setting.data)?.head(READ_OUT_PROMPTS, POINTS);
    let layers = lab.layers(setting.network)?;
    let fitted = lab.network(setting.network)?.trajectory(&prompts, &layers)?;
    let own = |state| lab.own_read_out(setting.network, state)?.trajectory(&prompts, &layers);
    let (raw, normalised) = (own(ReadPoint::Raw)?, own(ReadPoint::Normalised)?);
    let before = layers.last().saturating_sub(1).max(1);
    let lost = |of: &Trajectory| {
        let errors = [of, &fitted].map(|path| path.squared_errors(&prompts, before, LAST));
        bootstrap(lab.seed, prompts.count(), |chosen| {
            let [own, fitted] = [0, 1].map(|i| chosen.iter().map(|&b| errors[i][b]).sum::<f64>());
            own / fitted
        })
    };
    let claim = |id: &str, how: &str, of: &Trajectory, bound: Bound| {
        let what = format!(
            "Layer {before}, t=40: error under the network's own read-out ({how}) over that under a fitted one"
        );
        Claim::of(id, Kind::Paper, what, lost(of), bound)
            .quoted("the read-out must be re-trained for every layer")
            .figure("q5-read-outs")
    };
    let claims = vec![
        claim("Q5.raw", "of the residual stream, as in the authors' code", &raw, Bound::AtLeast(10.0)),
        claim("Q5.normalised", "after the final LayerNorm", &normalised, Bound::None),
    ];
    let panel = |title: &str, of: &Trajectory| {
        let mut panel = by_length(title, of, &prompts, layers.as_slice());
        panel.y = panel.y.range(1e-5, 1e3);
        Panel::Lines(panel)
    };
    let figure = Figure {
        id: "q5-read-outs".into(),
        title: "Error by pairs read, with fitted read-outs and with the network's own".into(),
        caption: format!(
            "Mean squared error over d after t pairs, a curve per layer ({}, {} prompts). The last layer's own read-out \
             is the trained network itself.",
            setting.words,
            prompts.count()
        ),
        panels: vec![
            panel("fitted read-outs", &fitted),
            panel("own, of the residual stream", &raw),
            panel("own, after LayerNorm", &normalised),
        ],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

fn least_squares(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let errors = Measure::Errors(View::default());
    let ols = Compared::new(lab, setting, setting.exact, errors)?;
    let newton = Compared::new(lab, setting, setting.newton, errors)?;
    let gd = Compared::new(lab, setting, setting.gd, errors)?;
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
            setting.words, lab.count
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("Transformer layers", Scale::Linear),
            y: Axis::new("SimE with OLS", Scale::Linear),
            series: vec![
                Series::new(setting.who, points)
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
