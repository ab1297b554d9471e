//! Activation patching: where in a network what was read lives, layer by layer and token by token.
//!
//! A network answers a query after some pairs. The same is done with a donor prompt, which differs in its labels, its inputs,
//! or both; then an activation of the first run is replaced by the donor's, at some tokens of one layer, and the rest is computed
//! from there. How far the answer goes towards the donor's says how much of the difference those tokens hold.
//!
//! ```text
//! Donor (what differs) × Part (stream, attention, MLP) × Place (a role, or a token) → Maps { follows[layer][place] }
//! maps: on the CPU, of each place the tokens that it can change     on_device: on a CUDA device, all places together
//! recorded: what a network answered once, as a file
//! ```

mod constructed;
mod maps;
mod on_device;
pub mod plan;
mod recorded;
mod shown;
mod splice;

pub use maps::{Maps, Patched};
pub use recorded::{ASKED, PATCHED, RecordedPatches};
pub use splice::{Splice, splices};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::registry::one_of;

/// How a donor prompt differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Donor {
    /// The same inputs under another function.
    Labels,
    /// Other inputs, the query included, under the same function.
    Inputs,
    /// Another prompt altogether.
    Both,
}

impl Donor {
    /// Every kind with its name and what it is.
    pub const ALL: [(Donor, &str, &str); 3] = [
        (Donor::Labels, "labels", "The same inputs under another function"),
        (Donor::Inputs, "inputs", "Other inputs, the query included, under the same function"),
        (Donor::Both, "both", "Another prompt altogether"),
    ];

    /// Prompts and their donors.
    pub fn pairs(self, task: &Task, seed: Seed, count: usize) -> (Prompts, Prompts) {
        let (own, other) = ("eval", "donor");
        let (inputs, function) = match self {
            Donor::Labels => (own, other),
            Donor::Inputs => (other, own),
            Donor::Both => (other, other),
        };
        (task.sample(seed, own, 0, count), task.sample_crossed(seed, inputs, function, 0, count))
    }
}

impl FromStr for Donor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Donor> {
        one_of("donor", text, &Donor::ALL)
    }
}

impl fmt::Display for Donor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Donor::ALL[*self as usize].1)
    }
}

/// What is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The residual stream before a layer.
    Stream,
    /// What a layer's attention heads hand to the projection.
    Attention,
    /// The hidden layer of a layer's MLP.
    Mlp,
}

impl Part {
    /// Every part with its name and what it is.
    pub const ALL: [(Part, &str, &str); 3] = [
        (Part::Stream, "stream", "The residual stream before a layer"),
        (Part::Attention, "attention", "What the attention heads of a layer hand to the projection"),
        (Part::Mlp, "mlp", "The hidden layer of a layer's MLP"),
    ];
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part> {
        one_of("part", text, &Part::ALL)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Part::ALL[*self as usize].1)
    }
}

/// The tokens at which something is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The x tokens of the pairs.
    X,
    /// The y tokens of the pairs.
    Y,
    /// The query.
    Query,
    /// One token, from 0.
    Token(usize),
    /// The y tokens of pairs number `first` to before `end`, from 0.
    Labels {
        /// See above.
        first: usize,
        /// See above.
        end: usize,
    },
}

impl Place {
    /// The three roles.
    pub const ROLES: [Place; 3] = [Place::Y, Place::X, Place::Query];

    /// Its tokens in a prompt of so many pairs and a query: x₁, y₁, …, x_query.
    pub fn tokens(self, pairs: usize) -> Vec<usize> {
        match self {
            Place::X => (0..pairs).map(|i| 2 * i).collect(),
            Place::Y => (0..pairs).map(|i| 2 * i + 1).collect(),
            Place::Query => vec![2 * pairs],
            Place::Token(token) => vec![token],
            Place::Labels { first, end } => (first..end).map(|i| 2 * i + 1).collect(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::X => f.write_str("x tokens"),
            Place::Y => f.write_str("y tokens"),
            Place::Query => f.write_str("query"),
            Place::Token(token) if token % 2 == 0 => write!(f, "x{}", token / 2 + 1),
            Place::Token(token) => write!(f, "y{}", token / 2 + 1),
            Place::Labels { first, end } => write!(f, "y{} to y{end}", first + 1),
        }
    }
}
