//! Laws of the constructions: they are the algorithms they claim to be, in the layers and widths they claim.

use lab::constructions::{
    Constructed, Construction, Misprints, Recipe, Variant, build, build_with, deviations, label_bound,
    step_limit,
};
use lab::linalg::{axpy, dot};
use lab::{Learner, Prompts, Questions, Seed, Steps, Task, solvers};
use ndarray::{Array2, s};

const SEED: Seed = Seed(5);
const ITERATIONS: usize = 20;
/// What a construction may deviate from its algorithm, relative to the size of predictions.
const ROUND_OFF: f64 = 1e-9;

fn prompts(d: usize, n: usize, kappa: u32, count: usize) -> Prompts {
    let inputs = if kappa == 1 { "gaussian".to_string() } else { format!("skewed:kappa={kappa}") };
    // One dimension cannot be skewed.
    let inputs = if d == 1 { "gaussian".to_string() } else { inputs };
    Task::new("linear", &inputs, d, n + 1).unwrap().sample(SEED, "constructions", 0, count)
}

/// A recipe whose step is half of the limit on these prompts.
fn recipe(variant: Variant, prompts: &Prompts, iterations: usize) -> Recipe {
    let pairs = prompts.points() - 1;
    let limit = step_limit(variant, prompts, pairs);
    let step = if limit.is_finite() { limit / 2.0 } else { 1.0 };
    Recipe { variant, iterations, dim: prompts.dim(), pairs, step, label_bound: label_bound(prompts) }
}

/// Predictions `[s,b]` of the algorithm for the last point, after t pairs.
fn right(learner: &Constructed, prompts: &Prompts, t: usize, steps: &Steps) -> Array2<f64> {
    let queries = prompts.xs.slice(s![.., t..t + 1, ..]).to_owned();
    let questions = Questions { prompts: prompts.clone(), lengths: vec![t], queries };
    let solver = solvers::build(&learner.solver(t)).unwrap();
    solver.answers(&questions, steps).unwrap().slice(s![.., .., 0, 0]).to_owned()
}

fn worst(construction: Construction, prompts: &Prompts) -> (f64, f64) {
    let steps = Steps::range(0, construction.recipe.iterations as u64);
    let t = prompts.points() - 1;
    let learner = Constructed::new("constructed", construction);
    let found = learner.after_pairs(prompts, t, &steps).unwrap();
    let all = deviations(&found, &right(&learner, prompts, t, &steps));
    let fold = |start: f64, pick: fn(f64, f64) -> f64| {
        all.iter().fold(start, |m, v| if v.is_nan() { f64::NAN } else { pick(m, *v) })
    };
    (fold(f64::INFINITY, f64::min), fold(0.0, f64::max))
}

/// Calls `check(d, n, κ, prompts)` over the grid of the acceptance table.
fn over_the_grid(mut check: impl FnMut(usize, usize, u32, &Prompts)) {
    for d in [1, 2, 5, 20] {
        for n in [d / 2, d, 2 * d, 5 * d] {
            for kappa in [1, 100] {
                check(d, n, kappa, &prompts(d, n, kappa, 6));
            }
        }
    }
}

#[test]
fn compact_and_paper_are_newton_to_round_off() {
    over_the_grid(|d, n, kappa, prompts| {
        for variant in [Variant::Compact, Variant::Paper] {
            let (_, deviation) = worst(build(&recipe(variant, prompts, ITERATIONS)).unwrap(), prompts);
            assert!(deviation <= ROUND_OFF, "{variant:?} d={d} n={n} κ={kappa}: {deviation:e}");
            println!("{variant:?} d={d} n={n} κ={kappa}: {deviation:e}");
        }
    });
}

#[test]
fn gd_is_gd_to_round_off() {
    over_the_grid(|d, n, kappa, prompts| {
        let (_, deviation) = worst(build(&recipe(Variant::Gd, prompts, 40)).unwrap(), prompts);
        assert!(deviation <= ROUND_OFF, "d={d} n={n} κ={kappa}: {deviation:e}");
    });
}
