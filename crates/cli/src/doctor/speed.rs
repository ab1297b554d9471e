//! The speed of training steps.

use std::sync::Arc;
use std::time::Instant;

use engine::cuda::{self, CudaError, Precision};
use engine::model::networks::{Gpt2Config, Network};
use lab::data::prompts::Task;
use lab::data::seed::Seed;
use lab::findings::numbers::grouped;
use lab::learners::Learner;
use lab::networks::Weights;
use lab::networks::devices::Device;
use lab::networks::evaluation::{self, Place};
use lab::probe::Probed;
use serde_json::{Value, json};

use super::{NAME, Page};
use crate::bench;
use crate::error::Error;

/// What the timings are called.
pub const TITLE: &str = "speed, sampling included";

/// Steps that are timed.
const STEPS: u32 = 300;

/// Milliseconds of a step of the paper's networks.
pub fn measure(page: &Page, device: &Arc<cuda::Device>) -> Value {
    page.line(&format!("\n{:<NAME$} {:>12} {:>10}", TITLE, "ms a step", "best"));
    let mut rows = Vec::new();
    for (name, text) in [("r1", "the paper's network"), ("r7", "the LSTM")] {
        for precision in [Precision::Tf32, Precision::Bf16] {
            let place = Device::Cuda(device.clone(), precision);
            let timing = bench::experiment(name).and_then(|mut experiment| {
                let batch = experiment.training.batch;
                // As short as it is timed: nobody who looks over a machine waits until it has tuned itself.
                experiment.training.steps = u64::from(STEPS);
                Ok((batch, bench::time_steps(&place, &experiment, Some(STEPS), || {})?))
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

/// What the timing of evaluation is called.
pub const EVALUATION: &str = "speed of evaluation, float32";

/// Seconds of answers of the paper's network to many queries, with what is prepared the first time and without.
pub fn measure_evaluation(page: &Page, device: &Arc<cuda::Device>) -> Value {
    const PROMPTS: usize = 256;
    page.line(&format!("\n{EVALUATION:<NAME$} {:>12} {:>10}", "first", "again"));
    let timed = || -> Result<[f64; 2], lab::Error> {
        evaluation::run_at(Place::On(Device::Cuda(device.clone(), evaluation::PRECISION)));
        let network = Network::Gpt2(Gpt2Config::default());
        let params = network.layout().initial(&Seed(0));
        let probed = Probed::trained("paper".into(), Arc::new(Weights::new(network, params)));
        let task = Task::new("linear", "gaussian", 20, 41)?;
        let questions = task.questions(Seed(0), "speed", 0, PROMPTS, vec![1, 10, 20, 40], 200);
        let mut seconds = [0.0; 2];
        for seconds in &mut seconds {
            let start = Instant::now();
            probed.answers(&questions, &probed.default_steps())?;
            *seconds = start.elapsed().as_secs_f64();
        }
        Ok(seconds)
    };
    let found = timed();
    evaluation::run_at(Place::On(Device::Cpu));
    match found {
        Ok([first, again]) => {
            let label = format!("{} answers of the paper's network", grouped(PROMPTS as u64 * 4 * 200));
            page.line(&format!("  {label:<width$} {first:>10.2} s {again:>8.2} s", width = NAME - 2));
            json!({"answers": PROMPTS * 4 * 200, "first_s": first, "again_s": again})
        }
        Err(error) => {
            page.line(&format!("  {error}"));
            json!({"error": error.to_string()})
        }
    }
}
