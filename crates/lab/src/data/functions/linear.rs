//! y = wᵀx with w ~ N(0, I), and its noisy, sparse and thresholded relatives.

use super::{DeviceFunction, Function, FunctionClass, FunctionRow, Properties};
use crate::data::seed::Draws;
use crate::error::{Error, Result};
use crate::linalg::dot;
use crate::registry::Setting;

/// Registry row.
pub const LINEAR: FunctionRow = FunctionRow {
    name: "linear",
    summary: "y = wᵀx, w ~ N(0, I)",
    cite: "Garg et al. 2022",
    settings: &[],
    properties: Properties { linear: true },
    build: |_| Ok(Box::new(Linear { noise: 0.0, sparsity: None, sign: false })),
};

/// Registry row.
pub const NOISY: FunctionRow = FunctionRow {
    name: "noisy-linear",
    summary: "y = wᵀx + N(0, σ²), w ~ N(0, I)",
    cite: "Garg et al. 2022",
    settings: &[Setting { name: "sigma", default: "0.1", help: "standard deviation of the noise" }],
    properties: Properties { linear: false },
    build: |settings| {
        let noise = settings.number("sigma", 0.0, 1e6)?;
        Ok(Box::new(Linear { noise, sparsity: None, sign: false }))
    },
};

/// Registry row.
pub const SPARSE: FunctionRow = FunctionRow {
    name: "sparse-linear",
    summary: "y = wᵀx, w ~ N(0, I) with all but a few coordinates set to zero",
    cite: "Garg et al. 2022",
    settings: &[Setting { name: "nonzero", default: "3", help: "coordinates that are kept, at most d" }],
    properties: Properties { linear: true },
    build: |settings| {
        let nonzero = settings.whole("nonzero", 1, 1024)?;
        Ok(Box::new(Linear { noise: 0.0, sparsity: Some(nonzero), sign: false }))
    },
};

/// Registry row.
pub const CLASSIFICATION: FunctionRow = FunctionRow {
    name: "linear-classification",
    summary: "y = sign(wᵀx), w ~ N(0, I)",
    cite: "Garg et al. 2022",
    settings: &[],
    properties: Properties { linear: false },
    build: |_| Ok(Box::new(Linear { noise: 0.0, sparsity: None, sign: true })),
};

struct Linear {
    noise: f64,
    sparsity: Option<usize>,
    sign: bool,
}

impl FunctionClass for Linear {
    fn draw(&self, dim: usize, draws: &mut Draws) -> Box<dyn Function> {
        let mut w = draws.normals(dim);
        if let Some(nonzero) = self.sparsity {
            // Partial Fisher–Yates: `order[..nonzero]` is a uniform subset.
            let mut order: Vec<usize> = (0..dim).collect();
            (0..nonzero).for_each(|i| order.swap(i, i + draws.below(dim - i)));
            order[nonzero..].iter().for_each(|&i| w[i] = 0.0);
        }
        if self.sign {
            return Box::new(move |x: &[f64]| if dot(&w, x) >= 0.0 { 1.0 } else { -1.0 });
        }
        Box::new(move |x: &[f64]| dot(&w, x))
    }

    fn noise(&self) -> f64 {
        self.noise
    }

    /// With w ~ N(0, I) the mean of w given the pairs is the shortest solution, or ridge regression with λ = σ².
    fn best_learner(&self) -> Option<String> {
        match (self.sparsity, self.sign) {
            (None, false) if self.noise > 0.0 => Some(format!("ridge:lambda={}", self.noise.powi(2))),
            (None, false) => Some("ols".into()),
            _ => None,
        }
    }

    fn check(&self, dim: usize) -> Result<()> {
        match self.sparsity {
            Some(nonzero) if nonzero > dim => Err(Error::BadData(format!(
                "function 'sparse-linear' with nonzero={nonzero} in {dim} dimensions; accepted: nonzero of at most {dim}"
            ))),
            _ => Ok(()),
        }
    }

    fn on_device(&self) -> Option<DeviceFunction> {
        Some(DeviceFunction::Linear { nonzero: self.sparsity, sign: self.sign })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::seed::Seed;

    #[test]
    fn sparse_weights_have_the_stated_support_and_every_coordinate_occurs() {
        let class = Linear { noise: 0.0, sparsity: Some(3), sign: false };
        let mut seen = [0; 20];
        for i in 0..400 {
            let f = class.draw(20, &mut Seed(1).at("f", i));
            let w: Vec<f64> = (0..20)
                .map(|j| {
                    let mut e = [0.0; 20];
                    e[j] = 1.0;
                    f.value(&e)
                })
                .collect();
            assert_eq!(w.iter().filter(|v| **v != 0.0).count(), 3);
            w.iter().enumerate().for_each(|(j, v)| seen[j] += usize::from(*v != 0.0));
        }
        assert!(seen.iter().all(|&n| n > 25), "{seen:?}"); // expected 60 each
    }
}
