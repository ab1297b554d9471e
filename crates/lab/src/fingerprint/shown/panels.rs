//! Pictures of a fingerprint: filters, the map from step to step, what algorithms leave.

use super::Identified;
use crate::findings::numbers::counted;
use crate::findings::{Axis, LinesPanel, Series, Stroke};
use crate::fingerprint::asked::Asked;
use crate::fingerprint::{AfterPairs, Candidate, Fingerprint, Naming, Scale};
use crate::learners::Unit;
use crate::learners::steps::Steps;
use crate::solvers;

/// Shares below this one tell nothing apart, and are drawn at the lower end of the axis.
const TOLD_APART: f64 = 1e-4;
/// The filter of a known algorithm at the step that is closest to one of the learner's.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// The learner's step.
    pub of: u64,
    /// Its own step.
    pub step: u64,
    /// f `[k]`.
    pub values: Vec<f64>,
}

/// Algorithms in the figure of what is left, the closest; the table has all of them.
const IN_FIGURE: usize = 6;
/// Algorithms whose filters are drawn beside the learner's, by the start of their names.
const DRAWN: [&str; 3] = ["newton", "newton:start=identity", "gd"];

impl Curve {
    /// The curves of a candidate at two middle steps of the learner, where the mean of its filter is nearest to 1/3 and
    /// 2/3; none of a candidate that is not drawn.
    pub(in crate::fingerprint) fn of(
        candidate: &Candidate,
        asked: &Asked,
        l: usize,
        found: &Fingerprint,
        naming: &Naming,
    ) -> Vec<Curve> {
        let after = &found.lengths[l];
        let Some(named) = naming.of(&candidate.name).filter(|named| is_drawn(&named.name, naming)) else {
            return Vec::new();
        };
        let middle = middle_steps(after, naming);
        let steps: Vec<u64> = middle.iter().map(|&s| named.steps[s]).collect();
        let filters = candidate.filters(asked, l, &after.knots, &steps);
        let all = middle.iter().zip(steps).zip(filters);
        all.map(|((&s, step), values)| Curve {
            name: named.name.clone(),
            of: found.steps.as_slice()[s],
            step,
            values,
        })
        .collect()
    }
}

/// Newton from both starts, and the gradient descent that is closer.
fn is_drawn(name: &str, naming: &Naming) -> bool {
    let first_of = |kind: &str| naming.candidates.iter().find(|c| c.name.split(':').next() == Some(kind));
    DRAWN[..2].contains(&name) || first_of(DRAWN[2]).is_some_and(|closest| closest.name == name)
}

/// Positions of one or two recorded steps in the middle of what is done.
fn middle_steps(after: &AfterPairs, naming: &Naming) -> Vec<usize> {
    let mean = |s: usize| after.filter(s).iter().sum::<f64>() / after.knots.count() as f64;
    let steps = || (0..after.filters.len()).filter(|&s| naming.informative[s] && mean(s).is_finite());
    let nearest = |to: f64| steps().min_by(|&i, &j| (mean(i) - to).abs().total_cmp(&(mean(j) - to).abs()));
    let mut chosen: Vec<usize> = [1.0 / 3.0, 2.0 / 3.0].into_iter().filter_map(nearest).collect();
    chosen.dedup();
    chosen
}

/// The filter after recorded step number `s` over the eigenvalues, with its band.
pub fn filter_series(after: &AfterPairs, s: usize, label: String) -> Series {
    let points = after.knots.values.iter().zip(&after.filters[s]).map(|(x, f)| (*x, f.value));
    Series::new(label, points.collect()).band(after.filters[s].iter().map(|f| (f.low, f.high)).collect())
}

