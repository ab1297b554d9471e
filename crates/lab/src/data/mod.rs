//! Prompts, and how one is made: every number is a pure function of (seed, stream, index).
//!
//! ```text
//! seed       Seed(7).at("eval/inputs", 3)   the random numbers of prompt 3, whatever batch or thread draws it
//! inputs     x₁ … x_n ∈ R^d                 gaussian: N(0, I); skewed: N(0, Σ), Σ drawn once for the prompt
//! functions  f: R^d → R                     linear: wᵀx, w ~ N(0, I); sparse, noisy, two-layer networks, trees
//! prompts    y_t = f(x_t) + σ·noise         Prompts { xs [b, n, d], ys [b, n] }
//! ```
//!
//! A [`Task`](prompts::Task) is an input distribution, a function class, d and n. A learner reads x₁, y₁, …, x_t, y_t, x_{t+1} and
//! predicts y_{t+1}. [`sampling`] draws the same prompts on a CUDA device; [`npz`] exchanges them with NumPy.

mod box_muller;
pub mod functions;
pub mod inputs;
pub mod npz;
pub mod prompts;
pub mod sampling;
pub mod seed;
