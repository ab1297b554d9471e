//! Gradients of weights: sums over the rows of all prompts, on all threads.

use crate::cpu::arena::with_scratch;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::transpose::transpose;
use crate::cpu::gemm::{MR, NR, add_outer_products};
use crate::cpu::work_queue::run_tasks;
use crate::model::parameters::Param;

/// To be computed: dW += xᵀ dout and db += Σ rows of dout, for x `[rows, inner]` and dout `[rows, outer]`.
pub(crate) struct WeightGradient<'a> {
    pub w: Param,
    pub b: Param,
    /// Whether W is stored `[outer, inner]`.
    pub transposed: bool,
    pub x: Mat<'a>,
    pub dout: Mat<'a>,
}

/// Some rows of dW over all rows of x: each sum is in one order, however many tasks there are.
pub(crate) struct WeightTask<'a> {
    dw: &'a mut [f32],
    left: Mat<'a>,
    right: Mat<'a>,
    /// Where rows of the left and of the right side are added up.
    sums: [&'a mut [f32]; 2],
    /// Whether dW is computed transposed: its columns from the left side, its rows from the right.
    swapped: bool,
}

impl WeightTask<'_> {
    pub fn run(self) {
        let Self { dw, left, right, sums, swapped } = self;
        if !swapped {
            return add_outer_products(dw, left, right, sums);
        }
        with_scratch(dw.len(), |sum| {
            sum.fill(0.0);
            add_outer_products(sum, left, right, sums);
            transpose(dw, left.cols, Accumulate::Add, Mat::dense(sum, left.cols, right.cols));
        });
    }
}

/// Some that all have weights of their own, and the others, which have to wait for their turn.
pub(crate) fn in_turns(gradients: Vec<WeightGradient>) -> [Vec<WeightGradient>; 2] {
    let mut turns = [Vec::new(), Vec::new()];
    for gradient in gradients {
        let again =
            turns[0].iter().any(|first: &WeightGradient| first.w == gradient.w || first.b == gradient.b);
        turns[usize::from(again)].push(gradient);
    }
    turns
}

/// Computes all of them, one after the other, each on all threads.
pub(crate) fn add_one_by_one(dparams: &mut [f32], gradients: Vec<WeightGradient>) {
    for gradient in gradients {
        run_tasks(weight_tasks(dparams, &[gradient]), WeightTask::run);
    }
}

/// All of them in pieces for threads to take, the largest first.
///
/// # Panics
/// If two of them are for the same weights.
pub(crate) fn weight_tasks<'a>(
    dparams: &'a mut [f32],
    gradients: &[WeightGradient<'a>],
) -> Vec<WeightTask<'a>> {
    let places = gradients.iter().flat_map(|gradient| [gradient.w, gradient.b]).collect();
    let mut places = disjoint(dparams, places).into_iter();
    let all: usize = gradients.iter().map(|gradient| gradient.w.len * gradient.x.rows).sum();
    let mut tasks = Vec::new();
    for gradient in gradients {
        let [dw, db] = [(); 2].map(|()| places.next().expect("two places each"));
        gradient.cut(dw, db, all / rayon::current_num_threads(), &mut tasks);
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.dw.len() * task.left.rows));
    tasks
}

/// Several parameters of one buffer at once, in the order given.
fn disjoint(flat: &mut [f32], params: Vec<Param>) -> Vec<&mut [f32]> {
    let mut order: Vec<usize> = (0..params.len()).collect();
    order.sort_by_key(|&i| params[i].offset);
    let mut places: Vec<&mut [f32]> = params.iter().map(|_| Default::default()).collect();
    let (mut rest, mut begin) = (flat, 0);
    for i in order {
        let before = params[i].offset.checked_sub(begin).expect("weights of their own");
        let (place, later) = rest[before..].split_at_mut(params[i].len);
        (places[i], rest, begin) = (place, later, params[i].range().end);
    }
    places
}

