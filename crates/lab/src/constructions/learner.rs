//! A construction as a learner: its steps are the iterations of the algorithm it claims to be.

use std::sync::Arc;

use engine::deviation::worst;
use ndarray::{Array2, Array3, Array4, ArrayView1, s};

use super::transformer::{Columns, Layer};
use super::{Construction, Start, Variant};
use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory, Unit};
use crate::parallel;
use crate::registry::Id;

/// A construction that answers prompts.
///
/// Step s is the Transformer with s iteration layers between those before and those after, which is what the recipe builds
/// for s iterations. After t pairs it reads 2t+1 columns at its last positions: columns that are not there add nothing to a
/// sum over columns, so that weights for n pairs serve every t ≤ n, N = 2n+1 in the normalisation being a part of
/// the weights. Under full attention every t is a run of its own; under a causal mask one run answers all.
pub struct Constructed {
    id: Id,
    construction: Construction,
}

impl Constructed {
    /// Gives a construction a name.
    pub fn new(name: impl Into<String>, construction: Construction) -> Constructed {
        Constructed { id: Id { name: name.into(), given: Default::default() }, construction }
    }

    /// The construction.
    pub fn construction(&self) -> &Construction {
        &self.construction
    }

    /// The algorithm it claims to be, for `iclab` and the registry of solvers. Under a causal mask the sums are means, and
    /// no single algorithm of the registry is meant: at t pairs it is Newton with α/t².
    pub fn solver(&self, t: usize) -> String {
        let step = self.construction.recipe.step;
        match self.construction.recipe.variant {
            Variant::Gd => format!("gd:eta={step:e},form=iterated"),
            Variant::Causal => format!("newton:alpha={:e}", step / (t.max(1) * t.max(1)) as f64),
            Variant::GdPlusPlus => format!("gd++:eta={step:e}"),
            Variant::Rls => format!("rls:delta={step:e}"),
            Variant::Compact(Start::Identity) | Variant::Residual => {
                format!("newton:start=identity,eta={step:e}")
            }
            Variant::Compact(Start::Gram) | Variant::Paper | Variant::Printed => {
                format!("newton:alpha={step:e}")
            }
        }
    }

    /// Predictions `[s,b]` for x_{t+1} after t pairs, by the whole Transformer.
    pub fn after_pairs(&self, prompts: &Prompts, t: usize, steps: &Steps) -> Result<Array2<f64>> {
        self.check(prompts, steps)?;
        let (d, recorded) = (prompts.dim(), steps.len());
        let mut rows = vec![0.0; prompts.count() * recorded];
        parallel::fill_rows(&mut rows, recorded, |b, row| {
            let (xs, ys) = prompts.prompt(b);
            self.ask(&xs[..t * d], &ys[..t], &xs[t * d..(t + 1) * d], steps, row);
        });
        let rows = Array2::from_shape_vec((prompts.count(), recorded), rows).expect("sized above");
        Ok(rows.reversed_axes())
    }

    /// Answers `[s,q]` to `queries` `[q,d]` after the pairs given.
    fn ask(&self, xs: &[f64], ys: &[f64], queries: &[f64], steps: &Steps, answers: &mut [f64]) {
        let d = self.construction.recipe.dim;
        let asked = queries.len() / d;
        let transformer = &self.construction.transformer;
        if self.construction.query_is_seen || asked == 1 {
            // As it is defined: every column sees every column it may.
            for (q, query) in queries.chunks_exact(d).enumerate() {
                let last = 2 * ys.len();
                self.run(transformer.read(xs, ys, query, true), last, steps, |s, columns| {
                    answers[s * asked + q] = transformer.read_out(columns.h.row(last));
                });
            }
        } else {
            // Nothing of a query reaches any other column: they share their prefix.
            let first = 2 * ys.len();
            self.run(transformer.read(xs, ys, queries, false), first, steps, |s, columns| {
                for q in 0..asked {
                    answers[s * asked + q] = transformer.read_out(columns.h.row(first + q));
                }
            });
        }
    }

