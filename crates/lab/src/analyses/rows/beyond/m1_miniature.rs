//! M1: the paper's question asked of a network that is trained in a minute.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::{best_figure, best_table, maps_figure};
use crate::analyses::kit::setting::MINIATURE;
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::networks::models;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "M1",
    headline: Some(crate::analyses::Headline {
        rank: 2,
        figure: "best",
        claims: &["newton-linear", "gd-exponential", "last-layer"],
    }),
    order: 40,
    title: "A miniature, trained in a minute, already shows it",
    summary: "Six layers in five dimensions, trained on two cores while one waits. Too small for the paper's numbers, which \
              are for twelve layers and d = 20, but not for its question: do the layers get better one by one, and do their \
              best-matching steps follow a line against Newton and an exponential against gradient descent? With six layers none can be \
              left out: rates are fitted to all whose match is not at an end of the search.",
    needs: &[models::MINIATURE],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::BEYOND
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let setting = &MINIATURE;
    let errors = Measure::Errors(View::default());
    let newton = Compared::new(lab, setting, setting.newton, errors)?.over_all_layers();
    let gd = Compared::new(lab, setting, setting.gd, errors)?.over_all_layers();
    let prompts = lab.sample(&setting.data)?;
    let layers = lab.layers(setting.network)?;
    let network = lab.path(setting.network, &setting.data, &layers)?;
    let error = |layer: u64| lab.error(&network, &prompts, layer, setting.data.last());
    let by_layer: Vec<_> = layers.as_slice().iter().map(|&layer| (layer, error(layer))).collect();
    let worse = by_layer.windows(2).filter(|w| w[1].1.value > w[0].1.value).count();
    let quoted = "not restricted to a configuration";
    let claims = vec![
        Claim::new(
            "M1.improves",
            Kind::Paper,
            "Layers whose error after all pairs is larger than that of the layer before",
            worse as f64,
            Bound::AtMost(0.0),
        )
        .quoted("predictions improve over the layers")
        .figure("m1-errors"),
        newton.trend_claim("M1.newton-linear", Trend::Linear, quoted, "m1-best"),
        gd.trend_claim("M1.gd-exponential", Trend::Exponential, quoted, "m1-best"),
        newton.slope_claim("M1.newton-slope", Trend::Linear, Bound::None, "", "m1-best"),
        Claim::of(
            "M1.last-layer",
            Kind::Paper,
            "SimE of the last layer with its best Newton step",
            newton.last(lab),
            Bound::AtLeast(0.9),
        )
        .quoted("very high; .991 in Table 1, for the large network")
        .figure("m1-maps"),
    ];
    let points = by_layer.iter().map(|(layer, e)| (*layer as f64, e.value)).collect();
    let band = by_layer.iter().map(|(_, e)| (e.low, e.high)).collect();
    let curve = Figure {
        id: "m1-errors".into(),
        title: "Error by layer".into(),
        caption: format!(
            "Mean squared error over d after all {} pairs, with its 95 % interval ({}, {} prompts).",
            setting.data.last(),
            setting.words,
            lab.count
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("layer", Scale::Linear),
            y: Axis::new("squared error / d", Scale::Log10),
            series: vec![Series::new(setting.who, points).band(band).stroke(Stroke::LineMarkers)],
            references: vec![],
        })],
    };
    let both = [&newton, &gd];
    let note = "Outlined: best match of each layer. ";
    let figures = vec![
        maps_figure(lab, "m1-maps", "Similarity of errors, miniature", setting, &both, note),
        best_figure("m1-best", setting, &[(&newton, Scale::Linear), (&gd, Scale::Log2)]),
        curve,
    ];
    let tables = vec![best_table(lab, "m1-best-matches", &both)];
    Ok(Outcome { claims, figures, tables })
}
