//! The figures of a sweep.

use super::groups::{Group, groups, others, positions};
use super::measure::{LayerMatches, Measured};
use super::outcome::INTERVALS;
use super::plan::{Quality, SEED, Sweep};
use crate::findings::{Axis, Figure, LinesPanel, Scale, Series, Stroke};
use crate::stats::Estimate;

/// Errors below this are drawn here: round-off has no meaning on a logarithmic axis.
const SMALLEST: f64 = 1e-12;

/// A curve through estimates, with their intervals.
fn curve(label: &str, estimates: Vec<(f64, Estimate)>) -> Series {
    // One run alone has no interval.
    let whole = |e: Estimate| if e.low.is_nan() { Estimate { low: e.value, high: e.value, ..e } } else { e };
    Series::estimates(label, estimates.into_iter().map(|(x, e)| (x, whole(e))))
}

/// One figure per axis of the sweep.
pub fn along_axes(sweep: &Sweep, measured: &[Measured]) -> Vec<Figure> {
    (0..sweep.fields.len()).map(|field| along(sweep, measured, field)).collect()
}

fn along(sweep: &Sweep, measured: &[Measured], field: usize) -> Figure {
    let name = &sweep.fields[field];
    let positions = positions(sweep, field);
    let over_seeds = name == SEED;
    // Over seeds every run is a point of its own; over anything else the runs of a group are one.
    let mut curves: Vec<(String, Vec<(f64, Group)>)> = Vec::new();
    for group in groups(sweep, measured) {
        let parts: Vec<(f64, Group)> = if over_seeds {
            let alone = |run| Group { label: String::new(), runs: vec![run] };
            group.runs.iter().map(|&run| (positions.at[run.point], alone(run))).collect()
        } else {
            vec![(
                positions.at[group.runs[0].point],
                Group { label: String::new(), runs: group.runs.clone() },
            )]
        };
        let label = if over_seeds { group.label.clone() } else { others(sweep, group.runs[0].point, field) };
        match curves.iter_mut().find(|(known, _)| *known == label) {
            Some((_, known)) => known.extend(parts),
            None => curves.push((label, parts)),
        }
    }
    curves.iter_mut().for_each(|(_, parts)| parts.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let panel = |y: Axis, value: &dyn Fn(&Group) -> Estimate| {
        let series = curves.iter().map(|(label, parts)| {
            let series = curve(label, parts.iter().map(|(x, group)| (*x, value(group))).collect());
            if over_seeds { series.stroke(Stroke::Markers) } else { series }
        });
        let scale = if positions.by_factors { Scale::Log10 } else { Scale::Linear };
        LinesPanel::new(Axis::new(name.as_str(), scale), y, series)
    };
    let key = positions.key.map_or(String::new(), |key| format!(" On the axis {key}."));
    let errors = panel(Axis::log10("mean squared error / d after all pairs"), &|group| {
        group.log_mean(|run| run.result.last_error_over_d.max(SMALLEST))
    });
    let losses = panel(Axis::linear("mean loss"), &|group| group.mean(|run| run.result.mean_loss));
    Figure::new(
        format!("axis-{}", name.replace('.', "-")),
        format!("Along {name}"),
        format!(
            "Error after all pairs and mean loss of every finished run, on its own task. {INTERVALS}{key}"
        ),
        [errors, losses],
    )
}

/// Error by pairs read, for every group: F6 with error bars when the axis is the width.
pub fn errors(groups: &[Group]) -> Figure {
    let series = groups.iter().map(|group| {
        let points = group.runs.iter().map(|run| run.result.errors.len()).min().unwrap_or(0);
        let at = |t: usize| group.log_mean(|run| (run.result.errors[t] / run.dim as f64).max(SMALLEST));
        curve(&group.label, (0..points).map(|t| (t as f64, at(t))).collect()).stroke(Stroke::Solid)
    });
    let (x, y) = (Axis::linear("in-context pairs t"), Axis::log10("mean squared error / d"));
    let caption =
        format!("Mean squared error over d after t pairs, as each run found at its end. {INTERVALS}");
    Figure::new("sweep-errors", "Error by pairs read", caption, [LinesPanel::new(x, y, series)])
}

/// Best-matching steps of every layer, for every group.
pub fn matches(groups: &[Group]) -> Figure {
    let panel = |label: &str, scale: Scale, steps: fn(&LayerMatches) -> &[f64]| {
        let series = groups.iter().map(|group| {
            let of = |run: &Measured, layer: usize| {
                let step = run.layers.as_ref().and_then(|l| steps(l).get(layer).copied()).unwrap_or(f64::NAN);
                // Step 0 has no place on a logarithmic axis.
                if scale == Scale::Linear || step > 0.0 { step } else { f64::NAN }
            };
            let deepest =
                group.runs.iter().filter_map(|run| run.layers.as_ref()).map(|l| steps(l).len()).max();
            let mean = |layer| match scale {
                Scale::Linear => group.mean(|run| of(run, layer)),
                _ => group.log_mean(|run| of(run, layer)),
            };
            curve(
                &group.label,
                (0..deepest.unwrap_or(0)).map(|layer| ((layer + 1) as f64, mean(layer))).collect(),
            )
        });
        LinesPanel::new(Axis::linear("layer"), Axis::new(label, scale), series)
    };
    Figure::new(
        "sweep-matches",
        "Best-matching steps of every layer",
        format!(
            "For each layer the step of Newton's iteration, and of gradient descent, whose errors are most similar (SimE); means over \
             seeds, for gradient descent of logarithms. {INTERVALS}"
        ),
        [
            panel("best Newton step", Scale::Linear, |layers| &layers.newton),
            panel("best GD step", Scale::Log2, |layers| &layers.gd),
        ],
    )
}

/// The share of runs that were good enough, by training steps and by seconds.
pub fn quality(sweep: &Sweep, groups: &[Group]) -> Figure {
    let wanted = match sweep.quality {
        Some(Quality { excess: Some(excess), .. }) => {
            format!("a loss at most {excess} above the smallest possible")
        }
        Some(Quality { loss: Some(loss), .. }) => format!("a loss of at most {loss}"),
        _ => "no quality".into(),
    };
    let share = |x: &str, value: fn(&Measured) -> Option<f64>| {
        let series = groups.iter().map(|group| {
            let mut times: Vec<f64> = group.runs.iter().filter_map(|run| value(run)).collect();
            times.sort_by(f64::total_cmp);
            let count = group.runs.len() as f64;
            // A staircase: the share before and after each run that made it.
            let stairs = times.iter().enumerate();
            let stairs = stairs.flat_map(|(i, &t)| [(t, i as f64 / count), (t, (i + 1) as f64 / count)]);
            Series::new(group.label.as_str(), std::iter::once((0.0, 0.0)).chain(stairs).collect())
        });
        LinesPanel::new(Axis::linear(x), Axis::linear("share of runs").range(0.0, 1.0), series)
    };
    Figure::new(
        "sweep-quality",
        "Time to quality",
        format!(
            "The share of runs whose metrics had shown {wanted}, over the whole task. Seconds are those of training on the machines \
             that ran them; runs that shared a machine slowed each other."
        ),
        [
            share("training steps", |run| run.reached.map(|r| r.step as f64)),
            share("seconds of training", |run| run.reached.map(|r| r.seconds)),
        ],
    )
}

/// Errors on all test inputs, for every group.
pub fn crosswise(sweep: &Sweep, groups: &[Group]) -> Figure {
    let inputs = &sweep.test.inputs;
    let numbers: Option<Vec<f64>> =
        inputs.iter().map(|text| text.rsplit_once('=')?.1.parse().ok().filter(|n| *n > 0.0)).collect();
    let (at, label, scale) = match numbers {
        Some(numbers) => {
            let stem = inputs[0].rsplit_once('=').map_or("", |(stem, _)| stem);
            (numbers, stem.to_string(), Scale::Log10)
        }
        None => {
            let key: Vec<String> =
                inputs.iter().enumerate().map(|(i, name)| format!("{}: {name}", i + 1)).collect();
            ((1..=inputs.len()).map(|i| i as f64).collect(), key.join(", "), Scale::Linear)
        }
    };
    let series = groups.iter().map(|group| {
        let error = |i: usize| group.log_mean(|run| run.tested[i].max(SMALLEST));
        curve(&group.label, at.iter().enumerate().map(|(i, &x)| (x, error(i))).collect())
    });
    let x = Axis::new(format!("tested on {label}"), scale);
    let y = Axis::log10("mean squared error / d after all pairs");
    let caption = format!(
        "Error after all pairs on inputs that the networks may not have been trained on. {INTERVALS}"
    );
    Figure::new("sweep-crosswise", "Trained and tested crosswise", caption, [LinesPanel::new(x, y, series)])
}
