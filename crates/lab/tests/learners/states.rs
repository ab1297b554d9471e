//! State probes find in constructions what theory says they hold, layer by layer, and splices move them by whole iterations.

use engine::deviation::worst;
use lab::constructions::{
    Constructed, Construction, Recipe, Start, Variant, build, build_causal, label_bound, step_limit,
};
use lab::patching::{Donor, Patched, Place, splices};
use lab::states::{Options, Quantity, ReadOutKind, Role, States};
use lab::streams::{Sight, Streams};
use lab::{Seed, Steps, Task};

const SEED: Seed = Seed(7);
const DIM: usize = 4;
const PAIRS: usize = 10;
const ITERATIONS: usize = 5;

fn task() -> Task {
    Task::new("linear", "gaussian", DIM, PAIRS + 1).unwrap()
}

fn recipe(variant: Variant) -> Recipe {
    let prompts = task().sample(SEED, "step", 0, 400);
    let step = step_limit(variant, &prompts, PAIRS) / 2.0;
    Recipe {
        variant,
        iterations: ITERATIONS,
        dim: DIM,
        pairs: PAIRS,
        step,
        label_bound: 2.0 * label_bound(&prompts),
    }
}

fn options(algorithm: String) -> Options {
    Options {
        algorithm,
        steps: (0..=ITERATIONS as u64).collect(),
        quantities: Quantity::every(),
        kind: ReadOutKind::Affine,
        prompts: [300, 100],
        pairs: vec![PAIRS],
        other_pairs: vec![],
        other_inputs: None,
        control: true,
        seed: SEED,
    }
}

/// The states of a construction, read with the quantities of its own algorithm.
fn states(construction: &Construction) -> States {
    let algorithm = Constructed::new("it", construction.clone()).solver(PAIRS);
    States::of(construction, &task(), &options(algorithm)).unwrap()
}

/// The gain of a quantity after k iterations, at the layer that makes iteration k, and the most at any other k.
fn gains(states: &States, layer: usize, k: usize, role: Role, quantity: Quantity) -> (f64, f64) {
    let at_layer = states.of_quantity(role, quantity).filter(|d| d.layer == layer);
    let (own, others): (Vec<_>, Vec<_>) = at_layer.partition(|d| d.step == Some(k as u64));
    (own[0].gain.value, others.iter().map(|d| d.gain.value).fold(f64::NEG_INFINITY, f64::max))
}

#[test]
fn constructions_hold_what_theory_says_at_every_layer() {
    let (inverse, residual) = (Quantity::Transformed, Quantity::Residual);
    for (variant, holds, lacks) in [
        (Variant::Compact(Start::Identity), inverse, residual),
        (Variant::Residual, inverse, residual),
        (Variant::Gd, residual, inverse),
        (Variant::GdPlusPlus, residual, Quantity::Weights),
    ] {
        let construction = build(&recipe(variant)).unwrap();
        let found = states(&construction);
        for k in 1..=3 {
            let layer = construction.before + k;
            let (own, others) = gains(&found, layer, k, Role::Y, holds);
            assert!(own > 0.999 && others < own - 1e-3, "{variant:?} {k}: {own} {others}");
            let (lacking, others) = gains(&found, layer, k, Role::Y, lacks);
            assert!(lacking.max(others) < 0.1, "{variant:?} {k}: {lacking} {others}");
        }
        // a control finds nothing, wherever there is something
        let controls = found.of_quantity(Role::Y, holds).map(|d| d.control.unwrap().value);
        assert!(worst(controls) < 0.1, "{variant:?}");
    }
}

