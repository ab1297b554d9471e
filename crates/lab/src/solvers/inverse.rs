//! What iterations for the inverse of S share: their start M₀ = αS or M₀ = ηI, and the filter of a residual that is
//! raised to a power at each step.

use super::iterative::{Filter, pointwise};
use super::problem::Problem;
use crate::error::Result;
use crate::linalg::{frobenius_of_square, norm};
use crate::registry::{Setting, Settings};

/// The setting that chooses the start.
pub(super) const START: Setting = Setting {
    name: "start",
    default: "gram",
    help: "'gram' for M = αS, 'identity' for M = ηI; from ηI, k steps of Newton are 2^k steps of gradient descent",
};

/// The size of a start αS.
pub(super) const ALPHA: Setting = Setting {
    name: "alpha",
    default: "fro",
    help: "start M = αS: 'fro' for 1/‖SSᵀ‖_F, 'spectral' for 1/‖SSᵀ‖₂, 'printed' for the paper's 2/‖SSᵀ‖₂ \
           (on the boundary of divergence, erratum E1), or a number",
};

/// The size of a start ηI.
pub(super) const ETA: Setting = Setting {
    name: "eta",
    default: "fro",
    help: "start M = ηI: 'fro' for 1/‖S‖_F, 'spectral' for 1/λmax, or a number",
};

/// M₀, by which matrix and of what size.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// αS. The residual 1 − αλ² is small in size for 0 < α < 2/λmax².
    Gram(Size),
    /// ηI. The residual 1 − ηλ is small in size for 0 < η < 2/λmax.
    Identity(Size),
}

/// Policies for α and η: one over the Frobenius norm, a number over the spectral norm, or a number.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Frobenius,
    Spectral(f64),
    Fixed(f64),
}

impl Start {
    /// Reads `start`, `alpha` and `eta`; refuses a size that the start does not use.
    pub fn read(settings: &Settings) -> Result<Start> {
        let printed = [("printed", Size::Spectral(2.0))];
        let (alpha, eta) = (Size::read(settings, "alpha", &printed)?, Size::read(settings, "eta", &[])?);
        let unused = |name: &str, start: &str| match settings.text(name) {
            "fro" => Ok(()),
            _ => Err(settings.reject(name, format!("another value than fro only with start={start}"))),
        };
        if settings.choice("start", &[("gram", false), ("identity", true)])? {
            unused("alpha", "gram")?;
            Ok(Start::Identity(eta))
        } else {
            unused("eta", "identity")?;
            Ok(Start::Gram(alpha))
        }
    }

    /// α or η for a problem; 0 when nothing has been read.
    fn size(self, problem: &Problem) -> f64 {
        let largest = || problem.eigenvalues().largest();
        let size = match self {
            Start::Gram(Size::Frobenius) => 1.0 / frobenius_of_square(problem.s, problem.dim),
            Start::Gram(Size::Spectral(over)) => over * largest().powi(-2),
            Start::Identity(Size::Frobenius) => 1.0 / norm(problem.s),
            Start::Identity(Size::Spectral(over)) => over / largest(),
            Start::Gram(Size::Fixed(size)) | Start::Identity(Size::Fixed(size)) => size,
        };
        if size.is_finite() { size } else { 0.0 }
    }

    /// M₀ `[d,d]`.
    pub fn matrix(self, problem: &Problem) -> Vec<f64> {
        let size = self.size(problem);
        match self {
            Start::Gram(_) => problem.s.iter().map(|v| size * v).collect(),
            Start::Identity(_) => scaled_identity(size, problem.dim),
        }
    }

    /// What M₀ is on an eigen-direction of S: αλ or η.
    pub fn on_eigenvalues(self, problem: &Problem) -> impl Fn(f64) -> f64 + use<> {
        let size = self.size(problem);
        move |value| match self {
            Start::Gram(_) => size * value,
            Start::Identity(_) => size,
        }
    }

    /// (1 − (1−λM₀(λ))^{order^k}) / λ: what k steps make of the start if each raises the residual to the power `order`.
    pub fn residual_to_the(self, order: usize, problem: &Problem) -> Filter {
        let start = self.on_eigenvalues(problem);
        let odd = order % 2 == 1;
        pointwise(move |value, k| {
            let z = start(value) * value;
            // more steps than these change nothing, and the power stays finite
            let power = (order as f64).powi(k.min(if order == 2 { 1000 } else { 300 }) as i32);
            if z * power < 1e-8 {
                start(value) * power // the limit λ → 0, to first order
            } else if z < 1.0 {
                -(power * (-z).ln_1p()).exp_m1() / value
            } else {
                // powf loses the sign of a negative base; odd powers keep it
                let sign = if k == 0 || odd { (1.0 - z).signum() } else { 1.0 };
                (1.0 - (1.0 - z).abs().powf(power) * sign) / value
            }
        })
    }
}

impl Size {
    /// Reads the setting `name`: the words that every start has, `more`, or a number.
    fn read(settings: &Settings, name: &str, more: &[(&str, Size)]) -> Result<Size> {
        let words = [("fro", Size::Frobenius), ("spectral", Size::Spectral(1.0))];
        let words = || words.iter().chain(more);
        if let Some((_, size)) = words().find(|(word, _)| *word == settings.text(name)) {
            return Ok(*size);
        }
        match settings.text(name).parse::<f64>() {
            Ok(size) if size.is_finite() && size > 0.0 => Ok(Size::Fixed(size)),
            _ => {
                let words: Vec<&str> = words().map(|(word, _)| *word).collect();
                Err(settings.reject(name, format!("{}, a number above 0", words.join(", "))))
            }
        }
    }
}

/// aI `[d,d]`.
pub(super) fn scaled_identity(a: f64, d: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; d * d];
    matrix.iter_mut().step_by(d + 1).for_each(|v| *v = a);
    matrix
}
