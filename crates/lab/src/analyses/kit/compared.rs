//! The network of a setting against one baseline: a [`Comparison`] that knows which layers its rate is fitted to.

use std::ops::Deref;

use super::lab::Lab;
use super::setting::{Baseline, Setting};
use crate::compare::Comparison;
use crate::compare::matching::best_match;
use crate::compare::rates::{RateFit, Shape, Trend};
use crate::compare::similarity::{Heatmap, Metric, View, of_errors, of_weights};
use crate::error::Result;
use crate::findings::{Axis, HeatmapPanel, LinesPanel, Scale, Series};
use crate::learners::Trajectory;
use crate::learners::steps::Steps;

/// The network of a setting against one baseline: layers by steps, best matches, their rate over the paper's layers with our
/// choice of layers beside it, and how similar the exact solution is to the baseline, which is what having converged is worth.
pub struct Compared {
    /// The algorithm.
    pub baseline: Baseline,
    /// The network's name: `r1`.
    pub network: &'static str,
    found: Comparison,
    /// The middle layers by our own rule.
    middle: Option<(u64, u64)>,
    /// The same by the authors' protocol.
    authors: Option<Box<Compared>>,
    /// What the paper states of the best steps, drawn beside them.
    stated: Vec<(&'static str, f64)>,
    /// Over the panel of best steps, where a figure has several that would look alike.
    title: &'static str,
}

/// What of two learners is compared, and how.
#[derive(Clone, Copy)]
pub enum Measure {
    /// SimE over the positions of a view.
    Errors(View),
    /// Distance of errors.
    ErrorDistance,
    /// SimW.
    Weights,
}

impl Deref for Compared {
    type Target = Comparison;

    fn deref(&self) -> &Comparison {
        &self.found
    }
}

impl Setting {
    /// Every layer with every step of a baseline by similarity of errors, as in F3.
    pub fn errors(&self, lab: &Lab, baseline: Baseline) -> Result<Compared> {
        self.compare(lab, baseline, Measure::Errors(View::default()))
    }

    /// Every layer with every step of a baseline.
    pub fn compare(&self, lab: &Lab, baseline: Baseline, measure: Measure) -> Result<Compared> {
        let layers = lab.layers(self.network)?;
        let map = self.map(lab, (self.network, &layers), baseline, measure)?;
        // where least squares is exact its errors are round-off, and no similarity means anything
        let round_off = matches!(measure, Measure::Errors(view) if view.first > self.data.dim && self.exact.solver == "ols");
        let floor = if round_off {
            f64::NAN
        } else {
            let exact = self.map(lab, (self.exact.solver, &self.exact.steps()?), baseline, measure)?;
            best_match(&exact).similarity[0]
        };
        self.compared(lab, baseline, map, floor)
    }

    /// The same as [`Setting::errors`] by the authors' protocol: their prompts, the position before the first pair among those
    /// compared, their steps and settings of the baseline.
    pub fn by_authors(&self, lab: &Lab, baseline: Baseline) -> Result<Compared> {
        self.errors_by_authors(lab, baseline, Metric::Cosine)
    }

    /// The same by another metric.
    pub fn errors_by_authors(&self, lab: &Lab, baseline: Baseline, metric: Metric) -> Result<Compared> {
        let (prompts, other) = (self.authors_prompts(lab)?, self.authors_path(lab, baseline)?);
        let with = |path: &Trajectory| of_errors(path, &other, &prompts, View { first: 0 }, metric);
        let map = with(&*self.authors_layers(lab)?)?;
        let exact = with(&*self.authors_path(lab, self.exact)?)?;
        self.compared(lab, baseline.by_authors(), map, best_match(&exact).similarity[0])
    }

    fn compared(&self, lab: &Lab, baseline: Baseline, map: Heatmap, floor: f64) -> Result<Compared> {
        let found = Comparison::new(map).named(self.who).with_floor(floor);
        let found = found.over(self.layers).resampled(lab.seed);
        let middle = self.middle(lab)?;
        Ok(Compared {
            baseline,
            network: self.network,
            found,
            middle,
            authors: None,
            stated: vec![],
            title: "",
        })
    }

