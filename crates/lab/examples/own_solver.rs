//! An algorithm that iclab does not have, compared with one that it has: `cargo run --release --example own_solver`.

use lab::compare::matching;
use lab::compare::similarity::{Metric, View, of_errors};
use lab::learners::Unit;
use lab::linalg::{axpy, dot};
use lab::registry::Id;
use lab::solvers::classical::{Classical, InContext};
use lab::solvers::{self, Problem};
use lab::{Learner, Seed, Steps, Task};

// guide: begin
/// Kaczmarz: each step makes the error on one pair zero, in turn.
struct Kaczmarz;

impl InContext for Kaczmarz {
    fn answer(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]) {
        let (d, t) = (problem.dim, problem.read());
        let asked = queries.len() / d;
        let (mut w, mut done) = (vec![0.0; d], 0);
        for (s, &step) in steps.as_slice().iter().enumerate() {
            for k in done..step {
                if t > 0 {
                    let i = k as usize % t;
                    let x = &problem.xs[i * d..(i + 1) * d];
                    axpy((problem.ys[i] - dot(&w, x)) / dot(x, x), x, &mut w);
                }
            }
            done = step;
            for (answer, x) in answers[s * asked..].iter_mut().zip(queries.chunks_exact(d)) {
                *answer = dot(&w, x);
            }
        }
    }
}
// guide: end

fn main() -> lab::Result<()> {
    let kaczmarz = Classical {
        id: Id { name: "kaczmarz".into(), given: Default::default() },
        unit: Unit::Iteration,
        lambda: 0.0,
        default_steps: Steps::powers_of_two(0, 10),
        single_step: false,
        algorithm: Kaczmarz,
    };
    let prompts = Task::new("linear", "gaussian", 5, 16)?.sample(Seed(0), "eval", 0, 256);
    let own = kaczmarz.trajectory(&prompts, &kaczmarz.default_steps())?;
    let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 24))?;
    let map = of_errors(&own, &newton, &prompts, View::default(), Metric::Cosine)?;
    let best = matching::best_match(&map);
    for (&step, similarity) in best.a.as_slice().iter().zip(&best.similarity) {
        let newton = best.step_for(step).map_or("none".into(), |s| s.to_string());
        println!("kaczmarz {step:>5}  newton {newton:>3}  SimE {similarity:.3}");
    }
    Ok(())
}
