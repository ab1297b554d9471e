//! How far to go along a direction. On a quadratic the choice decides which quasi-Newton methods differ at all
//! (erratum E4), so it is always named.

use super::problem::Problem;
use crate::error::Result;
use crate::linalg::{dot, symmetric_matvec};
use crate::registry::{Setting, Settings};

/// The setting that names the line search.
pub const SETTING: Setting = Setting {
    name: "line_search",
    default: "exact",
    help: "exact: to the minimum along the direction; armijo: backtracking from 1 on the loss ‖y−Xw‖²/2t",
};

/// Line searches.
#[derive(Clone, Copy)]
pub enum LineSearch {
    /// The minimiser along the direction.
    Exact,
    /// Halving from 1 until the loss falls by 10⁻⁴ of what the slope promises.
    Armijo,
}

impl LineSearch {
    /// Reads the setting `line_search`.
    pub fn read(settings: &Settings) -> Result<LineSearch> {
        settings.choice("line_search", &[("exact", LineSearch::Exact), ("armijo", LineSearch::Armijo)])
    }

    /// The length of the step along `direction`, and its curvature directionᵀ ∇²L direction.
    ///
    /// `gradient` is ∇L = (Sw − c)/t. The loss is quadratic, so its change along the direction is exactly
    /// a·slope + a²/2·curvature.
    pub fn length(self, problem: &Problem, gradient: &[f64], direction: &[f64], image: &mut [f64]) -> f64 {
        symmetric_matvec(problem.s, direction, image);
        let curvature = dot(direction, image) / problem.read() as f64;
        let slope = dot(gradient, direction);
        if slope >= 0.0 || curvature <= 0.0 {
            return 0.0; // converged to round-off: there is no way down
        }
        match self {
            LineSearch::Exact => -slope / curvature,
            LineSearch::Armijo => {
                let mut a = 1.0;
                for _ in 0..60 {
                    if a * slope + 0.5 * a * a * curvature <= 1e-4 * a * slope {
                        return a;
                    }
                    a *= 0.5;
                }
                0.0
            }
        }
    }
}

/// Point, gradient and the last move of a quasi-Newton method.
pub struct Descent {
    /// w `[d]`.
    pub w: Vec<f64>,
    /// ∇L = (Sw − c)/t.
    pub gradient: Vec<f64>,
    /// s = w₊ − w.
    pub moved: Vec<f64>,
    /// y = ∇L₊ − ∇L.
    pub change: Vec<f64>,
    /// −B∇L, filled by the method.
    pub direction: Vec<f64>,
    image: Vec<f64>,
    /// Squared gradient norm below which there is nothing left but round-off.
    done: f64,
}

impl Descent {
    /// Starts at w = 0.
    pub fn new(problem: &Problem) -> Descent {
        let t = problem.read().max(1) as f64;
        let gradient: Vec<f64> = problem.c.iter().map(|c| -c / t).collect();
        let zero = vec![0.0; problem.dim];
        let done = dot(&gradient, &gradient) * 1e-30;
        Descent {
            w: zero.clone(),
            gradient,
            moved: zero.clone(),
            change: zero.clone(),
            direction: zero.clone(),
            image: zero,
            done,
        }
    }

    /// Whether only round-off is left.
    pub fn converged(&self) -> bool {
        dot(&self.gradient, &self.gradient) <= self.done
    }

    /// Moves along `direction`; returns sᵀy, which is positive unless nothing moved.
    pub fn advance(&mut self, problem: &Problem, search: LineSearch) -> f64 {
        let length = search.length(problem, &self.gradient, &self.direction, &mut self.image);
        let t = problem.read().max(1) as f64;
        for i in 0..self.w.len() {
            self.moved[i] = length * self.direction[i];
            self.change[i] = length * self.image[i] / t;
            self.w[i] += self.moved[i];
            self.gradient[i] += self.change[i];
        }
        dot(&self.moved, &self.change)
    }
}
