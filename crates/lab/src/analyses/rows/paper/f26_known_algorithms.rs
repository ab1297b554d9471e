//! F26: best-matching steps tell the rates of known algorithms apart.

use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome, POINTS, heatmap_panel, solver};
use crate::compare::matching::{self, Matching};
use crate::compare::rates::{RateFit, Trend, fit_rate};
use crate::compare::similarity::{Metric, View, induced_weights, of_errors, of_weights};
use crate::data::prompts::Task;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Figure, Panel, Table};
use crate::learners::steps::Steps;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F26",
    headline: Some(crate::analyses::Headline {
        rank: 3,
        figure: "newton-gd",
        claims: &["newton-gd-exponential", "newton-gd-slope"],
    }),
    order: 260,
    title: "Best-matching steps reveal rates: Newton against GD, itself and BFGS",
    summary: "For each step of Newton the most similar step of another algorithm. A straight line means the same rate; \
              an exponential means the other is exponentially slower. Shown for similarity of errors, and again for \
              similarity of induced weights and for distance instead of angle.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let newton_steps = Steps::range(0, 24);
    let compare = |other: &str, steps: &Steps, metric: Metric| -> Result<(Panel, Matching)> {
        let prompts = lab.prompts("gaussian")?;
        let newton = lab.trajectory("newton", "gaussian", &newton_steps)?;
        let other = lab.trajectory(other, "gaussian", steps)?;
        let map = of_errors(&newton, &other, &prompts, View::default(), metric)?;
        let matching = matching::bootstrap(&map, lab.seed);
        Ok((heatmap_panel("", &map, &matching), matching))
    };
    let powers = Steps::powers_of_two(0, 12);
    let (gd_panel, gd) = compare("gd", &powers, Metric::Cosine)?;
    let (newton_panel, newton) = compare("newton", &newton_steps, Metric::Cosine)?;
    let (bfgs_panel, bfgs) = compare("bfgs", &Steps::range(0, 25), Metric::Cosine)?;
    let (cg_panel, cg) = compare("cg", &Steps::range(0, 25), Metric::Cosine)?;
    let (l2_panel, l2) = compare("gd", &powers, Metric::Distance)?;
    let (weights_panel, weights) = by_weights(lab, &newton_steps, &powers)?;

    let fit = |m: &Matching, first, last| {
        fit_rate(m, first, last).ok_or(crate::Error::BadData("too few best matches to fit a rate".into()))
    };
    let gd_fit = fit(&gd, 3, 22)?;
    let bfgs_fit = fit(&bfgs, 7, 20)?;
    let weights_fit = fit(&weights, 3, 22)?;
    let away = |m: &Matching, expected: &dyn Fn(u64) -> f64| {
        let steps = newton_steps.as_slice().iter();
        steps.map(|&k| (m.step_for(k).map_or(f64::NAN, |s| s as f64) - expected(k)).abs()).fold(0.0, f64::max)
    };
    let octaves = |expected: &[(u64, f64)], m: &Matching| {
        let off =
            expected.iter().map(|&(k, s)| (m.step_for(k).map_or(f64::NAN, |b| b as f64) / s).log2().abs());
        off.fold(0.0, f64::max)
    };
    let steps_off = |expected: &[(u64, f64)], m: &Matching| {
        let off = expected.iter().map(|&(k, s)| (m.step_for(k).map_or(f64::NAN, |b| b as f64) - s).abs());
        off.fold(0.0, f64::max)
    };
    let differing = newton_steps.as_slice().iter().filter(|&&k| gd.step_for(k) != l2.step_for(k)).count();
    let slope = |id: &str, what: &str, fit: &RateFit, scale: f64, bound: Bound| {
        let claim = Claim::new(id, Kind::Paper, what, fit.chosen().slope * scale, bound);
        match fit.slope_interval {
            Some((low, high)) => claim.interval(low * scale, high * scale),
            None => claim,
        }
    };
    let per_octave = 1.0 / 2f64.ln();
    let mut claims = vec![
        Claim::new("F26.newton-gd-exponential", Kind::Paper, "Newton–GD: an exponential fits the best matches better than a line (BIC difference)", gd_fit.evidence_for_exponential(), Bound::AtLeast(10.0))
            .quoted("exponential trend")
            .figure("f26-newton-gd"),
        slope("F26.newton-gd-slope", "Newton–GD: doublings of GD steps per Newton step", &gd_fit, per_octave, Bound::Within(0.45, 0.55))
            .quoted("best step 2^(k/2+1/2)")
            .figure("f26-newton-gd"),
        Claim::new("F26.newton-newton", Kind::Paper, "Newton–Newton: largest distance of a best match from the diagonal", away(&newton, &|k| k as f64), Bound::AtMost(0.0))
            .quoted("identity")
            .figure("f26-newton-newton"),
        Claim::new("F26.newton-bfgs-linear", Kind::Paper, "Newton–BFGS (exact line search): a line fits the late best matches (k = 7…20) better than an exponential (BIC difference)", -bfgs_fit.evidence_for_exponential(), Bound::AtLeast(2.0))
            .quoted("linear after enough steps")
            .figure("f26-newton-bfgs"),
        slope("F26.newton-bfgs-slope", "Newton–BFGS: BFGS steps per Newton step, late", &bfgs_fit, 1.0, Bound::Within(0.8, 1.5))
            .quoted("linear trend")
            .figure("f26-newton-bfgs"),
        Claim::new("F26.simw-exponential", Kind::Paper, "Newton–GD by induced weights: an exponential fits better than a line (BIC difference)", weights_fit.evidence_for_exponential(), Bound::AtLeast(10.0))
            .quoted("the same trends under SimW")
            .figure("f26-simw"),
        Claim::new("F26.l2-agrees", Kind::Paper, "Newton–GD: steps of Newton whose best match differs between cosine and L2 distance (of 25)", differing as f64, Bound::AtMost(4.0))
            .quoted("ℓ2 distance gives the same observation")
            .figure("f26-l2"),
    ];
    claims.push(
        Claim::new(
            "F26.gd-steps",
            Kind::Reference,
            "Newton–GD: largest deviation from the reference matches, in doublings",
            octaves(&[(5, 8.0), (9, 32.0), (13, 128.0), (17, 512.0), (21, 2048.0)], &gd),
            Bound::AtMost(0.0),
        )
        .quoted("5→8, 9→32, 13→128, 17→512, 21→2048"),
    );
    claims.push(
        Claim::new(
            "F26.cg-steps",
            Kind::Reference,
            "Newton–CG: largest deviation from the reference matches, in steps",
            steps_off(&[(5, 2.0), (9, 5.0), (13, 9.0), (17, 14.0), (21, 18.0)], &cg),
            Bound::AtMost(1.0),
        )
        .quoted("5→2, 9→5, 13→9, 17→14, 21→18"),
    );
    let common = format!(
        "isotropic, d=20, {} prompts; outlined: best match of each column, with a whisker where its 95 % bootstrap interval is wider than one step",
        lab.count
    );
    let figure = |id: &str, title: &str, text: String, panel: Panel| Figure {
        id: id.into(),
        title: title.into(),
        caption: format!("{text} ({common})."),
        panels: vec![panel],
    };
    let figures = vec![
        figure(
            "f26-newton-gd",
            "Newton against gradient descent",
            format!("SimE of every Newton step with GD after 2⁰…2¹² steps. {}", describe(&gd_fit)),
            gd_panel,
        ),
        figure(
            "f26-newton-newton",
            "Newton against itself",
            "SimE of Newton with itself: the diagonal".into(),
            newton_panel,
        ),
        figure(
            "f26-newton-bfgs",
            "Newton against BFGS",
            format!("SimE with BFGS, exact line search. {}", describe(&bfgs_fit)),
            bfgs_panel,
        ),
        figure(
            "f26-newton-cg",
            "Newton against conjugate gradient",
            "SimE with CG, which BFGS with exact line search equals on a quadratic until round-off".into(),
            cg_panel,
        ),
        figure(
            "f26-simw",
            "The same by induced weights",
            format!(
                "SimW, T=200 queries, {} prompts of those. {}",
                weight_prompts(lab),
                describe(&weights_fit)
            ),
            weights_panel,
        ),
        figure(
            "f26-l2",
            "The same by distance",
            "Root mean square difference of errors; smaller is more alike".into(),
            l2_panel,
        ),
    ];
    let rows = newton_steps.as_slice().iter().map(|&k| {
        let of = |m: &Matching| m.step_for(k).map_or("–".into(), |s| s.to_string());
        vec![k.to_string(), of(&gd), of(&weights), of(&l2), of(&newton), of(&bfgs), of(&cg)]
    });
    let table = Table {
        id: "f26-best-matches".into(),
        title: "Best-matching steps".into(),
        caption: "For each Newton step the best step of the other algorithm.".into(),
        columns: ["Newton step", "GD (SimE)", "GD (SimW)", "GD (L2)", "Newton itself", "BFGS", "CG"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
    };
    Ok(Outcome { claims, figures, tables: vec![table] })
}

