//! Times training steps; prints one JSON line per case.
//!
//! `cargo run --release -p iclab-engine --example bench [r1] [small] [lstm]`, or `bench profile [r1] …` for
//! the time of each kind of operation.

use std::error::Error;

use engine::cpu::bench::{Timing, lstm, profile, r1, small, train};

fn main() -> Result<(), Box<dyn Error>> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|choice| choice == name);
    if chosen.iter().any(|choice| choice == "profile") {
        for (case, steps) in [(r1(), 5), (small(), 200), (lstm(), 5)] {
            if wanted(case.name) || chosen.len() == 1 {
                println!("{}: milliseconds by operation", case.name);
                profile(&case, steps)?.iter().for_each(|(name, ms)| println!("{ms:10.2}  {name}"));
            }
        }
        return Ok(());
    }
    if wanted("r1") {
        print(&train(&r1(), 1, 5)?);
    }
    if wanted("small") {
        print(&train(&small(), 20, 200)?);
    }
    if wanted("lstm") {
        print(&train(&lstm(), 1, 5)?);
    }
    Ok(())
}

fn print(timing: &Timing) {
    println!(
        "{{\"what\":\"train\",\"name\":\"{}\",\"params\":{},\"median_ms\":{:.3},\"best_ms\":{:.3},\"buffer_mib\":{},\"loss\":{}}}",
        timing.name,
        timing.params,
        timing.median_ms(),
        timing.best_ms(),
        timing.bytes >> 20,
        timing.loss,
    );
}
