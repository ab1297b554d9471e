//! The one table of what is not run as printed, and what stands in for it.

/// What is done with a line in place of running it.
pub enum Instead {
    /// This is run: the same command, made smaller.
    Smaller(&'static str),
    /// Nothing is run.
    Nothing,
}

use Instead::{Nothing, Smaller};

/// Page, line as printed (its comment left off), what is done instead, and why.
pub const EXCEPTIONS: &[(&str, &str, Instead, &str)] = &[
    ("README.md", "cargo run --release -- reproduce", Nothing, "seven minutes; reproduce.rs runs its parts"),
    ("README.md", "./scripts/test", Nothing, "it runs these tests"),
    (
        "README.md",
        "iclab sample --prompts 1280 --seed 7 --out p.npz",
        Smaller(
            "iclab sample --prompts 64 --seed 7 --out p.npz && iclab predict gd --prompts p.npz --out mine.npz",
        ),
        "gradient descent stands in for the reader's model",
    ),
    ("README.md", "iclab train miniature", Smaller("iclab train miniature --steps 40"), "a minute"),
    (
        "README.md",
        "iclab probe r1 --interventions --out needed",
        Smaller("iclab probe miniature --interventions --look 16 --out needed"),
        "minutes for 12 layers and 96 heads",
    ),
    (
        "README.md",
        "iclab reproduce --model r1=runs/r1-fast-0123456789abcdef",
        Nothing,
        "a run that nobody has; models.rs gives one of its own",
    ),
    (
        "README.md",
        "iclab train r1-fast --seeds 4 --device auto",
        Smaller("iclab train miniature --steps 3 --seeds 4 --device auto"),
        "hours without a GPU",
    ),
    (
        "docs/guide/README.md",
        "git clone --depth 1 ADDRESS-OF-THIS-REPOSITORY iclab && cd iclab",
        Nothing,
        "the tests are in the clone",
    ),
    ("docs/guide/README.md", "cargo install --path crates/cli", Nothing, "the tests have built it"),
    (
        "docs/guide/README.md",
        "iclab sample --dim 20 --points 41 --prompts 64 --out p.npz",
        Smaller("iclab sample --dim 3 --points 4 --prompts 2 --out p.npz"),
        "the checkpoint that stands in for a user's reads three dimensions",
    ),
    (
        "docs/guide/README.md",
        "xdg-open layers/index.html",
        Smaller("test -s layers/index.html"),
        "no browser",
    ),
    ("docs/guide/install.md", "cargo install --path crates/cli", Nothing, "the tests have built it"),
    (
        "docs/guide/install.md",
        "iclab train miniature",
        Smaller("iclab train miniature --steps 40"),
        "a minute",
    ),
    (
        "docs/guide/inside.md",
        "iclab train miniature",
        Smaller("iclab train miniature --steps 40"),
        "a minute",
    ),
    ("docs/guide/python.md", "pip install ./python", Nothing, "scripts/test installs it"),
    ("docs/guide/reproduce.md", "iclab reproduce", Nothing, "seven minutes; reproduce.rs runs its parts"),
    (
        "docs/guide/reproduce.md",
        "iclab reproduce --quick",
        Nothing,
        "a minute; reproduce.rs has a smaller one",
    ),
    (
        "docs/guide/reproduce.md",
        "iclab reproduce --from-scratch --device auto --out from-scratch",
        Nothing,
        "days without a GPU; reproduce.rs trains smaller networks",
    ),
    (
        "docs/guide/own-pytorch-model.md",
        "iclab import state.pt --heads 2 --out model.safetensors --check few.npz outputs.npz",
        Nothing,
        "no PyTorch here to compute outputs.npz; the guide's first page checks outputs that it once computed",
    ),
    (
        "docs/guide/which-algorithm.md",
        "iclab train miniature",
        Smaller("iclab train miniature --steps 40"),
        "a minute",
    ),
    (
        "docs/guide/own-variant.md",
        "iclab train mine.toml",
        Smaller("iclab train mine.toml --steps 40"),
        "a minute",
    ),
    (
        "docs/guide/own-variant.md",
        "tensorboard --logdir runs",
        Smaller("ls runs/mine-*/events.out.tfevents.*"),
        "TensorBoard serves until it is stopped",
    ),
    (
        "docs/guide/add-a-solver.md",
        "cargo run --release -p iclab-lab --example own_solver",
        Nothing,
        "an example of the library, with tests inside",
    ),
    ("docs/guide/share.md", "hf auth login", Nothing, "an account of the reader's"),
    (
        "docs/guide/share.md",
        "hf upload USER/r1 r1-hub .",
        Nothing,
        "an account of the reader's; tests send nothing",
    ),
    ("docs/guide/share.md", "iclab train miniature", Smaller("iclab train miniature --steps 40"), "a minute"),
    (
        "docs/guide/share.md",
        "tensorboard --logdir runs",
        Smaller("ls runs/miniature-*/events.out.tfevents.*"),
        "TensorBoard serves until it is stopped",
    ),
    (
        "docs/guide/sweeps.md",
        "iclab sweep experiments/sweeps/widths.toml --on slurm",
        Nothing,
        "slurm.rs starts a cluster of its own",
    ),
];

/// Files that a page's folder has before its commands are run: name, the repository's file, and a replacement within it
/// that makes it smaller.
pub const FILES: &[(&str, &str, &str, (&str, &str))] = &[
    ("README.md", "state.pt", "crates/engine/tests/golden/garg.pt", ("", "")),
    ("docs/guide/README.md", "state.pt", "crates/engine/tests/golden/garg.pt", ("", "")),
    ("docs/guide/own-pytorch-model.md", "state.pt", "crates/engine/tests/golden/garg.pt", ("", "")),
    ("README.md", SWEEP, SWEEP, SHORTER),
    ("docs/guide/sweeps.md", SWEEP, SWEEP, SHORTER),
    ("README.md", BASE, BASE, ("", "")),
    ("docs/guide/sweeps.md", BASE, BASE, ("", "")),
];
const SWEEP: &str = "experiments/sweeps/miniature.toml";
const BASE: &str = "experiments/miniature.toml";
const SHORTER: (&str, &str) = ("training.steps = 1500", "training.steps = 20");
