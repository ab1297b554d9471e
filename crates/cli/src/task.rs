//! The options that describe prompts, shared by the commands that need some.

use clap::Args;
use lab::compare::plan::Sampled;

/// Which prompts to sample.
#[derive(Args, Clone, Debug)]
pub struct TaskArgs {
    /// Function class, with settings as NAME:setting=value (see `iclab list functions`)
    #[arg(long, default_value = "linear")]
    pub function: String,
    /// Input distribution, with settings as NAME:setting=value (see `iclab list inputs`)
    #[arg(long, default_value = "gaussian")]
    pub inputs: String,
    /// Dimension d of an input
    #[arg(long, default_value_t = 20)]
    pub dim: usize,
    /// Points per prompt, the query included
    #[arg(long, default_value_t = 41)]
    pub points: usize,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl TaskArgs {
    /// What they describe.
    pub fn sampled(&self) -> Sampled {
        let TaskArgs { function, inputs, dim, points, seed } = self.clone();
        Sampled { function, inputs, dim, points, seed }
    }
}
