//! Named parameters inside one flat buffer, and their initial values.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::ops::Range;

use rayon::prelude::*;

use crate::hash::mix;

/// Where a parameter's initial values come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// The same value everywhere (0 for biases, 1 for LayerNorm gains).
    Constant(f32),
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f32,
    },
    /// Uniform on `[-bound, bound)`.
    Uniform {
        /// Half the width of the interval.
        bound: f32,
    },
}

/// Name, shape and initial distribution of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamSpec {
    /// A stable, readable path, such as `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Sizes of the axes, row-major.
    pub shape: Vec<usize>,
    /// Initial distribution.
    pub init: Init,
}

impl ParamSpec {
    /// A parameter with a name, a shape and an initial distribution.
    pub fn new(name: impl Into<String>, shape: &[usize], init: Init) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), init }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True for a parameter without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A parameter's place in the flat buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// First value.
    pub offset: usize,
    /// Number of values.
    pub len: usize,
}

impl Param {
    /// The range of the flat buffer that holds the parameter.
    pub fn range(self) -> Range<usize> {
        self.offset..self.offset + self.len
    }

    /// The parameter's values.
    pub fn of(self, flat: &[f32]) -> &[f32] {
        &flat[self.range()]
    }

    /// The parameter's values, mutable.
    pub fn of_mut(self, flat: &mut [f32]) -> &mut [f32] {
        &mut flat[self.range()]
    }
}

/// Random numbers that are pure functions of a stream name and an index: no hidden state, so the same
/// parameter gets the same values in any order and on any number of threads.
pub trait RandomSource: Sync {
    /// Standard normal numbers, those of indices `first`, `first` + 1, ….
    fn normals(&self, stream: &str, first: u64, out: &mut [f32]);
    /// Numbers uniform on `[0, 1)`, those of indices `first`, `first` + 1, ….
    fn uniforms(&self, stream: &str, first: u64, out: &mut [f32]);

    /// The standard normal number of one index.
    fn normal(&self, stream: &str, index: u64) -> f32 {
        let mut one = [0.0];
        self.normals(stream, index, &mut one);
        one[0]
    }

    /// The uniform number of one index.
    fn uniform(&self, stream: &str, index: u64) -> f32 {
        let mut one = [0.0];
        self.uniforms(stream, index, &mut one);
        one[0]
    }
}

/// Values that one thread draws at a time: enough to forget the cost of handing them out.
const DRAWN_TOGETHER: usize = 1 << 14;

/// All parameters of a network, laid out one after the other in a flat buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamLayout {
    specs: Vec<ParamSpec>,
    places: Vec<Param>,
    by_name: HashMap<String, usize>,
    len: usize,
}

impl ParamLayout {
    /// Lays out the parameters in the order given.
    pub fn new(specs: Vec<ParamSpec>) -> Self {
        let mut len = 0;
        let mut places = Vec::with_capacity(specs.len());
        let mut by_name = HashMap::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            places.push(Param { offset: len, len: spec.len() });
            by_name.insert(spec.name.clone(), index);
            len += spec.len();
        }
        Self { specs, places, by_name, len }
    }

    /// Number of values of all parameters together.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Specifications and places, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&ParamSpec, Param)> {
        self.specs.iter().zip(self.places.iter().copied())
    }

    /// The place of a parameter, by name.
    pub fn place(&self, name: &str) -> Option<Param> {
        self.by_name.get(name).map(|&index| self.places[index])
    }

    /// The values of a parameter in a flat buffer, by name.
    pub fn slice<'a>(&self, flat: &'a [f32], name: &str) -> Option<&'a [f32]> {
        self.place(name).map(|place| place.of(flat))
    }

    /// A fresh flat buffer with initial values; stream `init/<name>`, one index per value.
    pub fn initial(&self, random: &impl RandomSource) -> Vec<f32> {
        let mut flat = vec![0.0; self.len];
        for (spec, place) in self.iter() {
            let stream = format!("init/{}", spec.name);
            let pieces = place.of_mut(&mut flat).par_chunks_mut(DRAWN_TOGETHER).enumerate();
            pieces.for_each(|(piece, values)| {
                let first = (piece * DRAWN_TOGETHER) as u64;
                match spec.init {
                    Init::Constant(constant) => values.fill(constant),
                    Init::Normal { std } => {
                        random.normals(&stream, first, values);
                        values.iter_mut().for_each(|value| *value *= std);
                    }
                    Init::Uniform { bound } => {
                        random.uniforms(&stream, first, values);
                        values.iter_mut().for_each(|value| *value = bound * (2.0 * *value - 1.0));
                    }
                }
            });
        }
        flat
    }
}

/// A plain counter-based source for examples, benchmarks and tests (SplitMix64 of seed, stream, index).
#[derive(Debug, Clone, Copy)]
pub struct SplitMix {
    seed: u64,
}

impl SplitMix {
    /// A source with a seed of its own.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// What a stream's numbers are drawn from.
    // Not inlined: of a stream whose name is known, a loop over `normal` keeps LLVM's vectoriser busy for minutes.
    #[inline(never)]
    fn stream(&self, stream: &str) -> u64 {
        stream.bytes().fold(self.seed, |state, byte| mix(state ^ u64::from(byte)))
    }
}

/// 64 random bits of a stream.
fn bits(stream: u64, index: u64) -> u64 {
    mix(stream.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// 53 random bits as a number in (0, 1].
fn unit(stream: u64, index: u64) -> f64 {
    ((bits(stream, index) >> 11) + 1) as f64 / (1u64 << 53) as f64
}

impl RandomSource for SplitMix {
    fn normals(&self, stream: &str, first: u64, out: &mut [f32]) {
        let stream = self.stream(stream);
        for (index, out) in (first..).zip(out) {
            // Box and Muller: two uniforms give one normal, the second is not kept.
            let radius = (-2.0 * unit(stream, 2 * index).ln()).sqrt();
            *out = (radius * (TAU * unit(stream, 2 * index + 1)).cos()) as f32;
        }
    }

    fn uniforms(&self, stream: &str, first: u64, out: &mut [f32]) {
        let stream = self.stream(stream);
        for (index, out) in (first..).zip(out) {
            *out = (bits(stream, index) >> 40) as f32 / (1u64 << 24) as f32;
        }
    }
}
