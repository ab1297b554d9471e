//! Iterations for the inverse and their kin: orders of convergence, and which of them are the same.

use lab::{Prompts, Questions, Seed, Steps, Task, solvers};
use ndarray::{Array3, s};

use crate::shared::largest;

fn prompts(dim: usize, points: usize, count: usize) -> Prompts {
    Task::new("linear", "gaussian", dim, points).unwrap().sample(Seed(5), "iterations", 0, count)
}

fn values(name: &str, prompts: &Prompts, steps: &str) -> Array3<f64> {
    let steps = Steps::parse(steps).unwrap();
    solvers::build(name).unwrap().trajectory(prompts, &steps).unwrap().values
}

/// Weights `[s,b,d]` after t pairs: the answers to unit vectors.
pub fn weights(name: &str, prompts: &Prompts, t: usize, steps: &str) -> Array3<f64> {
    let (count, dim) = (prompts.count(), prompts.dim());
    let queries = Array3::from_shape_fn((count, dim, dim), |(_, i, j)| f64::from(u8::from(i == j)));
    let questions = Questions { prompts: prompts.clone(), lengths: vec![t], queries };
    let found = solvers::build(name).unwrap().answers(&questions, &Steps::parse(steps).unwrap()).unwrap();
    found.slice(s![.., .., 0, ..]).to_owned()
}

/// 1 − w/w*: what is left to do, of one prompt with one feature.
fn residuals(name: &str, steps: &str) -> Vec<f64> {
    let prompts = prompts(1, 6, 1);
    let truth = weights("ols", &prompts, 5, "1")[[0, 0, 0]];
    weights(name, &prompts, 5, steps).iter().map(|w| 1.0 - w / truth).collect()
}

#[test]
fn newton_from_the_identity_is_gradient_descent_with_powers_of_two() {
    for (dim, points) in [(1, 5), (4, 20), (20, 41)] {
        let prompts = prompts(dim, points, 3);
        for (newton, gd) in [("fro", "fro"), ("spectral", "lmax"), ("0.004", "0.004")] {
            for form in ["iterated", "closed"] {
                let newton =
                    values(&format!("newton:start=identity,eta={newton},form={form}"), &prompts, "0..=9");
                let gd = values(&format!("gd:eta={gd},form={form}"), &prompts, "pow2:0..=9");
                let off = largest(&newton, &gd) / largest(&gd, &(&gd * 0.0));
                assert!(off < 1e-11, "d={dim} eta={newton:?}: {off:e}");
            }
        }
    }
}

#[test]
fn a_start_has_one_size() {
    let refused = |name: &str| solvers::build(name).err().expect(name).to_string();
    assert!(refused("newton:eta=0.1").contains("only with start=identity"));
    assert!(refused("newton:start=identity,alpha=spectral").contains("only with start=gram"));
    assert!(
        refused("hyperpower:start=identity,eta=printed")
            .contains("accepted: fro, spectral, a number above 0")
    );
}

#[test]
fn residuals_are_raised_to_the_order() {
    for start in ["gram,alpha=0.002", "identity,eta=0.05"] {
        for order in [2, 3, 4] {
            let found = residuals(&format!("hyperpower:order={order},start={start}"), "0..=6");
            let useful = found.windows(2).filter(|r| r[0].abs() < 0.9 && r[1].abs() > 1e-9);
            let exponents: Vec<f64> = useful.map(|r| r[1].abs().ln() / r[0].abs().ln()).collect();
            assert!(!exponents.is_empty(), "{start} {order}: {found:?}");
            assert!(
                exponents.iter().all(|e| (e - order as f64).abs() < 1e-5),
                "{start} {order}: {exponents:?}"
            );
        }
    }
}

#[test]
fn hyperpowers_are_newton_steps_at_once() {
    let prompts = prompts(5, 16, 4);
    let newton = values("newton", &prompts, "0..=12");
    let same = |name: &str, steps: &str, every: usize| {
        let off = largest(&values(name, &prompts, steps), newton.slice(s![..;every, .., ..]));
        assert!(off < 1e-10, "{name}: {off:e}");
    };
    same("hyperpower:order=2", "0..=12", 1);
    same("hyperpower:order=4", "0..=6", 2);
    same("hyperpower:order=8", "0..=4", 3);
    let [three, chebyshev] =
        ["3", "chebyshev"].map(|o| values(&format!("hyperpower:order={o}"), &prompts, "0..=8"));
    assert_eq!(three, chebyshev);
}

