//! Constructions are the algorithms they claim to be, in the layers and widths they claim.

use engine::deviation;
use lab::constructions::{
    Constructed, Construction, Misprints, Recipe, Start, Variant, build, build_rls, build_with, deviations,
    label_bound, step_limit,
};
use lab::linalg::{axpy, dot};
use lab::{Learner, Prompts, Questions, Seed, Steps, Task, solvers};
use ndarray::{Array2, s};

use crate::shared;

const SEED: Seed = Seed(5);
const ITERATIONS: usize = 20;
/// What a construction may deviate from its algorithm, relative to the size of predictions.
const ROUND_OFF: f64 = 1e-9;
const COMPACT: Variant = Variant::Compact(Start::Gram);
const FROM_IDENTITY: Variant = Variant::Compact(Start::Identity);

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

fn constructed(variant: Variant, prompts: &Prompts, iterations: usize) -> Constructed {
    Constructed::new("constructed", build(&recipe(variant, prompts, iterations)).unwrap())
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
    (deviation::least(all.iter().copied()), deviation::worst(all))
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
fn every_newton_is_newton_to_round_off() {
    over_the_grid(|d, n, kappa, prompts| {
        for variant in [COMPACT, FROM_IDENTITY, Variant::Paper, Variant::Residual] {
            let (_, deviation) = worst(build(&recipe(variant, prompts, ITERATIONS)).unwrap(), prompts);
            assert!(deviation <= ROUND_OFF, "{variant:?} d={d} n={n} κ={kappa}: {deviation:e}");
        }
    });
}

#[test]
fn every_descent_is_its_own_to_round_off() {
    over_the_grid(|d, n, kappa, prompts| {
        // In directions that no pair shows, the round-off of c grows with η, by 9/4 a step, in the solver of GD++: not here.
        for (variant, steps) in [(Variant::Gd, 40), (Variant::GdPlusPlus, 16)] {
            let (_, deviation) = worst(build(&recipe(variant, prompts, steps)).unwrap(), prompts);
            assert!(deviation <= ROUND_OFF, "{variant:?} d={d} n={n} κ={kappa}: {deviation:e}");
        }
    });
}

#[test]
fn recursive_least_squares_is_its_own_to_round_off() {
    for (d, n, delta) in [(1, 3, 1.0), (3, 7, 2.0), (5, 10, 0.5)] {
        let prompts = prompts(d, n, 1, 6);
        let longest =
            prompts.xs.rows().into_iter().map(|x| dot(&x.to_vec(), &x.to_vec()).sqrt()).fold(0.0, f64::max);
        let (construction, each) = build_rls(d, n, delta, longest).unwrap();
        assert_eq!(construction.transformer.layers.len(), 1 + n * each);
        let learner = Constructed::new("rls", construction);
        // fewer pairs than it was built for: the first columns are not there
        for t in [n, n - 1, 1] {
            let found = learner.after_pairs(&prompts, t, &Steps::single(0)).unwrap();
            let off = deviations(&found, &right(&learner, &prompts, t, &Steps::single(1)))[0];
            assert!(off <= ROUND_OFF, "d={d} n={n} t={t}: {off:e}");
        }
    }
}

#[test]
fn layers_and_widths_are_as_stated() {
    for d in [1, 2, 5, 20] {
        let prompts = prompts(d, 2 * d, 1, 2);
        for k in 0..=ITERATIONS {
            let shape = |variant: Variant| {
                let built = build(&recipe(variant, &prompts, k)).unwrap().transformer;
                (built.layers.len(), built.width(), built.heads())
            };
            assert_eq!(shape(COMPACT), (k + 3, 3 * d + 5, 2));
            assert_eq!(shape(FROM_IDENTITY), (k + 2, 3 * d + 5, 2));
            assert_eq!(shape(Variant::Causal), (k + 3, 3 * d + 6, 2));
            assert_eq!(shape(Variant::Paper), (k + 8, 6 * d + 8, 2));
            assert_eq!(shape(Variant::Printed), (k + 8, 6 * d + 8, 2));
            assert_eq!(shape(Variant::Residual), (k + 2, 4 * d + 5, if k == 0 { 4 } else { 6 }));
            assert_eq!(shape(Variant::Gd), (k + 1, 2 * d + 5, if k == 0 { 1 } else { 2 }));
            assert_eq!(shape(Variant::GdPlusPlus), (k + 1, 2 * d + 5, if k == 0 { 1 } else { 6 }));
        }
    }
}

/// What the printed layers compute, without a Transformer: Σ|z|a in place of Σza, over the pairs and the test column.
fn printed_by_hand(xs: &[f64], ys: &[f64], test: &[f64], alpha: f64, iterations: usize) -> f64 {
    let d = test.len();
    let all: Vec<&[f64]> = xs.chunks_exact(d).chain([test]).collect();
    let absolute = |queries: &[Vec<f64>], keys: &[Vec<f64>], values: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let of = |query: &Vec<f64>| {
            let mut sum = vec![0.0; d];
            keys.iter().zip(values).for_each(|(key, value)| axpy(dot(query, key).abs(), value, &mut sum));
            sum
        };
        queries.iter().map(of).collect()
    };
    let b: Vec<Vec<f64>> = all.iter().map(|x| x.to_vec()).collect();
    let scaled = |sums: Vec<Vec<f64>>, by: f64| -> Vec<Vec<f64>> {
        sums.into_iter().map(|v| v.into_iter().map(|v| v * by).collect()).collect()
    };
    let mut a = scaled(absolute(&b, &b, &b), alpha);
    for _ in 0..iterations {
        // V₂ = V₁ and a coefficient −½ inside |·|, which loses its sign.
        let sums = absolute(&b, &a, &a);
        a.iter_mut().zip(&sums).for_each(|(a, sum)| axpy(0.5, sum, a));
        a = scaled(a, 2.0);
    }
    let mut w = vec![0.0; d];
    a.iter().zip(ys).for_each(|(a, y)| axpy(*y, a, &mut w));
    dot(&w, test)
}

