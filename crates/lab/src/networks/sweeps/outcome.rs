//! A sweep as tables and figures: means over seeds with their intervals, along every axis and along the layers.

use super::figures;
use super::groups::{Group, groups};
use super::measure::{LayerMatches, Measured};
use super::plan::{Sweep, plain};
use crate::analyses::Outcome;
use crate::findings::Table;
use crate::stats::Estimate;

/// How intervals over seeds are made, for captions.
pub(super) const INTERVALS: &str = "Intervals are 95 % over seeds by Student's t; those of errors are of their logarithms, \
                                    and the mean is geometric. One seed has no interval.";

/// Everything that the finished runs of a sweep show.
pub fn outcome(sweep: &Sweep, measured: &[Measured]) -> Outcome {
    let groups = groups(sweep, measured);
    let mut figures = figures::along_axes(sweep, measured);
    figures.push(figures::errors(&groups));
    let mut tables = vec![points(sweep, measured), means(&groups)];
    if measured.iter().any(|run| run.layers.is_some()) {
        figures.push(figures::matches(&groups));
        tables.push(slopes(&groups));
    }
    if sweep.quality.is_some() {
        figures.push(figures::quality(sweep, &groups));
        tables.push(times(&groups));
    }
    if !sweep.test.inputs.is_empty() {
        figures.push(figures::crosswise(sweep, &groups));
        tables.push(crosswise(sweep, &groups));
    }
    Outcome { claims: vec![], figures, tables }
}

/// What the finished runs show, for the first screen: how many there are, which settings err least and most, and how many
/// Newton steps a layer is worth.
pub fn answer(sweep: &Sweep, measured: &[Measured]) -> String {
    let groups = groups(sweep, measured);
    let error = |group: &Group| group.log_mean(|run| run.result.last_error_over_d).value;
    let mut found: Vec<(f64, &Group)> = groups.iter().map(|group| (error(group), group)).collect();
    found.retain(|(error, _)| error.is_finite());
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let named = |(error, group): &(f64, &Group)| format!("{} with {}", scientific(*error), group.label);
    let errors = match found.as_slice() {
        [] => String::new(),
        [(error, _)] => format!(" Error/d after all pairs is {}.", scientific(*error)),
        [least, .., most] => format!(" Error/d after all pairs is from {} to {}.", named(least), named(most)),
    };
    let slopes: Vec<f64> =
        measured.iter().filter_map(|run| Some(run.layers.as_ref()?.newton_slope)).collect();
    let slopes = || slopes.iter().copied().filter(|slope| slope.is_finite());
    let worth = match (slopes().reduce(f64::min), slopes().reduce(f64::max)) {
        (Some(low), Some(high)) if slopes().count() > 1 => {
            format!(" A layer is worth {} to {} Newton steps.", short(low), short(high))
        }
        (Some(one), _) => format!(" A layer is worth {} Newton steps.", short(one)),
        _ => String::new(),
    };
    let all = sweep.points.len();
    let runs =
        if measured.len() == all { format!("All {all}") } else { format!("{} of {all}", measured.len()) };
    format!("{runs} runs are finished.{errors}{worth}")
}

/// One row for every run, with numbers as they are.
fn points(sweep: &Sweep, measured: &[Measured]) -> Table {
    let mut columns = vec!["point".to_string()];
    columns.extend(sweep.fields.iter().cloned());
    let fixed = [
        "steps",
        "mean loss",
        "smallest possible",
        "error/d",
        "steps to quality",
        "seconds to quality",
        "Newton steps per layer",
        "GD doublings per layer",
        "SimE with exact",
    ];
    columns.extend(fixed.map(String::from));
    columns.extend(sweep.test.inputs.iter().map(|inputs| format!("error/d on {inputs}")));
    let number =
        |value: Option<f64>| value.filter(|v| v.is_finite()).map_or(String::new(), |v| format!("{v}"));
    let row = |run: &Measured| {
        let (result, layers) = (&run.result, run.layers.as_ref());
        let mut row = vec![run.point.to_string()];
        row.extend(sweep.points[run.point].values.iter().map(plain));
        row.push(result.steps.to_string());
        row.extend([Some(result.mean_loss), result.bayes_loss, Some(result.last_error_over_d)].map(number));
        row.push(run.reached.map_or(String::new(), |r| r.step.to_string()));
        row.push(number(run.reached.map(|r| r.seconds)));
        row.extend(
            [layers.map(|l| l.newton_slope), layers.map(|l| l.gd_slope), layers.map(|l| l.like_exact)]
                .map(number),
        );
        row.extend(run.tested.iter().map(|&error| number(Some(error))));
        row
    };
    Table::new(
        "sweep-points",
        "Every finished run",
        "Losses and errors as each run found them on fresh prompts at its end; layers and tests on prompts that all runs share.",
        columns,
        measured.iter().map(row),
    )
}