/// Most columns of the left side in one task: a block of so many stays in L2 while the right side
/// passes by.
const MOST: usize = 43 * MR;

impl<'a> WeightGradient<'a> {
    /// Cuts into tasks, none of them much larger than two thirds of the products `per_thread`.
    fn cut(&self, dw: &'a mut [f32], db: &'a mut [f32], per_thread: usize, tasks: &mut Vec<WeightTask<'a>>) {
        let (rows, columns) = if self.transposed { (self.dout, self.x) } else { (self.x, self.dout) };
        // The right side is packed once per task. One that passes by a whole narrow side is not packed often.
        let swapped = rows.cols > MOST && columns.cols <= MOST;
        let right_is_dout = self.transposed == swapped;
        let count = match swapped {
            false => gradient_rows(rows.cols, rows.rows * dw.len(), 2 * per_thread / 3),
            true => (per_thread / 2 / (rows.rows * columns.cols).max(1)).next_multiple_of(NR).max(NR),
        };
        // The rows of dout are added up by whoever reads them: each task some of them, or else the first task all.
        let mut dbs = db.chunks_mut(if self.transposed { count } else { columns.cols });
        for (i, dw) in dw.chunks_mut(count * columns.cols).enumerate() {
            let part = rows.part([0, i * count], [rows.rows, dw.len() / columns.cols]);
            let (left, right) = if swapped { (columns, part) } else { (part, columns) };
            let db = dbs.next().unwrap_or_default();
            let sums = if right_is_dout { [&mut [][..], db] } else { [db, &mut []] };
            tasks.push(WeightTask { dw, left, right, sums, swapped });
        }
    }
}

/// Rows of a weight gradient that one task computes: whole tiles, in pieces of about `target` of all `products`.
fn gradient_rows(rows: usize, products: usize, target: usize) -> usize {
    const FEWEST: usize = 4 * MR;
    let pieces = products.div_ceil(target.max(1)).max(1);
    rows.div_ceil(pieces).clamp(FEWEST, MOST).next_multiple_of(MR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::gemm::general::matmul;
    use crate::deviation::worst;
    use crate::model::parameters::{RandomSource, SplitMix};

    #[test]
    fn gradients_of_every_shape_agree_with_the_general_product() {
        let random = SplitMix::new(6);
        let numbers = |stream: &str, n: usize| -> Vec<f32> {
            (0..n as u64).map(|i| random.normal(stream, i)).collect()
        };
        let rows = 21;
        // Narrow and wide, wide and narrow (which is summed transposed), wide both ways.
        for [inner, outer] in [[7, 300], [300, 7], [2 * MOST + 5, 70], [MOST + 2, MOST + 1], [3, 5]] {
            let (x, dout) = (numbers("x", rows * inner), numbers("dout", rows * outer));
            let (x, dout) = (Mat::dense(&x, rows, inner), Mat::dense(&dout, rows, outer));
            for transposed in [false, true] {
                let start = numbers("start", inner * outer + outer);
                let (mut found, mut expected) = (start.clone(), start);
                let w = Param { offset: 0, len: inner * outer };
                let b = Param { offset: inner * outer, len: outer };
                let gradient = WeightGradient { w, b, transposed, x, dout };
                let tasks = weight_tasks(&mut found, &[gradient]);
                tasks.into_iter().for_each(WeightTask::run);
                let (left, right) = if transposed { (dout, x) } else { (x, dout) };
                matmul(w.of_mut(&mut expected), right.cols, Accumulate::Add, left.t(), right);
                for row in dout.data.chunks_exact(outer) {
                    b.of_mut(&mut expected).iter_mut().zip(row).for_each(|(sum, d)| *sum += d);
                }
                let error = worst(found.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
                assert!(error < 1e-4, "{inner} × {outer}, transposed {transposed}: off by {error}");
            }
        }
    }
}
