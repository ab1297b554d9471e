//! Optimisers: Adam for everything, Muon for matrices.

pub mod adam;
pub mod muon;
