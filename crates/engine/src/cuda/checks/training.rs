//! Training: loss curves against the CPU's, the same bits again, resumed and side by side, and losses that are not finite.
//!
//! What trains is a function of the case, so that the same checks run on the CPU, in the tests below.

use std::sync::Arc;
use std::thread;

use super::cases::{Case, tolerance};
use super::{Check, relative_distance};
use crate::cpu::CpuTrainer;
use crate::cuda::{CudaError, CudaTrainer, Device, Precision};
use crate::deviation::worst;
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::parameters::SplitMix;
use crate::trainer::{Batch, Feed, ScheduleRow, StepResult, Trainer};

type Result<T> = std::result::Result<T, CudaError>;

/// Begins a training of a case, with gradients clipped at a norm if one is given, from parameters and the optimiser's state.
type Begin<'a> =
    &'a (dyn Fn(&Case, Option<f32>, &[f32], &OptimiserState) -> Result<Box<dyn Trainer<CudaError>>> + Sync);

/// On this machine's cores.
fn on_cpu(
    case: &Case,
    clip: Option<f32>,
    params: &[f32],
    optimiser: &OptimiserState,
) -> Result<Box<dyn Trainer<CudaError>>> {
    let trainer = CpuTrainer::new(&case.network, case.batch, clip, params.to_vec(), optimiser.clone());
    Ok(Box::new(trainer))
}

/// Runs a check of trainings on a CUDA device.
fn on_device<T>(
    device: &Arc<Device>,
    precision: Precision,
    check: impl FnOnce(Begin<'_>) -> Result<T>,
) -> Result<T> {
    check(&|case, clip, params, optimiser| {
        let (network, batch) = (&case.network, case.batch);
        Ok(Box::new(CudaTrainer::new(device, network, precision, batch, clip, params, optimiser)?))
    })
}

/// Steps of a schedule with a warm-up.
fn schedule(steps: usize) -> Vec<ScheduleRow> {
    (0..steps).map(|i| ScheduleRow { rate: 1e-3 * (i as f32 + 1.0).min(10.0) / 10.0, dims: 5 }).collect()
}

/// A fresh state of Adam, with Muon for the matrices or without.
fn fresh(case: &Case, muon: bool) -> OptimiserState {
    let mut optimiser = OptimiserState::new(AdamConfig::default(), case.network.layout().len());
    optimiser.muon = if muon { case.network.muon_matrices() } else { Vec::new() };
    optimiser
}

/// Takes steps, so many at once, on the prompts given.
fn train(
    trainer: &mut dyn Trainer<CudaError>,
    case: &Case,
    rows: &[ScheduleRow],
    at_once: usize,
    prompts: impl Fn(usize) -> Batch + Sync,
) -> Result<Vec<StepResult>> {
    trainer.prepare(case.tokens / 2, &Feed::Host)?;
    let mut steps = 0..;
    let mut next = || Ok(prompts(steps.next().expect("there is always another")));
    let mut results = Vec::new();
    for rows in rows.chunks(at_once) {
        results.extend(trainer.run(rows, &mut next)?);
    }
    Ok(results)
}

/// A loss curve of 100 steps against the CPU's, on the same prompts: the worse of two networks.
pub fn loss_curve(device: &Arc<Device>, precision: Precision) -> Result<Check> {
    let error = on_device(device, precision, |begin| loss_curves_apart(begin, false))?;
    Ok(Check { name: "loss curve of 100 steps".into(), error, tolerance: 3.0 * tolerance(precision) })
}

/// The same with Muon, which makes directions large in which a gradient is little more than rounding.
pub fn muon_curve(device: &Arc<Device>, precision: Precision) -> Result<Check> {
    let error = on_device(device, precision, |begin| loss_curves_apart(begin, true))?;
    let tolerance = (3.0 * tolerance(precision)).max(3e-3);
    Ok(Check { name: "loss curve of 100 steps with Muon".into(), error, tolerance })
}

fn loss_curves_apart(begin: Begin<'_>, muon: bool) -> Result<f64> {
    let mut apart = Vec::new();
    for case in ["causal softmax", "LSTM"].map(Case::named) {
        let (params, optimiser) = (case.network.layout().initial(&SplitMix::new(3)), fresh(&case, muon));
        let losses = |begin: Begin<'_>| -> Result<Vec<f64>> {
            let mut trainer = begin(&case, Some(1.0), &params, &optimiser)?;
            let results = train(&mut *trainer, &case, &schedule(100), 16, |step| case.prompts(step))?;
            Ok(results.iter().map(|result| f64::from(result.loss)).collect())
        };
        apart.push(relative_distance(&losses(begin)?, &losses(&on_cpu)?, 0.0));
    }
    Ok(worst(apart))
}

