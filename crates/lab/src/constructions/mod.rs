//! Constructions: Transformers whose weights are an algorithm, built by hand, run as what they are, and compared with the
//! algorithm they claim to be.
//!
//! [`Recipe`] → [`build`] → [`Construction`] (a [`Transformer`] and which of its layers are iterations) → [`Constructed`], a
//! learner whose steps are iterations. [`mod@file`] keeps it, [`describe`] explains it, [`picture`] draws it.
//!
//! ```
//! use lab::constructions::{Constructed, Recipe, Start, Variant, build, step_limit};
//! use lab::prelude::*;
//!
//! let prompts = Task::new("linear", "gaussian", 3, 7)?.sample(Seed(0), "eval", 0, 4);
//! let (variant, pairs) = (Variant::Compact(Start::Identity), 6);
//! let step = step_limit(variant, &prompts, pairs) / 2.0;
//! let recipe = Recipe { variant, iterations: 8, dim: 3, pairs, step, label_bound: 1.0 };
//! let construction = build(&recipe)?;
//! assert_eq!((construction.transformer.layers.len(), construction.transformer.width()), (8 + 2, 3 * 3 + 5));
//!
//! let transformer = Constructed::new("compact", construction);
//! let newton = solvers::build(&transformer.solver(pairs))?;
//! let predictions = |learner: &dyn Learner| learner.trajectory(&prompts, &Steps::range(0, 8));
//! let off = predictions(&transformer)?.values - predictions(&*newton)?.values;
//! assert!(off.iter().all(|v| v.abs() < 1e-9));
//! # Ok::<(), lab::Error>(())
//! ```

mod compact;
pub mod describe;
pub mod file;
mod gate;
mod gd;
mod gd_plus_plus;
mod layers;
mod learner;
mod made;
mod map;
pub mod operations;
mod paper;
mod perturbed;
pub mod picture;
mod recipe;
mod residual;
mod rls;
mod slots;
pub mod transformer;

pub use gate::Positions;
pub use learner::{Constructed, deviations};
pub use made::{CHECKED_ON, Made, Wish, make};
pub use map::Map;
pub use recipe::{LARGEST, Misprints, Recipe, Start, Variant, label_bound, step_limit};
pub use slots::{Slot, Slots, Wire};
pub use transformer::Transformer;

use self::layers::Sums;
use crate::data::prompts::Prompts;
use crate::error::{Error, Result};

/// A Transformer together with how its layers are to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Construction {
    /// What it was built from.
    pub recipe: Recipe,
    /// The weights.
    pub transformer: Transformer,
    /// Layers before the first iteration.
    pub before: usize,
    /// Layers after the last iteration.
    pub after: usize,
    /// Whether other columns see the query, so that it cannot be asked beside others.
    pub query_is_seen: bool,
}

impl Construction {
    /// Refuses prompts that its weights cannot read; `who` is what it is called.
    pub fn check(&self, who: &str, prompts: &Prompts) -> Result<()> {
        let recipe = &self.recipe;
        let refuse = |what: String, accepted: String| {
            Err(Error::BadData(format!("{what} for {who}; accepted: {accepted}")))
        };
        if prompts.dim() != recipe.dim {
            return refuse(format!("prompts of {} dimensions", prompts.dim()), recipe.dim.to_string());
        }
        if prompts.points() > recipe.pairs + 1 {
            let accepted = format!("at most {}, {} pairs and a query", recipe.pairs + 1, recipe.pairs);
            return refuse(format!("prompts of {} points", prompts.points()), accepted);
        }
        let bounded = matches!(recipe.variant, Variant::Paper | Variant::Printed);
        let largest = prompts.ys.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
        if bounded && largest >= 2.0 * recipe.label_bound {
            let accepted =
                format!("labels below {}, which is built into its weights", 2.0 * recipe.label_bound);
            return refuse(format!("a label of size {largest}"), accepted);
        }
        Ok(())
    }
}

/// Builds the weights of a recipe.
pub fn build(recipe: &Recipe) -> Result<Construction> {
    build_with(recipe, Misprints::default())
}

/// The same with chosen misprints.
pub fn build_with(recipe: &Recipe, misprints: Misprints) -> Result<Construction> {
    recipe.check()?;
    Ok(match recipe.variant {
        Variant::Compact(_) => compact::build(recipe, Sums::All, misprints),
        Variant::Causal => compact::build(recipe, Sums::Past, misprints),
        Variant::Paper => paper::build(recipe, misprints),
        Variant::Printed => paper::build(recipe, Misprints::ALL),
        Variant::Residual => residual::build(recipe, Sums::All),
        Variant::Gd => gd::build(recipe, Sums::All),
        Variant::GdPlusPlus => gd_plus_plus::build(recipe, Sums::All),
        Variant::Rls => return Err(Error::BadData("recursive least squares has no iterations".into())),
    })
}

/// The same weights for a network that sees only the past: sums over all columns become means over the pairs read so far, so
/// that it is no longer exactly the algorithm. `None` for variants that have no such form, or are causal already.
pub fn build_causal(recipe: &Recipe) -> Result<Option<Construction>> {
    recipe.check()?;
    Ok(match recipe.variant {
        Variant::Compact(_) => Some(compact::build(recipe, Sums::Past, Misprints::default())),
        Variant::Residual => Some(residual::build(recipe, Sums::Past)),
        Variant::Gd => Some(gd::build(recipe, Sums::Past)),
        Variant::GdPlusPlus => Some(gd_plus_plus::build(recipe, Sums::Past)),
        Variant::Causal | Variant::Paper | Variant::Printed | Variant::Rls => None,
    })
}

/// Recursive least squares from P = δI on prompts of exactly `pairs` pairs whose inputs are at most `longest` long, and how many
/// layers each pair takes after the first layer. It has no iterations: its one step, 0, reads all pairs.
pub fn build_rls(dim: usize, pairs: usize, delta: f64, longest: f64) -> Result<(Construction, usize)> {
    let recipe = Recipe { variant: Variant::Rls, iterations: 0, dim, pairs, step: delta, label_bound: 1.0 };
    recipe.check()?;
    let bound = 1.0 + delta * longest * longest;
    Ok((rls::build(&recipe, bound), rls::layers_per_pair(bound)))
}
