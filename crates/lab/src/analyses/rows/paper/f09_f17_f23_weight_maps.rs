//! F9, F17, F23: the maps again by similarity of induced weights.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::{best_figure, best_table, maps_figure};
use crate::analyses::kit::setting::{ISOTROPIC, ONE_HEAD, SKEWED, Setting};
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::rates::Trend;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::Scale;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F9",
        order: 90,
        cost: crate::analyses::Cost::Minutes,
        title: "Induced weights show the same trends",
        summary: "After each prefix a layer answers 200 fresh queries; the weights that fit its answers are compared with the \
              weights of the algorithms. Similarity of weights asks what would be predicted anywhere, not only at the next input.",
        needs: &["r1"],
        run: |lab, note| note.adopt(maps(lab, &ISOTROPIC, "F9", Bound::Within(2.0, 4.5))),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F17",
        order: 170,
        cost: crate::analyses::Cost::Minutes,
        title: "Induced weights on ill-conditioned data",
        summary: "The maps of F9 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| note.adopt(maps(lab, &SKEWED, "F17", Bound::None)),
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F23",
        order: 230,
        cost: crate::analyses::Cost::Minutes,
        title: "Induced weights with one head per layer",
        summary: "The maps of F9 for a Transformer of 12 layers with a single head each.",
        needs: &["r4"],
        run: |lab, note| note.adopt(maps(lab, &ONE_HEAD, "F23", Bound::None)),
        ..Analysis::FIGURE
    },
];

fn maps(lab: &Lab, setting: &Setting, id: &str, slope: Bound) -> Result<Outcome> {
    let newton = Compared::new(lab, setting, setting.newton, Measure::Weights)?;
    let gd = Compared::new(lab, setting, setting.gd, Measure::Weights)?;
    let stem = id.to_lowercase();
    let (map_id, best_id) = (format!("{stem}-maps"), format!("{stem}-best"));
    let name = |what: &str| format!("{id}.{what}");
    let claims = vec![
        newton.trend_claim(&name("newton-linear"), Trend::Linear, "the same trends", &best_id),
        newton.slope_claim(&name("newton-slope"), Trend::Linear, slope, "the same trends", &best_id),
        gd.trend_claim(&name("gd-exponential"), Trend::Exponential, "the same trends", &best_id),
        Claim::of(
            &name("last-layer"),
            Kind::Paper,
            "SimW of the last layer with its best Newton step",
            newton.last(lab),
            Bound::None,
        )
        .figure(&map_id),
    ];
    let note = "T=200 queries after each of 1…40 pairs. ";
    let figures = vec![
        maps_figure(
            lab,
            &map_id,
            "Similarity of induced weights with Newton and gradient descent",
            setting,
            &[&newton, &gd],
            note,
        ),
        best_figure(&best_id, setting, &[(&newton, Scale::Linear), (&gd, Scale::Log2)]),
    ];
    Ok(Outcome {
        claims,
        figures,
        tables: vec![best_table(lab, &format!("{stem}-best-matches"), &[&newton, &gd])],
    })
}
