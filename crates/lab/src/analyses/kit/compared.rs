//! A network against one algorithm: the map, its best matches, their rate, and what of it could be chance.

use crate::analyses::heatmap_panel;
use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::{Baseline, MIDDLE_RULE, Setting, middle};
use crate::compare::matching::{self, Matching};
use crate::compare::rates::{Fit, RateFit, Trend, fit_rate};
use crate::compare::similarity::{Heatmap, Metric, View, of_errors, of_weights};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, LinesPanel, Panel, Reference, Scale, Series, Stroke};
use crate::registry::Id;
use crate::stats::{Estimate, mean};

/// A network against one algorithm.
pub struct Compared {
    /// The algorithm.
    pub baseline: Baseline,
    /// Layers by steps.
    pub map: Heatmap,
    /// The best step for each layer.
    pub matching: Matching,
    /// Rate over the middle layers, where at least three matches can be fitted.
    pub fit: Option<RateFit>,
    /// Highest similarity of the exact solution with any step of the algorithm: what having converged is worth.
    pub floor: f64,
    middle: Option<(u64, u64)>,
    rule: &'static str,
}

/// Which errors are compared, and how.
#[derive(Clone, Copy)]
pub enum Measure {
    /// SimE over the positions of a view.
    Errors(View),
    /// Distance of errors.
    ErrorDistance,
    /// SimW.
    Weights,
}

impl Compared {
    /// Compares every layer with every step.
    pub fn new(lab: &Lab, setting: &Setting, baseline: Baseline, measure: Measure) -> Result<Compared> {
        let steps = baseline.steps()?;
        let layers = lab.layers(setting.network)?;
        let exact_steps = setting.exact.steps()?;
        let map_of = |name: &str, own: &crate::Steps| -> Result<Heatmap> {
            let metric =
                if matches!(measure, Measure::ErrorDistance) { Metric::Distance } else { Metric::Cosine };
            match measure {
                Measure::Errors(_) | Measure::ErrorDistance => {
                    let view = if let Measure::Errors(view) = measure { view } else { View::default() };
                    let prompts = lab.sample(&setting.data)?;
                    let (a, b) = (
                        lab.path(name, &setting.data, own)?,
                        lab.path(baseline.solver, &setting.data, &steps)?,
                    );
                    of_errors(&a, &b, &prompts, view, metric)
                }
                Measure::Weights => {
                    let (a, b) = (
                        lab.weights(name, &setting.data, setting.weight_prompts, own)?,
                        lab.weights(baseline.solver, &setting.data, setting.weight_prompts, &steps)?,
                    );
                    Ok(of_weights(&a, &b, metric))
                }
            }
        };
        let mut map = map_of(setting.network, &layers)?;
        map.a.learner = Id { name: setting.who.to_string(), given: Default::default() };
        // where least squares is exact its errors are round-off, and no similarity means anything
        let round_off = matches!(measure, Measure::Errors(view) if view.first > setting.data.dim && setting.exact.solver == "ols");
        let floor = if round_off {
            f64::NAN
        } else {
            matching::best_match(&map_of(setting.exact.solver, &exact_steps)?).similarity[0]
        };
        let matching = matching::bootstrap(&map, lab.seed);
        let middle = middle(lab, setting)?;
        let fit = middle.and_then(|(first, last)| fit_rate(&matching, first, last));
        Ok(Compared { baseline, map, matching, fit, floor, middle, rule: MIDDLE_RULE })
    }

    /// The same with its rate fitted to all layers, for networks with too few to leave any out.
    pub fn over_all_layers(mut self) -> Compared {
        let last = self.matching.a.last();
        self.middle = Some((1, last));
        self.rule = "Rates are fitted to all layers whose best match is not at an end of the search.";
        self.fit = fit_rate(&self.matching, 1, last);
        self
    }

    /// The map as a panel.
    pub fn panel(&self, title: &str) -> Panel {
        let Panel::Heatmap(mut panel) = heatmap_panel(title, &self.map, &self.matching) else {
            unreachable!()
        };
        panel.y_label = format!("{} {}", self.baseline.label, self.map.b.unit);
        panel.floor = Some(self.floor).filter(|f| f.is_finite());
        Panel::Heatmap(panel)
    }

