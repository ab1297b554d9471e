//! The options that describe prompts, shared by the commands that need some.

use std::path::{Path, PathBuf};

use clap::Args;
use lab::{Prompts, Seed, Task};
use ndarray::{Array2, Array3};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::npz::Reader;

/// Which prompts to sample.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The task they describe.
    pub fn task(&self) -> Result<Task> {
        Ok(Task::new(&self.function, &self.inputs, self.dim, self.points)?)
    }

    /// The seed.
    pub fn seed(&self) -> Seed {
        Seed(self.seed)
    }
}

/// A number of prompts to sample, or a file that holds them.
#[derive(Clone, Debug)]
pub enum Source {
    /// Sample so many.
    Count(usize),
    /// Read `xs` and `ys`.
    File(PathBuf),
}

impl std::str::FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        match text.parse::<usize>() {
            Ok(0) => Err("accepted: at least 1 prompt, or an .npz file".into()),
            Ok(count) if count > 10_000_000 => Err("accepted: at most 10000000 prompts".into()),
            Ok(count) => Ok(Source::Count(count)),
            Err(_) if text.ends_with(".npz") => Ok(Source::File(text.into())),
            Err(_) => Err("accepted: a number of prompts, or the name of an .npz file".into()),
        }
    }
}

/// Reads prompts from `xs` [b,n,d] and `ys` [b,n].
pub fn read_prompts(path: &Path) -> Result<Prompts> {
    let mut reader = Reader::open(path)?;
    let xs = reader.array("xs", &["prompt", "point", "dimension"])?;
    let ys = reader.array("ys", &["prompt", "point"])?;
    let bad = |e: String| Error::content(path, e);
    let xs = Array3::from_shape_vec((xs.shape[0], xs.shape[1], xs.shape[2]), xs.values)
        .map_err(|e| bad(e.to_string()))?;
    let ys = Array2::from_shape_vec((ys.shape[0], ys.shape[1]), ys.values).map_err(|e| bad(e.to_string()))?;
    Prompts::new(xs, ys).map_err(|e| bad(e.to_string()))
}
