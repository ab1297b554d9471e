//! Where a training step spends its time on a CUDA device: `cuda [float32|tf32|bf16] [r1|r8|deep|lstm] [BATCH]`.
//!
//! Every kind of kernel and product is timed alone, many times over; side streams and the gaps between kernels are only seen in the
//! time of a whole step, which stands last and does not include sampling. For that: `iclab bench train --device cuda`; for
//! correctness: `iclab doctor`.

use std::sync::Arc;
use std::time::Instant;

use engine::cpu::bench;
use engine::cuda::{CudaError, CudaRunner, CudaTrainer, Device, Precision};
use engine::model::networks::{Gpt2Config, Mode, Network};
use engine::model::optim::{OptimiserState, adam::AdamConfig};
use engine::model::parameters::SplitMix;
use engine::trainer::{Feed, ScheduleRow};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize, default: &str| arguments.get(place).map_or(default, String::as_str).to_string();
    if let Err(error) = profile(&word(0, "bf16"), &word(1, "r1"), &word(2, "64")) {
        eprintln!("{error}");
        std::process::exit(2);
    }
}

fn profile(precision: &str, network: &str, batch: &str) -> Result<(), CudaError> {
    let unknown = |what: &str| CudaError::Unsupported(format!("{what}; see the head of this example"));
    let named = Precision::ALL.into_iter().find(|(_, name)| *name == precision);
    let (precision, name) = named.ok_or_else(|| unknown(precision))?;
    let batch: usize = batch.parse().map_err(|_| unknown(batch))?;
    let (network, points) = match network {
        "r1" => (bench::r1().network, 41),
        // Functions of two-layer networks take longer prompts.
        "r8" => (bench::r1().network, 101),
        "deep" => (Network::Gpt2(Gpt2Config { layers: 24, ..Default::default() }), 41),
        "lstm" => (bench::lstm().network, 41),
        other => return Err(unknown(other)),
    };
    let device = Device::open(0)?;
    let mut runner = CudaRunner::new(&device, &network, precision, [batch, 2 * points], Mode::Train)?;
    runner.set_params(&network.layout().initial(&SplitMix::new(1)))?;
    runner.forward()?;
    runner.backward()?;
    let mut rows = runner.profile()?;
    let whole = |row: &(String, f64, usize)| row.1 * row.2 as f64;
    rows.sort_by(|a, b| whole(b).total_cmp(&whole(a)));
    let total: f64 = rows.iter().map(whole).sum();
    println!("{}, {name}, batch {batch}: {total:.0} µs in all, one after the other", device.info.name);
    for row in &rows {
        println!("{:8.0} µs = {:3} × {:7.2}  {}", whole(row), row.2, row.1, row.0);
    }
    drop(runner);
    println!("{:8.0} µs a step as one graph, median", step(&device, &network, precision, [batch, points])?);
    Ok(())
}

/// Microseconds of a training step, the median of a few rounds.
fn step(
    device: &Arc<Device>,
    network: &Network,
    precision: Precision,
    [batch, points]: [usize; 2],
) -> Result<f64, CudaError> {
    const STEPS: usize = 60;
    let params = network.layout().initial(&SplitMix::new(1));
    let adam = OptimiserState::new(AdamConfig::default(), params.len());
    let mut trainer = CudaTrainer::new(device, network, precision, batch, Some(1.0), &params, &adam)?;
    trainer.prepare(points, &Feed::Host)?;
    let rows = [ScheduleRow { rate: 1e-4, dims: 20 }; STEPS];
    trainer.run_on_device(&rows[..20])?;
    let round = |_| {
        let start = Instant::now();
        trainer.run_on_device(&rows).map(|_| start.elapsed().as_secs_f64() * 1e6 / STEPS as f64)
    };
    let mut times = (0..5).map(round).collect::<Result<Vec<f64>, CudaError>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[2])
}
