//! F9, F17, F23: the maps again by similarity of induced weights.

use super::compared::{Compared, Measure};
use super::shown::{best_figure, best_table, maps_figure};
use super::study::{ISOTROPIC, ONE_HEAD, SKEWED, Study};
use super::{Analysis, Lab, Outcome};
use crate::compare::rates::Trend;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::Scale;

/// Registry row.
pub const ROW: Analysis = Analysis {
    id: "F9",
    title: "Induced weights show the same trends",
    summary: "After each prefix a layer answers 200 fresh queries; the weights that fit its answers are compared with the \
              weights of the algorithms. Similarity of weights asks what would be predicted anywhere, not only at the next input.",
    needs: &["r1"],
    run: |lab| maps(lab, &ISOTROPIC, "F9", Bound::Within(2.0, 4.5)),
};

/// Registry row.
pub const SKEWED_ROW: Analysis = Analysis {
    id: "F17",
    title: "Induced weights on ill-conditioned data",
    summary: "The maps of F9 for a Transformer trained on inputs with κ = 100.",
    needs: &["r2"],
    run: |lab| maps(lab, &SKEWED, "F17", Bound::None),
};

/// Registry row.
pub const ONE_HEAD_ROW: Analysis = Analysis {
    id: "F23",
    title: "Induced weights with one head per layer",
    summary: "The maps of F9 for a Transformer of 12 layers with a single head each.",
    needs: &["r4"],
    run: |lab| maps(lab, &ONE_HEAD, "F23", Bound::None),
};

fn maps(lab: &Lab, study: &Study, id: &str, slope: Bound) -> Result<Outcome> {
    let newton = Compared::new(lab, study, study.newton, Measure::Weights)?;
    let gd = Compared::new(lab, study, study.gd, Measure::Weights)?;
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
            study,
            &[&newton, &gd],
            note,
        ),
        best_figure(&best_id, study, &[(&newton, Scale::Linear), (&gd, Scale::Log2)]),
    ];
    Ok(Outcome {
        claims,
        figures,
        tables: vec![best_table(lab, &format!("{stem}-best-matches"), &[&newton, &gd])],
    })
}