#[test]
fn answers_grow_in_the_query_where_labels_are_read_at_every_layer() {
    for (variant, grows) in
        [(Variant::Residual, true), (Variant::Gd, true), (Variant::Compact(Start::Identity), false)]
    {
        let construction = build(&recipe(variant)).unwrap();
        let found = states(&construction);
        for k in 1..=3 {
            let (own, _) = gains(&found, construction.before + k, k, Role::X, Quantity::Answer);
            assert_eq!(own > 0.999, grows, "{variant:?} {k}: {own}");
            assert!(grows || own < 0.05, "{variant:?} {k}: {own}");
        }
        // labels leave the y tokens as the answer gathers
        let (prompts, donors) = Donor::Labels.pairs(&task(), SEED, 12);
        let patched = Patched::of_construction(&construction, [&prompts, &donors], &Place::ROLES).unwrap();
        let follows = patched.follows(SEED);
        for (layer, follows) in follows.iter().enumerate() {
            let [y, x, query] = [follows[0].value, follows[1].value, follows[2].value];
            assert!((y + query - 1.0).abs() < 1e-9 && x.abs() < 1e-9, "{variant:?} {layer}: {y} {x} {query}");
        }
        let middle = follows[construction.before + 2][0].value;
        assert_eq!(middle < 0.9, grows, "{variant:?}: {middle}");
    }
}

#[test]
fn a_splice_of_iterations_is_a_step() {
    let construction = build(&recipe(Variant::Residual)).unwrap();
    let prompts = task().sample(SEED, "eval", 0, 32);
    let newton = Constructed::new("it", construction.clone()).solver(PAIRS);
    let all = splices(&construction, &prompts, (&newton, &Steps::range(0, 8)), &[1, 2, -1], SEED).unwrap();
    assert_eq!((all[0].skipped(), all[0].step.value), (0, ITERATIONS as f64), "nothing was spliced");
    let among = all.iter().filter(|s| s.from > construction.before && s.to > construction.before);
    for splice in among {
        let expected = ITERATIONS as f64 - splice.skipped() as f64;
        assert_eq!(splice.step.value, expected, "from {} to {}", splice.from, splice.to);
        assert!(splice.left < 1e-18, "{}", splice.left);
    }
    let refused = construction.spliced(&prompts, &[(1, 99)]).unwrap_err().to_string();
    assert!(refused.contains("splice from layer 1 to layer 99; accepted: layers 1 to 7"), "{refused}");
}

#[test]
fn causal_constructions_see_only_the_past() {
    for variant in [Variant::Compact(Start::Identity), Variant::Residual, Variant::Gd, Variant::GdPlusPlus] {
        let recipe = Recipe { step: 0.05, ..recipe(variant) };
        let construction = build_causal(&recipe).unwrap().unwrap();
        assert_eq!((construction.sight(), build(&recipe).unwrap().sight()), (Sight::Past, Sight::All));
        let prompts = task().sample(SEED, "eval", 0, 3);
        let mut later = prompts.clone();
        later.ys.slice_mut(ndarray::s![.., PAIRS - 1..]).fill(7.0);
        let tokens: Vec<usize> = (0..2 * PAIRS - 1).collect(); // before the changed label
        let read = |prompts| construction.read(prompts, &tokens).unwrap();
        assert_eq!(read(&prompts), read(&later), "{variant:?}");
        let last = |prompts| construction.read(prompts, &[2 * PAIRS]).unwrap().pop().unwrap();
        assert_ne!(last(&prompts), last(&later), "{variant:?}");
    }
    assert!(build_causal(&recipe(Variant::Paper)).unwrap().is_none());
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let construction = build(&recipe(Variant::Gd)).unwrap();
    let refused = |options: Options| States::of(&construction, &task(), &options).unwrap_err().to_string();
    let usual = || options("gd:eta=0.1".into());
    assert_eq!(refused(Options { pairs: vec![PAIRS + 1], ..usual() }), "11 pairs; accepted: 1 to 10");
    let two = refused(Options { pairs: vec![5, 6], ..usual() });
    assert_eq!(two, "2 numbers of pairs, but every token sees the whole prompt; accepted: one");
    let cg = refused(Options { algorithm: "cg".into(), ..usual() });
    assert!(
        cg.starts_with("cg has no closed form in the eigen-directions of S; accepted: newton, gd"),
        "{cg}"
    );
    let few = refused(Options { prompts: [300, 1], ..usual() });
    assert_eq!(few, "1 prompts to fit to or to judge on; accepted: at least 2");
}
