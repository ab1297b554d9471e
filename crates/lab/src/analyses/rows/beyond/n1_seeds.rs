//! N1: is it the same algorithm whatever the seed? Five trainings of one recipe.

use crate::analyses::kit::compared::Compared;
use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::{ISOTROPIC, MIDDLE_RULE, Setting};
use crate::analyses::{Analysis, LAST, Outcome};
use crate::compare::rates::Trend;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::stats::{over_runs, over_runs_log};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N1",
    order: 10,
    title: "Five seeds: the same line against Newton",
    summary: "The paper looks at one network of each kind. Here the main one is trained five times, from other first weights and \
              on other prompts, and every training is held against Newton and gradient descent on the same prompts.",
    needs: &SEEDS,
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::BEYOND
}];

const SEEDS: [&str; 5] = ["r1", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4"];

struct Trained {
    newton: Compared,
    gd: Compared,
    /// Error over d after all pairs, by layer.
    errors: Vec<(f64, f64)>,
}

fn run(lab: &Lab) -> Result<Outcome> {
    let trained = SEEDS.into_iter().map(|name| measure(lab, name)).collect::<Result<Vec<_>>>()?;
    let slopes: Vec<f64> =
        trained.iter().map(|t| t.newton.fit.as_ref().map_or(f64::NAN, |f| f.linear.slope)).collect();
    let following = |of: fn(&Trained) -> &Compared, trend| {
        trained.iter().filter(|t| of(t).fit.as_ref().is_some_and(|f| f.trend == trend)).count() as f64
    };
    let similar = trained.iter().map(|t| t.newton.last_similarity().value).fold(f64::INFINITY, f64::min);
    let claims = vec![
        Claim::of(
            "N1.slope",
            Kind::Reference,
            "Newton steps per middle layer, mean over five seeds",
            over_runs(&slopes),
            Bound::Within(2.0, 4.5),
        )
        .figure("n1-seeds"),
        Claim::new(
            "N1.newton-linear",
            Kind::Reference,
            "Seeds of five in which a line fits the best Newton steps better than an exponential",
            following(|t| &t.newton, Trend::Linear),
            Bound::AtLeast(5.0),
        )
        .figure("n1-seeds"),
        Claim::new(
            "N1.gd-exponential",
            Kind::Reference,
            "Seeds of five in which an exponential fits the best GD steps better than a line",
            following(|t| &t.gd, Trend::Exponential),
            Bound::AtLeast(5.0),
        )
        .figure("n1-seeds"),
        Claim::new(
            "N1.similar",
            Kind::Reference,
            "Smallest SimE of the last layer with its best Newton step, over five seeds",
            similar,
            Bound::AtLeast(0.99),
        )
        .figure("n1-seeds"),
    ];
    Ok(Outcome { claims, figures: vec![figure(lab, &trained)], tables: vec![table(lab, &trained)] })
}

fn measure(lab: &Lab, network: &'static str) -> Result<Trained> {
    let setting = Setting { network, ..ISOTROPIC };
    let compare = |baseline| setting.errors(lab, baseline);
    let prompts = lab.sample(&setting.data)?;
    let layers = lab.layers(network)?;
    let path = lab.path(network, &setting.data, &layers)?;
    let error = |&layer: &u64| (layer as f64, lab.error(&path, &prompts, layer, LAST).value);
    Ok(Trained {
        newton: compare(setting.newton)?,
        gd: compare(setting.gd)?,
        errors: layers.as_slice().iter().map(error).collect(),
    })
}

fn best(of: &Compared) -> Vec<(f64, f64)> {
    let layers = of.matching.a.as_slice();
    layers.iter().map(|&l| (l as f64, of.matching.step_for(l).map_or(f64::NAN, |s| s as f64))).collect()
}

/// The mean over seeds, geometric on a logarithmic axis, with a band from the smallest to the largest. What is below `least`
/// counts as `least`.
fn banded(curves: &[Vec<(f64, f64)>], scale: Scale, least: f64) -> Vec<Series> {
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for i in 0..curves[0].len() {
        let found: Vec<f64> =
            curves.iter().map(|c| c[i].1).filter(|v| v.is_finite()).map(|v| v.max(least)).collect();
        if found.is_empty() {
            continue;
        }
        let mean = if scale == Scale::Linear { over_runs } else { over_runs_log };
        let middle = mean(&found).value;
        points.push((curves[0][i].0, middle));
        let (low, high) = (found.iter().copied().reduce(f64::min), found.iter().copied().reduce(f64::max));
        band.extend(low.zip(high));
    }
    vec![Series::new("mean of five seeds", points).band(band).stroke(Stroke::LineMarkers)]
}

fn figure(lab: &Lab, trained: &[Trained]) -> Figure {
    let panel = |title: &str, y: &str, scale: Scale, least: f64, curves: &[Vec<(f64, f64)>]| {
        Panel::Lines(LinesPanel {
            title: title.into(),
            x: Axis::new("layer", Scale::Linear),
            y: Axis::new(y, scale),
            series: banded(curves, scale, least),
            references: vec![],
        })
    };
    let curves = |of: fn(&Trained) -> &Compared| trained.iter().map(|t| best(of(t))).collect::<Vec<_>>();
    let errors: Vec<_> = trained.iter().map(|t| t.errors.clone()).collect();
    Figure {
        id: "n1-seeds".into(),
        title: "Best matches and errors by layer, over five seeds".into(),
        caption: format!(
            "Five trainings of one recipe ({}, {} prompts). Bands reach from the smallest to the largest of the five; means of GD \
             steps and of errors are geometric. {MIDDLE_RULE}",
            ISOTROPIC.words, lab.count
        ),
        panels: vec![
            panel("Newton", "best Newton step", Scale::Linear, 0.0, &curves(|t| &t.newton)),
            panel("Gradient descent", "best GD step", Scale::Log2, 0.5, &curves(|t| &t.gd)),
            panel("Error", &format!("error/d at t={LAST}"), Scale::Log10, 1e-30, &errors),
        ],
    }
}

fn table(lab: &Lab, trained: &[Trained]) -> Table {
    let columns = [
        "network",
        "layers fitted",
        "Newton steps per layer",
        "95 %",
        "BIC for a line",
        "last layer's step",
        "SimE there",
        "error/d",
    ];
    let rows = SEEDS.iter().zip(trained).map(|(name, t)| {
        let fit = t.newton.fit.as_ref();
        let interval = fit.and_then(|f| f.linear_interval);
        vec![
            name.to_string(),
            t.newton.layers(),
            fit.map_or("none".into(), |f| format!("{:.2}", f.linear.slope)),
            interval.map_or(String::new(), |(low, high)| format!("{low:.2} to {high:.2}")),
            fit.map_or(String::new(), |f| format!("{:+.1}", -f.evidence_for_exponential())),
            format!("{:.0}", t.newton.last_step().value),
            format!("{:.4}", t.newton.last_similarity().value),
            t.errors.last().map_or(String::new(), |e| format!("{:.2e}", e.1)),
        ]
    });
    Table {
        id: "n1-seeds".into(),
        title: "Each seed against Newton".into(),
        caption: format!("{} prompts, {}.", lab.count, ISOTROPIC.words),
        columns: columns.map(String::from).to_vec(),
        rows: rows.collect(),
    }
}
