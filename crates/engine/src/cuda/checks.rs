//! Checks that the device computes what the CPU engine computes: anyone with a GPU can run them.

use std::process::ExitCode;
use std::sync::Arc;

use super::{CudaError, CudaRunner, CudaTrainer, Device, Feed, KernelSource, Precision, ScheduleRow};
use super::{lowering, optim};
use crate::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use crate::model::ops::{Activation, AttentionKind, Mask, Weighting};
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::parameters::{RandomSource, SplitMix};

/// One comparison.
#[derive(Debug, Clone)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// How far apart, relative to the size of what was expected.
    pub error: f64,
    /// How far apart it may be.
    pub tolerance: f64,
}

impl Check {
    /// Whether it holds; NaN does not.
    pub fn holds(&self) -> bool {
        self.error <= self.tolerance
    }

    fn shown(&self) -> String {
        format!("{} {:.1e} > {:.0e}", self.name, self.error, self.tolerance)
    }
}

/// A network at one shape, under a name.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it exercises.
    pub name: &'static str,
    /// The network.
    pub network: Network,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
}

/// Networks that between them reach every kernel and every variant of it.
pub fn cases() -> Vec<Case> {
    let base =
        Gpt2Config { features: 5, positions: 40, width: 64, layers: 2, heads: 2, ..Default::default() };
    let gpt2 = |name, config: Gpt2Config, batch, tokens| Case {
        name,
        network: Network::Gpt2(config),
        batch,
        tokens,
    };
    let lstm = |name, [width, layers]: [usize; 2], batch, tokens| Case {
        name,
        network: Network::Lstm(LstmConfig { features: 5, width, layers }),
        batch,
        tokens,
    };
    let variant =
        |mask, weighting| Gpt2Config { attention: AttentionKind { mask, weighting }, ..base.clone() };
    vec![
        gpt2("causal softmax", base.clone(), 5, 22),
        gpt2("one token", base.clone(), 3, 1),
        gpt2("small heads", Gpt2Config { heads: 8, ..base.clone() }, 4, 18),
        gpt2("one wide head", Gpt2Config { heads: 1, width: 256, ..base.clone() }, 2, 40),
        gpt2("full softmax", variant(Mask::Full, Weighting::Softmax), 4, 22),
        gpt2("causal ReLU attention", variant(Mask::Causal, Weighting::Relu), 4, 34),
        gpt2("full linear attention", variant(Mask::Full, Weighting::Linear), 4, 18),
        gpt2("ReLU activation", Gpt2Config { activation: Activation::Relu, ..base.clone() }, 4, 22),
        gpt2("long prompts", Gpt2Config { positions: 202, ..base.clone() }, 2, 202),
        gpt2("the paper's network", Gpt2Config { layers: 3, ..Gpt2Config::default() }, 8, 82),
        // Enough rows that every block of a wide product has several tiles.
        gpt2("a large batch", Gpt2Config { layers: 1, ..Gpt2Config::default() }, 120, 82),
        lstm("LSTM", [64, 3], 5, 22),
        lstm("narrow LSTM", [8, 2], 3, 7),
        lstm("LSTM of one token", [16, 3], 2, 1),
        lstm("LSTM deeper than long", [40, 9], 70, 4),
        lstm("the paper's LSTM", [256, 2], 64, 82),
    ]
}

/// How far a value and a gradient may be from the CPU's, relative to their size.
pub fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::Float32 => 2e-5,
        Precision::Tf32 => 5e-3,
        Precision::Bf16 => 4e-2,
    }
}

/// ‖a − b‖ / max(‖b‖, floor)
fn distance(a: &[f32], b: &[f32], floor: f64) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    apart / norm(&mut b.iter().map(|&b| f64::from(b))).max(floor)
}

/// Made-up prompts: tokens and targets.
fn prompts(case: &Case, step: usize) -> (Vec<f32>, Vec<f32>) {
    let (random, features) = (SplitMix::new(7 + step as u64), case.network.features());
    let tokens = (0..case.batch * case.tokens * features).map(|i| random.normal("tokens", i as u64));
    let targets = (0..case.batch * case.tokens.div_ceil(2)).map(|i| random.normal("targets", i as u64));
    (tokens.collect(), targets.collect())
}

/// Parameters far enough from the start of training that every gradient is of some size.
fn parameters(network: &Network) -> Vec<f32> {
    let mut params = network.layout().initial(&SplitMix::new(3));
    let random = SplitMix::new(4);
    params.iter_mut().enumerate().for_each(|(i, p)| *p += 0.05 * random.normal("shake", i as u64));
    params
}