#[test]
fn the_printed_variant_fails_as_the_erratum_says() {
    over_the_grid(|d, n, kappa, prompts| {
        if n == 0 {
            return; // nothing to get wrong
        }
        let iterations = 4;
        let recipe = recipe(Variant::Printed, prompts, iterations);
        let construction = build(&recipe).unwrap();
        let (least, _) = worst(construction.clone(), prompts);
        assert!(least > 0.01, "d={d} n={n} κ={kappa}: as right as {least:e}");
        let learner = Constructed::new("printed", construction);
        let found = learner.after_pairs(prompts, n, &Steps::single(iterations as u64)).unwrap();
        for b in 0..prompts.count() {
            let (xs, ys) = prompts.prompt(b);
            let by_hand = printed_by_hand(&xs[..n * d], &ys[..n], &xs[n * d..], recipe.step, iterations);
            let off = (found[[0, b]] - by_hand).abs();
            assert!(off <= ROUND_OFF * by_hand.abs(), "d={d} n={n} κ={kappa}: {} {by_hand}", found[[0, b]]);
        }
    });
}

#[test]
fn each_misprint_alone_is_wrong() {
    let prompts = prompts(5, 12, 1, 8);
    let recipe = recipe(Variant::Paper, &prompts, 6); // later it has overflowed
    let off = |misprints| worst(build_with(&recipe, misprints).unwrap(), &prompts).1;
    assert!(off(Misprints::default()) < ROUND_OFF);
    assert!(off(Misprints { equal_values: true, ..Default::default() }) > 0.1);
    assert!(off(Misprints { test_inside: true, ..Default::default() }) > 0.1);
}

