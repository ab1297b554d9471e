//! A network, its data, and the algorithms that it is held against: what the paper's repeats have in common.

use std::sync::Arc;

use super::lab::{Data, Lab};
use super::{DIM, POINTS};
use crate::compare::recorded_weights::INDUCED;
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::learners::Trajectory;
use crate::learners::steps::Steps;
use crate::networks::models;

/// An algorithm and the steps of it that are searched.
#[derive(Clone, Copy)]
pub struct Baseline {
    /// In claims and legends.
    pub label: &'static str,
    /// Algorithm with its settings.
    pub solver: &'static str,
    /// Its steps.
    pub steps: &'static str,
    /// The steps of the authors' code, where they differ.
    pub authors: &'static str,
    /// The settings of the authors' code, where they differ.
    pub authors_solver: &'static str,
    /// In legends, with those settings.
    pub authors_label: &'static str,
}

impl Baseline {
    /// One whose steps and settings the authors' code has too, or that it does not have.
    pub const fn new(label: &'static str, solver: &'static str, steps: &'static str) -> Baseline {
        Baseline { label, solver, steps, authors: steps, authors_solver: solver, authors_label: label }
    }

    /// The same with the grid of the authors' code.
    const fn authors(self, authors: &'static str) -> Baseline {
        Baseline { authors, ..self }
    }

    /// The same with the settings of the authors' code, and a label that says so.
    const fn authors_solver(self, authors_solver: &'static str, authors_label: &'static str) -> Baseline {
        Baseline { authors_solver, authors_label, ..self }
    }

    /// The same with the authors' other grid for gradient descent, which doubles: their figures in log scale.
    pub const fn doubling(self) -> Baseline {
        Baseline { authors: "pow2:0..=12", ..self }
    }

    /// As the authors' code has it.
    pub fn by_authors(self) -> Baseline {
        Baseline { label: self.authors_label, solver: self.authors_solver, steps: self.authors, ..self }
    }

    /// Its steps.
    pub fn steps(&self) -> Result<Steps> {
        Steps::parse(self.steps)
    }
}

/// Newton's steps in the authors' code.
const AUTHORS_NEWTON: &str = "1..=23";
/// Steps of gradient descent in the authors' code; see also [`Baseline::doubling`].
const AUTHORS_GD: &str = "1,50..=1300/50";

/// One network among algorithms.
pub struct Setting {
    /// Its name: `r1`.
    pub network: &'static str,
    /// In legends and on axes.
    pub who: &'static str,
    /// In captions.
    pub words: &'static str,
    /// Its prompts.
    pub data: Data<'static>,
    /// The inputs of the authors' code, where they differ.
    pub authors_inputs: Option<&'static str>,
    /// The layers to which rates are fitted: those of the paper.
    pub layers: (u64, u64),
    /// Prompts for induced weights, which take T answers per prefix.
    pub weight_prompts: usize,
    /// What Newton and gradient descent converge to.
    pub exact: Baseline,
    /// Newton's iteration.
    pub newton: Baseline,
    /// Gradient descent.
    pub gd: Baseline,
    /// BFGS; steps from 1 down to a decrease, as quasi-Newton codes do.
    pub bfgs: Baseline,
    /// BFGS of limited memory.
    pub lbfgs: Baseline,
}

/// Two steps per doubling, so that a rate can be told from a grid of powers.
pub const HALF_OCTAVES: &str =
    "0..=4,6,8,11,16,23,32,45,64,91,128,181,256,362,512,724,1024,1448,2048,2896,4096,5793,8192,11585,16384";

/// R1: the paper's main network.
pub const ISOTROPIC: Setting = Setting {
    network: "r1",
    who: "Transformer",
    words: "isotropic inputs, d=20",
    data: Data { function: "linear", inputs: "gaussian", dim: DIM, points: POINTS },
    authors_inputs: None,
    layers: (3, 9),
    weight_prompts: INDUCED,
    exact: Baseline::new("OLS", "ols", "1"),
    newton: Baseline::new("Newton", "newton", "0..=30").authors(AUTHORS_NEWTON),
    gd: Baseline::new("GD", "gd", HALF_OCTAVES).authors(AUTHORS_GD),
    bfgs: Baseline::new("BFGS (Armijo)", "bfgs:line_search=armijo", "0..=50"),
    lbfgs: Baseline::new("L-BFGS (m=5, Armijo)", "lbfgs:line_search=armijo", "0..=60"),
};

