//! Gradients of weights: sums over the rows of all prompts, on all threads.

use crate::matmul::Mat;
use crate::packed::{TILE, add_outer_products};
use crate::parallel::deal;
use crate::params::Param;

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
struct Task<'a> {
    dw: &'a mut [f32],
    left: Mat<'a>,
    right: Mat<'a>,
    /// Where rows of the left and of the right side are added up.
    sums: [&'a mut [f32]; 2],
}

/// Computes all of them, largest pieces first.
pub(crate) fn add_weight_gradients(dparams: &mut [f32], gradients: Vec<WeightGradient>) {
    let places = gradients.iter().flat_map(|gradient| [gradient.w, gradient.b]).collect();
    let Some(places) = disjoint(dparams, places) else {
        // Operations with the same weights take turns.
        for gradient in gradients {
            add_weight_gradients(dparams, vec![gradient]);
        }
        return;
    };
    let all: usize = gradients.iter().map(|gradient| gradient.w.len * gradient.x.rows).sum();
    let target = 2 * all / (3 * rayon::current_num_threads());
    let mut tasks = Vec::new();
    let mut places = places.into_iter();
    for gradient in &gradients {
        let [dw, db] = [(); 2].map(|()| places.next().expect("two places each"));
        gradient.cut(dw, db, target, &mut tasks);
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.dw.len() * task.left.rows));
    deal(tasks, |Task { dw, left, right, sums }| add_outer_products(dw, left, right, sums));
}

/// Several parameters of one buffer at once, in the order asked for; nothing if they overlap.
fn disjoint(flat: &mut [f32], params: Vec<Param>) -> Option<Vec<&mut [f32]>> {
    let mut order: Vec<usize> = (0..params.len()).collect();
    order.sort_by_key(|&i| params[i].offset);
    let mut places: Vec<&mut [f32]> = params.iter().map(|_| Default::default()).collect();
    let (mut rest, mut begin) = (flat, 0);
    for i in order {
        let before = params[i].offset.checked_sub(begin)?;
        let (place, later) = rest[before..].split_at_mut(params[i].len);
        (places[i], rest, begin) = (place, later, params[i].range().end);
    }
    Some(places)
}

impl<'a> WeightGradient<'a> {
    /// Cuts into pieces of about `target` products.
    fn cut(&self, dw: &'a mut [f32], db: &'a mut [f32], target: usize, tasks: &mut Vec<Task<'a>>) {
        let (left, right) = if self.transposed { (self.dout, self.x) } else { (self.x, self.dout) };
        let rows = gradient_rows(left.cols, (left.rows * right.cols * left.cols).div_ceil(target.max(1)));
        // The rows of dout are added up by whoever reads them: each task some of them, or else the first task all.
        let mut dbs = db.chunks_mut(if self.transposed { rows } else { right.cols });
        for (i, dw) in dw.chunks_mut(rows * right.cols).enumerate() {
            let left = left.part([0, i * rows], [left.rows, dw.len() / right.cols]);
            let db = dbs.next().unwrap_or_default();
            let sums = if self.transposed { [db, &mut []] } else { [&mut [], db] };
            tasks.push(Task { dw, left, right, sums });
        }
    }
}

/// Rows of a weight gradient that one task computes: whole tiles, few enough for a block of x to stay in the second
/// nearest cache.
fn gradient_rows(rows: usize, pieces: usize) -> usize {
    const FEWEST: usize = 4 * TILE;
    const MOST: usize = 43 * TILE;
    rows.div_ceil(pieces.max(1)).clamp(FEWEST, MOST).next_multiple_of(TILE)
}
