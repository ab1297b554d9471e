//! Properties that every row of every registry has. A new row is tested by being registered.

use lab::linalg::random_orthogonal;
use lab::registry::Spec;
use lab::solvers::{self, SOLVERS, SolverRow};
use lab::{Learner, Prompts, Questions, Seed, Steps, Task};
use ndarray::s;

use crate::shared;

const SEED: Seed = Seed(11);

fn prompts(dim: usize, points: usize, count: usize) -> Prompts {
    Task::new("linear", "gaussian", dim, points).unwrap().sample(SEED, "laws", 0, count)
}

fn learner(row: &SolverRow) -> Box<dyn Learner> {
    solvers::build(row.name).unwrap_or_else(|e| panic!("{}: {e}", row.name))
}

/// A few steps, or the only one there is.
fn some_steps(row: &SolverRow) -> Steps {
    let iterative = learner(row).default_steps().len() > 1;
    if iterative { Steps::parse("0,1,2,5,9").unwrap() } else { Steps::single(1) }
}

fn values(row: &SolverRow, prompts: &Prompts) -> ndarray::Array3<f64> {
    learner(row).trajectory(prompts, &some_steps(row)).unwrap().values
}

/// Largest |a − b| relative to the largest |b|.
fn difference<'a>(a: impl IntoIterator<Item = &'a f64>, b: impl IntoIterator<Item = &'a f64>) -> f64 {
    let (mut worst, mut largest) = (0.0_f64, 1e-300_f64);
    for (x, y) in a.into_iter().zip(b) {
        assert!(x.is_finite() && y.is_finite(), "{x} {y}");
        worst = worst.max((x - y).abs());
        largest = largest.max(y.abs());
    }
    worst / largest
}

#[test]
fn only_the_past_is_used() {
    for row in SOLVERS {
        let (learner, steps) = (learner(row), some_steps(row));
        shared::only_the_past_is_used(&*learner, &steps, &prompts(4, 9, 3), (-7.0, 99.0), 0.0);
    }
}

#[test]
fn recording_fewer_steps_changes_no_value() {
    let prompts = prompts(4, 9, 3);
    for row in SOLVERS {
        let (learner, steps) = (learner(row), some_steps(row));
        let all = learner.trajectory(&prompts, &steps).unwrap().values;
        for (i, &step) in steps.as_slice().iter().enumerate() {
            let one = learner.trajectory(&prompts, &Steps::single(step)).unwrap().values;
            assert_eq!(one.slice(s![0, .., ..]), all.slice(s![i, .., ..]), "{} step {step}", row.name);
        }
    }
}

#[test]
fn batches_and_threads_change_no_value() {
    let all = prompts(4, 9, 6);
    let first = all.head(2, all.points());
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for row in SOLVERS {
        let whole = values(row, &all);
        assert_eq!(values(row, &first), whole.slice(s![.., ..2, ..]), "{}", row.name);
        assert_eq!(single.install(|| values(row, &all)), whole, "{}", row.name);
    }
}

#[test]
fn rotating_inputs_changes_no_prediction() {
    let prompts = prompts(6, 15, 4);
    let rotation = random_orthogonal(6, &mut SEED.at("rotation", 0));
    let rotation = ndarray::Array2::from_shape_vec((6, 6), rotation).unwrap();
    let flat = prompts.xs.to_shape((4 * 15, 6)).unwrap().dot(&rotation.t());
    let rotated = Prompts::new(flat.into_shape_with_order((4, 15, 6)).unwrap(), prompts.ys.clone()).unwrap();
    for row in SOLVERS.iter().filter(|row| row.properties.rotation_equivariant) {
        // At t = d a quasi-Newton or rank-deficient step amplifies round-off: compare where it is well posed.
        let (a, b) = (values(row, &rotated), values(row, &prompts));
        let well = |v: &ndarray::Array3<f64>| v.slice(s![.., .., 9..]).to_owned();
        let off = difference(&well(&a), &well(&b));
        assert!(off < 1e-8, "{}: {off}", row.name);
    }
}