/// Same start, same bits, whether steps are taken at once or one by one; and the same when the second half is resumed from what was
/// saved.
pub fn repeatable(device: &Arc<Device>, precision: Precision) -> Result<Check> {
    let cases = [("the paper's network", true), ("the paper's LSTM", false)];
    let cases = cases.map(|(name, muon)| (Case::named(name), muon));
    let different = on_device(device, precision, |begin| {
        cases.iter().map(|(case, muon)| trainings_that_differ(begin, case, *muon)).sum::<Result<u8>>()
    })?;
    Ok(Check { name: "same bits again and resumed".into(), error: f64::from(different), tolerance: 0.0 })
}

/// The same of parameters that move beside the forward pass of the next step, unless that is taken by itself.
pub fn part_by_part(device: &Arc<Device>, precision: Precision) -> Result<Check> {
    let case = Case::named("short prompts");
    let different = on_device(device, precision, |begin| trainings_that_differ(begin, &case, false))?;
    Ok(Check { name: "same bits part by part".into(), error: f64::from(different), tolerance: 0.0 })
}

/// Of two repetitions of a training, one of them step by step, the other resumed halfway.
fn trainings_that_differ(begin: Begin<'_>, case: &Case, muon: bool) -> Result<u8> {
    let (params, fresh) = (case.network.layout().initial(&SplitMix::new(3)), fresh(case, muon));
    let (prompts, rows) = (case.prompts(0), schedule(20));
    let run = |params: &[f32], optimiser: &OptimiserState, rows: &[ScheduleRow], at_once| -> Result<_> {
        let mut trainer = begin(case, None, params, optimiser)?;
        train(&mut *trainer, case, rows, at_once, |_| prompts.clone())?;
        Ok((trainer.params()?.into_owned(), trainer.optimiser()?.into_owned()))
    };
    let whole = run(&params, &fresh, &rows, rows.len())?;
    let again = run(&params, &fresh, &rows, 1)?;
    let (half, moments) = run(&params, &fresh, &rows[..7], 4)?;
    let resumed = run(&half, &moments, &rows[7..], 4)?;
    let same = |a: &(Vec<f32>, OptimiserState), b: &(Vec<f32>, OptimiserState)| {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        bits(&a.0) == bits(&b.0) && bits(&a.1.mean) == bits(&b.1.mean) && a.1.step == b.1.step
    };
    Ok(u8::from(!same(&whole, &again)) + u8::from(!same(&whole, &resumed)))
}

/// Trainings at once have the bits that each has alone, though one is prepared while others take steps.
pub fn side_by_side(device: &Arc<Device>, precision: Precision) -> Result<Check> {
    let different = on_device(device, precision, trainings_that_disturb_each_other)?;
    Ok(Check { name: "same bits side by side".into(), error: f64::from(different), tolerance: 0.0 })
}

