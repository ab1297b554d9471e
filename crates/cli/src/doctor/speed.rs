//! The speed of training steps.

use std::sync::Arc;

use engine::cuda::{self, CudaError, Precision};
use lab::networks::devices::Device;
use serde_json::{Value, json};

use super::{NAME, Page};
use crate::bench;
use crate::error::Error;

/// Milliseconds of a step of the paper's networks.
pub fn measure(page: &Page, device: &Arc<cuda::Device>) -> Value {
    page.line(&format!("\n{:<NAME$} {:>12} {:>10}", "speed, sampling included", "ms a step", "best"));
    let mut rows = Vec::new();
    for (name, text) in [("r1", "the paper's network"), ("r7", "the LSTM")] {
        for precision in [Precision::Tf32, Precision::Bf16] {
            let place = Device::Cuda(device.clone(), precision);
            let timing = bench::experiment(name).and_then(|experiment| {
                let batch = experiment.training.batch;
                Ok((batch, bench::time_steps(&place, &experiment, Some(300), || {})?))
            });
            let label = |batch: usize| format!("{text}, batch {batch}, {}", precision.name());
            match timing {
                Ok((batch, timing)) => {
                    let (median, best) = (timing.median_ms(), timing.best_ms());
                    let label = label(batch);
                    page.line(&format!("  {label:<width$} {median:>12.3} {best:>10.3}", width = NAME - 2));
                    rows.push(json!({
                        "experiment": name, "precision": precision.name(), "batch": batch, "median_ms": median, "best_ms": best,
                    }));
                }
                Err(error) => {
                    let why = match error {
                        Error::Lab(lab::Error::Cuda(CudaError::Unsupported(why))) => {
                            format!("not offered: {why}")
                        }
                        other => other.to_string(),
                    };
                    page.line(&format!("  {text}, {}: {why}", precision.name()));
                    rows.push(json!({"experiment": name, "precision": precision.name(), "error": why}));
                }
            }
        }
    }
    json!(rows)
}
