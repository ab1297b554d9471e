//! State probes find in constructions what theory says they hold, layer by layer, and nothing in a network that was not trained.

use lab::constructions::{Recipe, Start, Variant, build, step_limit};
use lab::states::{Options, Quantity, ReadOutKind, Role, States};
use lab::{Seed, Task};

const SEED: Seed = Seed(7);
const DIM: usize = 4;
const PAIRS: usize = 10;
const ITERATIONS: usize = 6;

/// The states of a construction, read with the quantities of its own algorithm.
fn states(variant: Variant) -> States {
    let task = Task::new("linear", "gaussian", DIM, PAIRS + 1).unwrap();
    let prompts = task.sample(SEED, "step", 0, 400);
    let step = step_limit(variant, &prompts, PAIRS) / 2.0;
    let label_bound = lab::constructions::label_bound(&prompts) * 2.0;
    let recipe = Recipe { variant, iterations: ITERATIONS, dim: DIM, pairs: PAIRS, step, label_bound };
    let construction = build(&recipe).unwrap();
    let algorithm = lab::constructions::Constructed::new("it", construction.clone()).solver(PAIRS);
    let options = Options {
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
    };
    States::of(&construction, &task, &options).unwrap()
}

#[test]
fn look() {
    for variant in [
        Variant::Residual,
        Variant::Compact(Start::Identity),
        Variant::Paper,
        Variant::Gd,
        Variant::GdPlusPlus,
    ] {
        let found = states(variant);
        println!("{variant:?}");
        for layer in 0..=found.layers {
            for role in Role::ALL {
                for (quantity, name, _) in Quantity::ALL {
                    if let Some(best) = found.best(layer, role, quantity) {
                        print!(
                            " {}{name}:{:?} {:.3} ({:.2});",
                            if role == Role::X { "x " } else { "y " },
                            best.step.unwrap_or(99),
                            best.gain.value,
                            best.control.value
                        );
                    }
                }
            }
            println!();
        }
    }
}
