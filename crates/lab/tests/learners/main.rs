//! Learners: properties that all of them have, and what each kind claims to be.
//!
//! shared: properties of any learner, small tasks and networks; solvers: every row of the registries; iterations,
//! polynomial: what is special to some of them; constructions, networks,
//! probe (read-outs), ablation, patches.

mod ablation;
mod constructions;
mod dual;
mod iterations;
mod networks;
mod patches;
mod polynomial;
mod probe;
mod shared;
mod solvers;
mod states;
