//! An algorithm that iclab does not have, compared with one that it has: `cargo run --release --example own_solver`.

use lab::linalg::{axpy, dot};
use lab::prelude::*;

/// Kaczmarz: each step makes the error on one pair zero, in turn.
struct Kaczmarz;

impl Solver for Kaczmarz {
    /// The weights, and the steps taken.
    type State = (Vec<f64>, usize);

    fn start(&self, problem: &Problem) -> Self::State {
        (vec![0.0; problem.dim], 0)
    }

    fn step(&self, problem: &Problem, (w, taken): &mut Self::State) {
        if problem.read() > 0 {
            let (x, y) = problem.pair(*taken % problem.read());
            axpy((y - dot(w, x)) / dot(x, x), x, w);
            *taken += 1;
        }
    }

    fn weights(&self, _: &Problem, (now, _): &Self::State, w: &mut [f64]) {
        w.copy_from_slice(now);
    }
}

fn main() -> Result<()> {
    let prompts = Task::new("linear", "gaussian", 5, 16)?.sample(Seed(0), "eval", 0, 256);
    let kaczmarz = Iterative::new(Kaczmarz).learner("kaczmarz", Steps::powers_of_two(0, 10));
    let own = kaczmarz.trajectory(&prompts, &kaczmarz.default_steps())?;
    let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 24))?;
    let found = Comparison::of_errors(&own, &newton, &prompts)?;
    print!("{}\n{found}", found.title());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_converges_like_any_other() {
        main().unwrap();
        let prompts = Task::new("linear", "gaussian", 5, 16).unwrap().sample(Seed(0), "eval", 0, 256);
        let kaczmarz = Iterative::new(Kaczmarz).learner("kaczmarz", Steps::powers_of_two(0, 10));
        let own = kaczmarz.trajectory(&prompts, &kaczmarz.default_steps()).unwrap();
        let newton = solvers::build("newton").unwrap().trajectory(&prompts, &Steps::range(0, 24)).unwrap();
        let steps = Comparison::of_errors(&own, &newton, &prompts).unwrap().best_steps();
        assert_eq!(steps.len(), 11);
        assert!(steps.windows(2).all(|w| w[0] <= w[1]) && steps[10] > steps[0], "{steps:?}");
    }
}
