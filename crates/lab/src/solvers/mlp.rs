//! A two-layer network fitted to the pairs read: what gradient descent means on the two-layer tasks.

use super::classical::{Classical, InContext};
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::adam::Adam;
use crate::data::seed::Seed;
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot, vectorised};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "mlp-gd",
    summary: "full-batch GD or Adam on a two-layer network aᵀ act(Wx+v)+b fitted to the pairs read",
    cite: "Garg et al. 2022; Fu et al. 2024",
    settings: &[
        Setting { name: "hidden", default: "100", help: "hidden units" },
        Setting { name: "activation", default: "relu", help: "relu or tanh" },
        Setting { name: "optimizer", default: "gd", help: "gd, or adam (.9, .999, 1e-8)" },
        Setting { name: "eta", default: "0.01", help: "step size on the loss ‖y−f(X)‖²/2t" },
        Setting {
            name: "seed",
            default: "0",
            help: "seed of the first weights, N(0, 1/fan-in), drawn per prompt",
        },
    ],
    properties: Properties {
        rotation_equivariant: false,
        linear: false,
        ..Properties::of("two-layer network")
    },
    build: |settings| {
        let algorithm = MlpGd {
            hidden: settings.whole("hidden", 1, 10_000)?,
            relu: settings.choice("activation", &[("relu", true), ("tanh", false)])?,
            adam: settings.choice("optimizer", &[("gd", false), ("adam", true)])?,
            eta: settings.number("eta", 1e-300, 1e6)?,
            seed: Seed(settings.whole("seed", 0, usize::MAX)? as u64),
        };
        Ok(Classical::iterative(settings, 0.0, Steps::powers_of_two(0, 8), algorithm))
    },
};

struct MlpGd {
    hidden: usize,
    relu: bool,
    adam: bool,
    eta: f64,
    seed: Seed,
}

/// Where the parts of the flat parameter vector begin: W `[d,h]`, v `[h]`, a `[h]`, b.
#[derive(Clone, Copy)]
struct Layout {
    d: usize,
    h: usize,
}

impl Layout {
    fn count(self) -> usize {
        self.d * self.h + 2 * self.h + 1
    }

    /// (W, v, a, b)
    fn split(self, flat: &[f64]) -> (&[f64], &[f64], &[f64], &[f64]) {
        let (w, rest) = flat.split_at(self.d * self.h);
        let (v, rest) = rest.split_at(self.h);
        let (a, b) = rest.split_at(self.h);
        (w, v, a, b)
    }

    fn split_mut(self, flat: &mut [f64]) -> (&mut [f64], &mut [f64], &mut [f64], &mut [f64]) {
        let (w, rest) = flat.split_at_mut(self.d * self.h);
        let (v, rest) = rest.split_at_mut(self.h);
        let (a, b) = rest.split_at_mut(self.h);
        (w, v, a, b)
    }
}

impl MlpGd {
    fn start(&self, layout: Layout, prompt: usize) -> Vec<f64> {
        let mut draws = self.seed.at("mlp-gd/start", prompt as u64);
        let mut flat = vec![0.0; layout.count()];
        let (w, _, a, _) = layout.split_mut(&mut flat);
        w.iter_mut().for_each(|w| *w = draws.normal() / (layout.d as f64).sqrt());
        a.iter_mut().for_each(|a| *a = draws.normal() / (layout.h as f64).sqrt());
        flat
    }

    /// Activations `[h]` of one input, and the output.
    #[inline(always)]
    fn forward(&self, layout: Layout, flat: &[f64], x: &[f64], units: &mut [f64]) -> f64 {
        let (w, v, a, b) = layout.split(flat);
        units.copy_from_slice(v);
        x.iter().zip(w.chunks_exact(layout.h)).for_each(|(&x, row)| axpy(x, row, units));
        if self.relu {
            units.iter_mut().for_each(|z| *z = z.max(0.0));
        } else {
            units.iter_mut().for_each(|z| *z = tanh(*z));
        }
        dot(a, units) + b[0]
    }

