//! k nearest neighbours: the mean label of the k closest inputs read.

use super::classical::{Classical, InContext};
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "knn",
    summary: "k nearest neighbours: the mean label of the k closest inputs",
    cite: "Fix and Hodges 1951",
    settings: &[Setting { name: "k", default: "3", help: "neighbours, 1 to 1000" }],
    properties: Properties { linear: false, ..Properties::of("k-NN") },
    build: |settings| Ok(Classical::direct(settings, 0.0, Knn { k: settings.whole("k", 1, 1000)? })),
};

struct Knn {
    k: usize,
}

impl InContext for Knn {
    fn answer(&self, problem: &Problem, queries: &[f64], _: &Steps, answers: &mut [f64]) {
        let mut near: Vec<(f64, f64)> = Vec::with_capacity(problem.read());
        for (answer, query) in answers.iter_mut().zip(queries.chunks_exact(problem.dim)) {
            near.clear();
            near.extend(problem.xs.chunks_exact(problem.dim).zip(problem.ys).map(|(x, y)| {
                let distance: f64 = x.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum();
                (distance, *y)
            }));
            near.sort_by(|a, b| a.0.total_cmp(&b.0));
            near.truncate(self.k);
            *answer = near.iter().map(|(_, y)| y).sum::<f64>() / near.len().max(1) as f64;
        }
    }
}
