//! Prompts: x₁, y₁, x₂, y₂, … of one function each, and how they are sampled.
//!
//! Axes, everywhere: `s` step, `b` prompt, `t` pairs read so far, `d` feature.

use engine::hash::stable_id_of;
use ndarray::{Array2, Array3, ArrayView2, Axis};

use crate::data::functions::{self, DeviceFunction, FunctionClass};
use crate::data::inputs::{self, DeviceInputs, InputDistribution, Inputs};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::parallel;
use crate::registry::Spec;

/// A batch of prompts. `ys[b,t]` is the label of `xs[b,t,:]`; a learner predicts it from the t pairs before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts {
    /// Inputs `[b, n, d]`.
    pub xs: Array3<f64>,
    /// Labels `[b, n]`.
    pub ys: Array2<f64>,
}

impl Prompts {
    /// Checks that shapes agree, nothing is empty and every number is finite.
    pub fn new(xs: Array3<f64>, ys: Array2<f64>) -> Result<Prompts> {
        let (b, n, d) = xs.dim();
        if ys.dim() != (b, n) {
            let (yb, yn) = ys.dim();
            return Err(Error::BadData(format!(
                "xs has shape [{b}, {n}, {d}] but ys has shape [{yb}, {yn}]; accepted: ys of shape [{b}, {n}]"
            )));
        }
        if b == 0 || n == 0 || d == 0 {
            return Err(Error::BadData(format!(
                "xs has shape [{b}, {n}, {d}]; accepted: at least one prompt, one point and one dimension"
            )));
        }
        if let Some(((b, t, d), value)) = xs.indexed_iter().find(|(_, v)| !v.is_finite()) {
            return Err(Error::BadData(format!("xs[{b}, {t}, {d}] is {value}; accepted: finite numbers")));
        }
        if let Some(((b, t), value)) = ys.indexed_iter().find(|(_, v)| !v.is_finite()) {
            return Err(Error::BadData(format!("ys[{b}, {t}] is {value}; accepted: finite numbers")));
        }
        Ok(Prompts { xs: xs.as_standard_layout().into_owned(), ys: ys.as_standard_layout().into_owned() })
    }

    /// The first `count` prompts (all when there are fewer), each cut after its first `points` points.
    pub fn head(&self, count: usize, points: usize) -> Prompts {
        let (count, points) = (count.min(self.count()), points.min(self.points()));
        let xs = self.xs.slice(ndarray::s![..count, ..points, ..]).to_owned();
        let ys = self.ys.slice(ndarray::s![..count, ..points]).to_owned();
        Prompts { xs, ys }
    }

    /// Prompts `first .. first + count`, or as many of them as there are.
    pub fn part(&self, first: usize, count: usize) -> Prompts {
        let end = (first + count).min(self.count());
        let xs = self.xs.slice(ndarray::s![first..end, .., ..]).to_owned();
        Prompts { xs, ys: self.ys.slice(ndarray::s![first..end, ..]).to_owned() }
    }

    /// Number of prompts.
    pub fn count(&self) -> usize {
        self.xs.dim().0
    }

    /// Points per prompt, n+1 in the paper's counting.
    pub fn points(&self) -> usize {
        self.xs.dim().1
    }

    /// Dimension of an input.
    pub fn dim(&self) -> usize {
        self.xs.dim().2
    }

    /// Inputs `[n, d]` and labels `[n]` of one prompt, row-major.
    pub fn prompt(&self, b: usize) -> (&[f64], &[f64]) {
        let (n, d) = (self.points(), self.dim());
        let xs = self.xs.as_slice().expect("prompts are stored in standard layout");
        let ys = self.ys.as_slice().expect("prompts are stored in standard layout");
        (&xs[b * n * d..(b + 1) * n * d], &ys[b * n..(b + 1) * n])
    }

    /// A number per prompt that the bits of its inputs and labels decide: predictions carry it, so that they are never
    /// compared with the labels of other prompts.
    pub fn digest(&self) -> Vec<u64> {
        let of = |b: usize| {
            let (xs, ys) = self.prompt(b);
            stable_id_of(xs.iter().chain(ys).flat_map(|v| v.to_le_bytes()))
        };
        parallel::map(self.count(), of)
    }

    /// Root mean square of all inputs.
    pub fn input_size(&self) -> f64 {
        (self.xs.iter().map(|x| x * x).sum::<f64>() / self.xs.len() as f64).sqrt()
    }

    /// Mean square of all labels: the scale errors are measured on when E`[y²]` ≠ d.
    pub fn label_power(&self) -> f64 {
        self.ys.iter().map(|y| y * y).sum::<f64>() / self.ys.len() as f64
    }
}

/// Prompts together with fresh queries from the same input distribution: what an algorithm *would* answer.
#[derive(Clone, Debug)]
pub struct Questions {
    /// The prefixes come from these prompts.
    pub prompts: Prompts,
    /// Prefix lengths at which every query is asked, ascending.
    pub lengths: Vec<usize>,
    /// Queries `[b, q, d]`.
    pub queries: Array3<f64>,
}