/// Predictions, hidden states, loss and every named gradient against the CPU's.
pub fn parity(device: &Arc<Device>, precision: Precision, case: &Case) -> Result<Vec<Check>, CudaError> {
    let layout = case.network.layout();
    let params = parameters(&case.network);
    let (tokens, targets) = prompts(case, 0);
    let mut cpu = case.network.runner(case.batch, case.tokens, Mode::Train)?;
    cpu.set_tokens(&tokens)?;
    cpu.set_targets(&targets)?;
    let mut expected = vec![0.0; layout.len()];
    cpu.forward(&params);
    cpu.backward(&params, &mut expected);

    let shape = [case.batch, case.tokens];
    let mut gpu = CudaRunner::new(device, &case.network, precision, shape, Mode::Train)?;
    gpu.set_params(&params)?;
    gpu.set_tokens(&tokens)?;
    gpu.set_targets(&targets)?;
    gpu.forward()?;
    gpu.backward()?;

    // ReLU jumps at 0, so that values rounded differently may take different sides.
    let relu = matches!(&case.network, Network::Gpt2(config) if config.activation == Activation::Relu);
    let tolerance = tolerance(precision) * if relu { 8.0 } else { 1.0 };
    let mut checks = Vec::new();
    let mut check = |name: String, a: &[f32], b: &[f32], floor: f64| {
        checks.push(Check { name, error: distance(a, b, floor), tolerance });
    };
    for layer in 0..cpu.hidden_count() {
        check(format!("hidden {layer}"), &gpu.hidden(layer)?, cpu.hidden(layer), 0.0);
    }
    check("last".into(), &gpu.last()?, cpu.last(), 0.0);
    check("predictions".into(), &gpu.predictions()?, cpu.predictions(), 0.0);
    check("loss".into(), &[gpu.loss()?], &[cpu.loss()], 0.0);
    let found = gpu.gradients()?;
    let whole = distance(&expected, &vec![0.0; expected.len()], 1.0);
    for (spec, place) in layout.iter() {
        // Some gradients are 0 but for rounding, such as those of the keys' biases.
        check(format!("d {}", spec.name), place.of(&found), place.of(&expected), 0.01 * whole);
    }
    Ok(checks)
}

/// Steps of a schedule with a warm-up, for the checks below.
fn schedule(steps: usize) -> Vec<ScheduleRow> {
    (0..steps).map(|i| ScheduleRow { rate: 1e-3 * (i as f32 + 1.0).min(10.0) / 10.0, dims: 5 }).collect()
}

/// A case by its name.
fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).expect("a case of this name")
}

/// A fresh state of Adam, with Muon for the matrices or without.
fn optimiser(network: &Network, muon: bool) -> OptimiserState {
    let mut adam = OptimiserState::new(AdamConfig::default(), network.layout().len());
    adam.muon = if muon { network.muon_matrices() } else { Vec::new() };
    adam
}

/// A loss curve of 100 steps against the CPU's, on the same prompts: the worse of two networks.
pub fn loss_curve(device: &Arc<Device>, precision: Precision) -> Result<Check, CudaError> {
    let error = loss_curves_apart(device, precision, false)?;
    Ok(Check { name: "loss curve of 100 steps".into(), error, tolerance: 3.0 * tolerance(precision) })
}

/// The same with Muon, which makes directions large in which a gradient is little more than rounding.
pub fn muon_curve(device: &Arc<Device>, precision: Precision) -> Result<Check, CudaError> {
    let error = loss_curves_apart(device, precision, true)?;
    let tolerance = (3.0 * tolerance(precision)).max(3e-3);
    Ok(Check { name: "loss curve of 100 steps with Muon".into(), error, tolerance })
}

fn loss_curves_apart(device: &Arc<Device>, precision: Precision, muon: bool) -> Result<f64, CudaError> {
    let mut error = 0.0;
    for name in ["causal softmax", "LSTM"] {
        let apart = curves_apart(device, precision, &case(name), muon)?;
        // Not `max`, which would pass over NaN.
        error = if apart <= error { error } else { apart };
    }
    Ok(error)
}

