//! The paper's way to a read-out: Adam on minibatches.
//!
//! A minibatch enters the gradient of the squared error only through its sums, 2 (G w − c) / n, so the network runs once over
//! each and Adam may come back to it as often as it likes.

use super::gram::Gram;
use crate::adam::Adam;
use crate::data::seed::Seed;
use crate::linalg::{dot, vectorised};
use crate::parallel;

/// Prompts in a minibatch, as in the paper, and the most minibatches; with more prompts they grow instead.
pub const BATCH: usize = 64;
pub const MOST_BATCHES: usize = 64;

/// Gradient steps, and the largest step size, which falls to nothing along half a cosine.
const STEPS: usize = 20_000;
const RATE: f64 = 0.02;

/// Read-outs (weights, then bias) that Adam finds, layer by layer, from the minibatches of each.
pub fn minimise(layers: Vec<Vec<&Gram>>, seed: Seed) -> Vec<Vec<f64>> {
    parallel::map_items(&layers, |batches| minimise_one(batches, seed))
}

fn minimise_one(batches: &[&Gram], seed: Seed) -> Vec<f64> {
    let equations: Vec<_> = batches.iter().map(|batch| (batch.normal_equations(), batch.count())).collect();
    let size = equations[0].0.1.len();
    let (mut w, mut gradient) = (vec![0.0; size], vec![0.0; size]);
    let mut adam = Adam::new(size);
    let mut order: Vec<usize> = (0..batches.len()).collect();
    for step in 0..STEPS {
        if step % order.len() == 0 {
            // a new order for every round
            let mut draws = seed.at("probe/adam", (step / order.len()) as u64);
            (1..order.len()).rev().for_each(|i| order.swap(i, draws.below(i + 1)));
        }
        let ((matrix, target), count) = &equations[order[step % order.len()]];
        vectorised(
            #[inline(always)]
            || {
                for (i, row) in matrix.chunks_exact(size).enumerate() {
                    gradient[i] = 2.0 * (dot(row, &w) - target[i]) / *count as f64;
                }
            },
        );
        let share = step as f64 / STEPS as f64;
        let rate = RATE * 0.5 * (1.0 + (std::f64::consts::PI * share).cos());
        adam.step(rate, &gradient, &mut w);
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adam_finds_the_least_squares_read_out() {
        let (width, count) = (6, 512);
        let mut draws = Seed(3).at("states", 0);
        let truth = draws.normals(width);
        let mut batches = vec![Gram::new(width); 4];
        let mut whole = Gram::new(width);
        for i in 0..count {
            // directions of unlike size, as hidden states have
            let state: Vec<f64> = (0..width).map(|j| draws.normal() / (1 + j) as f64).collect();
            let mut row = state.clone();
            row.extend([1.0, 2.0 + dot(&state, &truth) + 0.1 * draws.normal()]);
            batches[i % 4].add(&row);
            whole.add(&row);
        }
        let found = minimise(vec![batches.iter().collect()], Seed(1)).remove(0);
        let best = whole.solve().unwrap();
        assert!(found.iter().zip(&best).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?} {best:?}");
        assert!(whole.loss(&found) < whole.loss(&best) * (1.0 + 1e-4));
    }
}
