//! One forward and backward pass: predictions, hidden states, loss and every named gradient of a device against the plain
//! formulas of [`reference`](crate::reference).
//!
//! What computes the pass is a function of the case, so that the same comparison runs on the CPU, in the tests below.

use std::sync::Arc;

use super::cases::Case;
use super::{Check, norm, relative_distance};
use crate::cuda::{CudaError, CudaRunner, Device, Precision};
use crate::model::networks::Mode;
use crate::reference::{self, Evaluation};
use crate::trainer::Batch;

/// Multiply-adds of a forward pass beyond which the reference, which is written to be read, would take seconds.
const REFERENCE_WORK: usize = 500_000_000;

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Whether the reference is fast enough for a case.
fn is_small(case: &Case) -> bool {
    case.network.layout().len() * case.batch * case.tokens <= REFERENCE_WORK
}

/// A case as the reference computes it; a large one as the CPU does, which is itself tested against the reference.
fn expected(case: &Case) -> Result<Evaluation, CudaError> {
    if !is_small(case) {
        return on_cpu(case);
    }
    let Batch { tokens, targets } = case.prompts(0);
    let [params, tokens, targets] = [case.params(), tokens, targets].map(|values| doubles(&values));
    Ok(reference::evaluate(&case.network, &params, &tokens, &targets, case.batch))
}

/// A case as the CPU computes it.
fn on_cpu(case: &Case) -> Result<Evaluation, CudaError> {
    let (params, Batch { tokens, targets }) = (case.params(), case.prompts(0));
    let mut runner = case.network.runner(case.batch, case.tokens, Mode::Train)?;
    runner.set_tokens(&tokens)?;
    runner.set_targets(&targets)?;
    let mut gradients = vec![0.0; params.len()];
    runner.forward(&params);
    runner.backward(&params, &mut gradients);
    Ok(Evaluation {
        hidden: (0..runner.hidden_count()).map(|layer| doubles(runner.hidden(layer))).collect(),
        last: doubles(runner.last()),
        predictions: doubles(runner.predictions()),
        loss: f64::from(runner.loss()),
        gradients: doubles(&gradients),
    })
}

/// A case as a CUDA device computes it.
fn on_device(device: &Arc<Device>, precision: Precision, case: &Case) -> Result<Evaluation, CudaError> {
    let Batch { tokens, targets } = case.prompts(0);
    let shape = [case.batch, case.tokens];
    let mut runner = CudaRunner::new(device, &case.network, precision, shape, Mode::Train)?;
    runner.set_params(&case.params())?;
    runner.set_tokens(&tokens)?;
    runner.set_targets(&targets)?;
    runner.forward()?;
    runner.backward()?;
    let hidden = (0..runner.hidden_count()).map(|layer| Ok(doubles(&runner.hidden(layer)?)));
    Ok(Evaluation {
        hidden: hidden.collect::<Result<_, CudaError>>()?,
        last: doubles(&runner.last()?),
        predictions: doubles(&runner.predictions()?),
        loss: f64::from(runner.loss()?),
        gradients: doubles(&runner.gradients()?),
    })
}

/// Predictions, hidden states, loss and every named gradient of a CUDA device.
pub fn parity(device: &Arc<Device>, precision: Precision, case: &Case) -> Result<Vec<Check>, CudaError> {
    compare(case, case.tolerance(precision), |case| on_device(device, precision, case))
}

/// What `evaluate` computes against what is expected, number by number.
fn compare(
    case: &Case,
    tolerance: f64,
    evaluate: impl FnOnce(&Case) -> Result<Evaluation, CudaError>,
) -> Result<Vec<Check>, CudaError> {
    let (found, expected) = (evaluate(case)?, expected(case)?);
    let mut checks = Vec::new();
    let mut check = |name: String, found: &[f64], expected: &[f64], floor: f64| {
        checks.push(Check { name, error: relative_distance(found, expected, floor), tolerance });
    };
    for (layer, expected) in expected.hidden.iter().enumerate() {
        check(format!("hidden {layer}"), &found.hidden[layer], expected, 0.0);
    }
    check("last".into(), &found.last, &expected.last, 0.0);
    check("predictions".into(), &found.predictions, &expected.predictions, 0.0);
    check("loss".into(), &[found.loss], &[expected.loss], 0.0);
    // Some gradients are 0 but for rounding, such as those of the keys' biases.
    let floor = 0.01 * norm(&expected.gradients);
    for (spec, place) in case.network.layout().iter() {
        let range = place.range();
        let [found, expected] = [&found.gradients[range.clone()], &expected.gradients[range]];
        check(format!("d {}", spec.name), found, expected, floor);
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::super::cases::{cases, tolerance};
    use super::super::worst;
    use super::*;

    /// The comparisons that a CUDA device is held to, of the CPU.
    #[test]
    fn the_cpu_holds_every_comparison_in_float32() {
        for case in cases().into_iter().filter(is_small) {
            let checks = compare(&case, tolerance(Precision::Float32), on_cpu).unwrap();
            assert!(checks.len() > case.network.layout().iter().count());
            let worst = worst(&checks).unwrap();
            assert!(worst.holds(), "{}: {}", case.name, worst.shown());
        }
    }

    /// One wrong number is seen, wherever it is.
    #[test]
    fn a_wrong_number_fails() {
        let case = Case::named("causal softmax");
        let fails = |spoil: fn(&mut Evaluation)| {
            let evaluate = |case: &Case| {
                let mut found = on_cpu(case)?;
                spoil(&mut found);
                Ok(found)
            };
            let checks = compare(&case, tolerance(Precision::Float32), evaluate).unwrap();
            checks.iter().filter(|check| !check.holds()).map(|check| check.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(fails(|_| {}), [""; 0]);
        assert_eq!(fails(|found| found.hidden[1][7] += 1.0), ["hidden 1"]);
        assert_eq!(fails(|found| found.last[0] = f64::NAN), ["last"]);
        assert_eq!(fails(|found| found.loss *= 1.001), ["loss"]);
        assert_eq!(fails(|found| found.gradients[3] += 1.0).len(), 1);
        assert_eq!(fails(|found| found.predictions.truncate(3)), ["predictions"]);
    }
}