#[test]
fn the_printed_score_doubles_round_off() {
    // T S Tᵀ and T S T are the same on paper; in float64 the first loses a bit with each layer after convergence.
    let prompts = prompts(5, 12, 1, 8);
    for variant in [COMPACT, FROM_IDENTITY, Variant::Paper] {
        let recipe = recipe(variant, &prompts, 44);
        let off = |misprints| worst(build_with(&recipe, misprints).unwrap(), &prompts).1;
        let transposed = off(Misprints { transposed: true, ..Default::default() });
        assert!(transposed > 1e-6, "{variant:?}: {transposed:e}");
        assert!(off(Misprints::default()) < ROUND_OFF);
    }
}

#[test]
fn a_step_is_the_construction_of_so_many_iterations() {
    let prompts = prompts(3, 7, 1, 3);
    for variant in Variant::ALL {
        let whole = constructed(variant, &prompts, 5);
        for k in 0..=5 {
            let own = constructed(variant, &prompts, k);
            let steps = Steps::single(k as u64);
            let value = |l: &Constructed| l.trajectory(&prompts, &steps).unwrap().values;
            assert_eq!(value(&whole), value(&own), "{variant:?} {k}");
        }
    }
}

#[test]
fn every_prefix_is_answered_as_the_algorithm_would() {
    let prompts = prompts(4, 9, 1, 5);
    let steps = Steps::range(0, 8);
    for variant in
        [COMPACT, FROM_IDENTITY, Variant::Paper, Variant::Residual, Variant::Gd, Variant::GdPlusPlus]
    {
        let learner = constructed(variant, &prompts, 8);
        let found = learner.trajectory(&prompts, &steps).unwrap().values;
        for t in 0..prompts.points() {
            let off =
                deviations(&found.slice(s![.., .., t]).to_owned(), &right(&learner, &prompts, t, &steps));
            assert!(off.iter().all(|v| *v <= ROUND_OFF), "{variant:?} t={t}: {off:?}");
        }
    }
}

#[test]
fn only_the_past_is_used() {
    let prompts = prompts(3, 8, 1, 2);
    for variant in Variant::ALL {
        let learner = constructed(variant, &prompts, 4);
        // Under a causal mask the future is there, with weight 0.
        shared::only_the_past_is_used(&learner, &learner.default_steps(), &prompts, (-0.7, 1.0), 1e-12);
    }
}

#[test]
fn queries_that_share_a_prefix_are_answered_as_if_alone() {
    let prompts = prompts(4, 9, 1, 3);
    let t = 6;
    for variant in Variant::ALL {
        let learner = constructed(variant, &prompts, 6);
        let steps = learner.default_steps();
        let queries = prompts.xs.slice(s![.., 4..9, ..]).to_owned(); // the third is x_{t+1}
        let questions = Questions { prompts: prompts.clone(), lengths: vec![0, t], queries };
        let answers = learner.answers(&questions, &steps).unwrap();
        let alone = learner.trajectory(&prompts, &steps).unwrap().values;
        let off = shared::largest(answers.slice(s![.., .., 1, 2]), alone.slice(s![.., .., t]));
        assert!(off < 1e-11, "{variant:?}: {off}");
        assert!(answers.slice(s![.., .., 0, ..]).iter().all(|v| *v == 0.0), "nothing read, nothing known");
    }
}

#[test]
fn newton_from_the_identity_is_gradient_descent_after_twice_the_steps_each_layer() {
    let prompts = prompts(5, 12, 1, 6);
    let newton = recipe(FROM_IDENTITY, &prompts, 6);
    let descent = Recipe { variant: Variant::Gd, iterations: 64, ..newton.clone() };
    let answers = |recipe: &Recipe, steps: &Steps| {
        let learner = Constructed::new("constructed", build(recipe).unwrap());
        learner.after_pairs(&prompts, recipe.pairs, steps).unwrap()
    };
    let (layers, steps) = (Steps::range(0, 6), Steps::new(vec![1, 2, 4, 8, 16, 32, 64]).unwrap());
    let off = deviations(&answers(&newton, &layers), &answers(&descent, &steps));
    assert!(off.iter().all(|v| *v <= ROUND_OFF), "{off:?}");
}