    /// Runs the layers and calls `record(s, columns)` after each of `steps`; only columns from `first` on are read.
    fn run(
        &self,
        mut columns: Columns,
        first: usize,
        steps: &Steps,
        mut record: impl FnMut(usize, &Columns),
    ) {
        let Construction { transformer, before, after, .. } = &self.construction;
        let (body, tail) = transformer.layers.split_at(transformer.layers.len() - after);
        let (head, iterations) = body.split_at(*before);
        let pass = |layers: &[Arc<Layer>], columns: &mut Columns| {
            layers.iter().for_each(|layer| transformer.pass(layer, columns, 0));
        };
        pass(head, &mut columns);
        let mut done = 0;
        for (s, &step) in steps.as_slice().iter().enumerate() {
            pass(&iterations[done..step as usize], &mut columns);
            done = step as usize;
            let Some((last, others)) = tail.split_last() else {
                record(s, &columns);
                continue;
            };
            let mut fork = columns.clone();
            pass(others, &mut fork);
            transformer.pass(last, &mut fork, first);
            record(s, &fork);
        }
    }

    fn check(&self, prompts: &Prompts, steps: &Steps) -> Result<()> {
        let recipe = &self.construction.recipe;
        if steps.last() > recipe.iterations as u64 {
            let why = format!("{} has iterations 0 to {}", self.id, recipe.iterations);
            return Err(Error::BadSteps { text: steps.to_string(), why });
        }
        self.construction.check(&self.id.to_string(), prompts)
    }
}

impl Learner for Constructed {
    fn id(&self) -> Id {
        self.id.clone()
    }

    fn unit(&self) -> Unit {
        Unit::Iteration
    }

    fn default_steps(&self) -> Steps {
        Steps::range(0, self.construction.recipe.iterations as u64)
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        self.check(prompts, steps)?;
        let (count, points, d, recorded) = (prompts.count(), prompts.points(), prompts.dim(), steps.len());
        let causal = self.construction.recipe.variant == Variant::Causal;
        let transformer = &self.construction.transformer;
        // One row [t,s] per prompt, filled independently.
        let mut rows = vec![0.0; count * points * recorded];
        parallel::fill_rows(&mut rows, points * recorded, |b, row| {
            let (xs, ys) = prompts.prompt(b);
            if causal {
                let last = points - 1;
                let columns = transformer.read(&xs[..last * d], &ys[..last], &xs[last * d..], true);
                self.run(columns, 0, steps, |s, columns| {
                    for t in 0..points {
                        row[t * recorded + s] = transformer.read_out(columns.h.row(2 * t));
                    }
                });
                return;
            }
            for (t, row) in row.chunks_exact_mut(recorded).enumerate() {
                self.ask(&xs[..t * d], &ys[..t], &xs[t * d..(t + 1) * d], steps, row);
            }
        });
        let rows = Array3::from_shape_vec((count, points, recorded), rows).expect("sized above");
        let values = rows.permuted_axes([2, 0, 1]).as_standard_layout().to_owned();
        Trajectory::new(self.id(), Unit::Iteration, steps.clone(), values, prompts)
    }

    fn answers(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>> {
        self.check(&questions.prompts, steps)?;
        let (count, asked, d) = questions.queries.dim();
        let (lengths, recorded) = (&questions.lengths, steps.len());
        // One row [l,s,q] per prompt.
        let mut rows = vec![0.0; count * lengths.len() * recorded * asked];
        parallel::fill_rows(&mut rows, lengths.len() * recorded * asked, |b, row| {
            let (xs, ys) = questions.prompts.prompt(b);
            let queries = questions.of(b);
            let queries = queries.as_slice().expect("queries are stored in standard layout");
            for (&t, row) in lengths.iter().zip(row.chunks_exact_mut(recorded * asked)) {
                self.ask(&xs[..t * d], &ys[..t], queries, steps, row);
            }
        });
        let rows =
            Array4::from_shape_vec((count, lengths.len(), recorded, asked), rows).expect("sized above");
        Ok(rows.permuted_axes([2, 0, 1, 3]))
    }
}

/// Deviation of predictions `[s,b]` from those of the algorithm, one per step: the largest difference over prompts, relative
/// to the root mean square of the algorithm's predictions. NaN where either is not finite.
pub fn deviations(found: &Array2<f64>, right: &Array2<f64>) -> Vec<f64> {
    let deviation = |found: ArrayView1<f64>, right: ArrayView1<f64>| {
        let worst = worst(found.iter().zip(right).map(|(a, b)| (a - b).abs()));
        let scale = (right.iter().map(|v| v * v).sum::<f64>() / right.len() as f64).sqrt();
        if worst == 0.0 { 0.0 } else { worst / scale }
    };
    (0..found.nrows()).map(|s| deviation(found.row(s), right.slice(s![s, ..]))).collect()
}
