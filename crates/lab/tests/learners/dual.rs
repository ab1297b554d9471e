//! Fewer pairs than dimensions: predictions come from XXᵀ, and are those from XᵀX.

use lab::{Prompts, Seed, Steps, Task, solvers};
use ndarray::s;

use crate::iterations::weights;
use crate::shared::largest;

const DIM: usize = 40;

/// Every algorithm of polynomials, with every policy that looks at eigenvalues or norms.
const POLYNOMIALS: [&str; 11] = [
    "newton:form=iterated",
    "newton:form=closed",
    "newton:alpha=spectral",
    "newton:a=2.3",
    "newton:start=identity",
    "hyperpower:order=3",
    "gd++:eta=fro",
    "gd:eta=fro,form=iterated",
    "gd:eta=lmax",
    "gd:eta=optimal",
    "gd:eta=0.01",
];

/// A ridge that no sum notices, and that has the algorithm read S all the same.
fn from_s(name: &str) -> String {
    format!("{name},lambda=1e-300")
}

fn prompts(points: usize) -> Prompts {
    Task::new("linear", "gaussian", DIM, points).unwrap().sample(Seed(6), "dual", 0, 3)
}

#[test]
fn predictions_from_the_inputs_are_those_from_s() {
    let (prompts, steps) = (prompts(2 * DIM + 1), Steps::parse("0..=12").unwrap());
    for name in POLYNOMIALS {
        let [dual, primal] = [name.to_owned(), from_s(name)]
            .map(|name| solvers::build(&name).unwrap().trajectory(&prompts, &steps).unwrap().values);
        let off = largest(&dual, &primal) / largest(&primal, &(&primal * 0.0));
        assert!(off < 1e-10, "{name}: {off:e}");
        // from as many pairs as dimensions on it is the same computation
        let both = [&dual, &primal].map(|v| v.slice(s![.., .., DIM..]).to_owned());
        assert_eq!(both[0], both[1], "{name}");
        assert_ne!(dual, primal, "{name}: neither was computed from the inputs");
    }
}

#[test]
fn weights_from_the_inputs_are_those_from_s() {
    let prompts = prompts(DIM + 2);
    for name in POLYNOMIALS {
        for read in [1, 7, DIM - 1, DIM] {
            let [dual, primal] =
                [name.to_owned(), from_s(name)].map(|name| weights(&name, &prompts, read, "0..=9"));
            let off = largest(&dual, &primal) / largest(&primal, &(&primal * 0.0));
            assert!(off < 1e-10, "{name} after {read}: {off:e}");
        }
    }
}

#[test]
fn inputs_that_repeat_are_no_exception() {
    let mut prompts = prompts(12);
    let first = prompts.xs.slice(s![.., ..1, ..]).to_owned();
    prompts.xs.slice_mut(s![.., 1..5, ..]).assign(&first);
    for name in POLYNOMIALS {
        let [dual, primal] = [name.to_owned(), from_s(name)].map(|name| {
            let steps = Steps::parse("0..=9").unwrap();
            solvers::build(&name).unwrap().trajectory(&prompts, &steps).unwrap().values
        });
        let off = largest(&dual, &primal) / largest(&primal, &(&primal * 0.0));
        assert!(off < 1e-10, "{name}: {off:e}");
    }
}