/// R2: ill-conditioned inputs.
pub const SKEWED: Setting = Setting {
    network: "r2",
    words: "ill-conditioned inputs (κ=100), d=20",
    data: Data { inputs: "skewed:kappa=100", ..ISOTROPIC.data },
    authors_inputs: Some("skewed:kappa=100,share=64"), // a basis per batch
    gd: Baseline::new("GD (η=0.005)", "gd:eta=0.005", HALF_OCTAVES)
        .authors(AUTHORS_GD)
        .authors_solver("gd", "GD (η=0.01)"), // which diverges on some prompts (E7)
    bfgs: Baseline::new("BFGS (Armijo)", "bfgs:line_search=armijo", "0..=80"),
    lbfgs: Baseline::new(
        "L-BFGS (m=5, Armijo)",
        "lbfgs:line_search=armijo",
        "0..=40,42..=80/2,85..=150/5,160..=300/10",
    ),
    ..ISOTROPIC
};

/// R3: noisy labels; the algorithms act on S + λI, λ = σ².
pub const NOISY: Setting = Setting {
    network: "r3",
    words: "noisy labels (σ=0.1), algorithms on S + λI with λ=σ², d=20",
    data: Data { function: "noisy-linear:sigma=0.1", ..ISOTROPIC.data },
    exact: Baseline::new("ridge", "ridge:lambda=0.01", "1"),
    newton: Baseline::new("Newton (λ=0.01)", "newton:lambda=0.01", "0..=30").authors(AUTHORS_NEWTON),
    gd: Baseline::new("GD (λ=0.01)", "gd:lambda=0.01", HALF_OCTAVES).authors(AUTHORS_GD),
    ..ISOTROPIC
};

/// R4: one head per layer.
pub const ONE_HEAD: Setting = Setting {
    network: "r4",
    who: "Transformer (1 head)",
    words: "one head per layer, isotropic inputs, d=20",
    ..ISOTROPIC
};

/// R5: 24 layers.
pub const DEEP: Setting = Setting {
    network: "r5",
    who: "24-layer Transformer",
    words: "24 layers, isotropic inputs, d=20",
    layers: (6, 18), // the paper's 3 to 9 of 12, in proportion
    ..ISOTROPIC
};

/// R7: the LSTM.
pub const LSTM: Setting =
    Setting { network: "r7", who: "LSTM", words: "LSTM, isotropic inputs, d=20", ..ISOTROPIC };

/// The miniature: small, but the same question.
pub const MINIATURE: Setting = Setting {
    network: models::MINIATURE,
    who: "Miniature",
    words: "6 layers, 64 wide, isotropic inputs, d=5",
    data: Data { dim: 5, points: 16, ..ISOTROPIC.data },
    layers: (1, 6), // too few to leave any out
    ..ISOTROPIC
};

/// Online gradient descent, which has one pass and no further steps.
pub const ONLINE: Baseline = Baseline::new("OGD", "ogd", "1").authors_solver("ogd:start=uniform", "OGD");

/// The rule for the layers to which a rate is fitted, for captions.
pub const MIDDLE_RULE: &str = "Rates are fitted to the middle layers: from the first whose mean error after all pairs is below \
     Newton's after two iterations, to the last whose mean error is at least twice the last layer's. The rule looks \
     at errors alone, never at the matches.";

impl Setting {
    /// What was measured on how many prompts, for captions: `isotropic inputs, d=20, 1280 prompts`.
    pub fn about(&self, prompts: usize) -> String {
        format!("{}, {prompts} prompts", self.words)
    }

    /// Its prompts.
    pub fn prompts(&self, lab: &Lab) -> Result<Arc<Prompts>> {
        lab.sample(&self.data)
    }

