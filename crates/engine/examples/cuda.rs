//! Checks and times the CUDA device: `cuda parity`, `cuda bench [float32|tf32|bf16] [r1|lstm|deep] BATCH`,
//! `cuda profile PRECISION NETWORK BATCH`.

use std::sync::Arc;
use std::time::Instant;

use engine::adam::{Adam, AdamConfig};
use engine::bench;
use engine::cuda::{CudaError, CudaRunner, CudaTrainer, Device, Feed, Precision, ScheduleRow, checks};
use engine::networks::{Mode, Network};
use engine::params::SplitMix;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let start = Instant::now();
    let device = Device::open(0).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2)
    });
    println!("{:?} opened in {:.2} s", device.info, start.elapsed().as_secs_f64());
    let result = match words[..] {
        ["parity"] => parity(&device, ""),
        ["parity", precision] => parity(&device, precision),
        ["bench", precision, network, batch] => {
            time(&device, named(precision), network, batch.parse().unwrap())
        }
        ["profile", precision, network, batch] => {
            profile(&device, named(precision), network, batch.parse().unwrap())
        }
        _ => panic!("parity | bench PRECISION r1|lstm|deep BATCH | profile PRECISION NETWORK BATCH"),
    };
    if let Err(error) = result {
        eprintln!("{error}");
        std::process::exit(2);
    }
}

fn named(name: &str) -> Precision {
    Precision::ALL.into_iter().find(|(_, other)| *other == name).expect("float32, tf32 or bf16").0
}

fn parity(device: &Arc<Device>, only: &str) -> Result<(), CudaError> {
    for (precision, name) in Precision::ALL.into_iter().filter(|(_, name)| name.contains(only)) {
        for case in checks::cases() {
            match checks::parity(device, precision, &case) {
                Ok(checks) => {
                    let worst = checks.iter().max_by(|a, b| a.error.total_cmp(&b.error)).expect("some");
                    let bad: Vec<String> = checks
                        .iter()
                        .filter(|c| !c.holds())
                        .take(6)
                        .map(|c| format!("{} {:.1e}", c.name, c.error))
                        .collect();
                    println!(
                        "{name} {}: worst {} {:.2e} bad {}: {bad:?}",
                        case.name,
                        worst.name,
                        worst.error,
                        bad.len()
                    );
                }
                Err(error) => println!("{name} {}: {error}", case.name),
            }
        }
        for check in [checks::loss_curve, checks::repeatable, checks::halts] {
            match check(device, precision) {
                Ok(c) => println!(
                    "{name} {}: {:.2e} (tolerance {:.0e}) {}",
                    c.name,
                    c.error,
                    c.tolerance,
                    c.holds()
                ),
                Err(error) => println!("{name}: {error}"),
            }
        }
    }
    Ok(())
}

fn network(name: &str) -> Network {
    match name {
        "lstm" => bench::lstm().network,
        "deep" => Network::Gpt2(engine::networks::Gpt2Config { layers: 24, ..Default::default() }),
        _ => bench::r1().network,
    }
}

fn time(device: &Arc<Device>, precision: Precision, name: &str, batch: usize) -> Result<(), CudaError> {
    let network = network(name);
    let layout = network.layout();
    let params = layout.initial(&SplitMix::new(1));
    let adam = Adam::new(AdamConfig::default(), layout.len());
    let start = Instant::now();
    let mut trainer = CudaTrainer::new(device, &network, precision, batch, Some(1.0), &params, &adam)?;
    trainer.prepare(41, &Feed::Host)?;
    let ready = start.elapsed().as_secs_f64();
    let rows = vec![ScheduleRow { rate: 1e-4, dims: 20 }; 200];
    trainer.run(&rows)?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        trainer.run(&rows)?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3 / rows.len() as f64);
    }
    println!(
        "{name} {} batch {batch}: {best:.3} ms a step; ready in {ready:.2} s; {} MiB",
        precision.name(),
        trainer.bytes() >> 20
    );
    Ok(())
}

fn profile(device: &Arc<Device>, precision: Precision, name: &str, batch: usize) -> Result<(), CudaError> {
    let network = network(name);
    let mut runner = CudaRunner::new(device, &network, precision, [batch, 82], Mode::Train)?;
    runner.set_params(&network.layout().initial(&SplitMix::new(1)))?;
    runner.forward()?;
    runner.backward()?;
    let mut rows = runner.profile()?;
    rows.sort_by(|a, b| (b.1 * b.2 as f64).total_cmp(&(a.1 * a.2 as f64)));
    let total: f64 = rows.iter().map(|(_, us, count)| us * *count as f64).sum();
    println!("{name} {} batch {batch}: {total:.0} us in all, one after the other", precision.name());
    for (label, us, count) in rows {
        println!("{:8.0} us = {count:3} x {us:7.2}  {label}", us * count as f64);
    }
    Ok(())
}