/// Filters step by step over the eigenvalues, from first to last in colour, and known algorithms dashed.
pub fn filters_panel(
    after: &AfterPairs,
    steps: &Steps,
    unit: Unit,
    scale: Scale,
    curves: &[Curve],
) -> LinesPanel {
    let knots = &after.knots.values;
    let own = steps.as_slice().iter().enumerate().map(|(s, step)| {
        filter_series(after, s, format!("{} {step}", unit.one())).grade(grade(s, steps.len()))
    });
    let mut series: Vec<Series> = own.collect();
    for curve in curves {
        let points = knots.iter().copied().zip(curve.values.iter().copied());
        match series.iter_mut().find(|s| s.label == curve.name) {
            None => series.push(Series::new(curve.name.clone(), points.collect()).dashed()),
            Some(line) => {
                line.points.push((knots[0], f64::NAN)); // a gap, so that both are one entry of the legend
                line.points.extend(points);
            }
        }
    }
    let x = Axis::log10(format!("eigenvalue {}", scale.words().1));
    LinesPanel::new(x, Axis::linear("filter f").range(-0.1, 1.3), series)
        .titled(counted(after.pairs, "pair", "pairs"))
        .mark_y("least squares", 1.0)
}

/// f after a step against f after the step before, at every knot, beside no, one, two and three Newton iterations.
pub fn return_map_panel(after: &AfterPairs, steps: &Steps, unit: Unit) -> LinesPanel {
    let numbers = steps.as_slice();
    let transition = |s: usize| {
        let (before, now) = (after.filter(s - 1), after.filter(s));
        let inside = before.into_iter().zip(now).filter(|(f, _)| (0.0..=1.0).contains(f)).collect();
        let line = Series::new(format!("to {} {}", unit.one(), numbers[s]), inside);
        line.stroke(Stroke::Markers).grade(grade(s, steps.len()))
    };
    let measured = (1..numbers.len()).filter(|s| after.maps[s - 1].is_some()).map(transition);
    let iteration = |(label, order): (&str, i32)| {
        let points = (0..=50).map(|i| f64::from(i) / 50.0).map(|f| (f, 1.0 - (1.0 - f).powi(order)));
        Series::new(label, points.collect()).dashed()
    };
    let known = [("no change", 1), ("a Newton iteration, 2f − f²", 2), ("two of them", 4), ("three", 8)]
        .map(iteration);
    let x = Axis::linear(format!("f before the {}", unit.one())).range(0.0, 1.0);
    let y = Axis::linear(format!("f after the {}", unit.one())).range(0.0, 1.1);
    LinesPanel::new(x, y, known.into_iter().chain(measured)).titled(counted(after.pairs, "pair", "pairs"))
}

fn grade(s: usize, count: usize) -> f64 {
    s as f64 / (count - 1).max(1) as f64
}

impl Identified {
    /// What the closest algorithms leave, step by step.
    pub(super) fn left_panel(&self) -> LinesPanel {
        let (steps, informative) = (self.fingerprint.steps.as_slice(), &self.naming.informative);
        let series = self.naming.candidates.iter().take(IN_FIGURE).map(|candidate| {
            let all = steps.iter().zip(&candidate.left).zip(informative);
            let points = all.filter(|(_, says)| **says).map(|((step, left), _)| (*step as f64, *left));
            Series::new(candidate.name.clone(), points.collect()).markers()
        });
        let lengths = &self.fingerprint.lengths;
        let mean = |s: usize| {
            lengths.iter().map(|after| after.unexplained[s].value).sum::<f64>() / lengths.len() as f64
        };
        let says = (0..steps.len()).filter(|&s| informative[s]);
        let best = says.map(|s| (steps[s] as f64, mean(s))).collect();
        let series = series.chain([Series::new("one filter for all prompts", best).dashed()]);
        let x = Axis::linear(format!(
            "{} of {}",
            self.fingerprint.unit,
            solvers::label(&self.fingerprint.learner)
        ));
        LinesPanel::new(x, Axis::log10("share of w − w_OLS left").range(TOLD_APART, 2.0), series)
    }
}
