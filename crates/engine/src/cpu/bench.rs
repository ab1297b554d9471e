//! Times whole training steps on made-up numbers.

use std::time::Instant;

use crate::EngineError;
use crate::cpu::executor::Profile;
use crate::cpu::runner::Runner;
use crate::cpu::work_queue::on_pool;
use crate::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::parameters::{RandomSource, SplitMix};

/// One network at one shape.
#[derive(Debug, Clone)]
pub struct Case {
    /// A short name.
    pub name: &'static str,
    /// The network.
    pub network: Network,
    /// Prompts per step.
    pub batch: usize,
    /// Points per prompt; a prompt has twice as many tokens.
    pub points: usize,
}

/// What a run measured.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Name of the case.
    pub name: &'static str,
    /// Parameters.
    pub params: usize,
    /// Milliseconds of each step, in order.
    pub ms: Vec<f64>,
    /// Bytes of all buffers, parameters, gradients and moments.
    pub bytes: usize,
    /// Loss of the last step.
    pub loss: f32,
}

impl Timing {
    /// The median time.
    pub fn median_ms(&self) -> f64 {
        let mut sorted = self.ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The shortest time.
    pub fn best_ms(&self) -> f64 {
        self.ms.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// The paper's Transformer at the end of its curriculum.
pub fn r1() -> Case {
    Case { name: "r1", network: Network::Gpt2(Gpt2Config::default()), batch: 64, points: 41 }
}

/// A small Transformer: 3 layers of width 64.
pub fn small() -> Case {
    let config =
        Gpt2Config { features: 5, positions: 22, width: 64, layers: 3, heads: 2, ..Default::default() };
    Case { name: "small", network: Network::Gpt2(config), batch: 64, points: 11 }
}

/// The paper's LSTM.
pub fn lstm() -> Case {
    Case { name: "lstm", network: Network::Lstm(LstmConfig::default()), batch: 64, points: 41 }
}

/// A network that takes the same step again and again.
struct Training {
    params: Vec<f32>,
    grads: Vec<f32>,
    optimiser: OptimiserState,
    runner: Runner,
}

impl Training {
    fn new(case: &Case) -> Result<Self, EngineError> {
        let params = case.network.layout().initial(&SplitMix::new(1));
        let mut runner = case.network.predictor(case.batch, case.points, Mode::Train)?;
        let (tokens, targets) = prompts(case);
        runner.set_tokens(&tokens)?;
        runner.set_targets(&targets)?;
        let optimiser = OptimiserState::new(AdamConfig::default(), params.len());
        Ok(Self { grads: vec![0.0; params.len()], params, optimiser, runner })
    }

    /// Forward, loss, backward, clipping and Adam; returns the loss and the milliseconds of clipping and Adam.
    fn step(&mut self) -> (f32, f64) {
        let Self { params, grads, optimiser, runner } = self;
        on_pool(|| {
            let loss = runner.gradients(params, grads);
            let start = Instant::now();
            optimiser.step(params, grads, 1e-4, Some(1.0));
            (loss, start.elapsed().as_secs_f64() * 1e3)
        })
    }
}

/// Times steps of forward, loss, backward, clipping and Adam.
pub fn train(case: &Case, warm: usize, steps: usize) -> Result<Timing, EngineError> {
    let mut training = Training::new(case)?;
    let mut loss = f32::NAN;
    let mut ms = Vec::with_capacity(steps);
    for step in 0..warm + steps {
        let start = Instant::now();
        (loss, _) = training.step();
        if step >= warm {
            ms.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let params = training.params.len();
    Ok(Timing { name: case.name, params, ms, bytes: training.runner.bytes() + 16 * params, loss })
}

/// Milliseconds by kind of operation, and of the optimiser: the shortest of `steps` training steps after a warm one.
pub fn profile(case: &Case, steps: usize) -> Result<Profile, EngineError> {
    let mut training = Training::new(case)?;
    let mut shortest = Profile::new();
    for step in 0..=steps {
        training.runner.start_profile();
        let (_, optimiser) = training.step();
        let mut profile = training.runner.start_profile();
        profile.insert("clip and Adam".into(), optimiser);
        if step > 0 {
            for (name, ms) in profile {
                let slot = shortest.entry(name).or_insert(ms);
                *slot = slot.min(ms);
            }
        }
    }
    Ok(shortest)
}

/// Linear regression prompts: x and w normal, y = w·x; tokens x₁, (y₁, 0, …), x₂, …
fn prompts(case: &Case) -> (Vec<f32>, Vec<f32>) {
    let (random, d) = (SplitMix::new(2), case.network.features());
    let mut tokens = vec![0.0; case.batch * 2 * case.points * d];
    let mut targets = Vec::with_capacity(case.batch * case.points);
    for (point, pair) in tokens.chunks_exact_mut(2 * d).enumerate() {
        let prompt = point / case.points;
        let mut y = 0.0;
        for (i, x) in pair[..d].iter_mut().enumerate() {
            *x = random.normal("x", (point * d + i) as u64);
            y += *x * random.normal("w", (prompt * d + i) as u64);
        }
        pair[d] = y;
        targets.push(y);
    }
    (tokens, targets)
}
