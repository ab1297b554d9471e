//! F3, F16, F22, F24: similarity of errors of every layer with every step of Newton and of gradient descent.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::{best_figure, best_table, maps_figure, ranges_table};
use crate::analyses::kit::setting::{Baseline, DEEP, ISOTROPIC, ONE_HEAD, SKEWED, Setting};
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Figure, Scale};
use crate::learners::Trajectory;
use crate::stats::median_of;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F3",
        headline: Some(crate::analyses::Headline {
            rank: 1,
            figure: "best",
            claims: &["newton-linear", "newton-slope", "gd-exponential", "last-layer"],
        }),
        order: 30,
        title: "Layers match Newton's steps on a line and gradient descent's on an exponential",
        summary: "For each layer the most similar number of Newton iterations and of GD steps, by similarity of errors. A straight \
              line means that a layer does the work of a fixed number of steps; an exponential means that the other is \
              exponentially slower.",
        needs: &["r1"],
        run: |lab, note| {
            let found = || {
                let mut outcome = maps(
                    lab,
                    &ISOTROPIC,
                    "F3",
                    Bound::Within(2.0, 4.5),
                    "about 3 per layer over layers 3 to 9",
                )?;
                outcome.figures.insert(1, linear_axis(lab)?);
                Ok(outcome)
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F16",
        order: 160,
        title: "The same on ill-conditioned data",
        summary: "The maps of F3 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| {
            note.adopt(maps(lab, &SKEWED, "F16", Bound::None, "similar to Newton rather than GD"))
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F22",
        order: 220,
        title: "The same with one head per layer",
        summary: "The maps of F3 for a Transformer of 12 layers with a single head each.",
        needs: &["r4"],
        run: |lab, note| {
            note.adopt(maps(lab, &ONE_HEAD, "F22", Bound::None, "not restricted to a configuration"))
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F24",
        order: 240,
        title: "The same with 24 layers",
        summary: "The maps of F3 for a Transformer of 24 layers with 8 heads.",
        needs: &["r5"],
        run: |lab, note| note.adopt(maps(lab, &DEEP, "F24", Bound::None, "deeper models behave alike")),
        ..Analysis::FIGURE
    },
];

/// Claims, figures and a table about the maps of errors with Newton and GD.
pub fn maps(lab: &Lab, setting: &Setting, id: &str, slope: Bound, quoted: &str) -> Result<Outcome> {
    let errors = Measure::Errors(View::default());
    let newton = Compared::new(lab, setting, setting.newton, errors)?;
    let gd = Compared::new(lab, setting, setting.gd, errors)?;
    let stem = id.to_lowercase();
    let (map_id, best_id) = (format!("{stem}-maps"), format!("{stem}-best"));
    let name = |what: &str| format!("{id}.{what}");
    let jumps = gd
        .matching
        .a
        .as_slice()
        .windows(2)
        .filter_map(|w| Some(gd.matching.step_for(w[1])? as f64 - gd.matching.step_for(w[0])? as f64));
    let lowest = newton.matching.similarity.iter().copied().fold(f64::INFINITY, f64::min);
    let claims = vec![
        newton.trend_claim(&name("newton-linear"), Trend::Linear, "linear trend with Newton", &best_id),
        newton.slope_claim(&name("newton-slope"), Trend::Linear, slope, quoted, &best_id),
        gd.trend_claim(&name("gd-exponential"), Trend::Exponential, "exponential trend with GD", &best_id),
        gd.slope_claim(&name("gd-slope"), Trend::Exponential, Bound::None, "", &best_id),
        Claim::of(
            &name("last-layer"),
            Kind::Paper,
            "SimE of the last layer with its best Newton step",
            newton.last(lab),
            Bound::AtLeast(0.99),
        )
        .quoted("very high; .991 in Table 1")
        .figure(&map_id),
        Claim::of(
            &name("last-step"),
            Kind::Paper,
            "Best Newton step of the last layer",
            newton.last_step(),
            Bound::Within(18.0, 24.0),
        )
        .quoted("near 21 at layers 10 to 12")
        .figure(&map_id)
        .why(by_size(lab, setting, newton.last_step().value)?),
        Claim::new(
            &name("all-layers"),
            Kind::Paper,
            "Lowest SimE of any layer with its best Newton step",
            lowest,
            Bound::None,
        )
        .quoted("very high at all layers")
        .figure(&map_id),
        Claim::new(
            &name("gd-jump"),
            Kind::Paper,
            "GD steps that a single layer is worth at most",
            jumps.fold(f64::NAN, f64::max),
            Bound::AtLeast(100.0),
        )
        .quoted("hundreds of steps")
        .figure(&best_id),
    ];
    let figures = vec![
        maps_figure(
            lab,
            &map_id,
            "Similarity of errors with Newton and gradient descent",
            setting,
            &[&newton, &gd],
            "Outlined: best match of each layer, with a whisker where its 95 % bootstrap interval is wider than one step. ",
        ),
        best_figure(&best_id, setting, &[(&newton, Scale::Linear), (&gd, Scale::Log2)]),
    ];
    let both = [&newton, &gd];
    let tables = vec![
        best_table(lab, &format!("{stem}-best-matches"), &both),
        ranges_table(&format!("{stem}-ranges"), &both),
    ];
    Ok(Outcome { claims, figures, tables })
}

/// Why the last layer matches another step than the paper's: which one it would be by the size of the error alone.
fn by_size(lab: &Lab, setting: &Setting, best: f64) -> Result<String> {
    let (prompts, layers) = (lab.sample(&setting.data)?, lab.layers(setting.network)?);
    let network = lab.path(setting.network, &setting.data, &layers)?;
    let newton = lab.path(setting.newton.solver, &setting.data, &setting.newton.steps()?)?;
    let median = |of: &Trajectory, step: u64| {
        let errors = of.squared_errors(&prompts, step, setting.data.dim);
        let all: Vec<usize> = (0..errors.len()).collect();
        median_of(&errors, &all) / setting.data.dim as f64
    };
    let own = median(&network, layers.last());
    let apart = |step: &u64| (median(&newton, *step) / own).ln().abs();
    let steps = newton.steps.as_slice().iter().copied();
    let nearest = steps.min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or_default();
    Ok(format!(
        "At t = d, where errors are largest, the last layer's median error/d is {own:.1e}, nearest to Newton's after {nearest} iterations ({:.1e}). \
         SimE, which weighs directions over all t, prefers {best}.",
        median(&newton, nearest)
    ))
}

/// GD on an axis that is not logarithmic, as the paper draws it.
fn linear_axis(lab: &Lab) -> Result<Figure> {
    let baseline = Baseline { steps: "0..=1500/75", ..ISOTROPIC.gd };
    let gd = Compared::new(lab, &ISOTROPIC, baseline, Measure::Errors(View::default()))?;
    let note = "Steps of gradient descent on an axis that is not logarithmic: the best matches bend upwards. A match at the \
                upper end may lie beyond it. ";
    let mut figure = maps_figure(lab, "f3-gd", "Gradient descent on a linear axis", &ISOTROPIC, &[&gd], note);
    figure.caption =
        format!("SimE of every layer with GD ({}). {note}{}", ISOTROPIC.words, gd.floor_text(&ISOTROPIC));
    Ok(figure)
}
