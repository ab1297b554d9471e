//! A patch: values in place of what a network computes.

use std::sync::Arc;

use super::Site;

/// Values in place of what a network computes at a site, at some tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// Where.
    pub site: Site,
    /// At which tokens of every prompt.
    pub tokens: Tokens,
    /// What is there instead.
    pub values: Values,
}

/// Tokens of a prompt, which begins x₁, y₁, x₂, …
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tokens {
    /// All of them.
    All,
    /// The x tokens 0, 2, 4, …
    X,
    /// The y tokens 1, 3, 5, …
    Y,
    /// These, by their numbers from 0.
    These(Vec<usize>),
}

/// What replaces an activation; rows are as wide as the site.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Zero.
    Zero,
    /// The same for every prompt, a row for each position `[positions, width]`: a mean, or the activation of one donor.
    PerPosition(Arc<[f32]>),
    /// A row for each prompt and each token that is replaced, `[batch, tokens, width]`.
    PerPrompt(Arc<[f32]>),
}

impl Patch {
    /// Values of its own for every prompt, at some tokens: `[batch, tokens, width of the site]`.
    pub fn per_prompt(site: Site, tokens: &[usize], values: impl Into<Arc<[f32]>>) -> Patch {
        Patch { site, tokens: Tokens::These(tokens.to_vec()), values: Values::PerPrompt(values.into()) }
    }
}

impl Tokens {
    /// The number that a token has among them, if it is one of them.
    pub fn index_of(&self, token: usize) -> Option<usize> {
        match self {
            Tokens::All => Some(token),
            Tokens::X => token.is_multiple_of(2).then_some(token / 2),
            Tokens::Y => (token % 2 == 1).then_some(token / 2),
            Tokens::These(tokens) => tokens.iter().position(|other| *other == token),
        }
    }

    /// How many of them a prompt of so many tokens has.
    pub fn among(&self, tokens: usize) -> usize {
        match self {
            Tokens::All => tokens,
            Tokens::X => tokens.div_ceil(2),
            Tokens::Y => tokens / 2,
            Tokens::These(these) => these.len(),
        }
    }

    /// In words, after "at".
    pub(super) fn words(&self) -> String {
        match self {
            Tokens::All => "all tokens".into(),
            Tokens::X => "the x tokens".into(),
            Tokens::Y => "the y tokens".into(),
            Tokens::These(tokens) if tokens.is_empty() => "no token".into(),
            Tokens::These(tokens) => {
                const SHOWN: usize = 4;
                let shown: Vec<String> = tokens.iter().take(SHOWN).map(usize::to_string).collect();
                let more = if tokens.len() > SHOWN { ", …" } else { "" };
                let noun = if tokens.len() == 1 { "token" } else { "tokens" };
                format!("{noun} {}{more}", shown.join(", "))
            }
        }
    }
}
