//! `iclab bench scaling`: how the cost grows with each size, beside what theory says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use lab::findings::{Axis, Figure, Findings, LinesPanel, Series, Table};
use lab::networks::experiment::Experiment;
use lab::networks::{NetworkSpec, Weights};
use lab::probe::Probed;
use lab::{Learner, Seed, Steps, Task};
use report::About;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Rounds, experiment, median, record, time_steps};
use crate::device::DeviceArgs;
use crate::error::Result;
use crate::output::Directory;
use crate::{plan, progress};

#[derive(Args)]
#[command(after_help = "Examples:\n  iclab bench scaling --out growth\n  iclab bench scaling --only solvers")]
pub struct ScalingArgs {
    /// What to measure; everything when left out
    #[arg(long, value_enum)]
    only: Option<Part>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Times each size is run; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Also write a page with figures to this directory; files of an older one there are replaced
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Training steps and evaluation of R1, one size changed at a time
    Networks,
    /// Classical solvers in the dimension d and the number of points n
    Solvers,
}

/// Seconds at several values of one size.
struct Growth {
    /// What is timed: `training step`.
    what: String,
    /// The size that grows: `layers`.
    size: &'static str,
    /// Values of the size, and seconds.
    points: Vec<(f64, f64)>,
    /// What theory says the exponent tends to, and why.
    theory: (f64, &'static str),
}

impl Growth {
    /// The slope of log time over log size, by least squares.
    fn exponent(&self) -> f64 {
        slope(&self.points)
    }

    /// The same between the two largest sizes: what has not settled yet still grows there.
    fn last(&self) -> f64 {
        slope(&self.points[self.points.len() - 2..])
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what, "size": self.size, "points": self.points, "exponent": self.exponent(),
            "last_exponent": self.last(), "theory": self.theory.0, "reason": self.theory.1,
        })
    }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |sum, log| (sum.0 + log.0 / count, sum.1 + log.1 / count));
    let along: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
    along / logs.iter().map(|log| (log.0 - x).powi(2)).sum::<f64>()
}

/// What was asked, for the page.
#[derive(Serialize)]
struct Plan {
    command: &'static str,
    device: String,
    repeat: u32,
}

pub fn run(args: &ScalingArgs) -> Result<()> {
    let start = Instant::now();
    let directory = args.out.as_deref().map(Directory::begin).transpose()?;
    let device = args.device.devices()?.choose(None)?.device;
    let bar = progress::spinner("beginning");
    let timer = Timer { repeat: args.repeat, say: &|what: String| bar.set_message(what) };
    let mut found = Vec::new();
    if args.only != Some(Part::Solvers) {
        found.extend(training(&timer, &device)?);
        found.push(evaluation(&timer)?);
    }
    if args.only != Some(Part::Networks) {
        found.extend(solvers(&timer)?);
    }
    let asked = Plan { command: "bench scaling", device: device.describe(), repeat: args.repeat };
    let record = record(
        "scaling",
        json!({"device": asked.device, "repeat": args.repeat,
               "growth": found.iter().map(Growth::json).collect::<Vec<_>>()}),
    );
    if let Some(directory) = directory {
        bar.set_message("drawing");
        let mut findings = findings(&found, &asked);
        findings.seconds = start.elapsed().as_secs_f64();
        let about = About { command: "iclab bench scaling --out DIR".into(), ..About::default() };
        plan::finish(directory, &asked, &findings, &record, about, |_| Ok(()))?;
    }
    bar.finish_and_clear();
    if args.json {
        println!("{record:#}");
        return Ok(());
    }
    for row in rows(&found) {
        println!(
            "{:<24} {:<8} {:<34} exponent {:<6} last {:<6} theory {}",
            row[0], row[1], row[2], row[3], row[4], row[5]
        );
    }
    if let Some(out) = &args.out {
        println!("{}", out.join("index.html").display());
    }
    Ok(())
}

/// Runs work several times and keeps the median.
struct Timer<'a> {
    repeat: u32,
    say: &'a dyn Fn(String),
}