#[test]
fn predictions_are_linear_where_promised() {
    let prompts = prompts(4, 9, 3);
    let queries = SEED.at("queries", 0).normals(3 * 4);
    let mut asked = ndarray::Array3::zeros((3, 3, 4));
    for b in 0..3 {
        for j in 0..4 {
            (asked[[b, 0, j]], asked[[b, 1, j]]) = (queries[j], queries[4 + j]);
            asked[[b, 2, j]] = 2.0 * queries[j] - 3.0 * queries[4 + j];
        }
    }
    let questions = Questions { prompts, lengths: vec![2, 6], queries: asked };
    for row in SOLVERS.iter().filter(|row| row.properties.linear) {
        let answers = learner(row).answers(&questions, &some_steps(row)).unwrap();
        let combined = &answers.slice(s![.., .., .., 0]) * 2.0 - &answers.slice(s![.., .., .., 1]) * 3.0;
        assert!(difference(&combined, answers.slice(s![.., .., .., 2])) < 1e-10, "{}", row.name);
    }
}

#[test]
fn answers_are_what_the_trajectory_says() {
    for row in SOLVERS {
        let (learner, steps) = (learner(row), some_steps(row));
        shared::answers_are_what_the_trajectory_says(&*learner, &steps, &prompts(4, 9, 3), &[5], 0.0);
    }
}

#[test]
fn the_last_step_is_least_squares_where_promised() {
    let dim = 4;
    let prompts = prompts(dim, 6 * dim, 4);
    let from = 4 * dim; // well conditioned from here on
    for row in SOLVERS {
        let Some(last) = row.properties.exact_after else { continue };
        let found = learner(row).trajectory(&prompts, &Steps::single(last)).unwrap().values;
        let error = difference(found.slice(s![0, .., from..]), prompts.ys.slice(s![.., from..]));
        assert!(error < 1e-9, "{} after {last} steps: {error}", row.name);
    }
}

#[test]
fn a_closed_form_equals_its_iterated_form() {
    let steps = Steps::parse("0..=12").unwrap();
    for (dim, points) in [(1, 5), (4, 20), (20, 41)] {
        let prompts = prompts(dim, points, 3);
        for row in SOLVERS.iter().filter(|row| row.properties.closed_form) {
            for lambda in ["0", "0.5"] {
                let of = |form: &str| {
                    let text = format!("{}:form={form},lambda={lambda}", row.name);
                    solvers::build(&text).unwrap().trajectory(&prompts, &steps).unwrap().values
                };
                let error = difference(&of("closed"), &of("iterated"));
                assert!(error < 1e-9, "{} d={dim} λ={lambda}: {error}", row.name);
            }
        }
    }
}

#[test]
fn strange_prompts_make_no_one_panic() {
    let mut zeros = prompts(3, 6, 2);
    zeros.xs.fill(0.0);
    let mut repeated = prompts(3, 6, 2);
    repeated.xs.slice_mut(s![.., 1.., ..]).fill(1.0);
    let mut huge = prompts(3, 6, 2);
    huge.xs *= 1e150;
    for row in SOLVERS {
        for prompts in [&zeros, &repeated, &prompts(1, 4, 2), &prompts(3, 1, 1)] {
            let values = values(row, prompts);
            assert!(values.iter().all(|v| v.is_finite()), "{}: {values}", row.name);
        }
        values(row, &huge); // may diverge; that is data
    }
}

#[test]
fn every_row_declares_its_settings_honestly() {
    for row in SOLVERS {
        assert!(!row.summary.is_empty() && !row.cite.is_empty());
        for setting in row.settings {
            let with = |value: &str| solvers::build(&format!("{}:{}={value}", row.name, setting.name));
            let built = with(setting.default);
            assert!(built.is_ok(), "{}:{}={} is refused", row.name, setting.name, setting.default);
            let message = with("nonsense").err().unwrap_or_else(|| panic!("{} takes nonsense", setting.name));
            let message = message.to_string();
            assert!(message.contains(setting.name) && message.contains("accepted"), "{message}");
        }
    }
}