    /// Best matches with intervals and both fitted curves.
    pub fn best_panel(&self, scale: Scale) -> Panel {
        let steps = self.matching.b.as_slice();
        let at = |i: usize| match steps[i] {
            0 if scale != Scale::Linear => f64::NAN,
            step => step as f64,
        };
        let layers = self.matching.a.as_slice().iter().map(|&l| l as f64);
        let points = layers.zip(&self.matching.best).map(|(l, b)| (l, b.map_or(f64::NAN, at))).collect();
        let band = self
            .matching
            .intervals()
            .into_iter()
            .map(|i| i.map_or((f64::NAN, f64::NAN), |(l, h)| (at(l), at(h))));
        let mut series =
            vec![Series::new("best match", points).band(band.collect()).stroke(Stroke::LineMarkers)];
        if let Some(fit) = &self.fit {
            let curve = |of: Fit, exponential: bool| {
                let value = |l: f64| of.intercept + of.slope * l;
                let curve = |l: f64| if exponential { value(l).exp() } else { value(l) };
                let first = fit.points.first().map_or(0.0, |p| p.0);
                let last = fit.points.last().map_or(0.0, |p| p.0);
                (0..=40)
                    .map(|i| first + (last - first) * f64::from(i) / 40.0)
                    .map(|l| (l, curve(l)))
                    .collect()
            };
            let positive = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
                points.into_iter().filter(|p| scale == Scale::Linear || p.1 > 0.5).collect()
            };
            series.push(Series::new("line", positive(curve(fit.linear, false))).stroke(Stroke::Dashed));
            series.push(
                Series::new("exponential", positive(curve(fit.exponential, true))).stroke(Stroke::Dashed),
            );
        }
        let mut references = Vec::new();
        if let Some((first, last)) = self.middle {
            for (label, layer) in [("first", first), ("last", last)] {
                references.push(Reference { label: label.into(), at: At::X(layer as f64) });
            }
        }
        Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new(self.map.a.label(), Scale::Linear),
            y: Axis::new(format!("best {} steps", self.baseline.label), scale),
            series,
            references,
        })
    }

    /// How they were chosen, in words.
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// The layers to which the rate is fitted.
    pub fn middle(&self) -> Option<(u64, u64)> {
        self.middle
    }

    /// The first of the layers that do something; the first of all when none does.
    pub fn begun(&self) -> u64 {
        self.middle.map_or(1, |(first, _)| first)
    }

    /// The layers that were fitted, in words.
    pub fn range(&self) -> String {
        self.middle.map_or("no layers".into(), |(first, last)| format!("layers {first} to {last}"))
    }

    /// Similarity of the last layer with its best match.
    pub fn last(&self, lab: &Lab) -> Estimate {
        let layer = self.matching.best.len() - 1;
        self.at_best(lab, layer)
    }

    /// Similarity of the layer at position `layer` with its best match.
    pub fn at_best(&self, lab: &Lab, layer: usize) -> Estimate {
        let Some(best) = self.matching.best[layer] else {
            return Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };
        };
        mean(lab.seed, &self.map.per_prompt.slice(ndarray::s![layer, best, ..]).to_vec())
    }

    /// Best step of the last of the middle layers; NaN when there is none.
    pub fn at_end(&self) -> f64 {
        self.middle.and_then(|(_, last)| self.matching.step_for(last)).map_or(f64::NAN, |s| s as f64)
    }

    /// Best step of the last layer, with its interval.
    pub fn last_step(&self) -> Estimate {
        let steps = self.matching.b.as_slice();
        let at = |i: Option<usize>| i.map_or(f64::NAN, |i| steps[i] as f64);
        let interval = self.matching.intervals().pop().flatten();
        Estimate {
            value: at(*self.matching.best.last().expect("never empty")),
            low: at(interval.map(|i| i.0)),
            high: at(interval.map(|i| i.1)),
        }
    }

    /// The claim that best matches follow `trend` over the middle layers, decided by BIC.
    pub fn trend_claim(&self, id: &str, trend: Trend, quoted: &str, figure: &str) -> Claim {
        let (word, other, sign) = match trend {
            Trend::Linear => ("a line", "an exponential", -1.0),
            Trend::Exponential => ("an exponential", "a line", 1.0),
        };
        let evidence = self.fit.as_ref().map_or(f64::NAN, |f| sign * f.evidence_for_exponential());
        let statement = format!(
            "{}, {}: {word} fits the best {} steps better than {other} ({}, BIC difference)",
            self.map.label,
            self.map.a.learner.name,
            self.baseline.label,
            self.range()
        );
        let claim = Claim::new(id, Kind::Paper, statement, evidence, Bound::AtLeast(0.0))
            .quoted(quoted)
            .figure(figure)
            .why(self.why_not(sign));
        match self.fit.as_ref().and_then(|f| f.evidence_interval) {
            Some((low, high)) => claim.interval((sign * low).min(sign * high), (sign * low).max(sign * high)),
            None => claim,
        }
    }

    /// The claim about steps (or doublings of steps) per middle layer.
    pub fn slope_claim(&self, id: &str, trend: Trend, bound: Bound, quoted: &str, figure: &str) -> Claim {
        let (what, slope, interval, scale) = match (&self.fit, trend) {
            (Some(f), Trend::Linear) => ("steps", f.linear.slope, f.linear_interval, 1.0),
            (Some(f), Trend::Exponential) => {
                ("doublings of steps", f.exponential.slope, f.exponential_interval, 1.0 / 2f64.ln())
            }
            (None, _) => ("steps", f64::NAN, None, 1.0),
        };
        let statement = format!(
            "{}, {}: {} {what} per layer ({})",
            self.map.label,
            self.map.a.learner.name,
            self.baseline.label,
            self.range()
        );
        let claim =
            Claim::new(id, Kind::Paper, statement, slope * scale, bound).quoted(quoted).figure(figure);
        interval.map_or(claim.clone(), |(low, high)| claim.interval(low * scale, high * scale))
    }

    /// Best step of each fitted layer and what the later half of them would say, to explain a trend that is not found.
    fn why_not(&self, sign: f64) -> String {
        let Some((first, last)) = self.middle else {
            return "No layer does better than two Newton steps.".into();
        };
        let best = (first..=last).map(|layer| {
            let step = self.matching.step_for(layer).map_or("none".into(), |s| s.to_string());
            format!("{layer}→{step}")
        });
        let best = best.collect::<Vec<_>>().join(", ");
        let half = first.midpoint(last);
        let later = fit_rate(&self.matching, half, last).map_or(String::new(), |fit| {
            let evidence = sign * fit.evidence_for_exponential();
            format!(" Over layers {half} to {last} alone the difference is {evidence:+.1}.")
        });
        format!("Best steps by layer: {best}.{later}")
    }

    /// Why similarity may not prefer this algorithm to another one, in words.
    pub fn why_not_ahead_of(&self, other: &Compared) -> String {
        let exact = if self.floor.is_nan() {
            "Where least squares is exact there is no floor to compare with.".to_string()
        } else {
            format!(
                "The exact solution itself has {} {:.4} with {} and {:.4} with {}: near convergence any two solvers are this much alike.",
                self.map.label, self.floor, self.baseline.label, other.floor, other.baseline.label
            )
        };
        format!(
            "{exact} What tells the algorithms apart is the rate of their best matches (F3), not how similar they are."
        )
    }

    /// What the fit says, in words.
    pub fn describe(&self) -> String {
        let Some(fit) = &self.fit else {
            return format!("{}: too few best matches to fit a rate. ", self.baseline.label);
        };
        let (words, slope, interval, scale) = match fit.trend {
            Trend::Linear => ("a line of", fit.linear.slope, fit.linear_interval, 1.0),
            Trend::Exponential => (
                "an exponential with doublings per layer of",
                fit.exponential.slope,
                fit.exponential_interval,
                1.0 / 2f64.ln(),
            ),
        };
        let interval =
            interval.map_or(String::new(), |(l, h)| format!(" (95 %: {:.2} to {:.2})", l * scale, h * scale));
        let unit = if fit.trend == Trend::Linear { " steps per layer" } else { "" };
        let sure =
            fit.agreement.map_or(String::new(), |a| format!(", chosen in {:.0} % of resamples", 100.0 * a));
        format!(
            "{}, {}: {words} {:.2}{unit}{interval}{sure}. ",
            self.baseline.label,
            self.range(),
            slope * scale
        )
    }

    /// What the floor is, in words.
    pub fn floor_text(&self, setting: &Setting) -> String {
        if self.floor.is_nan() {
            return format!("{} is exact here, so there is no floor. ", setting.exact.label);
        }
        format!(
            "{} of {} with {} reaches {:.4} (the floor): as much means only that both have converged. ",
            self.map.label, setting.exact.label, self.baseline.label, self.floor
        )
    }
}
