//! `iclab bench forward`: seconds of an evaluation.

use std::sync::Arc;

use clap::Args;
use lab::findings::numbers::counted;
use lab::networks::Weights;
use lab::networks::experiment::TaskSpec;
use lab::probe::Probed;
use lab::{Learner, Seed, Steps, Task};
use serde_json::json;

use super::{RecordArgs, Rounds, experiment, median, peak_mib, record};
use crate::error::Result;

#[derive(Args)]
#[command(after_help = "Examples:\n  iclab bench forward --json\n  \
                        iclab bench forward --experiment lstm --prompts 256 --repeat 1")]
pub struct ForwardArgs {
    /// r1, r5 (24 layers), r7 or lstm, small (3 layers × 64, d=5, 11 points), or an experiment file
    #[arg(long, default_value = "r1")]
    experiment: String,
    /// Prompts of a pass
    #[arg(long, default_value_t = 1280, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    prompts: u32,
    /// Passes that are timed; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    record: RecordArgs,
}

pub fn run(args: &ForwardArgs) -> Result<()> {
    let experiment = experiment(&args.experiment)?;
    let TaskSpec { function, inputs, dim, points } = &experiment.task;
    let prompts =
        Task::new(function, inputs, *dim, *points)?.sample(Seed(0), "eval", 0, args.prompts as usize);
    let network = experiment.network.build(*dim, *points)?;
    let params = network.layout().initial(&Seed(0));
    let (parameters, layers) = (params.len(), network.layers());
    let network = Probed::trained(experiment.name.clone(), Arc::new(Weights::new(network, params)));
    let every_layer = Steps::range(0, layers as u64);
    let bar = crate::progress::bar(args.repeat as usize);
    bar.set_message(format!("{} prompts through {}", args.prompts, experiment.name));
    let seconds = Rounds::exactly(args.repeat).time(|| {
        network.trajectory(&prompts, &every_layer)?;
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    let (best, median) = (seconds[0], median(&seconds));
    let record = record(
        "forward",
        json!({
            "experiment": experiment.name, "device": "cpu", "parameters": parameters, "layers": layers,
            "prompts": args.prompts, "points": points, "repeat": args.repeat, "best_seconds": best,
            "median_seconds": median, "prompts_per_second": f64::from(args.prompts) / median, "peak_mib": peak_mib(),
        }),
    );
    args.record.keep(&record, || {
        format!(
            "{}: {median:.3} s for {} of {points} points, {layers} layers read (best {best:.3}), {parameters} parameters",
            experiment.name, counted(args.prompts as usize, "prompt", "prompts")
        )
    })
}
