//! By which recipes the networks of a reproduction were trained: the paper's, or another.

use serde::{Deserialize, Serialize};

use crate::analyses::kit::names;
use crate::analyses::{Analysis, Lab};
use crate::networks::models::Recipe;

/// How a network was trained that bears the name of one of the paper's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trained {
    /// The network: `R4`.
    pub network: String,
    /// How, where that is not the paper's way to its end: `Muon at 3e-3 in 8,000 steps`.
    pub other: Option<String>,
    /// Whether it was the paper's way, but not to its end.
    pub cut: bool,
    /// Whether it was the paper's way, but from another start.
    #[serde(default)]
    pub other_start: bool,
}

impl Trained {
    /// Of every network of the paper that some analyses ask; a network that says itself to be fast is none.
    pub fn of_all(analyses: &[&Analysis], lab: &Lab) -> Vec<Trained> {
        let mut asked: Vec<&str> = analyses.iter().flat_map(|analysis| analysis.needs).copied().collect();
        asked.retain(|name| names::named_after_paper(name));
        asked.sort_unstable();
        asked.dedup();
        let trained = |name: &str| {
            let other = lab.other_recipe(name);
            let cut = matches!(other, Some(Recipe::Cut { .. }));
            let other_start = matches!(other, Some(Recipe::Start(_)));
            let other = other.map(|recipe| recipe.to_string());
            Trained { network: names::of(&[name]), other, cut, other_start }
        };
        asked.into_iter().map(trained).collect()
    }
}
