//! E7: the step size of the authors' code diverges on ill-conditioned data.

use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome};
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series};
use crate::learners::steps::Steps;
use crate::linalg::{Spectrum, gram};
use crate::stats::{bootstrap, mean};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E7",
    order: 70,
    title: "η = 0.01 diverges on ill-conditioned data",
    summary: "Gradient descent converges when η < 2/λmax(S). With κ = 100 and 40 pairs λmax varies from prompt to prompt, and \
              the step of the authors' code, 0.01, is beyond the limit on some of them: one such prompt ruins every mean. \
              Limits are computed from the spectrum of S of every prompt, trace-normalised and raw.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::ERRATUM
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let trace = lab.prompts("skewed")?;
    let raw = lab.prompts("skewed:scale=raw")?;
    let limits = |prompts: &Prompts| -> Vec<f64> {
        let mut limits: Vec<f64> = (0..prompts.count())
            .map(|b| {
                let s = gram(&prompts.prompt(b).0[..LAST * DIM], DIM);
                2.0 / Spectrum::of(&s, DIM).largest()
            })
            .collect();
        limits.sort_by(f64::total_cmp);
        limits
    };
    let (trace_limits, raw_limits) = (limits(&trace), limits(&raw));
    let beyond: Vec<f64> = trace_limits.iter().map(|l| f64::from(u8::from(*l < 0.01))).collect();
    let steps = Steps::parse("400,2000")?;
    let bold = lab.trajectory("gd", "skewed", &steps)?;
    let safe = lab.trajectory("gd:eta=0.005", "skewed", &steps)?;
    let tightest = |limits: &[f64]| {
        bootstrap(lab.seed, limits.len(), |chosen| {
            chosen.iter().map(|&i| limits[i]).fold(f64::INFINITY, f64::min)
        })
    };
    let claims = vec![
        Claim::of(
            "E7.beyond",
            Kind::Erratum,
            "Share of κ=100 prompts on which η = 0.01 exceeds 2/λmax at t=40",
            mean(lab.seed, &beyond),
            Bound::AtLeast(1e-3),
        )
        .quoted("η = 0.01 (authors' code)")
        .figure("e7-limits"),
        Claim::new(
            "E7.diverged",
            Kind::Erratum,
            "Prompts that GD with η = 0.01 has left for good after 2,000 steps",
            bold.outcomes[1].diverged as f64,
            Bound::AtLeast(1.0),
        )
        .quoted("η = 0.01 (authors' code)")
        .figure("e7-limits"),
        Claim::new(
            "E7.safe",
            Kind::Erratum,
            "The same with η = 0.005",
            safe.outcomes[1].diverged as f64,
            Bound::AtMost(0.0),
        )
        .quoted("safe at t=40: at most 0.0093"),
        Claim::of(
            "E7.limit-trace",
            Kind::Reference,
            "Smallest limit 2/λmax over the prompts, trace-normalised",
            tightest(&trace_limits),
            Bound::Within(0.0075, 0.0105),
        )
        .quoted("0.0093")
        .figure("e7-limits"),
        Claim::of(
            "E7.limit-raw",
            Kind::Reference,
            "Smallest limit 2/λmax over the prompts, raw (κ and 1)",
            tightest(&raw_limits),
            Bound::Within(1.5e-4, 2.1e-4),
        )
        .quoted("1.9×10⁻⁴"),
    ];
    let share = |limits: &[f64]| {
        let n = limits.len() as f64;
        limits.iter().enumerate().map(|(i, l)| (*l, (i + 1) as f64 / n)).collect::<Vec<_>>()
    };
    let figure = Figure {
        id: "e7-limits".into(),
        title: "Largest step size that converges".into(),
        caption: format!(
            "Share of prompts whose limit 2/λmax(S) at t=40 is below η (κ=100, trace-normalised, {} prompts). Prompts left of \
             the line at 0.01 diverge under the authors' step size.",
            trace.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("step size η", Scale::Linear),
            y: Axis::new("share of prompts that diverge", Scale::Log10),
            series: vec![Series::new("κ=100, trace-normalised", share(&trace_limits))],
            references: vec![
                Reference { label: "η = 0.01".into(), at: At::X(0.01) },
                Reference { label: "η = 0.005".into(), at: At::X(0.005) },
            ],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