fn curves_apart(
    device: &Arc<Device>,
    precision: Precision,
    case: &Case,
    muon: bool,
) -> Result<f64, CudaError> {
    let layout = case.network.layout();
    let mut params = layout.initial(&SplitMix::new(3));
    let mut adam = optimiser(&case.network, muon);
    let (batch, points) = (case.batch, case.tokens / 2);
    let mut gpu = CudaTrainer::new(device, &case.network, precision, batch, Some(1.0), &params, &adam)?;
    gpu.prepare(points, &Feed::Host)?;
    let mut cpu = case.network.runner(batch, case.tokens, Mode::Train)?;
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    for (step, row) in schedule(100).into_iter().enumerate() {
        let (tokens, targets) = prompts(case, step);
        cpu.set_tokens(&tokens)?;
        cpu.set_targets(&targets)?;
        let mut grads = vec![0.0; layout.len()];
        cpu.forward(&params);
        cpu.backward(&params, &mut grads);
        expected.push(cpu.loss());
        adam.step(&mut params, &grads, row.rate, Some(1.0));
        found.extend(gpu.run_fed(row, &tokens, &targets)?.iter().map(|r| r.loss));
    }
    Ok(distance(&found, &expected, 0.0))
}

/// Same start, same bits; and the same when the second half is resumed from what was saved.
pub fn repeatable(device: &Arc<Device>, precision: Precision) -> Result<Check, CudaError> {
    let mut different = 0;
    for (name, muon) in [("the paper's network", true), ("the paper's LSTM", false)] {
        different += trainings_that_differ(device, precision, &case(name), muon)?;
    }
    Ok(Check { name: "same bits again and resumed".into(), error: f64::from(different), tolerance: 0.0 })
}

/// Of two repetitions of a training, one of them resumed halfway.
fn trainings_that_differ(
    device: &Arc<Device>,
    precision: Precision,
    case: &Case,
    muon: bool,
) -> Result<u8, CudaError> {
    let params = case.network.layout().initial(&SplitMix::new(3));
    let fresh = optimiser(&case.network, muon);
    let (tokens, targets) = prompts(case, 0);
    let rows = schedule(20);
    let train = |params: &[f32], adam: &OptimiserState, rows: &[ScheduleRow]| -> Result<_, CudaError> {
        let mut gpu = CudaTrainer::new(device, &case.network, precision, case.batch, None, params, adam)?;
        gpu.prepare(case.tokens / 2, &Feed::Host)?;
        for &row in rows {
            gpu.run_fed(row, &tokens, &targets)?;
        }
        Ok((gpu.params()?, gpu.optimiser()?))
    };
    let whole = train(&params, &fresh, &rows)?;
    let again = train(&params, &fresh, &rows)?;
    let (half, moments) = train(&params, &fresh, &rows[..7])?;
    let resumed = train(&half, &moments, &rows[7..])?;
    let same = |a: &(Vec<f32>, OptimiserState), b: &(Vec<f32>, OptimiserState)| {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        bits(&a.0) == bits(&b.0) && bits(&a.1.mean) == bits(&b.1.mean) && a.1.step == b.1.step
    };
    Ok(u8::from(!same(&whole, &again)) + u8::from(!same(&whole, &resumed)))
}

/// A loss that is not finite stops training and leaves the parameters as they were.
pub fn halts(device: &Arc<Device>, precision: Precision) -> Result<Check, CudaError> {
    let case = &case("causal softmax");
    let params = parameters(&case.network);
    let adam = optimiser(&case.network, true);
    let mut gpu = CudaTrainer::new(device, &case.network, precision, case.batch, None, &params, &adam)?;
    gpu.prepare(case.tokens / 2, &Feed::Host)?;
    let (tokens, mut targets) = prompts(case, 0);
    targets[1] = f32::NAN;
    let reported = gpu.run_fed(schedule(1)[0], &tokens, &targets)?;
    let stopped = gpu.done() == 0 && reported.len() == 1 && reported[0].loss.is_nan();
    let moved = gpu.params()? != params;
    let error = f64::from(u8::from(!stopped) + u8::from(moved));
    Ok(Check { name: "halts on a loss that is not finite".into(), error, tolerance: 0.0 })
}

/// A check under a name, ready to run; several comparisons may belong to it.
pub struct Named<E = CudaError> {
    /// What it is about.
    pub name: String,
    run: Run<E>,
    kernels: Kernels,
}

type Run<E> = Box<dyn Fn(&Arc<Device>) -> Result<Vec<Check>, E>>;
type Kernels = Box<dyn Fn(&Device) -> Vec<KernelSource>>;