fn text(estimate: Estimate, digits: impl Fn(f64) -> String) -> String {
    if estimate.value.is_nan() {
        return "none".into();
    }
    let value = digits(estimate.value);
    if estimate.low.is_nan() {
        value
    } else {
        format!("{value} [{}, {}]", digits(estimate.low), digits(estimate.high))
    }
}

fn fixed(value: f64) -> String {
    format!("{value:.4}")
}

fn short(value: f64) -> String {
    format!("{value:.2}")
}

fn scientific(value: f64) -> String {
    format!("{value:.2e}")
}

fn table(
    id: &str,
    title: &str,
    caption: &str,
    columns: &[&str],
    groups: &[Group],
    row: impl Fn(&Group) -> Vec<String>,
) -> Table {
    let heads = ["group", "runs"].iter().chain(columns).copied();
    let rows = groups.iter().map(|group| {
        let mut cells = vec![group.label.clone(), group.runs.len().to_string()];
        cells.extend(row(group));
        cells
    });
    Table::new(id, title, format!("{caption} {INTERVALS}"), heads, rows)
}

fn means(groups: &[Group]) -> Table {
    let caption = "Runs that differ by their seed alone.";
    let columns = ["mean loss", "error/d after all pairs"];
    table("sweep-means", "Means over seeds", caption, &columns, groups, |group| {
        vec![
            text(group.mean(|run| run.result.mean_loss), fixed),
            text(group.log_mean(|run| run.result.last_error_over_d), scientific),
        ]
    })
}

fn slopes(groups: &[Group]) -> Table {
    let columns = [
        "Newton steps per layer",
        "GD doublings per layer",
        "SimE of the last layer with the exact solution",
    ];
    let caption = format!(
        "Slopes of a line through the best Newton steps, and of an exponential through the best steps of gradient descent, over the \
         middle layers of each run. {} Runs with fewer than three such layers away from the ends of the search have no slope.",
        crate::analyses::kit::setting::MIDDLE_RULE
    );
    let of = |run: &Measured, value: fn(&LayerMatches) -> f64| run.layers.as_ref().map_or(f64::NAN, value);
    let slope = |group: &Group, value: fn(&LayerMatches) -> f64| {
        let count = group.runs.iter().filter(|run| of(run, value).is_finite()).count();
        let few =
            if count < group.runs.len() && count > 0 { format!(" (of {count})") } else { String::new() };
        text(group.mean(|run| of(run, value)), short) + &few
    };
    table("sweep-slopes", "Best-matching steps per layer", &caption, &columns, groups, |group| {
        vec![
            slope(group, |layers| layers.newton_slope),
            slope(group, |layers| layers.gd_slope),
            text(group.mean(|run| of(run, |layers| layers.like_exact)), fixed),
        ]
    })
}

fn times(groups: &[Group]) -> Table {
    let columns = ["reached", "least steps", "median steps", "most steps", "median seconds"];
    let caption = "Runs that reached the quality, and when; medians are over those.";
    table("sweep-quality", "Time to quality", caption, &columns, groups, |group| {
        let mut reached: Vec<_> = group.runs.iter().filter_map(|run| run.reached).collect();
        reached.sort_by_key(|r| r.step);
        let steps: Vec<u64> = reached.iter().map(|r| r.step).collect();
        let mut seconds: Vec<f64> = reached.iter().map(|r| r.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        let of = |step: Option<&u64>| step.map_or("none".into(), u64::to_string);
        vec![
            reached.len().to_string(),
            of(steps.first()),
            of(steps.get(steps.len() / 2)),
            of(steps.last()),
            seconds.get(seconds.len() / 2).map_or("none".into(), |s| format!("{s:.1}")),
        ]
    })
}

fn crosswise(sweep: &Sweep, groups: &[Group]) -> Table {
    let columns: Vec<&str> = sweep.test.inputs.iter().map(String::as_str).collect();
    let caption = "Error over d after all pairs of networks trained as the rows say and tested on the inputs of the columns.";
    table("sweep-crosswise", "Trained and tested crosswise", caption, &columns, groups, |group| {
        (0..columns.len()).map(|i| text(group.log_mean(|run| run.tested[i]), scientific)).collect()
    })
}