    fn map(
        &self,
        lab: &Lab,
        (learner, steps): (&str, &Steps),
        baseline: Baseline,
        measure: Measure,
    ) -> Result<Heatmap> {
        let errors = |view: View, metric: Metric| {
            let (a, b) = (lab.path(learner, &self.data, steps)?, self.path(lab, baseline)?);
            of_errors(&a, &b, &*self.prompts(lab)?, view, metric)
        };
        match measure {
            Measure::Errors(view) => errors(view, Metric::Cosine),
            Measure::ErrorDistance => errors(View::default(), Metric::Distance),
            Measure::Weights => {
                let of =
                    |name: &str, steps: &Steps| lab.weights(name, &self.data, self.weight_prompts, steps);
                let (a, b) = (of(learner, steps)?, of(baseline.solver, &baseline.steps()?)?);
                Ok(of_weights(&a, &b, Metric::Cosine))
            }
        }
    }
}

impl Compared {
    /// The same with its rate fitted to other layers, those that the paper names for it.
    pub fn over_layers(self, layers: (u64, u64)) -> Compared {
        let authors = self.authors.map(|authors| Box::new(authors.over_layers(layers)));
        Compared { found: self.found.over(layers), authors, ..self }
    }

    /// The same with what the authors' protocol gives ([`Setting::by_authors`]), which claims about it show beside.
    pub fn with_authors(self, authors: Compared) -> Compared {
        let authors = match self.range() {
            Some(layers) => authors.over_layers(layers),
            None => authors,
        };
        Compared { authors: Some(Box::new(authors)), ..self }
    }

    /// What the authors' protocol gives, where it was asked.
    pub fn authors(&self) -> Option<&Compared> {
        self.authors.as_deref()
    }

    /// The middle layers by our own rule.
    pub fn middle(&self) -> Option<(u64, u64)> {
        self.middle
    }

    /// The rate over the middle layers by our own rule.
    pub fn over_our_layers(&self) -> Option<RateFit> {
        self.middle.and_then(|(first, last)| self.fit_over(first, last))
    }

    /// The same with a step that the paper states, drawn as a line beside the best steps.
    pub fn mark_y(mut self, label: &'static str, step: f64) -> Compared {
        self.stated.push((label, step));
        self
    }

    /// The same under a title, where a figure has several of the same baseline.
    pub fn titled(self, title: &'static str) -> Compared {
        Compared { title, ..self }
    }

    /// Which layers were fitted and what our own rule would have taken, in words.
    pub fn rule(&self) -> String {
        let last = self.matching.a.last();
        let whose = match self.range() {
            Some(layers) if layers == (1, last) => "all there are".to_string(),
            Some(_) if last > 12 => format!("as many of {last} as the paper's 3 to 9 are of twelve"),
            _ => "which the paper names".to_string(),
        };
        let ours =
            self.middle.map_or("no layers".into(), |(first, last)| format!("layers {first} to {last}"));
        format!(
            "Rates are fitted to {}, {whose}; matches at an end of the search are left out. Our own rule would take {ours}: from \
             the first whose mean error after all pairs is below Newton's after two iterations, to the last whose mean error is \
             at least twice the last layer's.",
            self.layers()
        )
    }

    /// The first of the layers that do something, by our own rule; the first of all when none does.
    pub fn begun(&self) -> u64 {
        self.middle.map_or(1, |(first, _)| first)
    }

    /// The layers that were fitted, in words.
    pub fn layers(&self) -> String {
        self.range().map_or("no layers".into(), |(first, last)| format!("layers {first} to {last}"))
    }

    /// Best step of the last of the fitted layers; NaN when there is none.
    pub fn at_end(&self) -> f64 {
        self.range().map_or(f64::NAN, |(_, last)| self.best_step(last))
    }

    /// Similarity at the best step, layer by layer, with its 95 % band.
    pub fn curve(&self) -> Series {
        let layers = self.matching.a.as_slice().iter().enumerate();
        Series::estimates(self.baseline.label, layers.map(|(i, &l)| (l as f64, self.similarity_at(i))))
    }