impl Timer<'_> {
    /// Seconds of `work` at each value of a size; once untimed first, which touches its memory.
    fn over(
        &self,
        what: String,
        size: &'static str,
        theory: (f64, &'static str),
        values: &[usize],
        mut prepare: impl FnMut(usize) -> Result<Box<dyn FnMut() -> Result<()>>>,
    ) -> Result<Growth> {
        let mut points = Vec::new();
        for &value in values {
            (self.say)(format!("{what}, {size} {value}"));
            let mut work = prepare(value)?;
            work()?;
            points.push((value as f64, median(&Rounds::exactly(self.repeat).time(work)?)));
        }
        Ok(Growth { what, size, points, theory })
    }
}

/// Training steps of R1, one of its sizes changed at a time.
fn training(timer: &Timer, device: &lab::networks::devices::Device) -> Result<Vec<Growth>> {
    /// A size, its values, theory, and how an experiment is given one.
    type Size = (&'static str, [usize; 4], (f64, &'static str), fn(&mut Experiment, usize));
    fn network(experiment: &mut Experiment, change: impl FnOnce(&mut usize, &mut usize)) {
        if let NetworkSpec::Gpt2 { layers, width, .. } = &mut experiment.network {
            change(layers, width);
        }
    }
    let sizes: [Size; 4] = [
        ("layers", [3, 6, 12, 24], (1.0, "each layer costs the same"), |e, value| {
            network(e, |layers, _| *layers = value);
        }),
        (
            "width",
            [64, 128, 256, 512],
            (2.0, "products of the width by itself; the rest grows with the width"),
            |e, value| {
                network(e, |_, width| *width = value);
            },
        ),
        (
            "points",
            [11, 21, 41, 81],
            (1.0, "products; attention grows with the square, and is a small part"),
            |e, value| {
                e.task.points = value;
            },
        ),
        ("batch", [16, 32, 64, 128], (1.0, "prompts are independent"), |e, value| e.training.batch = value),
    ];
    sizes
        .into_iter()
        .map(|(size, values, theory, change)| {
            let mut points = Vec::new();
            for value in values {
                (timer.say)(format!("training step, {size} {value}"));
                let mut experiment = experiment("r1")?;
                change(&mut experiment, value);
                experiment.training.steps = u64::from(timer.repeat);
                let timing = time_steps(device, &experiment, Some(timer.repeat), || ())?;
                points.push((value as f64, timing.median_ms() / 1e3));
            }
            Ok(Growth { what: "training step".into(), size, points, theory })
        })
        .collect()
}

/// Prompts through R1 on the CPU, every layer read.
fn evaluation(timer: &Timer) -> Result<Growth> {
    let experiment = experiment("r1")?;
    let task = &experiment.task;
    let network = experiment.network.build(task.dim, task.points)?;
    let (params, layers) = (network.layout().initial(&Seed(0)), network.layers() as u64);
    let probed = Arc::new(Probed::trained("r1".into(), Arc::new(Weights::new(network, params))));
    let theory = (1.0, "prompts are independent");
    timer.over("evaluation".into(), "prompts", theory, &[64, 128, 256, 512], |count| {
        let prompts =
            Task::new(&task.function, &task.inputs, task.dim, task.points)?.sample(Seed(0), "eval", 0, count);
        let (probed, steps) = (probed.clone(), Steps::range(0, layers));
        Ok(Box::new(move || {
            probed.trajectory(&prompts, &steps)?;
            Ok(())
        }))
    })
}

