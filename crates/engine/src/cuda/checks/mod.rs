//! Checks that the device computes what the [`reference`](crate::reference) and the CPU engine compute: anyone with a GPU can
//! run them.

mod cases;
mod evaluation;
mod guards;
mod harness;
mod hooks;
mod queries;
mod training;

use std::sync::Arc;

use super::device::LstmLaunches;
use super::{CudaError, Device, DeviceInfo, GuardReport, KernelSource, Precision};
use super::{lowering, optim};
use crate::model::networks::{Mode, Network};

pub use cases::{Case, cases, tolerance};
pub use evaluation::parity;
pub use guards::guards;
pub use harness::run_as_tests;
pub use hooks::{hooks, hooks_on_cpu};
pub use queries::{QueryCase, queries, query_cases};
pub use training::{halts, loss_curve, muon_curve, part_by_part, repeatable, side_by_side};

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

/// √Σ v²
fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// ‖found − expected‖ / max(‖expected‖, floor); NaN where there are more or fewer numbers than expected.
pub fn relative_distance(found: &[f64], expected: &[f64], floor: f64) -> f64 {
    if found.len() != expected.len() {
        return f64::NAN;
    }
    let apart: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    norm(&apart) / norm(expected).max(floor)
}

/// Why a check does not hold.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The device does not offer this, which is no fault.
    NotOffered(String),
    /// A comparison is beyond its tolerance, or something broke.
    Failed(String),
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Failure {
        match error {
            CudaError::Unsupported(why) => Failure::NotOffered(why),
            other => Failure::Failed(other.to_string()),
        }
    }
}

/// What became of a check.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The comparison that is farthest beyond its tolerance, or nearest to it.
    pub worst: Option<Check>,
    /// Whether every comparison is within its tolerance, and no guard overwritten.
    pub verdict: Result<(), Failure>,
    /// Device buffers that it used and whose guards are intact.
    pub guarded: usize,
}

impl Outcome {
    /// What became of comparisons.
    pub fn of(found: Result<Vec<Check>, Failure>) -> Outcome {
        let checks = match found {
            Ok(checks) => checks,
            Err(failure) => return Outcome { worst: None, verdict: Err(failure), guarded: 0 },
        };
        let worst = worst(&checks).cloned();
        let verdict = match &worst {
            None => Err(Failure::Failed("nothing was compared".into())),
            Some(worst) if worst.holds() => Ok(()),
            Some(_) => Err(Failure::Failed(failures(&checks))),
        };
        Outcome { worst, verdict, guarded: 0 }
    }

    /// The same with what became of the guards around buffers: one that was overwritten fails the check, whatever was computed.
    pub fn with_guards(self, report: &GuardReport) -> Outcome {
        let overruns: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
        let verdict = match (self.verdict, &overruns[..]) {
            (verdict, []) => verdict,
            (Err(Failure::Failed(why)), _) => Err(Failure::Failed(format!("{why}; {}", overruns.join(", ")))),
            (_, _) => Err(Failure::Failed(overruns.join(", "))),
        };
        Outcome { verdict, guarded: report.intact, ..self }
    }

    /// The verdict in a word or two: `ok`, `not offered`, `FAILED`; and why.
    pub fn words(&self) -> (&'static str, Option<&str>) {
        match &self.verdict {
            Ok(()) => ("ok", None),
            Err(Failure::NotOffered(why)) => ("not offered", Some(why)),
            Err(Failure::Failed(why)) => ("FAILED", Some(why)),
        }
    }
}

/// The comparison that is farthest beyond its tolerance, or nearest to it.
fn worst(checks: &[Check]) -> Option<&Check> {
    // Exact ones have tolerance 0; what is not a number is worse than anything.
    let badness = |check: &Check| match check.error {
        error if error.is_nan() => f64::INFINITY,
        0.0 => 0.0,
        error => error / check.tolerance,
    };
    checks.iter().max_by(|a, b| badness(a).total_cmp(&badness(b)))
}

/// The comparisons that do not hold, a few of them.
fn failures(checks: &[Check]) -> String {
    const SHOWN: usize = 3;
    let failed: Vec<String> = checks.iter().filter(|c| !c.holds()).map(Check::shown).collect();
    let more = failed.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", failed[..failed.len().min(SHOWN)].join(", "))
}

/// A check under a name, ready to run; several comparisons may belong to it.
pub struct Named {
    /// What it is about.
    pub name: String,
    run: Run,
    kernels: Kernels,
}

type Run = Box<dyn Fn(&Arc<Device>) -> Result<Vec<Check>, Failure>>;
type Kernels = Box<dyn Fn(&DeviceInfo) -> Vec<KernelSource>>;

impl Named {
    /// Gives a check its name.
    pub fn new<E: Into<Failure>>(
        name: impl Into<String>,
        run: impl Fn(&Arc<Device>) -> Result<Vec<Check>, E> + 'static,
    ) -> Named {
        let run = move |device: &Arc<Device>| run(device).map_err(Into::into);
        Named { name: name.into(), run: Box::new(run), kernels: Box::new(|_| Vec::new()) }
    }

    /// Says which kernels it uses, for [`Device::precompile`]; one that is not named only costs time.
    pub fn using(mut self, kernels: impl Fn(&DeviceInfo) -> Vec<KernelSource> + 'static) -> Named {
        self.kernels = Box::new(kernels);
        self
    }

