//! iclab
fn main() {}