#[test]
fn relaxed_newton_multiplies_small_residuals_by_two_minus_a() {
    for a in [1.5, 2.2, 2.6] {
        let found = residuals(&format!("newton:a={a},start=identity,eta=0.05"), "0..=5");
        for r in found.windows(2) {
            let next = (2.0 - a) * r[0] + (a - 1.0) * r[0] * r[0];
            assert!((r[1] - next).abs() < 1e-12, "a={a}: {} {next}", r[1]);
        }
    }
    let prompts = prompts(5, 16, 4);
    assert_eq!(values("newton:a=2", &prompts, "0..=9"), values("newton", &prompts, "0..=9"));
    for (form, lambda) in [("gram", "0"), ("identity", "0.5")] {
        let of = |f: &str| {
            values(&format!("newton:a=2.3,start={form},lambda={lambda},form={f}"), &prompts, "0..=9")
        };
        assert!(largest(&of("closed"), &of("iterated")) < 1e-11);
    }
}

#[test]
fn every_hyperpower_and_start_has_its_closed_form() {
    for (dim, points) in [(1, 5), (4, 20), (20, 41)] {
        let prompts = prompts(dim, points, 3);
        for settings in [
            "newton:start=identity",
            "hyperpower:order=4",
            "hyperpower:order=3,start=identity",
            "gd++:eta=0.01,gamma=0.002",
        ] {
            let of = |form: &str| values(&format!("{settings},form={form}"), &prompts, "0..=9");
            let off = largest(&of("closed"), &of("iterated"));
            assert!(off < 1e-8, "{settings} d={dim}: {off:e}");
        }
    }
}

#[test]
fn gd_plus_plus_is_of_second_order() {
    // The residual is the product of the gaps δ, and each gap is (3δ² + δ³)/4 of the one before.
    let found = residuals("gd++:eta=0.05", "0..=6");
    let gaps: Vec<f64> = found.windows(2).filter(|r| r[1].abs() > 1e-9).map(|r| r[1] / r[0]).collect();
    assert!(gaps.len() > 2, "{found:?}");
    for gap in gaps.windows(2) {
        let next = (3.0 * gap[0].powi(2) + gap[0].powi(3)) / 4.0;
        assert!((gap[1] - next).abs() < 1e-6, "{gaps:?}");
    }
    let prompts = prompts(5, 16, 4);
    let [fixed, gd] = ["gd++:eta=0.01,gamma=0", "gd:eta=0.01"].map(|name| values(name, &prompts, "0..=9"));
    assert!(largest(&fixed, &gd) < 1e-12, "without γ it is gradient descent");
}

#[test]
fn a_preconditioner_of_ones_is_none_and_others_mend_scales() {
    let mut prompts = prompts(5, 16, 4);
    let [none, cg] = ["pcg:preconditioner=identity", "cg"].map(|name| values(name, &prompts, "0..=9"));
    assert!(largest(&none, &cg) < 1e-12);
    // Features on scales from 1 to 10,000: to CG as bad as can be, to a diagonal preconditioner nothing.
    let plain = values("pcg", &prompts, "0..=5");
    for (i, mut feature) in prompts.xs.lanes_mut(ndarray::Axis(1)).into_iter().enumerate() {
        feature *= 10f64.powi((i % 5) as i32);
    }
    for preconditioner in ["jacobi", "gauss-seidel"] {
        let name = format!("pcg:preconditioner={preconditioner}");
        let off = largest(values(&name, &prompts, "5").slice(s![0, .., 8..]), prompts.ys.slice(s![.., 8..]));
        assert!(off < 1e-6, "{name}: {off:e}");
    }
    let mended = values("pcg", &prompts, "0..=5");
    assert!(largest(mended.slice(s![..4, .., 8..]), plain.slice(s![..4, .., 8..])) < 1e-8);
    let off = largest(values("cg", &prompts, "5").slice(s![0, .., 8..]), prompts.ys.slice(s![.., 8..]));
    assert!(off > 1e-3, "{off:e}");
}

#[test]
fn message_passing_errs_as_state_evolution_says() {
    let (dim, read, count) = (100, 200, 12);
    let prompts = prompts(dim, read, count);
    let truth = weights("ols", &prompts, read, "1");
    let found = weights("amp", &prompts, read, "0..=6");
    let mut predicted = 1.0;
    for step in found.outer_iter() {
        let error = (&step - &truth.index_axis(ndarray::Axis(0), 0)).mapv(|e| e * e).mean().unwrap();
        assert!((error / predicted - 1.0).abs() < 0.15, "{error} {predicted}");
        let variance = dim as f64 * predicted;
        predicted = variance / (read as f64 + variance);
    }
}

#[test]
fn message_passing_ends_at_ridge() {
    let prompts = prompts(20, 60, 4);
    // One of these prompts has λmax near 2(t + d), where a step takes six per cent of the error away.
    for (amp, ridge) in [("amp:noise=0.5", "ridge:lambda=0.5"), ("amp", "ols")] {
        let [found, right] =
            [(amp, "600"), (ridge, "1")].map(|(name, steps)| weights(name, &prompts, 55, steps));
        let off = largest(&found, &right);
        assert!(off < 1e-9, "{amp}: {off:e}");
    }
}