    /// The map as a panel.
    pub fn map_panel(&self, title: &str) -> HeatmapPanel {
        HeatmapPanel {
            y_label: format!("{} {}", self.baseline.label, self.map.b.unit),
            floor: Some(self.floor).filter(|f| f.is_finite()),
            ..self.found.panel(title)
        }
    }

    /// Best matches with intervals, the paper's two curves and a third one where that is better; steps that double on an axis
    /// that does.
    pub fn best_panel(&self) -> LinesPanel {
        let doubling = self.matching.b.last() > 1000;
        let scale = if doubling { Scale::Log2 } else { Scale::Linear };
        let drawn = |step: f64| if doubling && step == 0.0 { f64::NAN } else { step };
        let layers = self.matching.a.as_slice().iter();
        let points = layers.map(|&l| (l as f64, drawn(self.best_step(l)))).collect();
        let band = self.matching.step_intervals().into_iter().map(|interval| {
            interval.map_or((f64::NAN, f64::NAN), |(low, high)| (drawn(low as f64), drawn(high as f64)))
        });
        let mut series = vec![Series::new("best match", points).band(band.collect()).markers()];
        if let Some(fit) = &self.fit {
            let first = fit.points.first().map_or(0.0, |p| p.0);
            let last = fit.points.last().map_or(0.0, |p| p.0);
            let curve = |shape: Shape| {
                let at = |i| first + (last - first) * f64::from(i) / 40.0;
                let points = (0..=40).map(at).map(|l| (l, fit.of(shape).at(shape, l)));
                Series::new(shape.name(), points.filter(|p| !doubling || p.1 > 0.5).collect()).dashed()
            };
            let shapes = [Shape::Line, Shape::Exponential];
            series.extend(shapes.map(curve));
            series.extend(Some(fit.best()).filter(|best| !shapes.contains(best)).map(curve));
        }
        let y = Axis::new(format!("best {} steps", self.baseline.label), scale);
        let panel = LinesPanel::new(Axis::linear(self.map.a.label()), y, series).titled(self.title);
        let panel = self.stated.iter().fold(panel, |panel, (label, step)| panel.mark_y(*label, *step));
        match self.range() {
            Some((first, last)) => panel.mark_x("first", first as f64).mark_x("last", last as f64),
            None => panel,
        }
    }

    /// What the fit says, in words.
    pub fn describe(&self) -> String {
        let label = self.baseline.label;
        let Some(fit) = &self.fit else {
            return format!("{label}: too few best matches to fit a rate. ");
        };
        let sure = if fit.settled().is_some() { "beyond doubt" } else { "not beyond doubt" };
        format!("{label}, {}: {}, {sure}. ", self.layers(), fit.words("layer"))
    }

    /// What the similarity floor is, in words.
    pub fn floor_words(&self, setting: &Setting) -> String {
        if self.floor.is_nan() {
            return format!("No floor with {}: {} is exact here. ", self.baseline.label, setting.exact.label);
        }
        let (label, floor) = (self.map.label, self.floor);
        format!("Floor with {}: {label} {floor:.4}, that of {}. ", self.baseline.label, setting.exact.label)
    }

    /// Best step of each fitted layer and what the later half of them would say, to explain a trend that is not found.
    pub fn why_not(&self, trend: Trend) -> String {
        let Some((first, last)) = self.range() else {
            return "No layers were fitted.".into();
        };
        let best = (first..=last).map(|layer| format!("{layer}→{}", self.step_text(layer)));
        let best = best.collect::<Vec<_>>().join(", ");
        let half = first.midpoint(last);
        let later = self.fit_over(half, last).map_or(String::new(), |fit| {
            let evidence = fit.evidence(trend).value;
            format!(" Over layers {half} to {last} alone the difference is {evidence:+.1}.")
        });
        let shape = self.fit.as_ref().map_or(String::new(), |fit| {
            format!(
                " Of line, exponential, power law and parabola {} has the smallest BIC.",
                fit.best().word()
            )
        });
        format!("Best steps by layer: {best}.{shape}{later}")
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
}
