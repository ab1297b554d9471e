//! Optimisers: Adam for everything, or Muon for the matrices inside the layers and Adam for the rest. Each device executes
//! their steps itself (`cpu::optimiser`, `cuda::optimiser`).

pub mod adam;
pub mod muon;

use std::ops::Range;

use adam::AdamConfig;
use muon::MuonMatrix;

/// Moments of all parameters and the number of steps taken.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimiserState {
    /// Settings of Adam.
    pub config: AdamConfig,
    /// Running mean of gradients: Adam's first moment, Muon's momentum.
    pub mean: Vec<f32>,
    /// Running mean of squared gradients: Adam's second moment; 0 where Muon moves.
    pub square: Vec<f32>,
    /// Steps taken.
    pub step: u64,
    /// Matrices that Muon moves, in the order of the flat buffer; Adam moves all else.
    pub muon: Vec<MuonMatrix>,
}

impl OptimiserState {
    /// A fresh state of Adam for `len` parameters.
    pub fn new(config: AdamConfig, len: usize) -> Self {
        Self { config, mean: vec![0.0; len], square: vec![0.0; len], step: 0, muon: Vec::new() }
    }

    /// The parameters that Adam moves: those before the first matrix of Muon, …, after the last.
    pub(crate) fn adam_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.muon.iter().map(|matrix| matrix.place.range().end));
        let ends = self.muon.iter().map(|matrix| matrix.place.offset).chain([self.mean.len()]);
        starts.zip(ends).map(|(start, end)| start..end)
    }
}
