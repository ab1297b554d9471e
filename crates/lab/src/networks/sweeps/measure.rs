//! What the finished runs of a sweep are like: read from their directories, and measured on common prompts.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::plan::{Point, Quality, Sweep};
use crate::Progress;
use crate::analyses::kit::setting::{HALF_OCTAVES, middle_of};
use crate::compare::Comparison;
use crate::compare::rates::Trend;
use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory};
use crate::networks::Weights;
use crate::networks::experiment::TaskSpec;
use crate::networks::runs::{self, Metrics, RunResult};
use crate::probe::{self, Options};
use crate::solvers;

/// One finished run.
pub struct Measured {
    /// Number of the point.
    pub point: usize,
    /// Dimension of its inputs.
    pub dim: usize,
    /// As the run itself found at its end.
    pub result: RunResult,
    /// Rows of its metrics.
    pub rows: Vec<Metrics>,
    /// When it was good enough, if it ever was.
    pub reached: Option<Reached>,
    /// Mean squared error over d after all pairs, for each of the sweep's test inputs.
    pub tested: Vec<f64>,
    /// Its layers among algorithms; none on tasks that no algorithm here solves.
    pub layers: Option<LayerMatches>,
}

/// The moment when a run was good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Training steps.
    pub step: u64,
    /// Seconds of training.
    pub seconds: f64,
}

/// The layers of a network among algorithms.
pub struct LayerMatches {
    /// Best Newton step of each layer; NaN where there is none.
    pub newton: Vec<f64>,
    /// Best step of gradient descent of each layer.
    pub gd: Vec<f64>,
    /// Newton steps per middle layer; NaN where too few can be fitted.
    pub newton_slope: f64,
    /// Doublings of gradient descent's steps per middle layer.
    pub gd_slope: f64,
    /// SimE of the last layer with the exact solution.
    pub like_exact: f64,
}

/// Measures a run on `count` prompts, the same for all runs on a task.
pub struct Measurer<'a> {
    count: usize,
    progress: Progress<'a>,
    baselines: HashMap<String, Option<Arc<Baselines>>>,
}

/// Prompts of a task and what algorithms make of them.
struct Baselines {
    prompts: Prompts,
    exact: Trajectory,
    newton: Trajectory,
    gd: Trajectory,
}