#[test]
fn every_function_and_input_distribution_samples_the_same_bits_in_any_batch() {
    for function in lab::data::functions::FUNCTIONS {
        for inputs in lab::data::inputs::INPUTS {
            let task = Task::new(function.name, inputs.name, 5, 7).unwrap();
            let whole = task.sample(SEED, "laws", 0, 9);
            assert!(Prompts::new(whole.xs.clone(), whole.ys.clone()).is_ok());
            let tail = task.sample(SEED, "laws", 6, 3);
            assert_eq!(tail.xs, whole.xs.slice(s![6.., .., ..]), "{} {}", function.name, inputs.name);
            assert_eq!(tail.ys, whole.ys.slice(s![6.., ..]), "{} {}", function.name, inputs.name);
            assert_ne!(whole.ys.row(0), whole.ys.row(1), "{} {}", function.name, inputs.name);
            assert_ne!(task.sample(Seed(12), "laws", 0, 1).ys.row(0), whole.ys.row(0));
        }
    }
}

#[test]
fn least_squares_recovers_the_linear_classes() {
    for function in lab::data::functions::FUNCTIONS {
        let prompts = Task::new(function.name, "gaussian", 5, 16).unwrap().sample(SEED, "laws", 0, 8);
        let found = solvers::build("ols").unwrap().trajectory(&prompts, &Steps::single(1)).unwrap();
        let error = difference(found.values.slice(s![0, .., 8..]), prompts.ys.slice(s![.., 8..]));
        assert_eq!(error < 1e-9, function.properties.linear, "{}: {error}", function.name);
    }
}

#[test]
fn with_lambda_the_limit_is_ridge() {
    let prompts = prompts(4, 12, 3);
    let ridge =
        solvers::build("ridge:lambda=0.5").unwrap().trajectory(&prompts, &Steps::single(1)).unwrap().values;
    let mut found = 0;
    for row in SOLVERS.iter().filter(|row| row.name != "ridge") {
        let Some(last) =
            row.properties.exact_after.filter(|_| row.settings.iter().any(|s| s.name == "lambda"))
        else {
            continue;
        };
        let learner = solvers::build(&format!("{}:lambda=0.5", row.name)).unwrap();
        let values = learner.trajectory(&prompts, &Steps::single(last)).unwrap().values;
        assert!(difference(&values, &ridge) < 1e-6, "{}: {}", row.name, difference(&values, &ridge));
        found += 1;
    }
    assert!(found >= 8, "{found}");
}

#[test]
fn a_fitted_network_learns_the_two_layer_tasks() {
    for activation in ["relu", "tanh"] {
        let task = Task::new(&format!("{activation}-2nn:hidden=8,bias=false"), "gaussian", 2, 61).unwrap();
        let prompts = task.sample(SEED, "laws", 0, 6);
        for optimizer in ["gd,eta=0.1", "adam,eta=0.01"] {
            let name = format!("mlp-gd:hidden=32,activation={activation},optimizer={optimizer}");
            let found =
                solvers::build(&name).unwrap().trajectory(&prompts, &Steps::parse("0,600").unwrap()).unwrap();
            let error = |s| found.errors(&prompts, s).slice(s![.., 50..]).iter().map(|e| e * e).sum::<f64>();
            assert!(error(1) < 0.3 * error(0), "{name}: {} to {}", error(0), error(1));
        }
    }
}

#[test]
fn unknown_names_list_the_close_ones() {
    let message = |text: &str| solvers::build(text).err().expect(text).to_string();
    assert!(message("newtn").contains("did you mean newton"), "{}", message("newtn"));
    assert!(message("zzz").contains("known: ols"), "{}", message("zzz"));
    assert!(message("gd:etta=1").contains("did you mean eta"), "{}", message("gd:etta=1"));
    assert!(message("gd:eta").contains("name=value"));
    assert!(message("gd:eta=1,eta=2").contains("once"));
    assert!(Spec::parse("ols").unwrap().given.is_empty());
}
