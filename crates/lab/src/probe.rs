//! A network as a learner: every layer gets a read-out of its own, so that layers are steps.
//!
//! The body is frozen; an affine read-out per layer is fitted by least squares on the hidden states at the x tokens,
//! from one streamed pass of float64 Gram matrices. Layers 1…L−1 are read from the raw residual stream, layer L after
//! the final LayerNorm, as in the authors' code.

use engine::networks::Mode;
use engine::runner::Runner;
use ndarray::{Array3, Array4};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::learner::{Learner, Trajectory, Unit};
use crate::linalg::{axpy, dot, solve_positive_definite, vectorised};
use crate::networks::{Weights, tokens};
use crate::prompts::{Prompts, Questions, Task};
use crate::registry::Id;
use crate::seed::Seed;
use crate::steps::Steps;

/// Prompts run through the network at a time.
const CHUNK: usize = 64;

/// A network with a read-out per layer.
pub struct Probed {
    id: Id,
    weights: Weights,
    /// Per layer 0…L: width weights and a bias.
    read_outs: Vec<Vec<f64>>,
}

/// Sums for the read-out of one layer: `[e+1, e+1]` upper triangle and `[e+1]`.
struct Gram {
    matrix: Vec<f64>,
    target: Vec<f64>,
}

impl Gram {
    fn new(size: usize) -> Gram {
        Gram { matrix: vec![0.0; size * size], target: vec![0.0; size] }
    }

    fn add(&mut self, state: &[f64], label: f64) {
        let size = state.len();
        vectorised(
            #[inline(always)]
            || {
                for (i, row) in self.matrix.chunks_exact_mut(size).enumerate() {
                    axpy(state[i], &state[i..], &mut row[i..]);
                }
                axpy(label, state, &mut self.target);
            },
        );
    }

    /// The least-squares read-out; a ridge of 10⁻¹⁰ of the mean square keeps dead directions from exploding.
    fn solve(mut self) -> Option<Vec<f64>> {
        let size = self.target.len();
        let trace: f64 = (0..size).map(|i| self.matrix[i * size + i]).sum();
        for i in 0..size {
            self.matrix[i * size + i] += 1e-10 * trace / size as f64;
            for j in 0..i {
                self.matrix[i * size + j] = self.matrix[j * size + i];
            }
        }
        solve_positive_definite(&self.matrix, &self.target)
    }
}

impl Probed {
    /// Fits a read-out for every layer on `count` prompts of a task.
    pub fn fit(name: String, weights: Weights, task: &Task, seed: Seed, count: usize) -> Result<Probed> {
        let layers = weights.network.layers();
        let size = weights.network.width() + 1;
        let mut grams: Vec<Gram> = (0..=layers).map(|_| Gram::new(size)).collect();
        let mut runner = weights.network.runner(CHUNK, 2 * task.points, Mode::Infer)?;
        for first in (0..count.next_multiple_of(CHUNK)).step_by(CHUNK) {
            let prompts = task.sample(seed, "probe", first as u64, CHUNK);
            runner.set_tokens(&tokens(&prompts, weights.network.features()))?;
            runner.forward(&weights.params);
            grams.par_iter_mut().enumerate().for_each(|(layer, gram)| {
                let mut state = vec![1.0; size];
                for (hidden, label) in x_states(&runner, layer, layers, size - 1).zip(prompts.ys.iter()) {
                    state.iter_mut().zip(hidden).for_each(|(s, h)| *s = f64::from(*h));
                    gram.add(&state, *label);
                }
            });
        }
        let read_outs = grams
            .into_iter()
            .enumerate()
            .map(|(layer, gram)| {
                gram.solve().ok_or_else(|| {
                    Error::BadData(format!("{name}: the read-out of layer {layer} cannot be fitted"))
                })
            })
            .collect::<Result<_>>()?;
        Ok(Probed { id: Id { name, given: Default::default() }, weights, read_outs })
    }

    fn check(&self, steps: &Steps) -> Result<()> {
        let layers = self.weights.network.layers() as u64;
        if steps.last() > layers {
            let why = format!("{} has layers 0 to {layers}", self.id);
            return Err(Error::BadSteps { text: steps.to_string(), why });
        }
        Ok(())
    }

