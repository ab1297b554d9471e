//! From an algorithm on one problem to a [`Learner`] on a batch of prompts: the loops over b, t and q, once.

use ndarray::{Array3, Array4};

use super::dual::Dual;
use super::iterative::Filter;
use super::problem::{Problem, SufficientStatistics};
use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory, Unit};
use crate::linalg::Eigenvalues;
use crate::parallel;
use crate::registry::{Id, Settings};

/// An algorithm that reads t pairs and then answers queries.
pub trait InContext: Send + Sync {
    /// Answers `[s,q]` to `queries` `[q,d]` after each of `steps`.
    fn answer(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]);

    /// Its closed form, if it has one.
    fn filter(&self, _problem: &Problem, _values: &Eigenvalues) -> Option<Filter> {
        None
    }

    /// Whether its weights are p(S) c for polynomials p that follow from the eigenvalues of S which are not zero.
    fn polynomial(&self) -> bool {
        false
    }
}

/// An algorithm as a learner.
pub struct Classical<A> {
    /// Name and settings.
    pub id: Id,
    /// What a step is.
    pub unit: Unit,
    /// Ridge parameter: the algorithm acts on S + λI.
    pub lambda: f64,
    /// Steps when nobody says which.
    pub default_steps: Steps,
    /// The largest step it has; algorithms without iterations have only step 1.
    pub single_step: bool,
    /// The algorithm.
    pub algorithm: A,
}

impl<A: InContext + 'static> Classical<A> {
    /// An iterative algorithm: steps are iterations, step 0 is the start.
    pub fn iterative(settings: &Settings, lambda: f64, steps: Steps, algorithm: A) -> Box<dyn Learner> {
        Box::new(Classical {
            id: settings.id(),
            unit: Unit::Iteration,
            lambda,
            default_steps: steps,
            single_step: false,
            algorithm,
        })
    }

    /// An algorithm without iterations: its only step is 1.
    pub fn direct(settings: &Settings, lambda: f64, algorithm: A) -> Box<dyn Learner> {
        Box::new(Classical {
            id: settings.id(),
            unit: Unit::Iteration,
            lambda,
            default_steps: Steps::single(1),
            single_step: true,
            algorithm,
        })
    }
}

impl<A: InContext> Classical<A> {
    fn check(&self, steps: &Steps) -> Result<()> {
        if self.single_step && steps.as_slice() != [1] {
            return Err(Error::BadSteps {
                text: steps.to_string(),
                why: format!("{} is not iterative: its only step is 1", self.id),
            });
        }
        Ok(())
    }

    /// Calls `visit(t, problem, dual)` for t = 0…last over the prefixes of one prompt.
    fn prefixes(
        &self,
        b: usize,
        xs: &[f64],
        ys: &[f64],
        last: usize,
        mut visit: impl FnMut(usize, &Problem, Option<&Dual>),
    ) {
        let dim = xs.len() / ys.len();
        let mut statistics = SufficientStatistics::new(dim, self.lambda);
        let mut dual = Dual::new(dim, self.lambda).filter(|_| self.algorithm.polynomial());
        for t in 0..=last {
            if t > 0 {
                statistics.add(&xs[(t - 1) * dim..t * dim], ys[t - 1]);
                dual = dual.and_then(|dual| dual.add(&xs[..t * dim], dim));
            }
            visit(t, &statistics.problem(b, &xs[..t * dim], &ys[..t]), dual.as_ref().filter(|_| t > 0));
        }
    }

    /// Answers `[s,q]`, from the smaller of both problems.
    fn answer(
        &self,
        problem: &Problem,
        dual: Option<&Dual>,
        queries: &[f64],
        steps: &Steps,
        answers: &mut [f64],
    ) {
        match dual {
            Some(dual) => {
                let queries = Dual::queries(problem, queries);
                self.algorithm.answer(&dual.problem(problem), &queries, steps, answers);
            }
            None => self.algorithm.answer(problem, queries, steps, answers),
        }
    }
}

impl<A: InContext> Learner for Classical<A> {
    fn id(&self) -> Id {
        self.id.clone()
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn default_steps(&self) -> Steps {
        self.default_steps.clone()
    }

    fn filter(&self, problem: &Problem, values: &Eigenvalues) -> Option<Filter> {
        // with a ridge it acts on another S than the caller's
        self.algorithm.filter(problem, values).filter(|_| self.lambda == 0.0)
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        self.check(steps)?;
        let (count, points, dim, recorded) = (prompts.count(), prompts.points(), prompts.dim(), steps.len());
        // One row [t,s] per prompt, filled independently.
        let mut rows = vec![0.0; count * points * recorded];
        parallel::fill_rows(&mut rows, points * recorded, |b, row| {
            interrupt::look();
            let (xs, ys) = prompts.prompt(b);
            self.prefixes(b, xs, ys, points - 1, |t, problem, dual| {
                let query = &xs[t * dim..(t + 1) * dim];
                self.answer(problem, dual, query, steps, &mut row[t * recorded..(t + 1) * recorded]);
            });
        });
        let rows = Array3::from_shape_vec((count, points, recorded), rows).expect("sized above");
        let values = rows.permuted_axes([2, 0, 1]).as_standard_layout().to_owned();
        Trajectory::new(self.id(), self.unit, steps.clone(), values, prompts)
    }

    fn answers(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>> {
        self.check(steps)?;
        let (count, asked, _) = questions.queries.dim();
        let (lengths, recorded) = (&questions.lengths, steps.len());
        let last = lengths.iter().copied().max().unwrap_or(0);
        // One row [l,s,q] per prompt.
        let mut rows = vec![0.0; count * lengths.len() * recorded * asked];
        parallel::fill_rows(&mut rows, lengths.len() * recorded * asked, |b, row| {
            interrupt::look();
            let (xs, ys) = questions.prompts.prompt(b);
            let queries = questions.of(b);
            let queries = queries.as_slice().expect("queries are stored in standard layout");
            self.prefixes(b, xs, ys, last, |t, problem, dual| {
                for l in (0..lengths.len()).filter(|&l| lengths[l] == t) {
                    let answers = &mut row[l * recorded * asked..(l + 1) * recorded * asked];
                    self.answer(problem, dual, queries, steps, answers);
                }
            });
        });
        let rows =
            Array4::from_shape_vec((count, lengths.len(), recorded, asked), rows).expect("sized above");
        Ok(rows.permuted_axes([2, 0, 1, 3]))
    }
}
