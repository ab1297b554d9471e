//! x ~ N(0, Σ), Σ ill-conditioned with a random eigenbasis: half of the eigenvalues are κ, half are 1.

use super::{DeviceInputs, InputDistribution, Inputs, InputsRow};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::linalg::random_orthogonal;
use crate::registry::Setting;

/// Registry row.
pub const ROW: InputsRow = InputsRow {
    name: "skewed",
    summary: "x ~ N(0, Σ): d/2 eigenvalues κ and d/2 eigenvalues 1 in a random (Haar) eigenbasis",
    cite: "",
    settings: &[
        Setting { name: "kappa", default: "100", help: "condition number of Σ, at least 1" },
        Setting {
            name: "scale",
            default: "trace",
            help: "trace: eigenvalues scaled so that tr Σ = d (1.98 and 0.0198 at κ=100); raw: κ and 1",
        },
        Setting {
            name: "share",
            default: "1",
            help: "how many consecutive prompts share an eigenbasis; 1: a basis per sequence, 64: per batch of 64",
        },
    ],
    properties: (),
    build: |settings| {
        Ok(Box::new(Skewed {
            kappa: settings.number("kappa", 1.0, 1e12)?,
            trace_normalised: settings.choice("scale", &[("trace", true), ("raw", false)])?,
            share: settings.whole("share", 1, 1 << 30)? as u64,
        }))
    },
};

struct Skewed {
    kappa: f64,
    trace_normalised: bool,
    share: u64,
}

impl Skewed {
    /// Eigenvalues of Σ in dimension `d`, drawn in the space that is used: κ is what the config says for any d ≥ 2.
    fn eigenvalues(&self, d: usize) -> Vec<f64> {
        let large = d / 2;
        let raw: Vec<f64> = (0..d).map(|i| if i < large { self.kappa } else { 1.0 }).collect();
        let scale = if self.trace_normalised { d as f64 / raw.iter().sum::<f64>() } else { 1.0 };
        raw.into_iter().map(|v| v * scale).collect()
    }
}

impl Inputs for Skewed {
    fn distribution(&self, dim: usize, seed: Seed, stream: &str, index: u64) -> InputDistribution {
        let basis = random_orthogonal(dim, &mut seed.at(stream, index / self.share));
        let roots: Vec<f64> = self.eigenvalues(dim).iter().map(|v| v.sqrt()).collect();
        let mut root = basis;
        root.chunks_exact_mut(dim).for_each(|row| row.iter_mut().zip(&roots).for_each(|(v, r)| *v *= r));
        InputDistribution { root: Some(root) }
    }

    fn check(&self, dim: usize) -> Result<()> {
        if dim >= 2 || self.kappa == 1.0 {
            return Ok(());
        }
        Err(Error::BadData(format!(
            "inputs 'skewed' with kappa={} in {dim} dimension; accepted: at least 2 dimensions",
            self.kappa
        )))
    }

    fn on_device(&self) -> Option<DeviceInputs> {
        let &Skewed { kappa, trace_normalised, share } = self;
        Some(DeviceInputs::Skewed { kappa, trace_normalised, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{Spectrum, dot};

    #[test]
    fn covariance_has_the_stated_spectrum() {
        for (trace_normalised, high, low) in [(true, 1.980198, 0.01980198), (false, 100.0, 1.0)] {
            let skewed = Skewed { kappa: 100.0, trace_normalised, share: 1 };
            let d = 20;
            let root = skewed.distribution(d, Seed(1), "s", 4).root.unwrap();
            let mut sigma = vec![0.0; d * d];
            for i in 0..d {
                for j in 0..d {
                    sigma[i * d + j] = dot(&root[i * d..(i + 1) * d], &root[j * d..(j + 1) * d]);
                }
            }
            let spectrum = Spectrum::of(&sigma, d);
            assert!(spectrum.values[..10].iter().all(|v| (v - high).abs() < 1e-6));
            assert!(spectrum.values[10..].iter().all(|v| (v - low).abs() < 1e-6));
        }
    }

    #[test]
    fn bases_are_shared_as_asked() {
        let root = |share, index| {
            Skewed { kappa: 10.0, trace_normalised: true, share }
                .distribution(4, Seed(1), "s", index)
                .root
                .unwrap()
        };
        assert_ne!(root(1, 0), root(1, 1));
        assert_eq!(root(64, 0), root(64, 63));
        assert_ne!(root(64, 63), root(64, 64));
    }
}
