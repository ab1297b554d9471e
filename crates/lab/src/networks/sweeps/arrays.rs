//! The numbers of a sweep's finished runs as arrays.

use std::path::Path;

use toml::Value;

use super::measure::Measured;
use super::plan::Sweep;
use crate::data::npz::{self, Values};
use crate::error::Result;

/// Writes an .npz file of them, a row per run; rows of different lengths end with NaN.
pub fn write_arrays(sweep: &Sweep, measured: &[Measured], path: &Path) -> Result<()> {
    let count = measured.len();
    let mut all: Vec<(String, Vec<usize>, Vec<f64>)> = Vec::new();
    for (i, field) in sweep.fields.iter().enumerate() {
        let number = |run: &Measured| match &sweep.points[run.point].values[i] {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        };
        // What is not a number is in points.csv, beside the same numbers of points.
        if let Some(values) = measured.iter().map(number).collect::<Option<Vec<f64>>>() {
            all.push((field.replace('.', "_"), vec![count], values));
        }
    }
    let mut scalar = |name: &str, value: &dyn Fn(&Measured) -> f64| {
        all.push((name.into(), vec![count], measured.iter().map(value).collect()));
    };
    scalar("mean_loss", &|run| run.result.mean_loss);
    scalar("error_over_d", &|run| run.result.last_error_over_d);
    scalar("steps_to_quality", &|run| run.reached.map_or(f64::NAN, |r| r.step as f64));
    scalar("seconds_to_quality", &|run| run.reached.map_or(f64::NAN, |r| r.seconds));
    scalar("newton_slope", &|run| run.layers.as_ref().map_or(f64::NAN, |l| l.newton_slope));
    scalar("gd_slope", &|run| run.layers.as_ref().map_or(f64::NAN, |l| l.gd_slope));
    scalar("sime_with_exact", &|run| run.layers.as_ref().map_or(f64::NAN, |l| l.like_exact));
    let mut rows = |name: &str, row: &dyn Fn(&Measured) -> Vec<f64>| {
        let rows: Vec<Vec<f64>> = measured.iter().map(row).collect();
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let padded = rows.into_iter().flat_map(|mut row| {
            row.resize(width, f64::NAN);
            row
        });
        all.push((name.into(), vec![count, width], padded.collect()));
    };
    rows("errors", &|run| run.result.errors.clone());
    rows("tested", &|run| run.tested.clone());
    rows("newton_steps", &|run| run.layers.as_ref().map_or(vec![], |l| l.newton.clone()));
    rows("gd_steps", &|run| run.layers.as_ref().map_or(vec![], |l| l.gd.clone()));
    rows("curve_step", &|run| run.rows.iter().map(|row| row.step as f64).collect());
    rows("curve_loss", &|run| run.rows.iter().map(|row| row.loss).collect());
    let points: Vec<u64> = measured.iter().map(|run| run.point as u64).collect();
    let shape = [count];
    let mut written: Vec<(&str, &[usize], Values)> = vec![("point", &shape, Values::Whole(&points))];
    written.extend(all.iter().map(|(name, shape, values)| (name.as_str(), &shape[..], Values::Real(values))));
    npz::write(path, &written)
}