/// Weights take T answers per prefix, so fewer prompts do.
fn weight_prompts(lab: &Lab) -> usize {
    lab.count.min(128)
}

fn by_weights(lab: &Lab, newton: &Steps, gd: &Steps) -> Result<(Panel, Matching)> {
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let questions = task.questions(lab.seed, "eval", 0, weight_prompts(lab), (1..=LAST).collect(), 10 * DIM);
    let of = |name: &str, steps: &Steps| induced_weights(&*solver(name)?, &questions, steps);
    let map = of_weights(&of("newton", newton)?, &of("gd", gd)?, Metric::Cosine);
    let matching = matching::bootstrap(&map, lab.seed);
    Ok((heatmap_panel("", &map, &matching), matching))
}

/// The fitted curve in words.
fn describe(fit: &RateFit) -> String {
    let chosen = fit.chosen();
    let interval = fit.slope_interval.map_or(String::new(), |(low, high)| {
        let scale = if fit.trend == Trend::Exponential { 1.0 / 2f64.ln() } else { 1.0 };
        format!(" (95 %: {:.2} to {:.2})", low * scale, high * scale)
    });
    match fit.trend {
        Trend::Linear => format!("Fitted: a line of {:.2} steps per step{interval}", chosen.slope),
        Trend::Exponential => {
            format!("Fitted: an exponential, {:.2} doublings per step{interval}", chosen.slope / 2f64.ln())
        }
    }
}