impl Questions {
    /// As [`Prompts::digest`], of a prompt with its queries and the lengths after which they are asked.
    pub fn digest(&self) -> Vec<u64> {
        let lengths = self.lengths.iter().flat_map(|length| (*length as u64).to_le_bytes());
        let of = |(prompt, queries): (u64, ArrayView2<f64>)| {
            let queries = queries.iter().flat_map(|v| v.to_le_bytes());
            stable_id_of(prompt.to_le_bytes().into_iter().chain(lengths.clone()).chain(queries))
        };
        self.prompts.digest().into_iter().zip(self.queries.outer_iter()).map(of).collect()
    }
}

/// What is asked of a learner: an input distribution, a class of functions, and the size of a prompt.
///
/// ```
/// use lab::{Seed, Task};
///
/// let task = Task::new("noisy-linear:sigma=0.1", "skewed:kappa=100", 20, 41)?;
/// let prompts = task.sample(Seed(0), "eval", 0, 8); // prompts 0 to 7 of the stream "eval"
/// assert_eq!(prompts.xs.dim(), (8, 41, 20));
/// assert_eq!(prompts.ys.dim(), (8, 41));
/// assert_eq!(task.sample(Seed(0), "eval", 6, 2).ys, prompts.ys.slice(ndarray::s![6.., ..])); // however they are cut
/// # Ok::<(), lab::Error>(())
/// ```
pub struct Task {
    inputs: Box<dyn Inputs>,
    function: Box<dyn FunctionClass>,
    /// Dimension of an input.
    pub dim: usize,
    /// Points per prompt.
    pub points: usize,
}

impl Task {
    /// Builds a task from registry names, e.g. `("linear", "skewed:kappa=100", 20, 41)`.
    pub fn new(function: &str, inputs: &str, dim: usize, points: usize) -> Result<Task> {
        if dim == 0 || dim > 1024 || points == 0 || points > 100_000 {
            return Err(Error::BadData(format!(
                "a prompt of {points} points in {dim} dimensions; accepted: 1 to 100000 points, 1 to 1024 dimensions"
            )));
        }
        let function = functions::build(&Spec::parse(function)?)?;
        let inputs = inputs::build(&Spec::parse(inputs)?)?;
        function.check(dim)?;
        inputs.check(dim)?;
        Ok(Task { inputs, function, dim, points })
    }

    /// Noise that is added to labels (standard deviation).
    pub fn noise(&self) -> f64 {
        self.function.noise()
    }

    /// The Bayes-optimal algorithm, where the registry has it: its answer is the label's mean given the pairs read.
    pub fn best_learner(&self) -> Option<String> {
        self.function.best_learner()
    }

    /// Function class and input distribution as plain data; `None` where one of them has no such description.
    pub fn on_device(&self) -> Option<(DeviceFunction, DeviceInputs)> {
        Some((self.function.on_device()?, self.inputs.on_device()?))
    }

    /// Prompts `first .. first+count` of a stream: the same bits however they are cut into batches.
    pub fn sample(&self, seed: Seed, stream: &str, first: u64, count: usize) -> Prompts {
        self.sample_crossed(seed, stream, stream, first, count)
    }

    /// Prompts with the inputs of one stream and the functions of another: the same inputs under other functions, or the
    /// same functions of other inputs.
    pub fn sample_crossed(
        &self,
        seed: Seed,
        inputs: &str,
        function: &str,
        first: u64,
        count: usize,
    ) -> Prompts {
        let (n, d) = (self.points, self.dim);
        let (mut xs, mut ys) = (vec![0.0; count * n * d], vec![0.0; count * n]);
        parallel::fill_both([&mut xs, &mut ys], [n * d, n], |i, xs, ys| {
            interrupt::look();
            let index = first + i as u64;
            let distribution = self.input_distribution(seed, inputs, index);
            let mut points = seed.at(&format!("{inputs}/inputs"), index);
            let mut noise = seed.at(&format!("{function}/noise"), index);
            let function = self.function.draw(d, &mut seed.at(&format!("{function}/function"), index));
            for (x, y) in xs.chunks_exact_mut(d).zip(ys) {
                distribution.draw(&mut points, x);
                *y = function.value(x);
                if self.noise() > 0.0 {
                    *y += self.noise() * noise.normal();
                }
            }
        });
        let xs = Array3::from_shape_vec((count, n, d), xs).expect("sized above");
        let ys = Array2::from_shape_vec((count, n), ys).expect("sized above");
        Prompts { xs, ys }
    }

    /// The distribution of the inputs of one prompt, its queries included.
    fn input_distribution(&self, seed: Seed, stream: &str, index: u64) -> InputDistribution {
        self.inputs.distribution(self.dim, seed, &format!("{stream}/basis"), index)
    }

