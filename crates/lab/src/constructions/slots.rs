//! Slots: named stretches of the hidden state, in which a construction keeps its quantities.

use std::ops::Range;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// A named stretch of the hidden state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Short name: `a`, `out`.
    pub name: String,
    /// How many entries.
    pub size: usize,
    /// What it holds, in words.
    pub meaning: String,
}

/// All slots, in the order of the hidden state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slots(pub Vec<Slot>);

impl Slots {
    /// From (name, size, meaning).
    pub fn new(slots: &[(&str, usize, &str)]) -> Slots {
        let slot = |&(name, size, meaning): &(&str, usize, &str)| Slot {
            name: name.into(),
            size,
            meaning: meaning.into(),
        };
        Slots(slots.iter().map(slot).collect())
    }

    /// Width of the hidden state.
    pub fn width(&self) -> usize {
        self.0.iter().map(|slot| slot.size).sum()
    }

    /// Where a slot lies.
    ///
    /// # Panics
    /// If there is no such slot, which is a mistake in a construction.
    pub fn range(&self, name: &str) -> Range<usize> {
        let mut start = 0;
        for slot in &self.0 {
            if slot.name == name {
                return start..start + slot.size;
            }
            start += slot.size;
        }
        panic!("no slot '{name}'");
    }

    /// The matrix `[w,w]` that copies slots to slots: each wire is (from, to, coefficient).
    pub fn wires(&self, wires: &[Wire]) -> Array2<f64> {
        let mut matrix = Array2::zeros((self.width(), self.width()));
        for &(from, to, coefficient) in wires {
            let (from, to) = (self.range(from), self.range(to));
            assert_eq!(from.len(), to.len(), "a wire joins slots of one size");
            from.zip(to).for_each(|(from, to)| matrix[[to, from]] += coefficient);
        }
        matrix
    }

    /// Matrices Q and K `[r,w]` with ⟨Q h_t, K h_s⟩ = Σ coefficient · ⟨slot of h_t, slot of h_s⟩ over the terms
    /// (slot of h_t, slot of h_s, coefficient).
    pub fn bilinear(&self, terms: &[Wire]) -> (Array2<f64>, Array2<f64>) {
        let terms: Vec<_> = terms.iter().filter(|term| term.2 != 0.0).collect();
        let rank = terms.iter().map(|term| self.range(term.0).len()).sum();
        let mut query = Array2::zeros((rank, self.width()));
        let mut key = query.clone();
        let mut row = 0;
        for &&(mine, theirs, coefficient) in &terms {
            let (mine, theirs) = (self.range(mine), self.range(theirs));
            assert_eq!(mine.len(), theirs.len(), "a product joins slots of one size");
            for (mine, theirs) in mine.zip(theirs) {
                (query[[row, mine]], key[[row, theirs]]) = (coefficient, 1.0);
                row += 1;
            }
        }
        (query, key)
    }
}

/// Two slots and a coefficient.
pub type Wire<'a> = (&'a str, &'a str, f64);
