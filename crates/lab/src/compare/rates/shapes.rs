//! Four curves through best-matching steps, each as a density of the same data, so that their BIC can be compared.

use serde::{Deserialize, Serialize};

use super::Trend;
use crate::learners::steps::Steps;
use crate::stats::line;

/// A curve that best matches may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// step_b = intercept + slope · step_a, normal errors.
    Line,
    /// step_b = exp(intercept + slope · step_a), log-normal errors.
    Exponential,
    /// step_b = exp(intercept) · step_a^slope, log-normal errors.
    Power,
    /// step_b = intercept + slope · step_a + curvature · step_a², normal errors.
    Quadratic,
}

/// A fitted curve.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Fit {
    /// Value (or logarithm of the value) at step 0 of A, of a power law at step 1.
    pub intercept: f64,
    /// Change per step of A; of a power law its exponent.
    pub slope: f64,
    /// Of a parabola the coefficient of the square; 0 for the others.
    #[serde(default)]
    pub curvature: f64,
    /// Bayesian information criterion; smaller is better.
    #[serde(with = "crate::exact")]
    pub bic: f64,
}

impl Fit {
    /// The curve at a step of A.
    pub fn at(&self, shape: Shape, a: f64) -> f64 {
        match shape {
            Shape::Line | Shape::Quadratic => self.intercept + (self.slope + self.curvature * a) * a,
            Shape::Exponential => (self.intercept + self.slope * a).exp(),
            Shape::Power => (self.intercept + self.slope * a.ln()).exp(),
        }
    }

    /// The curve as a formula in a step `a` of A: `1.35 · 2^(0.52 a)`.
    pub fn formula(&self, shape: Shape) -> String {
        let Fit { intercept, slope, curvature, .. } = *self;
        match shape {
            Shape::Line => format!("{intercept:.2} {slope:+.2} a"),
            Shape::Exponential => {
                format!("{:.2} · 2^({:.2} a)", intercept.exp(), slope / std::f64::consts::LN_2)
            }
            Shape::Power => format!("{:.2} · a^{slope:.2}", intercept.exp()),
            Shape::Quadratic => format!("{intercept:.2} {slope:+.2} a {curvature:+.3} a²"),
        }
    }

    /// The curve in words: `a power law of exponent 1.31`.
    pub(super) fn words(&self, shape: Shape) -> String {
        match shape {
            Shape::Power => format!("{} of exponent {:.2}", shape.word(), self.slope),
            _ => shape.word().into(),
        }
    }
}

impl Shape {
    /// All four, those of the paper first.
    pub const ALL: [Shape; 4] = [Shape::Line, Shape::Exponential, Shape::Power, Shape::Quadratic];

    /// In legends.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Line => "line",
            Shape::Exponential => "exponential",
            Shape::Power => "power law",
            Shape::Quadratic => "parabola",
        }
    }

    /// With its article.
    pub fn word(self) -> &'static str {
        match self {
            Shape::Line => "a line",
            Shape::Exponential => "an exponential",
            Shape::Power => "a power law",
            Shape::Quadratic => "a parabola",
        }
    }
}

/// The four fits to the same matches.
#[derive(Clone, Copy)]
pub(super) struct Fits {
    pub linear: Fit,
    pub exponential: Fit,
    pub power: Fit,
    pub quadratic: Fit,
}

impl Fits {
    pub fn of(&self, shape: Shape) -> Fit {
        match shape {
            Shape::Line => self.linear,
            Shape::Exponential => self.exponential,
            Shape::Power => self.power,
            Shape::Quadratic => self.quadratic,
        }
    }

    pub fn best(&self) -> Shape {
        let smallest = |best, next| if self.of(next).bic < self.of(best).bic { next } else { best };
        Shape::ALL.into_iter().reduce(smallest).expect("four of them")
    }

    pub fn trend(&self) -> Trend {
        if self.linear.bic <= self.exponential.bic { Trend::Linear } else { Trend::Exponential }
    }

    pub fn exponential_over_line(&self) -> f64 {
        self.linear.bic - self.exponential.bic
    }

    pub fn exponential_over_all(&self) -> f64 {
        self.linear.bic.min(self.power.bic).min(self.quadratic.bic) - self.exponential.bic
    }