    /// ∇L over all pairs read.
    #[inline(always)]
    fn gradient(
        &self,
        layout: Layout,
        problem: &Problem,
        flat: &[f64],
        units: &mut [f64],
        gradient: &mut [f64],
    ) {
        gradient.fill(0.0);
        let (_, _, a, _) = layout.split(flat);
        for (x, y) in problem.xs.chunks_exact(layout.d).zip(problem.ys) {
            let error = (self.forward(layout, flat, x, units) - y) / problem.read() as f64;
            let (dw, dv, da, db) = layout.split_mut(gradient);
            axpy(error, units, da);
            db[0] += error;
            for (unit, a) in units.iter_mut().zip(a) {
                let slope = if self.relu { f64::from(u8::from(*unit > 0.0)) } else { 1.0 - *unit * *unit };
                *unit = error * a * slope;
            }
            axpy(1.0, units, dv);
            x.iter().zip(dw.chunks_exact_mut(layout.h)).for_each(|(&x, row)| axpy(x, units, row));
        }
    }
}

impl InContext for MlpGd {
    fn answer(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]) {
        let layout = Layout { d: problem.dim, h: self.hidden };
        let asked = queries.len() / problem.dim;
        let mut flat = self.start(layout, problem.prompt);
        let mut units = vec![0.0; self.hidden];
        let mut gradient = vec![0.0; flat.len()];
        let mut adam = Adam::new(flat.len());
        let mut done = 0;
        for (s, &step) in steps.as_slice().iter().enumerate() {
            let first_step = if problem.read() == 0 { step } else { done };
            for _ in first_step..step {
                vectorised(
                    #[inline(always)]
                    || {
                        self.gradient(layout, problem, &flat, &mut units, &mut gradient);
                        if self.adam {
                            adam.step(self.eta, &gradient, &mut flat);
                        } else {
                            axpy(-self.eta, &gradient, &mut flat);
                        }
                    },
                );
            }
            done = step;
            for (answer, x) in answers[s * asked..].iter_mut().zip(queries.chunks_exact(problem.dim)) {
                *answer = self.forward(layout, &flat, x, &mut units);
            }
        }
    }
}

/// 1/n! from n = 13 down to 0.
const FACTORIALS: [f64; 14] = {
    let mut all = [1.0; 14];
    let (mut n, mut inverse) = (1, 1.0);
    while n < 14 {
        inverse /= n as f64;
        all[13 - n] = inverse;
        n += 1;
    }
    all
};

/// tanh z = 1 − 2/(e²ᶻ + 1) to round-off, without branches, so that a loop of it is vectorised: the library's takes three times as long as
/// all the rest of a step.
#[inline(always)]
fn tanh(z: f64) -> f64 {
    /// Added and taken away again it rounds to a whole number, which is left in the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    let x = (2.0 * z).clamp(-60.0, 60.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN2[0]) - k * LN2[1];
    // Σ rⁿ/n! for |r| ≤ ln 2 / 2, with 1/n! from n = 13 down
    let sum = FACTORIALS.iter().fold(0.0, |sum, &inverse| sum * r + inverse);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    1.0 - 2.0 / (sum * power + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_tanh() {
        for i in -4000..=4000 {
            let z = f64::from(i) / 100.0 + 1e-3;
            assert!((tanh(z) - z.tanh()).abs() < 4e-16, "{z}: {} {}", tanh(z), z.tanh());
        }
        assert!(tanh(f64::NAN).is_nan());
    }

    #[test]
    fn gradient_is_the_finite_difference_of_the_loss() {
        let layout = Layout { d: 3, h: 4 };
        let mut draws = Seed(5).at("mlp", 0);
        let (xs, ys) = (draws.normals(15), draws.normals(5));
        for relu in [true, false] {
            let mlp = MlpGd { hidden: 4, relu, adam: false, eta: 0.1, seed: Seed(1) };
            let problem = Problem { prompt: 0, xs: &xs, ys: &ys, dim: 3, s: &[], c: &[] };
            let mut flat = mlp.start(layout, 0);
            flat.iter_mut().for_each(|p| *p += 0.1);
            let (mut units, mut gradient) = (vec![0.0; 4], vec![0.0; flat.len()]);
            mlp.gradient(layout, &problem, &flat, &mut units, &mut gradient);
            let mut loss = |flat: &[f64]| -> f64 {
                let pairs = xs.chunks(3).zip(&ys);
                pairs.map(|(x, y)| (mlp.forward(layout, flat, x, &mut units) - y).powi(2)).sum::<f64>() / 10.0
            };
            for i in 0..flat.len() {
                let (h, kept) = (1e-6, flat[i]);
                flat[i] = kept + h;
                let up = loss(&flat);
                flat[i] = kept - h;
                let down = loss(&flat);
                flat[i] = kept;
                assert!(((up - down) / (2.0 * h) - gradient[i]).abs() < 1e-7, "relu={relu} parameter {i}");
            }
        }
    }
}
