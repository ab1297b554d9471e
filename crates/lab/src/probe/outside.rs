//! A network that another program runs: its hidden states come from outside, and every layer gets a read-out by the same code
//! as a network of ours.

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array3, Array4, Axis, s};

use super::fit::{HeldOut, LayerSums, best_predictions, choose, solve_all};
use super::gram::Gram;
use super::{HELD_OUT, ReadOut, ReadPoint};
use crate::Progress;
use crate::data::prompts::{Prompts, Questions, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory, Unit};
use crate::registry::Id;

/// Prompts that a body is given at once.
const BATCH: usize = 256;

/// What another program knows how to do: run prompts through its network.
pub trait Body: Send + Sync {
    /// A name for figures and tables.
    fn name(&self) -> String;

    /// Width of each layer's states.
    fn widths(&self) -> &[usize];

    /// Hidden states `[b, n, width]` of each layer where the labels of prompts are predicted.
    fn states(&self, prompts: &Prompts) -> Result<Vec<Array3<f32>>>;
}

/// What read-outs are fitted to.
pub enum FitTo {
    /// Fresh prompts of a task: so many, or as many as help when absent.
    Task(Task, Seed, Option<usize>),
    /// These prompts and their labels.
    Prompts(Prompts),
}

/// A network of another program with a read-out per layer; steps are layers, from 1.
pub struct ReadBody {
    body: Arc<dyn Body>,
    read_outs: Vec<ReadOut>,
    /// Prompts they were fitted to, and why so many.
    pub prompts: usize,
    /// Why so many.
    pub why: String,
    /// How good each layer's is on prompts it was not fitted to; empty where there are no others.
    pub held_out: Vec<HeldOut>,
}

impl ReadBody {
    /// Fits a read-out to every layer.
    pub fn fit(body: Arc<dyn Body>, to: FitTo, progress: Progress) -> Result<ReadBody> {
        let layers = body.widths().len();
        let points = |affine: Vec<f64>| ReadOut::new(affine, ReadPoint::Raw);
        match to {
            FitTo::Prompts(prompts) => {
                let mut sums = LayerSums::new(body.widths(), false);
                for first in (0..prompts.count()).step_by(BATCH) {
                    let part = prompts.part(first, BATCH);
                    add(&*body, &part, &part.ys, &mut sums)?;
                }
                let read_outs = solve_all(&sums.all)?.into_iter().map(points).collect();
                let (prompts, why) = (prompts.count(), "as given".into());
                Ok(ReadBody { body, read_outs, prompts, why, held_out: Vec::new() })
            }
            FitTo::Task(task, seed, wanted) => {
                let best = task.best_learner();
                let sums = |stream: &str, prompts: Range<usize>, judging: bool| {
                    let mut sums = LayerSums::new(body.widths(), judging);
                    for first in prompts.clone().step_by(BATCH) {
                        let count = BATCH.min(prompts.end - first);
                        let part = task.sample(seed, stream, first as u64, count);
                        let targets = match judging {
                            true => part.ys.clone(),
                            false => best_predictions(best.as_deref(), &part)?,
                        };
                        add(&*body, &part, &targets, &mut sums)?;
                    }
                    Ok(sums)
                };
                progress(&format!("reading {HELD_OUT} held-out prompts"));
                let held_out = sums("probe/held-out", 0..HELD_OUT, true)?;
                let judge = |layer: usize, affine: &[f64]| held_out.judge(layer, affine, task.dim);
                let more = |prompts: Range<usize>| sums("probe", prompts, false);
                let (affine, prompts, why) = choose(&more, wanted, None, layers - 1, &judge, progress)?;
                let held_out = affine.iter().enumerate().map(|(layer, a)| judge(layer, a)).collect();
                let read_outs = affine.into_iter().map(points).collect();
                Ok(ReadBody { body, read_outs, prompts, why, held_out })
            }
        }
    }