#[test]
fn from_the_identity_no_digits_are_lost_where_pairs_are_few() {
    // M itself doubles at each step in directions that no pair shows; the columns hold only M x of pairs.
    let (d, n) = (8, 4);
    let prompts = prompts(d, n, 1, 6);
    let learner = constructed(FROM_IDENTITY, &prompts, 44);
    let found = learner.after_pairs(&prompts, n, &Steps::single(44)).unwrap();
    let queries = prompts.xs.slice(s![.., n.., ..]).to_owned();
    let questions = Questions { prompts: prompts.clone(), lengths: vec![n], queries };
    let exact = solvers::build("ols").unwrap().answers(&questions, &Steps::single(1)).unwrap();
    let off = deviations(&found, &exact.slice(s![.., .., 0, 0]).to_owned())[0];
    assert!(off <= ROUND_OFF, "{off:e}");
}

#[test]
fn files_give_back_every_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let prompts = prompts(3, 5, 1, 4);
    for variant in Variant::ALL {
        let built = build(&recipe(variant, &prompts, 3)).unwrap();
        lab::constructions::file::write(&path, &built, "words").unwrap();
        assert_eq!(lab::constructions::file::read(&path).unwrap(), built, "{variant:?}");
    }
    let good = std::fs::read(&path).unwrap();
    let mut accepted = 0;
    for case in 0..400usize {
        // Deterministic damage: cut, or change a few bytes, mostly in the header.
        let mut bytes = good.clone();
        if case % 4 == 0 {
            bytes.truncate(case * bytes.len() / 400);
        } else {
            for i in 0..=case % 3 {
                let at = (case * 7919 + i * 104_729) % if case % 2 == 0 { 3000 } else { bytes.len() };
                bytes[at] = (case * 31 + i) as u8;
            }
        }
        std::fs::write(&path, bytes).unwrap();
        match lab::constructions::file::read(&path) {
            Ok(_) => accepted += 1, // a number was changed
            Err(error) => assert!(error.to_string().contains("w.safetensors"), "{error}"),
        }
    }
    assert!(accepted < 250, "{accepted} of 400 damaged files were accepted");
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let prompts = prompts(3, 5, 1, 4);
    let good = recipe(Variant::Paper, &prompts, 3);
    let refusal = |change: &dyn Fn(&mut Recipe)| {
        let mut recipe = good.clone();
        change(&mut recipe);
        build(&recipe).expect_err("refused").to_string()
    };
    assert!(refusal(&|r| r.dim = 0).contains("dimension d is 0; accepted: 1 to"));
    assert!(refusal(&|r| r.pairs = 1 << 40).contains("accepted: at most"));
    assert!(refusal(&|r| r.iterations = 1 << 40).contains("accepted: 0 to"));
    assert!(refusal(&|r| r.step = f64::NAN).contains("a number above 0"));
    let learner = Constructed::new("w", build(&good).unwrap());
    let steps = Steps::range(0, 3);
    let message =
        |prompts: &Prompts, steps: &Steps| learner.trajectory(prompts, steps).unwrap_err().to_string();
    assert!(message(&prompts, &Steps::single(4)).contains("iterations 0 to 3"));
    assert!(message(&self::prompts(2, 5, 1, 1), &steps).contains("2 dimensions for w; accepted: 3"));
    assert!(message(&self::prompts(3, 6, 1, 1), &steps).contains("7 points for w; accepted: at most 6"));
    let mut loud = prompts.clone();
    loud.ys[[1, 1]] = 1e6;
    assert!(message(&loud, &steps).contains("accepted: labels below"));
}
