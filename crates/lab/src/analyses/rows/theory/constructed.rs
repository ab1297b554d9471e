//! What the analyses of constructions share: prompts, recipes, and the deviation from the algorithm.

use engine::deviation;
use ndarray::{Array2, s};

use crate::analyses::kit::problems::Prescribed;
use crate::constructions::{
    Constructed, Construction, Recipe, Variant, build, deviations, label_bound, step_limit,
};
use crate::data::prompts::{Prompts, Questions, Task};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::linalg::random_orthogonal;
use crate::solvers;

/// Dimensions of the acceptance table.
pub const DIMS: [usize; 4] = [1, 2, 5, 20];
/// Iterations of the acceptance table.
pub const ITERATIONS: usize = 20;
/// Prompts of each size.
const PROMPTS: usize = 4;
/// Dimension of the problems on which layers are counted.
pub const SIZE: usize = 8;

/// Prompts with n pairs and a query; κ = 1 is isotropic.
pub fn prompts(seed: Seed, d: usize, n: usize, kappa: u32, count: usize) -> Result<Prompts> {
    // One dimension cannot be skewed.
    let inputs = if kappa == 1 || d == 1 { "gaussian".into() } else { format!("skewed:kappa={kappa}") };
    Ok(Task::new("linear", &inputs, d, n + 1)?.sample(seed, "constructions", 0, count))
}

/// A recipe for these prompts with half of the largest step that converges on all of them.
pub fn recipe(variant: Variant, prompts: &Prompts, iterations: usize) -> Recipe {
    let pairs = prompts.points() - 1;
    let limit = step_limit(variant, prompts, pairs);
    let step = if limit.is_finite() { limit / 2.0 } else { 1.0 };
    Recipe { variant, iterations, dim: prompts.dim(), pairs, step, label_bound: label_bound(prompts) }
}

/// Predictions `[s,b]` for the last point: the construction's and its algorithm's.
pub fn both(
    construction: Construction,
    prompts: &Prompts,
    steps: &Steps,
) -> Result<(Array2<f64>, Array2<f64>)> {
    let t = prompts.points() - 1;
    let learner = Constructed::new("constructed", construction);
    let queries = prompts.xs.slice(s![.., t.., ..]).to_owned();
    let questions = Questions { prompts: prompts.clone(), lengths: vec![t], queries };
    let right = solvers::build(&learner.solver(t))?.answers(&questions, steps)?;
    Ok((learner.after_pairs(prompts, t, steps)?, right.slice(s![.., .., 0, 0]).to_owned()))
}

/// Deviation from the algorithm after 0, 1, …, k iterations; NaN once it has overflowed.
pub fn by_step(construction: Construction, prompts: &Prompts) -> Result<Vec<f64>> {
    let steps = Steps::range(0, construction.recipe.iterations as u64);
    let (found, right) = both(construction, prompts, &steps)?;
    Ok(deviations(&found, &right))
}

/// One cell of the acceptance table: sizes and the deviation after each number of iterations.
pub struct Cell {
    pub d: usize,
    pub n: usize,
    pub kappa: u32,
    pub deviations: Vec<f64>,
}

impl Cell {
    /// The largest deviation; NaN if there is one.
    pub fn worst(&self) -> f64 {
        deviation::worst(self.deviations.iter().copied())
    }
}

/// A variant on every size of the acceptance table: n from d/2 to 5d, isotropic and κ = 100.
pub fn grid(seed: Seed, variant: Variant, iterations: usize) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for d in DIMS {
        for n in [d / 2, d, 2 * d, 5 * d] {
            for kappa in [1, 100] {
                let prompts = prompts(seed, d, n, kappa, PROMPTS)?;
                let deviations = by_step(build(&recipe(variant, &prompts, iterations))?, &prompts)?;
                cells.push(Cell { d, n, kappa, deviations });
            }
        }
    }
    Ok(cells)
}

/// The largest deviation of all cells; NaN if there is one.
pub fn worst(cells: &[Cell]) -> f64 {
    deviation::worst(cells.iter().map(Cell::worst))
}

/// The size that all have; NaN when they differ.
pub fn constant(sizes: &[usize]) -> f64 {
    if sizes.iter().all(|size| *size == sizes[0]) { sizes[0] as f64 } else { f64::NAN }
}

/// The i-th problem whose S has eigenvalues spread geometrically over [1, κ], [`SIZE`] of them, in a random basis.
pub fn spread(seed: Seed, i: u64, kappa: f64) -> Result<Prescribed> {
    let basis = random_orthogonal(SIZE, &mut seed.at("constructions/basis", i));
    let solution = seed.at("constructions/solution", i).normals(SIZE);
    let eigenvalues: Vec<f64> = (0..SIZE).map(|i| kappa.powf(i as f64 / (SIZE - 1) as f64)).collect();
    Prescribed::new(&eigenvalues, &basis, solution)
}

/// Layers of a construction until ‖w_k − w‖ ≤ ε‖w‖, for each ε, those before and after the iterations among them; NaN where
/// `most` iterations are not enough.
pub fn layers_needed<const N: usize>(
    problem: &Prescribed,
    variant: Variant,
    step: f64,
    most: usize,
    epsilons: [f64; N],
) -> Result<[f64; N]> {
    let recipe = Recipe { variant, iterations: most, dim: SIZE, pairs: SIZE, step, label_bound: 1.0 };
    let learner = Constructed::new("constructed", build(&recipe)?);
    let errors = problem.errors(&learner, &Steps::range(0, most as u64))?;
    let around = (learner.construction().before + learner.construction().after) as f64;
    let first = |epsilon: f64| errors.iter().position(|error| *error <= epsilon);
    Ok(epsilons.map(|epsilon| first(epsilon).map_or(f64::NAN, |k| k as f64 + around)))
}
