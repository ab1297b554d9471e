//! F5, the networks: error by pairs read and forgetting, for the Transformer and the LSTM beside OGD and Newton-5.

use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::{ISOTROPIC, LSTM, Setting};
use crate::analyses::{Analysis, DIM, LAST, Outcome};
use crate::compare::forgetting::forgetting;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series, Stroke};
use crate::learners::steps::Steps;
use crate::stats::{Estimate, bootstrap, line};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F5-R1",
        order: 51,
        title: "The Transformer is far better than online methods and forgets no pair",
        summary: "Error by pairs read, and error on a pair seen before by its age after 20 pairs, of the Transformer beside online gradient \
              descent and five steps of Newton.",
        needs: &["r1"],
        run: |lab, note| {
            let found = || {
                let all = [of(lab, &ISOTROPIC)?, ogd(), newton_5()];
                let curves = Curves::new(lab, &all)?;
                let claims = vec![
                    curves.ratio(
                        "F5-R1.better-than-ogd",
                        "Online GD's error over the Transformer's at t=40",
                        1,
                        0,
                        &[LAST],
                        Bound::AtLeast(10.0),
                        "far better",
                    ),
                    curves.ratio(
                        "F5-R1.better-than-newton-5",
                        "Newton-5's error over the Transformer's at t=40",
                        2,
                        0,
                        &[LAST],
                        Bound::AtLeast(10.0),
                        "far better",
                    ),
                    curves.memory(
                        "F5-R1.remembers",
                        "Mean error on pairs seen before: online GD over the Transformer",
                        1,
                        0,
                    ),
                    curves.tilt(
                        "F5-R1.flat",
                        "Transformer: rise of the error over 20 gaps, relative to its mean",
                        0,
                        Bound::None,
                        "better memorization than OGD",
                    ),
                ];
                Ok(Outcome { claims, figures: curves.figures("f5-r1"), tables: vec![] })
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F5-R7",
        order: 52,
        title: "The LSTM learns like an online method: better on recent pairs",
        summary: "The same with an LSTM. Its error is that of Newton after five steps, but unlike Newton it is better on recent pairs than on \
              early ones, as online gradient descent is.",
        needs: &["r1", "r7"],
        run: |lab, note| {
            let found = || {
                let all = [of(lab, &ISOTROPIC)?, of(lab, &LSTM)?, ogd(), newton_5()];
                let curves = Curves::new(lab, &all)?;
                let every: Vec<usize> = (1..=LAST).collect();
                let alike = Bound::Within(0.5, 2.0);
                let claims = vec![
                    curves.ratio(
                        "F5-R7.newton-5",
                        "LSTM's error over Newton-5's, geometric mean over t = 1…40",
                        1,
                        3,
                        &every,
                        alike,
                        "similar to Newton with 5 steps",
                    ),
                    curves.ratio(
                        "F5-R7.ogd",
                        "LSTM's error over online GD's, geometric mean over t = 1…40",
                        1,
                        2,
                        &every,
                        alike,
                        "OGD has a similar trend",
                    ),
                    curves.ratio(
                        "F5-R7.transformer",
                        "LSTM's error over the Transformer's at t=40",
                        1,
                        0,
                        &[LAST],
                        Bound::AtLeast(10.0),
                        "much higher error than Transformers",
                    ),
                    curves.tilt(
                        "F5-R7.forgets",
                        "LSTM: rise of the error over 20 gaps, relative to its mean (flat: within ±0.25)",
                        1,
                        Bound::AtLeast(0.25),
                        "biased towards recent examples",
                    ),
                    curves.memory(
                        "F5-R7.transformer-remembers",
                        "Mean error on pairs seen before: LSTM over the Transformer",
                        1,
                        0,
                    ),
                    curves.memory(
                        "F5-R7.newton-remembers",
                        "Mean error on pairs seen before: LSTM over Newton-5",
                        1,
                        3,
                    ),
                ];
                Ok(Outcome { claims, figures: curves.figures("f5-r7"), tables: vec![] })
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
];

/// Pairs read before one of them is asked again.
const READ: usize = 20;
/// Prompts of which pairs are asked again: each answers for twenty gaps.
const REASKED: usize = 320;

/// A learner at one step.
struct At1 {
    label: String,
    name: &'static str,
    step: u64,
}

fn of(lab: &Lab, setting: &Setting) -> Result<At1> {
    Ok(At1 { label: setting.who.into(), name: setting.network, step: lab.layers(setting.network)?.last() })
}

fn ogd() -> At1 {
    At1 { label: "online GD".into(), name: "ogd", step: 1 }
}

fn newton_5() -> At1 {
    At1 { label: "Newton, 5 steps".into(), name: "newton", step: 5 }
}

/// Squared errors over d of some learners: by pairs read `[t][b]`, and on re-asked pairs by their age `[gap][b]`.
struct Curves<'a> {
    lab: &'a Lab,
    labels: Vec<String>,
    by_pairs: Vec<Vec<Vec<f64>>>,
    by_gap: Vec<Vec<Vec<f64>>>,
}

impl<'a> Curves<'a> {
    fn new(lab: &'a Lab, all: &[At1]) -> Result<Curves<'a>> {
        let data = &ISOTROPIC.data;
        let prompts = lab.sample(data)?;
        // no more of a prompt than is read, and one point after it
        let short = prompts.head(REASKED, READ + 1);
        let (mut by_pairs, mut by_gap) = (Vec::new(), Vec::new());
        for At1 { name, step, .. } in all {
            let learner = lab.learner(name)?;
            let steps = if learner.default_steps().len() > 1 && *step == learner.default_steps().last() {
                learner.default_steps()
            } else {
                Steps::single(*step)
            };
            let path = lab.path(name, data, &steps)?;
            let scaled = |errors: Vec<f64>| errors.into_iter().map(|e| e / DIM as f64).collect::<Vec<_>>();
            by_pairs.push(
                (0..prompts.points()).map(|t| scaled(path.squared_errors(&prompts, *step, t))).collect(),
            );
            by_gap.push(forgetting(&*learner, &short, READ, *step)?.into_iter().map(scaled).collect());
        }
        Ok(Curves { lab, labels: all.iter().map(|a| a.label.clone()).collect(), by_pairs, by_gap })
    }

    /// Geometric mean over `lengths` of the ratio of mean errors of learners `a` and `b`.
    #[allow(clippy::too_many_arguments)] // a claim and what it is about
    fn ratio(
        &self,
        id: &str,
        what: &str,
        a: usize,
        b: usize,
        lengths: &[usize],
        bound: Bound,
        quoted: &str,
    ) -> Claim {
        let (a, b) = (&self.by_pairs[a], &self.by_pairs[b]);
        let estimate = bootstrap(self.lab.seed, a[0].len(), |chosen| {
            let log = |t: &usize| (sum(&a[*t], chosen) / sum(&b[*t], chosen)).ln();
            (lengths.iter().map(log).sum::<f64>() / lengths.len() as f64).exp()
        });
        Claim::of(id, Kind::Paper, what, estimate, bound).quoted(quoted).figure(&self.figure_id(id, "pairs"))
    }

    /// Ratio of the mean errors of learners `a` and `b` on re-asked pairs; above 1 when `b` remembers better.
    fn memory(&self, id: &str, what: &str, a: usize, b: usize) -> Claim {
        let (a, b) = (&self.by_gap[a], &self.by_gap[b]);
        let total =
            |errors: &[Vec<f64>], chosen: &[usize]| errors.iter().map(|e| sum(e, chosen)).sum::<f64>();
        let estimate = bootstrap(self.lab.seed, a[0].len(), |chosen| total(a, chosen) / total(b, chosen));
        Claim::of(id, Kind::Paper, what, estimate, Bound::AtLeast(1.0))
            .quoted("Transformers and Newton-5 have better memorization than LSTM and OGD")
            .figure(&self.figure_id(id, "forgetting"))
    }

    /// Slope of the error against the gap, as a share of the mean error: 0 is flat.
    fn tilt(&self, id: &str, what: &str, of: usize, bound: Bound, quoted: &str) -> Claim {
        let errors = &self.by_gap[of];
        let estimate: Estimate = bootstrap(self.lab.seed, errors[0].len(), |chosen| {
            let points: Vec<(f64, f64)> =
                errors.iter().enumerate().map(|(gap, e)| (gap as f64, sum(e, chosen))).collect();
            line(&points).1 * READ as f64 / (points.iter().map(|p| p.1).sum::<f64>() / READ as f64)
        });
        Claim::of(id, Kind::Paper, what, estimate, bound)
            .quoted(quoted)
            .figure(&self.figure_id(id, "forgetting"))
    }

    fn figure_id(&self, claim: &str, what: &str) -> String {
        format!("{}-{what}", claim.split('.').next().unwrap_or_default().to_lowercase())
    }

    fn figures(&self, stem: &str) -> Vec<Figure> {
        let series = |all: &[Vec<Vec<f64>>]| -> Vec<Series> {
            let curves = self.labels.iter().zip(all).map(|(label, errors)| {
                let found: Vec<Estimate> =
                    errors.iter().map(|e| crate::stats::mean(self.lab.seed, e)).collect();
                let points = found.iter().enumerate().map(|(i, e)| (i as f64, e.value.max(1e-6))).collect();
                Series::new(label.clone(), points)
                    .band(found.iter().map(|e| (e.low.max(1e-6), e.high.max(1e-6))).collect())
                    .stroke(Stroke::LineMarkers)
            });
            curves.collect()
        };
        let figure = |what: &str,
                      title: &str,
                      caption: String,
                      x: &str,
                      references: Vec<Reference>,
                      series: Vec<Series>| Figure {
            id: format!("{stem}-{what}"),
            title: title.into(),
            caption,
            panels: vec![Panel::Lines(LinesPanel {
                title: String::new(),
                x: Axis::new(x, Scale::Linear),
                y: Axis::new("mean squared error / d", Scale::Log10).range(1e-6, 3.0),
                series,
                references,
            })],
        };
        let count = |all: &[Vec<Vec<f64>>]| all[0][0].len();
        vec![
            figure(
                "pairs",
                "Error by pairs read",
                format!(
                    "Mean squared error over d on the next label after t pairs, {} ({} prompts, 95 % bands).",
                    ISOTROPIC.words,
                    count(&self.by_pairs)
                ),
                "in-context pairs t",
                vec![Reference { label: "t = d".into(), at: At::X(DIM as f64) }],
                series(&self.by_pairs),
            ),
            figure(
                "forgetting",
                "Error on a pair seen before, by its age",
                format!(
                    "After {READ} pairs the input x_(n−g) is asked again; squared error over d against the gap g ({} prompts, \
                     95 % bands; values below 10⁻⁶ are drawn there).",
                    count(&self.by_gap)
                ),
                "gap g (pairs since it was seen)",
                vec![],
                series(&self.by_gap),
            ),
        ]
    }
}

fn sum(errors: &[f64], chosen: &[usize]) -> f64 {
    chosen.iter().map(|&b| errors[b]).sum()
}
