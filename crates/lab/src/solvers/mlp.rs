//! A two-layer network fitted to the pairs read: what gradient descent means on the two-layer tasks.

use engine::cpu::gemm::general::{self, Mat};

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

/// Where the parts of the flat parameter vector begin: W `[d,h]` and v `[h]`, the first layer, then a `[h]` and b.
#[derive(Clone, Copy)]
struct Layout {
    d: usize,
    h: usize,
}

impl Layout {
    fn count(self) -> usize {
        (self.d + 1) * self.h + self.h + 1
    }

    /// (W above v, a, b)
    fn split(self, flat: &[f64]) -> (&[f64], &[f64], &[f64]) {
        let (first, rest) = flat.split_at((self.d + 1) * self.h);
        let (a, b) = rest.split_at(self.h);
        (first, a, b)
    }

    fn split_mut(self, flat: &mut [f64]) -> (&mut [f64], &mut [f64], &mut [f64]) {
        let (first, rest) = flat.split_at_mut((self.d + 1) * self.h);
        let (a, b) = rest.split_at_mut(self.h);
        (first, a, b)
    }
}

impl MlpGd {
    fn start(&self, layout: Layout, prompt: usize) -> Vec<f64> {
        let mut draws = self.seed.at("mlp-gd/start", prompt as u64);
        let mut flat = vec![0.0; layout.count()];
        let (first, a, _) = layout.split_mut(&mut flat);
        let (w, _) = first.split_at_mut(layout.d * layout.h);
        w.iter_mut().for_each(|w| *w = draws.normal() / (layout.d as f64).sqrt());
        a.iter_mut().for_each(|a| *a = draws.normal() / (layout.h as f64).sqrt());
        flat
    }

    /// act(z) in place, for a row of units.
    #[inline(always)]
    fn activate(&self, units: &mut [f64]) {
        if self.relu {
            units.iter_mut().for_each(|z| *z = z.max(0.0));
        } else {
            units.iter_mut().for_each(|z| *z = tanh(*z));
        }
    }

    /// Units act(Wx + v) `[rows, h]` of inputs.
    fn units(&self, layout: Layout, flat: &[f64], inputs: &Inputs, units: &mut [f64]) {
        let (first, ..) = layout.split(flat);
        general::add_product(
            units,
            layout.h,
            0.0,
            inputs.matrix(),
            Mat::dense(first, layout.d + 1, layout.h),
            1.0,
        );
        vectorised(
            #[inline(always)]
            || self.activate(units),
        );
    }

    /// ∇L over all pairs read; `units` is room for `[t, h]`.
    fn gradient(
        &self,
        layout: Layout,
        (inputs, ys): (&Inputs, &[f64]),
        flat: &[f64],
        units: &mut [f64],
        gradient: &mut [f64],
    ) {
        self.units(layout, flat, inputs, units);
        let (_, a, b) = layout.split(flat);
        let (dfirst, da, db) = layout.split_mut(gradient);
        vectorised(
            #[inline(always)]
            || {
                da.fill(0.0);
                db[0] = 0.0;
                for (row, y) in units.chunks_exact_mut(layout.h).zip(ys) {
                    let error = (dot(a, row) + b[0] - y) / ys.len() as f64;
                    axpy(error, row, da);
                    db[0] += error;
                    for (unit, a) in row.iter_mut().zip(a) {
                        let slope =
                            if self.relu { f64::from(u8::from(*unit > 0.0)) } else { 1.0 - *unit * *unit };
                        *unit = error * a * slope;
                    }
                }
            },
        );
        // what reached the units, back through the first layer
        let back = Mat::dense(units, ys.len(), layout.h);
        general::add_product(dfirst, layout.h, 0.0, inputs.matrix().t(), back, 1.0);
    }
}

/// Inputs with a 1 behind each `[rows, d + 1]`, so that W and v are one matrix.
struct Inputs {
    values: Vec<f64>,
    dim: usize,
}

impl Inputs {
    fn new(xs: &[f64], dim: usize) -> Inputs {
        Inputs { values: xs.chunks_exact(dim).flat_map(|x| x.iter().copied().chain([1.0])).collect(), dim }
    }

    fn rows(&self) -> usize {
        self.values.len() / (self.dim + 1)
    }

    fn matrix(&self) -> Mat<'_, f64> {
        Mat::dense(&self.values, self.rows(), self.dim + 1)
    }
}

impl InContext for MlpGd {
    fn answer(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]) {
        let layout = Layout { d: problem.dim, h: self.hidden };
        let (read, asked) = (Inputs::new(problem.xs, problem.dim), Inputs::new(queries, problem.dim));
        let mut flat = self.start(layout, problem.prompt);
        let mut gradient = vec![0.0; flat.len()];
        let mut units = vec![0.0; read.rows() * self.hidden];
        let mut units_asked = vec![0.0; asked.rows() * self.hidden];
        let mut adam = Adam::new(flat.len());
        let mut done = 0;
        for (&step, answers) in steps.as_slice().iter().zip(answers.chunks_exact_mut(asked.rows().max(1))) {
            let first_step = if problem.read() == 0 { step } else { done };
            for _ in first_step..step {
                self.gradient(layout, (&read, problem.ys), &flat, &mut units, &mut gradient);
                vectorised(
                    #[inline(always)]
                    || match self.adam {
                        true => adam.step(self.eta, &gradient, &mut flat),
                        false => axpy(-self.eta, &gradient, &mut flat),
                    },
                );
            }
            done = step;
            self.units(layout, &flat, &asked, &mut units_asked);
            let (_, a, b) = layout.split(&flat);
            for (answer, units) in answers.iter_mut().zip(units_asked.chunks_exact(self.hidden)) {
                *answer = dot(a, units) + b[0];
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
            let inputs = Inputs::new(&xs, 3);
            let mut flat = mlp.start(layout, 0);
            flat.iter_mut().for_each(|p| *p += 0.1);
            let (mut units, mut gradient) = (vec![0.0; 20], vec![0.0; flat.len()]);
            mlp.gradient(layout, (&inputs, &ys), &flat, &mut units, &mut gradient);
            // by the formula, unit by unit
            let loss = |flat: &[f64]| -> f64 {
                let (w, v, a, b) = (&flat[..12], &flat[12..16], &flat[16..20], flat[20]);
                let unit = |j: usize, x: &[f64]| {
                    let z = v[j] + (0..3).map(|i| w[4 * i + j] * x[i]).sum::<f64>();
                    if relu { z.max(0.0) } else { z.tanh() }
                };
                let output = |x: &[f64]| b + (0..4).map(|j| a[j] * unit(j, x)).sum::<f64>();
                xs.chunks(3).zip(&ys).map(|(x, y)| (output(x) - y).powi(2)).sum::<f64>() / 10.0
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
