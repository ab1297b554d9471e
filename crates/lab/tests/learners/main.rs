//! Learners: properties that all of them have, and what each kind claims to be.
//!
//! shared: properties of any learner, small tasks and networks; solvers: every row of the registries; constructions, networks,
//! probe (read-outs), ablation.

mod ablation;
mod constructions;
mod networks;
mod probe;
mod shared;
mod solvers;
