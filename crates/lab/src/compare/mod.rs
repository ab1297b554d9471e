//! Two trajectories side by side: similarity at every pair of steps → best matches → rate.

pub mod matching;
pub mod memory;
pub mod rates;
pub mod similarity;
