//! What an analysis returns, as plain data: claims, figures, tables.

pub mod claims;
pub mod figure;