    /// The same prompts with `count_queries` fresh queries each, to be asked after each of `lengths` pairs.
    pub fn questions(
        &self,
        seed: Seed,
        stream: &str,
        first: u64,
        count: usize,
        lengths: Vec<usize>,
        count_queries: usize,
    ) -> Questions {
        let prompts = self.sample(seed, stream, first, count);
        let mut queries = Array3::zeros((count, count_queries, self.dim));
        for (i, mut queries) in queries.axis_iter_mut(Axis(0)).enumerate() {
            let index = first + i as u64;
            let distribution = self.input_distribution(seed, stream, index);
            let mut draws = seed.at(&format!("{stream}/queries"), index);
            for mut x in queries.rows_mut() {
                distribution
                    .draw(&mut draws, x.as_slice_mut().expect("rows of a fresh array are contiguous"));
            }
        }
        Questions { prompts, lengths, queries }
    }
}

impl Questions {
    /// Asks each prompt its own inputs again (forgetting): after `length` pairs, queries are x₁…x_length.
    pub fn reask(prompts: Prompts, length: usize) -> Questions {
        let queries = prompts.xs.slice(ndarray::s![.., ..length, ..]).to_owned();
        Questions { prompts, lengths: vec![length], queries }
    }

    /// `count` queries for each prompt when nobody knows the distribution of their inputs: normal, of the inputs' size.
    pub fn normal(prompts: Prompts, lengths: Vec<usize>, count: usize, seed: Seed) -> Questions {
        let size = prompts.input_size();
        let mut queries = Array3::zeros((prompts.count(), count, prompts.dim()));
        for (b, mut of) in queries.outer_iter_mut().enumerate() {
            let mut draws = seed.at("eval/queries", b as u64);
            of.iter_mut().for_each(|x| *x = size * draws.normal());
        }
        Questions { prompts, lengths, queries }
    }

    /// The first `queries` of each of the first `count` prompts, or as many as there are.
    pub fn head(&self, count: usize, queries: usize) -> Questions {
        let (count, queries) = (count.min(self.prompts.count()), queries.min(self.queries.dim().1));
        Questions {
            prompts: self.prompts.part(0, count),
            lengths: self.lengths.clone(),
            queries: self.queries.slice(ndarray::s![..count, ..queries, ..]).to_owned(),
        }
    }

    /// Queries `[q, d]` of one prompt.
    pub fn of(&self, b: usize) -> ArrayView2<'_, f64> {
        self.queries.index_axis(Axis(0), b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_and_lengths_do_not_change_bits() {
        let task = Task::new("noisy-linear:sigma=0.3", "skewed:kappa=100", 6, 9).unwrap();
        let whole = task.sample(Seed(3), "test", 0, 12);
        for (first, count) in [(0, 5), (5, 4), (9, 3)] {
            let part = task.sample(Seed(3), "test", first as u64, count);
            assert_eq!(part.xs, whole.xs.slice(ndarray::s![first..first + count, .., ..]));
            assert_eq!(part.ys, whole.ys.slice(ndarray::s![first..first + count, ..]));
        }
        let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(single.install(|| task.sample(Seed(3), "test", 0, 12)), whole);
        let short =
            Task { points: 4, ..Task::new("noisy-linear:sigma=0.3", "skewed:kappa=100", 6, 9).unwrap() };
        assert_eq!(short.sample(Seed(3), "test", 0, 12).xs, whole.xs.slice(ndarray::s![.., ..4, ..]));
    }

    #[test]
    fn inputs_and_functions_are_crossed() {
        let task = Task::new("linear", "gaussian", 3, 6).unwrap();
        let [own, other] = ["a", "b"].map(|stream| task.sample(Seed(0), stream, 0, 4));
        let crossed = task.sample_crossed(Seed(0), "a", "b", 0, 4);
        assert!(crossed.xs == own.xs && crossed.ys != own.ys && crossed.ys != other.ys);
        let back = task.sample_crossed(Seed(0), "b", "a", 0, 4);
        // y = wᵀx: the sum of w of a and w of b over the inputs of a and b
        let w = |p: &Prompts, b: usize| crate::linalg::least_squares(p.prompt(b).0, p.prompt(b).1, 3);
        for b in 0..4 {
            let (u, v) = (w(&own, b), w(&back, b));
            assert!(u.iter().zip(&v).all(|(u, v)| (u - v).abs() < 1e-9), "the same function of other inputs");
        }
    }

    #[test]
    fn bad_arrays_are_named() {
        let xs = Array3::<f64>::zeros((2, 3, 4));
        let message = |xs: Array3<f64>, ys: Array2<f64>| Prompts::new(xs, ys).unwrap_err().to_string();
        assert!(message(xs.clone(), Array2::zeros((2, 4))).contains("accepted: ys of shape [2, 3]"));
        assert!(message(Array3::zeros((0, 3, 4)), Array2::zeros((0, 3))).contains("at least one prompt"));
        let mut bad = xs.clone();
        bad[[1, 2, 3]] = f64::NAN;
        assert!(message(bad, Array2::zeros((2, 3))).contains("xs[1, 2, 3] is NaN"));
    }
}