    fn read(&self, layer: usize, hidden: &[f32]) -> f64 {
        let read_out = &self.read_outs[layer];
        let state: Vec<f64> = hidden.iter().map(|h| f64::from(*h)).collect();
        dot(&read_out[..state.len()], &state) + read_out[state.len()]
    }
}

/// Hidden states `[e]` at the x tokens, prompt by prompt.
fn x_states(runner: &Runner, layer: usize, layers: usize, width: usize) -> impl Iterator<Item = &[f32]> {
    let states = if layer == layers { runner.last() } else { runner.hidden(layer) };
    states.chunks_exact(width).step_by(2)
}

impl Learner for Probed {
    fn id(&self) -> Id {
        self.id.clone()
    }

    fn unit(&self) -> Unit {
        Unit::Layer
    }

    fn default_steps(&self) -> Steps {
        Steps::range(1, self.weights.network.layers() as u64)
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        self.check(steps)?;
        let network = &self.weights.network;
        if prompts.dim() > network.features() {
            return Err(Error::BadData(format!(
                "prompts of {} dimensions for {}; accepted: at most {}",
                prompts.dim(),
                self.id,
                network.features()
            )));
        }
        let (count, points) = (prompts.count(), prompts.points());
        let tokens = tokens(prompts, network.features());
        let per_prompt = 2 * points * network.features();
        let mut values = Array3::zeros((steps.len(), count, points));
        let mut runner: Option<Runner> = None;
        for (i, chunk) in tokens.chunks(CHUNK * per_prompt).enumerate() {
            let size = chunk.len() / per_prompt;
            if runner.is_none() || size != CHUNK {
                runner = Some(network.runner(size, 2 * points, Mode::Infer)?);
            }
            let runner = runner.as_mut().expect("made above");
            runner.set_tokens(chunk)?;
            runner.forward(&self.weights.params);
            for (s, &layer) in steps.as_slice().iter().enumerate() {
                let states = x_states(runner, layer as usize, network.layers(), network.width());
                for (j, hidden) in states.enumerate() {
                    values[[s, i * CHUNK + j / points, j % points]] = self.read(layer as usize, hidden);
                }
            }
        }
        Trajectory::new(self.id(), Unit::Layer, steps.clone(), values, prompts)
    }

    /// Each prefix runs once; every query token then attends to its keys and values alone.
    fn answers(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>> {
        self.check(steps)?;
        let network = &self.weights.network;
        let (count, asked, _) = questions.queries.dim();
        let points = questions.prompts.points();
        let mut values = Array4::zeros((steps.len(), count, questions.lengths.len(), asked));
        let per_prompt = 2 * points * network.features();
        let all = tokens(&questions.prompts, network.features());
        for (i, chunk) in all.chunks(CHUNK * per_prompt).enumerate() {
            let size = chunk.len() / per_prompt;
            let mut prefix = network.runner(size, 2 * points, Mode::Infer)?;
            prefix.set_tokens(chunk)?;
            prefix.forward(&self.weights.params);
            let mut query = network.query_runner(&prefix, asked)?;
            let mut tokens = vec![0.0; size * asked * network.features()];
            for (j, token) in tokens.chunks_exact_mut(network.features()).enumerate() {
                let x = questions.queries.slice(ndarray::s![i * CHUNK + j / asked, j % asked, ..]);
                token.iter_mut().zip(x).for_each(|(t, x)| *t = *x as f32);
            }
            for (l, &length) in questions.lengths.iter().enumerate() {
                query.forward(&self.weights.params, &prefix, length, &tokens)?;
                for (s, &layer) in steps.as_slice().iter().enumerate() {
                    let layer = layer as usize;
                    let states = if layer == network.layers() { query.last() } else { query.hidden(layer) };
                    for (j, hidden) in states.chunks_exact(network.width()).enumerate() {
                        values[[s, i * CHUNK + j / asked, l, j % asked]] = self.read(layer, hidden);
                    }
                }
            }
        }
        Ok(values)
    }
}