    /// Kernels that it is known to use.
    pub fn kernels(&self, device: &DeviceInfo) -> Vec<KernelSource> {
        (self.kernels)(device)
    }

    /// Runs it, with guards around every buffer that it makes.
    pub fn run(&self, device: &Arc<Device>) -> Outcome {
        let (found, report) = device.guarded(|| (self.run)(device));
        Outcome::of(found).with_guards(&report)
    }
}

/// Kernels that training a network takes, but for the sampler's. None where the device does not offer the network.
pub fn kernels_of(
    device: &DeviceInfo,
    precision: Precision,
    network: &Network,
    [batch, tokens]: [usize; 2],
) -> Vec<KernelSource> {
    let graph = network.graph(batch, tokens, Mode::Train).map_err(CudaError::from);
    let sources = graph.and_then(|graph| lowering::sources(device, precision, &graph));
    sources.unwrap_or_default().into_iter().chain([optim::source(precision)]).collect()
}

/// The checks of device memory, whatever the precision.
pub fn memory() -> Vec<Named> {
    vec![Named::new("guard regions", guards)]
}

/// A case against the reference, with one way to launch LSTMs.
fn parity_of(case: Case, precision: Precision, launches: LstmLaunches) -> Named {
    let (name, network, shape) = (case.name, case.network.clone(), [case.batch, case.tokens]);
    Named::new(name, move |device| device.launching_lstms(launches, || parity(device, precision, &case)))
        .using(move |device| kernels_of(device, precision, &network, shape))
}

/// Every check of networks in one precision.
pub fn suite(precision: Precision) -> Vec<Named> {
    // The checks after these train networks of theirs, and use no other kernels.
    let parities = cases().into_iter().map(|case| parity_of(case, precision, LstmLaunches::Diagonals));
    let persistent = match precision {
        Precision::Bf16 => vec!["LSTM", "the paper's LSTM"],
        _ => Vec::new(),
    };
    let persistent = persistent.into_iter().map(|name| {
        let check = parity_of(Case::named(name), precision, LstmLaunches::Persistent);
        Named { name: format!("{name} in one launch"), ..check }
    });
    type One = fn(&Arc<Device>, Precision) -> Result<Check, CudaError>;
    let rest: [(&str, One); 6] = [
        ("loss curve of 100 steps", loss_curve),
        ("loss curve of 100 steps with Muon", muon_curve),
        ("same bits again and resumed", repeatable),
        ("same bits part by part", part_by_part),
        ("same bits side by side", side_by_side),
        ("halts on a loss that is not finite", halts),
    ];
    let rest = rest
        .into_iter()
        .map(|(name, check)| Named::new(name, move |device| check(device, precision).map(|c| vec![c])));
    let hooked = hooks::hooked_case();
    let (network, shape) = (hooked.network, [hooked.batch, hooked.tokens]);
    let hooks = Named::new("activations read and patched", move |device| hooks(device, precision))
        .using(move |device| kernels_of(device, precision, &network, shape));
    let asked = query_cases().into_iter().map(|case| {
        let known = case.clone();
        Named::new(case.name(), move |device| queries(device, precision, &case))
            .using(move |device| known.kernels(device, precision))
    });
    parities.chain(persistent).chain(rest).chain([hooks]).chain(asked).collect()
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

    #[test]
    fn a_check_fails_unless_everything_holds() {
        let check = |error| Check { name: "a".into(), error, tolerance: 1.0 };
        let verdict = |found| Outcome::of(found).words().0;
        assert_eq!(verdict(Ok(vec![check(0.5), check(1.0)])), "ok");
        assert_eq!(verdict(Ok(vec![check(0.5), check(2.0)])), "FAILED");
        assert_eq!(verdict(Ok(vec![check(f64::NAN)])), "FAILED");
        assert_eq!(verdict(Ok(Vec::new())), "FAILED");
        assert_eq!(verdict(Err(CudaError::Unsupported("that".into()).into())), "not offered");
        assert_eq!(verdict(Err(CudaError::Unavailable("gone".into()).into())), "FAILED");
        assert!(failures(&[2.0, 3.0, 4.0, 5.0].map(check)).ends_with("and 1 more"));
    }

    #[test]
    fn an_overwritten_guard_fails_whatever_was_computed() {
        let check = |error| vec![Check { name: "a".into(), error, tolerance: 1.0 }];
        let overrun = || {
            let side = crate::cuda::Side::After;
            GuardReport {
                intact: 7,
                failures: vec![CudaError::Overrun { buffer: "dx", bytes: 8, side, offset: 0 }],
            }
        };
        let intact = GuardReport { intact: 8, failures: Vec::new() };
        let outcome = |found| Outcome::of(found).with_guards(&overrun());
        assert_eq!(Outcome::of(Ok(check(0.5))).with_guards(&intact).words(), ("ok", None));
        for found in [Ok(check(0.5)), Ok(check(2.0)), Err(Failure::NotOffered("that".into()))] {
            let outcome = outcome(found);
            assert_eq!((outcome.words().0, outcome.guarded), ("FAILED", 7));
            assert!(outcome.words().1.is_some_and(|why| why.contains("'dx'")));
        }
    }
}