impl<E> Named<E> {
    /// Gives a check its name.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&Arc<Device>) -> Result<Vec<Check>, E> + 'static,
    ) -> Named<E> {
        Named { name: name.into(), run: Box::new(run), kernels: Box::new(|_| Vec::new()) }
    }

    /// Says which kernels it uses, for [`Device::precompile`]; one that is not named only costs time.
    pub fn using(mut self, kernels: impl Fn(&Device) -> Vec<KernelSource> + 'static) -> Named<E> {
        self.kernels = Box::new(kernels);
        self
    }

    /// Kernels that it is known to use.
    pub fn kernels(&self, device: &Device) -> Vec<KernelSource> {
        (self.kernels)(device)
    }

    /// Runs it.
    pub fn run(&self, device: &Arc<Device>) -> Result<Vec<Check>, E> {
        (self.run)(device)
    }
}

/// Kernels that training a network takes, but for the sampler's. None where the device does not offer the network.
pub fn kernels_of(
    device: &Device,
    precision: Precision,
    network: &Network,
    [batch, tokens]: [usize; 2],
) -> Vec<KernelSource> {
    let graph = network.graph(batch, tokens, Mode::Train).map_err(CudaError::from);
    let sources = graph.and_then(|graph| lowering::sources(device, precision, &graph));
    sources.unwrap_or_default().into_iter().chain([optim::source(precision)]).collect()
}

/// Every check of this module in one precision.
pub fn suite(precision: Precision) -> Vec<Named> {
    // The checks after these train networks of theirs, and use no other kernels.
    let parities = cases().into_iter().map(|case| {
        let Case { network, batch, tokens, .. } = case.clone();
        Named::new(case.name, move |device| parity(device, precision, &case))
            .using(move |device| kernels_of(device, precision, &network, [batch, tokens]))
    });
    type One = fn(&Arc<Device>, Precision) -> Result<Check, CudaError>;
    let rest: [(&str, One); 4] = [
        ("loss curve of 100 steps", loss_curve),
        ("loss curve of 100 steps with Muon", muon_curve),
        ("same bits again and resumed", repeatable),
        ("halts on a loss that is not finite", halts),
    ];
    let rest = rest
        .into_iter()
        .map(|(name, check)| Named::new(name, move |device| Ok(vec![check(device, precision)?])));
    parities.chain(rest).collect()
}

/// The comparison that is farthest beyond its tolerance, or nearest to it.
pub fn worst(checks: &[Check]) -> Option<&Check> {
    // Exact ones have tolerance 0; what is not a number is worse than anything.
    let badness = |check: &Check| match check.error {
        error if error.is_nan() => f64::INFINITY,
        0.0 => 0.0,
        error => error / check.tolerance,
    };
    checks.iter().max_by(|a, b| badness(a).total_cmp(&badness(b)))
}

/// Runs named checks as a test program does: words on the command line select by name, and every check prints `ok`, `FAILED` or
/// `skipped`, the last where there is no device or where `not_offered` says that it does not offer this.
pub fn run_as_tests<E: std::fmt::Display>(
    checks: impl IntoIterator<Item = (String, Named<E>)>,
    not_offered: impl Fn(&E) -> bool,
) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Asked for a list, the usual harness would run nothing.
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let selected = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let device = Device::open(0);
    let [mut passed, mut failed, mut skipped] = [0; 3];
    for (group, check) in checks {
        let name = format!("{group}: {}", check.name);
        if !selected(&name) {
            continue;
        }
        let (count, verdict) = match device.as_ref().map(|device| check.run(device)) {
            Err(error) => (&mut skipped, format!("skipped ({error})")),
            Ok(Err(error)) if not_offered(&error) => (&mut skipped, format!("skipped ({error})")),
            Ok(Err(error)) => (&mut failed, format!("FAILED ({error})")),
            Ok(Ok(found)) => {
                let bad: Vec<String> = found.iter().filter(|c| !c.holds()).map(Check::shown).collect();
                match &bad[..] {
                    [] => (&mut passed, "ok".into()),
                    bad => (&mut failed, format!("FAILED ({})", bad.join(", "))),
                }
            }
        };
        *count += 1;
        println!("test {name} ... {verdict}");
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comparison_is_the_one_to_show() {
        let check = |name: &str, error, tolerance| Check { name: name.into(), error, tolerance };
        let found = [check("a", 1e-3, 1e-2), check("b", 1e-4, 1e-5), check("c", 0.0, 0.0)];
        assert_eq!(worst(&found).unwrap().name, "b");
        let found = [check("a", 1.0, 0.0), check("b", f64::NAN, 1.0), check("c", 1e3, 1.0)];
        assert!(!worst(&found).unwrap().holds());
        assert!(worst(&[]).is_none());
    }
}
