//! What a construction is built from, and the steps and label bounds with which it works on given prompts.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::layers::{EQUAL, OPPOSITE};
use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::linalg::{Spectrum, gram, norm};

/// What a construction is built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Which construction.
    pub variant: Variant,
    /// Iterations k.
    pub iterations: usize,
    /// Dimension d of an input.
    pub dim: usize,
    /// The most pairs n of a prompt.
    pub pairs: usize,
    /// α of Newton's start αS, or η of gradient descent.
    pub step: f64,
    /// Half of what no label may exceed; only the paper's construction, which multiplies by labels, needs one.
    pub label_bound: f64,
}

/// Which construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Newton in k+3 layers.
    Compact,
    /// Newton in k+8 layers, as the paper's proof goes, corrected.
    Paper,
    /// The same as printed.
    Printed,
    /// The compact construction under a causal mask, as the paper remarks.
    Causal,
    /// Gradient descent in k+1 layers.
    Gd,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 5] =
        [Variant::Compact, Variant::Paper, Variant::Printed, Variant::Causal, Variant::Gd];

    /// What it is, in a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            Variant::Compact => "Newton's iteration, exact in k+3 layers",
            Variant::Paper => "Newton's iteration as in the paper's proof, corrected: k+8 layers",
            Variant::Printed => {
                "the paper's proof as printed: equal value matrices (E2), test column inside S (E6)"
            }
            Variant::Causal => {
                "Newton's iteration under a causal mask, 1/t in place of 1/N, as the paper remarks"
            }
            Variant::Gd => "gradient descent by linear attention, one layer per step",
        }
    }
}

/// The most dimensions, pairs and iterations that weights are written for.
pub const LARGEST: (usize, usize, usize) = (128, 512, 4096);

impl Recipe {
    /// Columns N = 2n+1.
    pub fn columns(&self) -> usize {
        2 * self.pairs + 1
    }

    /// Refuses sizes and steps that make no sense.
    pub fn check(&self) -> Result<()> {
        let (dims, pairs, iterations) = LARGEST;
        let refuse = |what: &str, value: String, accepted: String| {
            Err(Error::BadData(format!("{what} is {value}; accepted: {accepted}")))
        };
        if self.dim == 0 || self.dim > dims {
            return refuse("dimension d", self.dim.to_string(), format!("1 to {dims}"));
        }
        if self.pairs > pairs {
            return refuse("number of pairs n", self.pairs.to_string(), format!("at most {pairs}"));
        }
        if self.iterations > iterations {
            return refuse(
                "number of iterations k",
                self.iterations.to_string(),
                format!("0 to {iterations}"),
            );
        }
        if !(self.step.is_finite() && self.step > 0.0) {
            return refuse("step", self.step.to_string(), "a number above 0".into());
        }
        if !(self.label_bound.is_finite() && self.label_bound > 0.0) {
            return refuse("label bound", self.label_bound.to_string(), "a number above 0".into());
        }
        Ok(())
    }
}

/// What to do as the paper prints it, each on its own or together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misprints {
    /// V₂ = V₁ in the pairs of heads, so that they make |z| (erratum E2).
    pub equal_values: bool,
    /// The test column takes part in S (erratum E6); the compact construction cannot do that.
    pub test_inside: bool,
    /// The iteration scores ⟨x_t, T x_s⟩ and not ⟨T x_t, x_s⟩: right on paper, but round-off doubles with each layer.
    pub transposed: bool,
}

impl Misprints {
    /// Everything as printed.
    pub const ALL: Misprints = Misprints { equal_values: true, test_inside: true, transposed: true };

    /// Sign of the second head's values: ReLU(z) − ReLU(−z) = z makes a product, the printed ReLU(z) + ReLU(−z) = |z|.
    pub(super) fn second(self) -> f64 {
        if self.equal_values { EQUAL } else { OPPOSITE }
    }
}

/// The steps with which a variant converges on prompts: every one below this limit.
///
/// Newton needs α < 2/λ² with λ the largest eigenvalue of S over `pairs` pairs; gradient descent η < 2/λ; the causal variant
/// α < 2/λ² with λ the largest eigenvalue of a mean of xxᵀ over any prefix, which the largest ‖x‖² bounds.
pub fn step_limit(variant: Variant, prompts: &Prompts, pairs: usize) -> f64 {
    let d = prompts.dim();
    let of_prompt = |b: usize| {
        let xs = &prompts.prompt(b).0[..pairs * d];
        match variant {
            Variant::Causal => xs.chunks_exact(d).map(|x| norm(x).powi(2)).fold(0.0, f64::max),
            _ => Spectrum::of(&gram(xs, d), d).largest(),
        }
    };
    let largest = (0..prompts.count()).into_par_iter().map(of_prompt).reduce(|| 0.0, f64::max);
    match variant {
        Variant::Gd => 2.0 / largest,
        _ => 2.0 / (largest * largest),
    }
}

/// A label bound for prompts: at least four times the largest label, a power of two so that it scales without round-off.
pub fn label_bound(prompts: &Prompts) -> f64 {
    let largest = prompts.ys.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
    (4.0 * largest).max(1.0).log2().ceil().exp2()
}