    /// What its network says at every layer.
    pub fn layers(&self, lab: &Lab) -> Result<Arc<Trajectory>> {
        lab.path(self.network, &self.data, &lab.layers(self.network)?)
    }

    /// What a baseline says at every step.
    pub fn path(&self, lab: &Lab, baseline: Baseline) -> Result<Arc<Trajectory>> {
        lab.path(baseline.solver, &self.data, &baseline.steps()?)
    }

    /// The distribution of its prompts in the authors' code.
    fn authors_data(&self) -> Data<'static> {
        Data { inputs: self.authors_inputs.unwrap_or(self.data.inputs), ..self.data }
    }

    /// As many prompts as the authors evaluate, as they draw them.
    pub fn authors_prompts(&self, lab: &Lab) -> Result<Arc<Prompts>> {
        lab.authors_sample(&self.authors_data())
    }

    /// What its network says to [`Setting::authors_prompts`] at every layer.
    pub fn authors_layers(&self, lab: &Lab) -> Result<Arc<Trajectory>> {
        if self.authors_inputs.is_some() {
            return lab.authors_path(self.network, &self.authors_data(), &lab.layers(self.network)?);
        }
        // the first of all prompts, and what the network says to all is needed anyway
        let Trajectory { learner, unit, steps, values, .. } = &*self.layers(lab)?;
        let prompts = self.authors_prompts(lab)?;
        let first = values.slice(ndarray::s![.., ..prompts.count(), ..]).to_owned();
        Ok(Arc::new(Trajectory::new(learner.clone(), *unit, steps.clone(), first, &prompts)?))
    }

    /// What a baseline as in the authors' code says to [`Setting::authors_prompts`] at every step.
    pub fn authors_path(&self, lab: &Lab, baseline: Baseline) -> Result<Arc<Trajectory>> {
        let baseline = baseline.by_authors();
        lab.authors_path(baseline.solver, &self.authors_data(), &baseline.steps()?)
    }

    /// The middle layers by [`MIDDLE_RULE`]; none when the network never begins.
    pub fn middle(&self, lab: &Lab) -> Result<Option<(u64, u64)>> {
        let (network, newton) = (self.layers(lab)?, self.path(lab, self.newton)?);
        Ok(middle_of(&network, &newton, &*self.prompts(lab)?))
    }
}

/// The middle layers from trajectories: layers of a network, and Newton's steps with the second among them.
pub fn middle_of(network: &Trajectory, newton: &Trajectory, prompts: &Prompts) -> Option<(u64, u64)> {
    let total = |errors: Vec<f64>| errors.iter().sum::<f64>();
    let last_position = prompts.points() - 1;
    let error = |layer: u64| total(network.squared_errors(prompts, layer, last_position));
    let begun = total(newton.squared_errors(prompts, 2, last_position));
    let layers = network.steps.as_slice();
    let end = 2.0 * error(network.steps.last());
    let first = layers.iter().copied().find(|&l| error(l) < begun);
    let last = layers.iter().rev().copied().find(|&l| error(l) >= end);
    first.zip(last).filter(|(first, last)| first <= last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::seed::Seed;
    use crate::linalg::Spectrum;

    #[test]
    fn the_authors_prompts_are_the_first_of_ours_but_for_a_basis_per_batch() {
        let lab = Lab::new(Seed(0), 400);
        let (ours, theirs) = (ISOTROPIC.prompts(&lab).unwrap(), ISOTROPIC.authors_prompts(&lab).unwrap());
        assert_eq!(theirs.xs, ours.part(0, 320).xs);
        // of all inputs of a batch together: κ where they share a basis, hardly any where each prompt has its own
        let conditions = |prompts: &Prompts| {
            let inputs = prompts.part(0, 64).xs.into_shape_with_order((64 * POINTS, DIM)).expect("as many");
            let spectrum = Spectrum::of(inputs.t().dot(&inputs).as_slice().expect("standard layout"), DIM);
            spectrum.values[0] / spectrum.values[DIM - 1]
        };
        assert!(conditions(&SKEWED.prompts(&lab).unwrap()) < 3.0);
        assert!(conditions(&SKEWED.authors_prompts(&lab).unwrap()) > 50.0);
    }
}