    /// Predictions `[s, b, n]` of the layers `steps`.
    fn read(&self, prompts: &Prompts, steps: &Steps) -> Result<Array3<f64>> {
        let mut values = Array3::zeros((steps.len(), prompts.count(), prompts.points()));
        for first in (0..prompts.count()).step_by(BATCH) {
            interrupt::look();
            let part = prompts.part(first, BATCH);
            let states = states(&*self.body, &part)?;
            for (i, &layer) in steps.as_slice().iter().enumerate() {
                let (rows, read_out) = (&states[layer as usize - 1], &self.read_outs[layer as usize - 1]);
                let mut out = values.slice_mut(s![i, first..first + part.count(), ..]);
                for (mut out, rows) in out.outer_iter_mut().zip(rows.outer_iter()) {
                    for (out, row) in out.iter_mut().zip(rows.outer_iter()) {
                        *out = read_out.value(row.as_slice().expect("standard layout"));
                    }
                }
            }
        }
        Ok(values)
    }

    fn check(&self, steps: &Steps) -> Result<()> {
        let layers = self.read_outs.len() as u64;
        if steps.as_slice()[0] == 0 || steps.last() > layers {
            let why = format!("{} has layers 1 to {layers}", self.id());
            return Err(Error::BadSteps { text: steps.to_string(), why });
        }
        Ok(())
    }
}

/// The states of a batch, of the shapes that they must have.
fn states(body: &dyn Body, prompts: &Prompts) -> Result<Vec<Array3<f32>>> {
    let states = body.states(prompts)?;
    let (count, points, widths) = (prompts.count(), prompts.points(), body.widths());
    if states.len() != widths.len() {
        return Err(Error::BadData(format!(
            "{} gave states of {} layers; accepted: {}",
            body.name(),
            states.len(),
            widths.len()
        )));
    }
    for (layer, (found, &width)) in states.iter().zip(widths).enumerate() {
        if found.dim() != (count, points, width) {
            return Err(Error::BadData(format!(
                "layer {} of {} has states of shape {:?}; accepted: [prompts, points, width] = {:?}",
                layer + 1,
                body.name(),
                found.dim(),
                (count, points, width)
            )));
        }
    }
    Ok(states.into_iter().map(|states| states.as_standard_layout().into_owned()).collect())
}

/// Adds the states of a batch and what should be read from them.
fn add(
    body: &dyn Body,
    prompts: &Prompts,
    targets: &ndarray::Array2<f64>,
    sums: &mut LayerSums,
) -> Result<()> {
    interrupt::look();
    let points = prompts.points();
    for (layer, states) in states(body, prompts)?.iter().enumerate() {
        let width = states.len_of(Axis(2));
        let mut rows = Vec::with_capacity((width + 2) * targets.len());
        let hidden = states.as_slice().expect("standard layout").chunks_exact(width);
        for (hidden, target) in hidden.zip(targets) {
            rows.extend(hidden.iter().map(|h| f64::from(*h)));
            rows.extend([1.0, *target]);
        }
        sums.all[layer].add(&rows);
        if let Some(last) = sums.last.get_mut(layer) {
            add_last(last, &rows, points, width + 2);
        }
    }
    Ok(())
}

/// Adds the row of the last point of each prompt.
pub(super) fn add_last(last: &mut Gram, rows: &[f64], points: usize, size: usize) {
    rows.chunks_exact(points * size).for_each(|prompt| last.add(&prompt[(points - 1) * size..]));
}

impl Learner for ReadBody {
    fn id(&self) -> Id {
        Id { name: self.body.name(), given: Default::default() }
    }

    fn unit(&self) -> Unit {
        Unit::Layer
    }

    fn default_steps(&self) -> Steps {
        Steps::range(1, self.read_outs.len() as u64)
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        self.check(steps)?;
        Trajectory::new(self.id(), Unit::Layer, steps.clone(), self.read(prompts, steps)?, prompts)
    }