impl<'a> Measurer<'a> {
    /// With no baselines yet; `progress` hears what is going on.
    pub fn new(count: usize, progress: Progress<'a>) -> Measurer<'a> {
        Measurer { count, progress, baselines: HashMap::new() }
    }

    /// Measures a point, if its run is finished.
    pub fn measure(&mut self, sweep: &Sweep, index: usize, root: &Path) -> Result<Option<Measured>> {
        let point = &sweep.points[index];
        let dir = point.dir(root);
        let Some(result) = runs::finished(&dir) else { return Ok(None) };
        (self.progress)(&sweep.label(point));
        let rows = runs::read_metrics(&dir)?;
        let found = probe::load(&dir)?;
        let task = &point.experiment.task;
        let tested = sweep.test.inputs.iter().map(|inputs| self.test(&found.weights, task, inputs));
        let tested = tested.collect::<Result<_>>()?;
        let layers = match self.baselines(task)? {
            None => None,
            Some(baselines) => {
                let probed = found.probe(None, &Options::default(), self.progress)?.probed;
                let path = probed.trajectory(&baselines.prompts, &probed.default_steps())?;
                Some(among(&path, &baselines)?)
            }
        };
        let reached = sweep.quality.and_then(|quality| reached(&rows, quality, point));
        Ok(Some(Measured { point: index, dim: task.dim, result, rows, reached, tested, layers }))
    }

    /// Error of a network on other inputs than it was trained on.
    fn test(&self, weights: &Weights, task: &TaskSpec, inputs: &str) -> Result<f64> {
        let prompts = sample(&TaskSpec { inputs: inputs.into(), ..task.clone() }, self.count)?;
        let last = prompts.points() - 1;
        let errors = &weights.predictions(&prompts)? - &prompts.ys;
        let squared = errors.column(last).iter().map(|e| e * e).sum::<f64>();
        Ok(squared / (self.count * task.dim) as f64)
    }

    fn baselines(&mut self, task: &TaskSpec) -> Result<Option<Arc<Baselines>>> {
        let key = format!("{task:?}");
        if let Some(known) = self.baselines.get(&key) {
            return Ok(known.clone());
        }
        let made = self.make_baselines(task)?.map(Arc::new);
        self.baselines.insert(key, made.clone());
        Ok(made)
    }

    fn make_baselines(&self, task: &TaskSpec) -> Result<Option<Baselines>> {
        let Some(exact) = task.build()?.best_learner() else {
            return Ok(None);
        };
        // Under noise all of them act on S + λI; ill-conditioned inputs need smaller steps (E7).
        let lambda =
            exact.split_once("lambda=").map_or(String::new(), |(_, value)| format!("lambda={value}"));
        let eta = if task.inputs.starts_with("skewed") { "eta=0.005" } else { "eta=0.01" };
        let named = |name: &str, settings: &[&str]| {
            let given: Vec<&str> = settings.iter().copied().filter(|s| !s.is_empty()).collect();
            if given.is_empty() { name.to_string() } else { format!("{name}:{}", given.join(",")) }
        };
        let prompts = sample(task, self.count)?;
        let path = |text: &str, steps: &Steps| solvers::build(text)?.trajectory(&prompts, steps);
        let (newton, gd) = (named("newton", &[&lambda]), named("gd", &[eta, &lambda]));
        let exact = path(&exact, &Steps::single(1))?;
        let newton = path(&newton, &Steps::range(0, 30))?;
        let gd = path(&gd, &Steps::parse(HALF_OCTAVES)?)?;
        Ok(Some(Baselines { prompts, exact, newton, gd }))
    }
}

fn sample(task: &TaskSpec, count: usize) -> Result<Prompts> {
    Ok(task.build()?.sample(Seed(0), "sweep", 0, count))
}

/// Every layer's best match among the steps of algorithms.
fn among(path: &Trajectory, baselines: &Baselines) -> Result<LayerMatches> {
    let Baselines { prompts, exact, newton, gd } = baselines;
    let middle = middle_of(path, newton, prompts);
    let with = |other| Ok::<_, Error>(Comparison::of_errors(path, other, prompts)?.over(middle));
    let (exact, newton, gd) = (with(exact)?, with(newton)?, with(gd)?);
    Ok(LayerMatches {
        newton: newton.best_steps(),
        gd: gd.best_steps(),
        newton_slope: newton.per_step(Trend::Linear).value,
        gd_slope: gd.per_step(Trend::Exponential).value,
        like_exact: exact.last_similarity().value,
    })
}

/// The first row over the whole task that is good enough. Rows count the seconds of their own process, so that those of a
/// process before are added; what it did after its last row is not counted.
fn reached(rows: &[Metrics], quality: Quality, point: &Point) -> Option<Reached> {
    let task = &point.experiment.task;
    let (mut before, mut last) = (0.0, 0.0);
    for row in rows {
        if row.seconds < last {
            before += last;
        }
        last = row.seconds;
        let good = match (quality.excess, quality.loss) {
            (Some(most), _) => row.excess.is_some_and(|excess| excess <= most),
            (_, Some(most)) => row.loss <= most,
            _ => false,
        };
        if good && row.dims == task.dim && row.points == task.points {
            return Some(Reached { step: row.step, seconds: before + last });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::Unit;
    use crate::networks::experiment::Experiment;

    /// A network whose layer l is Newton's step 2l is worth two Newton steps a layer, and as many doublings of gradient
    /// descent's steps as Newton against it gives (F26: best GD step 2^{k/2+½}, one doubling in two steps).
    #[test]
    fn slopes_are_those_of_a_known_algorithm() {
        let task = TaskSpec { function: "linear".into(), inputs: "gaussian".into(), dim: 20, points: 41 };
        let baselines = Measurer::new(64, &|_| ()).make_baselines(&task).unwrap().unwrap();
        let steps: Vec<usize> = (1..=9).map(|layer| 2 * layer).collect();
        let values = baselines.newton.values.select(ndarray::Axis(0), &steps);
        let id = baselines.newton.learner.clone();
        let path = Trajectory::new(id, Unit::Layer, Steps::range(1, 9), values, &baselines.prompts).unwrap();
        let layers = among(&path, &baselines).unwrap();
        assert_eq!(layers.newton, steps.iter().map(|&s| s as f64).collect::<Vec<_>>());
        assert!((layers.newton_slope - 2.0).abs() < 1e-9, "{}", layers.newton_slope);
        assert!((0.8..1.2).contains(&layers.gd_slope), "{}", layers.gd_slope);
        assert!(layers.like_exact > 0.97, "{}", layers.like_exact);
        let unknown = TaskSpec { function: "decision-tree".into(), ..task };
        assert!(Measurer::new(16, &|_| ()).make_baselines(&unknown).unwrap().is_none());
    }

    #[test]
    fn quality_is_reached_on_the_whole_task_and_time_goes_on_over_processes() {
        let text = include_str!("../../../../../experiments/miniature.toml");
        let experiment = Experiment::parse(text, Path::new("miniature.toml")).unwrap();
        let point = Point { values: vec![], experiment };
        let row = |step, excess, dims, seconds| Metrics {
            step,
            loss: 1.0 + excess,
            excess: Some(excess),
            norm: 1.0,
            rate: 1.0,
            dims,
            points: 16,
            seconds,
        };
        let rows = [
            row(1, 0.0, 2, 5.0),
            row(2, 0.5, 5, 9.0),
            row(3, 0.4, 5, 2.0),
            row(4, 0.1, 5, 3.0),
            row(5, 0.0, 5, 4.0),
        ];
        let excess = |most| reached(&rows, Quality { excess: Some(most), loss: None }, &point);
        assert_eq!(excess(0.1), Some(Reached { step: 4, seconds: 12.0 }));
        assert_eq!(excess(-0.1), None);
        let loss = reached(&rows, Quality { excess: None, loss: Some(1.45) }, &point);
        assert_eq!(loss, Some(Reached { step: 3, seconds: 11.0 }));
    }
}
