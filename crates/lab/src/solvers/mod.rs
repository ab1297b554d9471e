//! Classical algorithms as learners. To add one: a file with a `ROW`, and a line in [`SOLVERS`].
//!
//! A file holds the update as on paper and nothing else; [`classical`] owns the loops over prompts, prefixes
//! and steps.

mod amp;
mod averaging;
mod cg;
mod chebyshev;
pub mod classical;
mod dual;
mod gd;
mod gd_plus_plus;
mod hyperpower;
mod inverse;
mod iterative;
mod knn;
mod lbfgs;
mod line_search;
mod mlp;
mod momentum;
mod newton;
mod ogd;
mod ols;
mod pcg;
pub mod polynomial;
mod problem;
mod quasi_newton;
mod rls;

pub use gd_plus_plus::polar_schedule;
pub use iterative::{Filter, Form, Iterative, Solver, pointwise};
pub use newton::moment_coefficients;
pub use problem::{Problem, SufficientStatistics};

use std::collections::BTreeMap;

use crate::error::Result;
use crate::learners::Learner;
use crate::registry::{Id, Row, Setting, Spec};

/// One row of the registry of algorithms.
pub type SolverRow = Row<dyn Learner, Properties>;

/// An algorithm's name in figures, and what it promises beyond what binds all (only the past is used; recording fewer steps
/// changes no value).
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Name in figures.
    pub label: &'static str,
    /// Rotating all inputs changes no prediction.
    pub rotation_equivariant: bool,
    /// Predictions are wᵀx with weights that do not depend on x.
    pub linear: bool,
    /// Steps after which it equals least squares on well-conditioned data of full rank; `None` if it never does.
    pub exact_after: Option<u64>,
    /// It has a closed form (`form=closed`) that equals its iterated form.
    pub closed_form: bool,
}

impl Properties {
    /// What most promise: rotation-equivariant and linear.
    pub const fn of(label: &'static str) -> Properties {
        Properties { label, rotation_equivariant: true, linear: true, exact_after: None, closed_form: false }
    }
}

/// Every algorithm.
pub const SOLVERS: &[SolverRow] = &[
    ols::OLS,
    ols::RIDGE,
    gd::ROW,
    gd_plus_plus::ROW,
    momentum::HEAVY_BALL,
    momentum::NESTEROV,
    chebyshev::ROW,
    ogd::ROW,
    newton::ROW,
    hyperpower::ROW,
    cg::ROW,
    pcg::ROW,
    quasi_newton::BFGS,
    quasi_newton::DFP,
    lbfgs::ROW,
    rls::ROW,
    amp::ROW,
    averaging::ROW,
    knn::ROW,
    mlp::ROW,
];

/// Builds an algorithm from text such as `gd:eta=0.01`.
///
/// ```
/// use lab::prelude::*;
///
/// let prompts = Task::new("linear", "gaussian", 3, 8)?.sample(Seed(0), "eval", 0, 4);
/// let bfgs = solvers::build("bfgs:line_search=armijo")?;
/// let found = bfgs.trajectory(&prompts, &Steps::range(0, 10))?;
/// assert_eq!(found.values.dim(), (11, 4, 8)); // [step, prompt, position]
/// assert_eq!(solvers::label(&found.learner), "BFGS (line_search=armijo)");
/// assert!(solvers::build("bfgs:eta=1").is_err_and(|e| e.to_string().contains("no setting 'eta'")));
/// # Ok::<(), Error>(())
/// ```
pub fn build(text: &str) -> Result<Box<dyn Learner>> {
    Spec::parse(text)?.build("solver", SOLVERS)
}

/// `text` with every default written out, for plans.
pub fn resolve(text: &str) -> Result<String> {
    Ok(Spec::parse(text)?.find("solver", SOLVERS)?.1.resolved())
}

/// The name of a learner in figures: `BFGS (line_search=armijo)`; an id of something else stays as it is.
pub fn label(id: &Id) -> String {
    let Some(row) = SOLVERS.iter().find(|row| row.name == id.name) else { return id.to_string() };
    let given = not_default(row, &id.given);
    let label = row.properties.label;
    if given.is_empty() { label.into() } else { format!("{label} ({})", given.join(", ")) }
}

/// What to type for an algorithm at least: `newton:start=identity`. Anything else stays as it is.
pub fn short(text: &str) -> String {
    let Ok(spec) = Spec::parse(text) else { return text.into() };
    let Some(row) = SOLVERS.iter().find(|row| row.name == spec.name) else { return text.into() };
    let given = not_default(row, &spec.given);
    if given.is_empty() { row.name.into() } else { format!("{}:{}", row.name, given.join(",")) }
}

/// The settings that were given another value than their default, each as `name=value`.
fn not_default(row: &SolverRow, given: &BTreeMap<String, String>) -> Vec<String> {
    let given = given
        .iter()
        .filter(|(name, value)| !row.settings.iter().any(|s| s.name == *name && s.default == *value));
    given.map(|(name, value)| format!("{name}={value}")).collect()
}

/// The setting that lets an algorithm act on S + λI.
const LAMBDA: Setting =
    Setting { name: "lambda", default: "0", help: "acts on S + λI; σ² for noisy labels" };

/// The setting that chooses between the recurrence and its closed form.
const fn form(default: &'static str) -> Setting {
    Setting {
        name: "form",
        default,
        help: "iterated: the recurrence, round-off included; closed: through the eigenvalues of S, any step at once",
    }
}