/// How many of a few trainings have other bits at once than alone.
fn trainings_that_disturb_each_other(begin: Begin<'_>) -> Result<u8> {
    let cases = ["causal softmax", "small heads", "LSTM"].map(Case::named);
    let trained = |case: &Case| -> Result<Vec<u32>> {
        let params = case.network.layout().initial(&SplitMix::new(3));
        let mut trainer = begin(case, None, &params, &fresh(case, false))?;
        train(&mut *trainer, case, &schedule(20), 4, |step| case.prompts(step))?;
        Ok(trainer.params()?.iter().map(|value| value.to_bits()).collect())
    };
    // At once first, when matmuls may have to be timed yet.
    let at_once: Vec<Result<Vec<u32>>> = thread::scope(|scope| {
        let begun: Vec<_> = cases.iter().map(|case| scope.spawn(|| trained(case))).collect();
        begun.into_iter().map(|training| training.join().expect("trainings return their errors")).collect()
    });
    let mut different = 0;
    for (case, at_once) in cases.iter().zip(at_once) {
        different += u8::from(trained(case)? != at_once?);
    }
    Ok(different)
}

/// A loss that is not finite stops training and leaves the parameters as they were before that step, though others are enqueued behind it.
pub fn halts(device: &Arc<Device>, precision: Precision) -> Result<Check> {
    let error = on_device(device, precision, faults_of_halting)?;
    Ok(Check { name: "halts on a loss that is not finite".into(), error, tolerance: 0.0 })
}

/// 1 for a training that goes on, 1 for parameters that moved; by Adam alone and by Muon.
fn faults_of_halting(begin: Begin<'_>) -> Result<f64> {
    const FINITE: usize = 3;
    let case = &Case::named("causal softmax");
    let params = case.params();
    let mut faults = 0;
    for muon in [false, true] {
        let run = |steps| -> Result<_> {
            let mut trainer = begin(case, None, &params, &fresh(case, muon))?;
            let reported = train(&mut *trainer, case, &schedule(steps), steps, |step| {
                let mut prompts = case.prompts(step);
                if step >= FINITE {
                    prompts.targets[1] = f32::NAN;
                }
                prompts
            })?;
            Ok((trainer, reported))
        };
        let ((before, _), (halted, reported)) = (run(FINITE)?, run(FINITE + 3)?);
        let stopped =
            halted.done() == FINITE as u64 && reported.len() == FINITE + 1 && reported[FINITE].loss.is_nan();
        let moved = halted.params()? != before.params()? || before.params()? == params;
        faults += u8::from(!stopped) + u8::from(moved);
    }
    Ok(f64::from(faults))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    /// The checks that a CUDA device is held to, of the CPU.
    #[test]
    fn the_cpu_holds_every_check() {
        assert_eq!(loss_curves_apart(&on_cpu, false).unwrap(), 0.0);
        assert_eq!(trainings_that_differ(&on_cpu, &Case::named("LSTM"), false).unwrap(), 0);
        assert_eq!(trainings_that_differ(&on_cpu, &Case::named("small heads"), true).unwrap(), 0);
        assert_eq!(trainings_that_disturb_each_other(&on_cpu).unwrap(), 0);
        assert_eq!(faults_of_halting(&on_cpu).unwrap(), 0.0);
    }

    /// A trainer that clips where it should not, and one that forgets its moments, are found.
    #[test]
    fn a_wrong_trainer_fails() {
        let clipped: Begin<'_> = &|case, _, params, optimiser| on_cpu(case, Some(1e-3), params, optimiser);
        assert!(loss_curves_apart(clipped, true).unwrap() > 3e-3);
        let forgetful: Begin<'_> = &|case, clip, params, optimiser| {
            let optimiser =
                OptimiserState { step: optimiser.step, ..fresh(case, !optimiser.muon.is_empty()) };
            on_cpu(case, clip, params, &optimiser)
        };
        assert_eq!(trainings_that_differ(forgetful, &Case::named("LSTM"), false).unwrap(), 1);
        let begun = AtomicUsize::new(0);
        let disturbed: Begin<'_> = &|case, _, params, optimiser| {
            // as if what is chosen for one depended on how many have begun before
            let first = begun.fetch_add(1, SeqCst) == 0;
            on_cpu(case, first.then_some(1e-3), params, optimiser)
        };
        assert_eq!(trainings_that_disturb_each_other(disturbed).unwrap(), 1);
    }
}
