//! The options that describe prompts, shared by the commands that need some.

use clap::Args;
use lab::learners::planned::Sampled;
use lab::learners::task::KnownTask;

/// Which prompts to sample.
#[derive(Args, Clone, Debug)]
pub struct TaskArgs {
    /// Function class, with settings as NAME:setting=value (see `iclab list functions`) [default: linear, or what a
    /// compared network knows]
    #[arg(long)]
    pub function: Option<String>,
    /// Input distribution, with settings as NAME:setting=value (see `iclab list inputs`) [default: gaussian,
    /// or what a compared network knows]
    #[arg(long)]
    pub inputs: Option<String>,
    /// Dimension d of an input [default: 20, or what a compared network knows]
    #[arg(long)]
    pub dim: Option<usize>,
    /// Points per prompt, the query included [default: 41, or what a compared network knows]
    #[arg(long)]
    pub points: Option<usize>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl TaskArgs {
    /// What was asked for.
    pub fn given(&self) -> KnownTask {
        let TaskArgs { function, inputs, dim, points, .. } = self.clone();
        KnownTask { function, inputs, dim, points }
    }

    /// What they describe, the paper's task where nothing was asked for.
    pub fn sampled(&self) -> Sampled {
        Sampled::new(self.given().or_usual(), self.seed)
    }
}
