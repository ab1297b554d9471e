//! The best polynomial of a degree: it is GD's and Newton's where they are polynomials of that degree, and no lower one is.

use lab::linalg::dot;
use lab::solvers::polynomial::{self, Scale, Target};
use lab::solvers::{Problem, SufficientStatistics};
use lab::{Prompts, Seed, Task};
use ndarray::Axis;

use crate::iterations::weights;

const READ: [usize; 2] = [7, 12];

/// Prompts of five features, with S and c of each (number, pairs read).
struct Case {
    prompts: Prompts,
    statistics: Vec<(usize, usize, SufficientStatistics)>,
}

impl Case {
    fn new() -> Case {
        let prompts = Task::new("linear", "gaussian", 5, 13).unwrap().sample(Seed(6), "polynomial", 0, 40);
        let of = |(b, t): (usize, usize)| {
            let (xs, ys) = prompts.prompt(b);
            (b, t, SufficientStatistics::of(&xs[..5 * t], &ys[..t], 5, 0.0))
        };
        let statistics = READ.iter().flat_map(|&t| (0..40).map(move |b| (b, t))).map(of).collect();
        Case { prompts, statistics }
    }

    fn problems(&self) -> Vec<Problem<'_>> {
        let mut problems = Vec::new();
        for (b, t, statistics) in &self.statistics {
            let (xs, ys) = self.prompts.prompt(*b);
            problems.push(statistics.problem(*b, &xs[..5 * t], &ys[..*t]));
        }
        problems
    }

    /// Weights of a solver after `step` steps, one row per problem.
    fn weights(&self, solver: &str, step: u64) -> Vec<Vec<f64>> {
        let of =
            |&t: &usize| weights(solver, &self.prompts, t, &step.to_string()).index_axis_move(Axis(0), 0);
        READ.iter().flat_map(|t| of(t).outer_iter().map(|w| w.to_vec()).collect::<Vec<_>>()).collect()
    }
}

/// Held-out squared distance relative to the targets' size.
fn held_out(targets: &[Target], problems: &[Problem], degree: usize, scale: Scale) -> f64 {
    let found = polynomial::on_halves(targets, problems, degree, scale);
    assert!(
        found.held_out.iter().all(|&i| problems[i].prompt % 2 == 1)
            && found.held_out.len() == problems.len() / 2
    );
    let size = |i: &usize| match targets[*i] {
        Target::Weights(w) => dot(w, w),
        Target::Answers { answers, .. } => dot(answers, answers) / answers.len() as f64,
    };
    found.errors.iter().sum::<f64>() / found.held_out.iter().map(size).sum::<f64>()
}

fn of_weights(weights: &[Vec<f64>]) -> Vec<Target<'_>> {
    weights.iter().map(|w| Target::Weights(w)).collect()
}

#[test]
fn a_method_of_polynomials_is_found_at_its_degree() {
    let case = Case::new();
    let problems = case.problems();
    for (solver, step, degree, scale) in [
        ("gd:eta=0.02", 6, 5, Scale::One),
        ("gd:eta=lmax", 6, 5, Scale::Largest),
        ("newton:start=identity", 3, 7, Scale::Frobenius),
        ("newton:start=identity,eta=0.02", 3, 7, Scale::One),
        ("newton:alpha=spectral", 2, 7, Scale::Largest),
        ("hyperpower:start=identity,eta=spectral", 2, 8, Scale::Largest),
    ] {
        let weights = case.weights(solver, step);
        let targets = of_weights(&weights);
        let [below, at] = [degree - 1, degree].map(|k| held_out(&targets, &problems, k, scale));
        assert!(at < 1e-16, "{solver}: {at:e}");
        assert!(below > 1e4 * at, "{solver}: {below:e} at a lower degree");
    }
}

#[test]
fn its_filter_is_the_method_s() {
    let case = Case::new();
    let weights = case.weights("gd:eta=0.02", 6);
    let found = polynomial::fit(&of_weights(&weights), &case.problems(), 5, Scale::One);
    for value in [0.0_f64, 0.3, 2.0, 9.0, 25.0] {
        let right: f64 = (0..6).map(|j| 0.02 * (1.0 - 0.02 * value).powi(j)).sum();
        assert!((found.filter(value) - right).abs() < 1e-8, "λ={value}: {} {right}", found.filter(value));
    }
}

#[test]
fn answers_tell_as_much_as_weights() {
    let case = Case::new();
    let (weights, queries) = (case.weights("gd:eta=0.02", 6), Seed(6).at("queries", 0).normals(8 * 5));
    let answers: Vec<Vec<f64>> =
        weights.iter().map(|w| queries.chunks_exact(5).map(|x| dot(w, x)).collect()).collect();
    let targets: Vec<Target> =
        answers.iter().map(|answers| Target::Answers { queries: &queries, answers }).collect();
    let found = held_out(&targets, &case.problems(), 5, Scale::One);
    assert!(found < 1e-16, "{found:e}");
}

#[test]
fn higher_degrees_come_closer_to_least_squares() {
    let case = Case::new();
    let (weights, problems) = (case.weights("ols", 1), case.problems());
    let targets = of_weights(&weights);
    let fitted = |degree| {
        let found = polynomial::fit(&targets, &problems, degree, Scale::One);
        found.errors(&targets, &problems).iter().sum::<f64>()
    };
    let errors: Vec<f64> = (0..=10).map(fitted).collect();
    assert!(errors.windows(2).all(|e| e[1] < e[0]), "{errors:?}");
    let [low, high] = [0, 3].map(|degree| held_out(&targets, &problems, degree, Scale::One));
    assert!(high < low, "{high} {low}");
}
