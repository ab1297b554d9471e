//! Patching of constructions: what a candidate's maps must look like, by its own weights.

use ndarray::s;

use super::{Maps, Part, Patched, Place};
use crate::constructions::Construction;
use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::parallel;

impl Patched {
    /// Answers of a construction with the donors' states before each layer, at each place.
    pub fn of_construction(
        construction: &Construction,
        pair: [&Prompts; 2],
        places: &[Place],
    ) -> Result<Patched> {
        let every: Vec<usize> = (0..construction.transformer.layers.len()).collect();
        Patched::of_streams(construction, pair, places, &every)
    }

    /// The same with only some of the states that layers read, counted from 0.
    pub fn of_streams(
        construction: &Construction,
        [prompts, donors]: [&Prompts; 2],
        places: &[Place],
        streams: &[usize],
    ) -> Result<Patched> {
        if prompts.xs.dim() != donors.xs.dim() {
            let (one, other) = (prompts.xs.dim(), donors.xs.dim());
            return Err(Error::BadData(format!(
                "prompts have shape {one:?} and donors {other:?}; accepted: the same"
            )));
        }
        construction.check("the construction", prompts)?;
        construction.check("the construction", donors)?;
        let (count, layers) = (prompts.count(), construction.transformer.layers.len());
        let pairs = prompts.points() - 1;
        let of_prompt = |b: usize| {
            interrupt::look();
            let (own, theirs) = (construction.states(prompts, b), construction.states(donors, b));
            let answer = |states: &[ndarray::Array2<f64>]| {
                construction.transformer.read_out(states[layers].slice(s![-1, ..]))
            };
            let patched = |layer: usize| {
                let at = |place: &Place| {
                    let mut states = own[layer].clone();
                    for token in place.tokens(pairs) {
                        states.row_mut(token).assign(&theirs[layer].row(token));
                    }
                    construction.answer_from(layer + 1, states.view())
                };
                places.iter().map(at).collect::<Vec<f64>>()
            };
            (answer(&own), answer(&theirs), streams.iter().map(|&l| patched(l)).collect::<Vec<_>>())
        };
        let all = parallel::map(count, of_prompt);
        let at = |layer: usize, place: usize| all.iter().map(|of| of.2[layer][place]).collect();
        Ok(Patched {
            base: all.iter().map(|of| of.0).collect(),
            donor: all.iter().map(|of| of.1).collect(),
            patched: (0..streams.len()).map(|l| (0..places.len()).map(|p| at(l, p)).collect()).collect(),
        })
    }
}

impl Maps {
    /// How far the answers of a construction follow donors, by role.
    pub fn of_construction(construction: &Construction, pair: [&Prompts; 2], seed: Seed) -> Result<Maps> {
        let patched = Patched::of_construction(construction, pair, &Place::ROLES)?;
        Ok(Maps::of_patched(&patched, Part::Stream, Place::ROLES.to_vec(), pair[0].points() - 1, seed))
    }

    /// Maps of answers after so many pairs that were patched at these places.
    pub fn of_patched(patched: &Patched, part: Part, places: Vec<Place>, pairs: usize, seed: Seed) -> Maps {
        Maps { part, places, follows: patched.follows(seed), pairs, prompts: patched.base.len() }
    }
}