    /// Every query is a prompt of its own: nothing is known of the network but that it reads prompts.
    fn answers(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>> {
        self.check(steps)?;
        let (count, asked, dim) = questions.queries.dim();
        let mut values = Array4::zeros((steps.len(), count, questions.lengths.len(), asked));
        for (l, &length) in questions.lengths.iter().enumerate() {
            let mut xs = Array3::zeros((count * asked, length + 1, dim));
            let mut ys = ndarray::Array2::zeros((count * asked, length + 1));
            for b in 0..count {
                for q in 0..asked {
                    let i = b * asked + q;
                    xs.slice_mut(s![i, ..length, ..]).assign(&questions.prompts.xs.slice(s![
                        b,
                        ..length,
                        ..
                    ]));
                    xs.slice_mut(s![i, length, ..]).assign(&questions.queries.slice(s![b, q, ..]));
                    ys.slice_mut(s![i, ..length]).assign(&questions.prompts.ys.slice(s![b, ..length]));
                }
            }
            let found = self.read(&Prompts::new(xs, ys)?, steps)?;
            for ((step, i), value) in found.index_axis(Axis(2), length).indexed_iter() {
                values[[step, i / asked, l, i % asked]] = *value;
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solvers;

    /// Two layers whose states hold what Newton predicts after 2 and 5 steps, scaled and shifted.
    struct Newton([usize; 2]);

    impl Body for Newton {
        fn name(&self) -> String {
            "outside".into()
        }

        fn widths(&self) -> &[usize] {
            &self.0
        }

        fn states(&self, prompts: &Prompts) -> Result<Vec<Array3<f32>>> {
            let found = solvers::build("newton")?.trajectory(prompts, &Steps::parse("2,5")?)?.values;
            let layer = |s: usize, width: usize| {
                Array3::from_shape_fn((prompts.count(), prompts.points(), width), |(b, t, w)| {
                    let y = found[[s, b, t]] as f32;
                    if w == 0 { 0.5 * y + 1.0 } else { 1.0 / (w as f32 + y * y) }
                })
            };
            Ok(vec![layer(0, self.0[0]), layer(1, self.0[1])])
        }
    }

    #[test]
    fn a_body_from_outside_is_read_layer_by_layer() {
        let spec = || Task::new("linear", "gaussian", 3, 8).unwrap();
        let fitted = FitTo::Task(spec(), Seed(0), Some(2048));
        let read = ReadBody::fit(Arc::new(Newton([3, 2])), fitted, &|_| ()).unwrap();
        assert_eq!((read.prompts, read.held_out.len()), (2048, 2));
        assert!(read.held_out[1].last_error < read.held_out[0].last_error);
        let questions = spec().questions(Seed(1), "eval", 0, 9, vec![4, 7], 2);
        let steps = Steps::range(1, 2);
        let answers = read.answers(&questions, &steps).unwrap();
        let newton = solvers::build("newton").unwrap();
        let right = newton.answers(&questions, &Steps::parse("2,5").unwrap()).unwrap();
        // the second layer is nearly the best prediction, so that its read-out is nearly the inverse of what was done to it
        let (mut off, mut size) = (0.0, 0.0);
        for (a, r) in answers.index_axis(Axis(0), 1).iter().zip(right.index_axis(Axis(0), 1)) {
            off += (a - r) * (a - r);
            size += r * r;
        }
        assert!(off < 0.05 * size, "{off} of {size}");
        // an answer after t pairs is the prediction of a prompt that ends with the query
        let whole = read.trajectory(&questions.prompts, &steps).unwrap();
        assert_eq!(whole.values.dim(), (2, 9, 8));
        assert!(read.trajectory(&questions.prompts, &Steps::range(0, 2)).is_err());
    }

    #[test]
    fn other_shapes_are_refused() {
        struct Wrong;
        impl Body for Wrong {
            fn name(&self) -> String {
                "wrong".into()
            }
            fn widths(&self) -> &[usize] {
                &[4]
            }
            fn states(&self, prompts: &Prompts) -> Result<Vec<Array3<f32>>> {
                Ok(vec![Array3::zeros((prompts.count(), 2 * prompts.points(), 4))])
            }
        }
        let prompts = Task::new("linear", "gaussian", 2, 5).unwrap().sample(Seed(0), "eval", 0, 3);
        let Err(error) = ReadBody::fit(Arc::new(Wrong), FitTo::Prompts(prompts), &|_| ()) else {
            panic!("accepted");
        };
        assert!(error.to_string().contains("[prompts, points, width] = (3, 5, 4)"), "{error}");
    }
}