    pub fn straightness(&self) -> f64 {
        self.power.bic.min(self.quadratic.bic) - self.linear.bic
    }
}

/// Fits all four to (step of A, step of B); `None` with fewer than three points or where a step of B has no logarithm.
///
/// A match is only known to the spacing of B's steps, so no spread may fall below that of a uniform error of one spacing.
pub(super) fn fit_shapes(points: &[(f64, f64)], searched: &Steps) -> Option<Fits> {
    if points.len() < 3 || points.iter().any(|p| p.1 <= 0.0) {
        return None;
    }
    let [normal, log_normal] = [Errors::normal(points, searched), Errors::log_normal(points, searched)];
    let logs: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1.ln())).collect();
    let both_logs: Vec<(f64, f64)> = logs.iter().map(|p| (p.0.ln(), p.1)).collect();
    let straight = |points: &[(f64, f64)], errors: &Errors| {
        let (intercept, slope, rss) = line(points);
        Fit { intercept, slope, curvature: 0.0, bic: errors.bic(rss, 2) }
    };
    // a power law is 0 at step 0, where a match is not: it cannot have made such points
    let impossible = Fit { intercept: 0.0, slope: 0.0, curvature: 0.0, bic: f64::INFINITY };
    let positive = points.iter().all(|p| p.0 > 0.0);
    Some(Fits {
        linear: straight(points, &normal),
        exponential: straight(&logs, &log_normal),
        power: if positive { straight(&both_logs, &log_normal) } else { impossible },
        quadratic: parabola(points, &normal),
    })
}

/// Least squares by what the square has beside a line.
fn parabola(points: &[(f64, f64)], errors: &Errors) -> Fit {
    let squares: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.0 * p.0)).collect();
    let (a, b, own) = line(&squares);
    let along: f64 = points.iter().map(|p| (p.0 * p.0 - a - b * p.0) * p.1).sum();
    let curvature = if own > 0.0 { along / own } else { 0.0 };
    let rest: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1 - curvature * p.0 * p.0)).collect();
    let (intercept, slope, rss) = line(&rest);
    Fit { intercept, slope, curvature, bic: errors.bic(rss, 3) }
}

/// How errors are spread around a curve.
struct Errors {
    points: f64,
    /// The least variance that the spacing of the searched steps allows.
    floor: f64,
    /// What makes a density of logarithms one of steps.
    jacobian: f64,
}

impl Errors {
    fn normal(points: &[(f64, f64)], searched: &Steps) -> Errors {
        Errors { points: points.len() as f64, floor: resolution(points, searched, |v| v), jacobian: 0.0 }
    }

    fn log_normal(points: &[(f64, f64)], searched: &Steps) -> Errors {
        let jacobian = points.iter().map(|p| p.1.ln()).sum();
        Errors { jacobian, floor: resolution(points, searched, f64::ln), ..Errors::normal(points, searched) }
    }

    /// BIC of a curve with so many coefficients beside its spread.
    fn bic(&self, rss: f64, coefficients: usize) -> f64 {
        let n = self.points;
        let variance = (rss / n).max(self.floor).max(1e-12);
        let log_likelihood =
            -0.5 * n * (std::f64::consts::TAU * variance).ln() - 0.5 * rss / variance - self.jacobian;
        -2.0 * log_likelihood + (coefficients + 1) as f64 * n.ln()
    }
}

/// Mean variance of a uniform error of one spacing between the searched steps, on a scale.
fn resolution(points: &[(f64, f64)], searched: &Steps, scale: fn(f64) -> f64) -> f64 {
    let steps = searched.as_slice();
    let spacing = |y: f64| {
        let i = steps.partition_point(|&step| (step as f64) < y);
        let before = i.saturating_sub(1);
        // the searched step that is nearest
        let i = if i == steps.len() || y - (steps[before] as f64) < steps[i] as f64 - y { before } else { i };
        let (low, high) = (steps[i.saturating_sub(1)] as f64, steps[(i + 1).min(steps.len() - 1)] as f64);
        (scale(high) - scale(low.max(0.5))) / 2.0
    };
    points.iter().map(|p| spacing(p.1).powi(2)).sum::<f64>() / points.len() as f64 / 12.0
}