/// Whole trajectories of solvers, in the dimension and in the number of points.
fn solvers(timer: &Timer) -> Result<Vec<Growth>> {
    /// Dimensions, and how many prompts of how many points they are given.
    type Dims = (&'static [usize], fn(usize) -> (usize, usize));
    // methods of polynomials work among the inputs while these are fewer than dimensions: d³ shows beyond
    const TWICE: Dims = (&[20, 40, 80, 160], |d| (4, 2 * d + 1));
    const FIXED: Dims = (&[20, 40, 80, 160, 320], |_| (16, 41));
    let each: [(&str, &str, Dims, f64, &str); 4] = [
        ("newton", "1..=23", TWICE, 4.0, "products of d×d matrices at 2d prefixes"),
        (
            "gd",
            "pow2:0..=12",
            TWICE,
            4.0,
            "S made tridiagonal at 2d prefixes; rotations after it grow with d²",
        ),
        ("cg", "1..=25", FIXED, 2.0, "products of S with a vector"),
        ("bfgs", "1..=25", FIXED, 2.0, "products of B with a vector"),
    ];
    let mut found = Vec::new();
    for (name, steps, (dims, shape), by_dim, why) in each {
        let steps = Steps::parse(steps)?;
        let work = |dim, count, points| -> Result<Box<dyn FnMut() -> Result<()>>> {
            let prompts = Task::new("linear", "gaussian", dim, points)?.sample(Seed(0), "eval", 0, count);
            let (learner, steps) = (lab::solvers::build(name)?, steps.clone());
            Ok(Box::new(move || {
                learner.trajectory(&prompts, &steps)?;
                Ok(())
            }))
        };
        found.push(timer.over(name.into(), "d", (by_dim, why), dims, |d| {
            let (count, points) = shape(d);
            work(d, count, points)
        })?);
        let (lengths, one_more) = ([25, 50, 100, 200, 400], (1.0, "one more prefix"));
        found.push(timer.over(name.into(), "n", one_more, &lengths, |n| work(20, 16, n))?);
    }
    Ok(found)
}

/// A row per size: what, size, seconds, exponent, exponent at the end, theory, why.
fn rows(found: &[Growth]) -> Vec<Vec<String>> {
    let seconds = |growth: &Growth| {
        let all = growth.points.iter().map(|(x, y)| format!("{x}: {}", milliseconds(*y)));
        all.collect::<Vec<_>>().join(", ")
    };
    found
        .iter()
        .map(|growth| {
            vec![
                growth.what.clone(),
                growth.size.into(),
                seconds(growth),
                format!("{:.2}", growth.exponent()),
                format!("{:.2}", growth.last()),
                format!("{}", growth.theory.0),
                growth.theory.1.into(),
            ]
        })
        .collect()
}

/// With three digits, or all before the point.
fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let digits = (2 - ms.log10().floor() as i32).clamp(0, 3) as usize;
    format!("{ms:.digits$}")
}

fn findings(found: &[Growth], asked: &Plan) -> Findings {
    let panel = |growth: &Growth| {
        // theory's line goes through the largest size
        let &(x, y) = growth.points.last().expect("several sizes");
        let theory = |&(at, _): &(f64, f64)| (at, y * (at / x).powf(growth.theory.0));
        LinesPanel::new(
            Axis::log2(growth.size),
            Axis::log10("seconds"),
            [
                Series::new(format!("measured, exponent {:.2}", growth.exponent()), growth.points.clone())
                    .markers(),
                Series::new(
                    format!("theory, {}", growth.theory.0),
                    growth.points.iter().map(theory).collect(),
                )
                .dashed(),
            ],
        )
        .titled(format!("{}, {}", growth.what, growth.size))
    };
    let figures = found.chunks(4).enumerate().map(|(i, part)| {
        Figure::new(
            format!("growth-{}", i + 1),
            "Time against size",
            "Median seconds, both axes logarithmic; the dashed line has the exponent of theory and meets the largest size.",
            part.iter().map(panel),
        )
    });
    Findings {
        analysis: "scaling".into(),
        title: "How does the cost grow?".into(),
        summary: format!(
            "Each size changed by itself, on {}; the exponent is the slope of log time over log size.",
            asked.device
        ),
        figures: figures.collect(),
        tables: vec![Table::new(
            "growth",
            "Exponents",
            "Milliseconds at each size; the exponent over all sizes and between the two largest, beside what theory says.",
            ["what", "size", "ms", "exponent", "last", "theory", "because"],
            rows(found),
        )],
        ..Findings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_slopes_in_logarithms() {
        let points = [1.0, 2.0, 4.0, 8.0].map(|x: f64| (x, 3.0 * x.powi(2)));
        let growth = Growth { what: "w".into(), size: "s", points: points.to_vec(), theory: (2.0, "") };
        assert!((growth.exponent() - 2.0).abs() < 1e-12 && (growth.last() - 2.0).abs() < 1e-12);
    }
}
