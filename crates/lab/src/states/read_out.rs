//! Read-outs of many targets at once: affine ones in closed form, and small MLPs.

use engine::cpu::gemm::general::{Accumulate, Mat, matmul};
use ndarray::{Array1, Array2, Axis, concatenate};
use serde::{Deserialize, Serialize};

use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::linalg::solve_all_positive_definite;

/// What kind of read-out is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadOutKind {
    /// A matrix and a bias, in closed form.
    #[default]
    Affine,
    /// An MLP with one hidden layer beside that, by Adam.
    Mlp,
}

impl ReadOutKind {
    /// Both, with their names and what they are.
    pub const ALL: [(ReadOutKind, &str, &str); 2] = [
        (ReadOutKind::Affine, "affine", "A matrix and a bias, in closed form"),
        (ReadOutKind::Mlp, "mlp", "An MLP with one hidden layer of 128 units beside the matrix"),
    ];

    /// Fits to features `[n, p]` and targets `[n, q]`, and predicts from each of `asked` `[·, p]`.
    pub(super) fn fit_and_predict(
        self,
        features: &Array2<f64>,
        targets: &Array2<f64>,
        asked: &[&Array2<f64>],
        seed: Seed,
    ) -> Result<Vec<Array2<f64>>> {
        let weights = affine(features, targets)?;
        let affine = |features: &Array2<f64>| with_one(features).dot(&weights);
        let mut found: Vec<Array2<f64>> = asked.iter().map(|asked| affine(asked)).collect();
        if self == ReadOutKind::Mlp {
            let left = targets - &affine(features);
            let more = Mlp::fit(features, &left, seed).predict_all(asked);
            found.iter_mut().zip(more).for_each(|(found, more)| *found += &more);
        }
        Ok(found)
    }
}

/// Features with a one for the bias `[n, p + 1]`.
fn with_one(features: &Array2<f64>) -> Array2<f64> {
    let ones = Array2::ones((features.nrows(), 1));
    concatenate(Axis(1), &[features.view(), ones.view()]).expect("the same rows")
}

/// The least-squares weights `[p + 1, q]`. A ridge of 10⁻⁹ of each feature's mean square keeps directions in which no state lies
/// from exploding.
fn affine(features: &Array2<f64>, targets: &Array2<f64>) -> Result<Array2<f64>> {
    let features = with_one(features);
    let size = features.ncols();
    let mut gram = features.t().dot(&features);
    let mean = gram.diag().sum() / size as f64;
    gram.diag_mut().mapv_inplace(|v| v + 1e-9 * (v + 1e-3 * mean));
    let products = targets.t().dot(&features); // [q, p + 1]
    let (gram, products) = (gram.as_standard_layout(), products.as_standard_layout());
    let solved = solve_all_positive_definite(
        gram.as_slice().expect("standard layout"),
        products.as_slice().expect("standard layout"),
        size,
    );
    let solved = solved.ok_or_else(|| Error::BadData("states that are not finite cannot be read".into()))?;
    let solved = Array2::from_shape_vec((targets.ncols(), size), solved).expect("sized above");
    Ok(solved.reversed_axes())
}

/// Hidden units, passes over the rows, rows in a batch, and the first step size, which falls to nothing along half a cosine.
const HIDDEN: usize = 128;
const EPOCHS: usize = 24;
const BATCH: usize = 128;
const RATE: f32 = 3e-3;

/// outer · tanh(inner · h + bias) + outer_bias on standardised features and targets, in single precision.
struct Mlp {
    features: Scale,
    targets: Scale,
    /// inner `[p + 1, HIDDEN]` and outer `[HIDDEN + 1, q]`, the last row of each a bias.
    inner: Vec<f32>,
    outer: Vec<f32>,
}

/// Means and deviations of columns.
struct Scale {
    mean: Array1<f64>,
    deviation: Array1<f64>,
}

impl Scale {
    fn of(values: &Array2<f64>) -> Scale {
        let mean = values.mean_axis(Axis(0)).expect("at least one row");
        let deviation = values.std_axis(Axis(0), 0.0).mapv(|v| if v > 1e-9 { v } else { 1.0 });
        Scale { mean, deviation }
    }

    /// Standardised rows; with `one`, each followed by a one.
    fn apply(&self, values: &Array2<f64>, one: bool) -> Vec<f32> {
        let mut all = Vec::with_capacity(values.len() + values.nrows());
        for row in values.outer_iter() {
            all.extend(
                row.iter().zip(&self.mean).zip(&self.deviation).map(|((v, m), d)| ((v - m) / d) as f32),
            );
            if one {
                all.push(1.0);
            }
        }
        all
    }
}

/// Adam's running means, in single precision as the network is.
struct Moments {
    mean: Vec<f32>,
    square: Vec<f32>,
}

impl Moments {
    fn new(size: usize) -> Moments {
        Moments { mean: vec![0.0; size], square: vec![0.0; size] }
    }

    fn step(&mut self, taken: i32, rate: f32, gradient: &[f32], parameters: &mut [f32]) {
        let (unbias1, unbias2) = (1.0 - 0.9_f32.powi(taken), 1.0 - 0.999_f32.powi(taken));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((g, (mean, square)), p) in gradient.iter().zip(moments).zip(parameters) {
            *mean = 0.9 * *mean + 0.1 * g;
            *square = 0.999 * *square + 0.001 * g * g;
            *p -= rate * (*mean / unbias1) / ((*square / unbias2).sqrt() + 1e-8);
        }
    }
}

impl Mlp {
    fn fit(features: &Array2<f64>, targets: &Array2<f64>, seed: Seed) -> Mlp {
        let (rows, p, q) = (features.nrows(), features.ncols() + 1, targets.ncols());
        let scales = (Scale::of(features), Scale::of(targets));
        let (x, y) = (scales.0.apply(features, true), scales.1.apply(targets, false));
        let mut draws = seed.at("states/mlp", 0);
        let mut drawn = |size: usize, from: usize| -> Vec<f32> {
            (0..size).map(|_| (draws.normal() / (from as f64).sqrt()) as f32).collect()
        };
        let inner = drawn(p * HIDDEN, p);
        let outer = vec![0.0; (HIDDEN + 1) * q];
        let mut mlp = Mlp { features: scales.0, targets: scales.1, inner, outer };
        let mut moments = (Moments::new(mlp.inner.len()), Moments::new(mlp.outer.len()));
        let (mut d_inner, mut d_outer) = (vec![0.0; mlp.inner.len()], vec![0.0; mlp.outer.len()]);
        let mut order: Vec<usize> = (0..rows).collect();
        let batches = rows.div_ceil(BATCH);
        let (mut taken, whole) = (0, (EPOCHS * batches) as f32);
        for epoch in 0..EPOCHS {
            interrupt::look();
            let mut draws = seed.at("states/order", epoch as u64);
            (1..rows).rev().for_each(|i| order.swap(i, draws.below(i + 1)));
            for batch in order.chunks(BATCH) {
                let n = batch.len();
                let pick = |of: &[f32], width: usize| -> Vec<f32> {
                    batch.iter().flat_map(|&row| of[row * width..][..width].iter().copied()).collect()
                };
                let x = pick(&x, p);
                let hidden = mlp.hidden(&x, n);
                // the gradient of the mean squared error, per row
                let mut error = mlp.read(&hidden, n, q);
                let y = pick(&y, q);
                error.iter_mut().zip(&y).for_each(|(e, y)| *e = 2.0 * (*e - y) / n as f32);
                let (h, e) = (Mat::dense(&hidden, n, HIDDEN + 1), Mat::dense(&error, n, q));
                matmul(&mut d_outer, q, Accumulate::Overwrite, h.t(), e);
                let mut d_hidden = vec![0.0; n * HIDDEN];
                let outer = Mat::dense(&mlp.outer[..HIDDEN * q], HIDDEN, q);
                matmul(&mut d_hidden, HIDDEN, Accumulate::Overwrite, e, outer.t());
                let rows = d_hidden.chunks_exact_mut(HIDDEN).zip(hidden.chunks_exact(HIDDEN + 1));
                rows.for_each(|(d, h)| d.iter_mut().zip(h).for_each(|(d, h)| *d *= 1.0 - h * h));
                let x = Mat::dense(&x, n, p);
                matmul(&mut d_inner, HIDDEN, Accumulate::Overwrite, x.t(), Mat::dense(&d_hidden, n, HIDDEN));
                let rate = RATE * 0.5 * (1.0 + (std::f32::consts::PI * taken as f32 / whole).cos());
                taken += 1;
                moments.0.step(taken, rate, &d_inner, &mut mlp.inner);
                moments.1.step(taken, rate, &d_outer, &mut mlp.outer);
            }
        }
        mlp
    }

    /// Hidden units and a one `[n, HIDDEN + 1]`.
    fn hidden(&self, x: &[f32], n: usize) -> Vec<f32> {
        let p = x.len() / n;
        let mut hidden = vec![1.0; n * (HIDDEN + 1)];
        let (x, inner) = (Mat::dense(x, n, p), Mat::dense(&self.inner, p, HIDDEN));
        matmul(&mut hidden, HIDDEN + 1, Accumulate::Overwrite, x, inner);
        hidden
            .chunks_exact_mut(HIDDEN + 1)
            .for_each(|row| row[..HIDDEN].iter_mut().for_each(|h| *h = h.tanh()));
        hidden
    }

    /// Outputs `[n, q]`.
    fn read(&self, hidden: &[f32], n: usize, q: usize) -> Vec<f32> {
        let mut out = vec![0.0; n * q];
        let (hidden, outer) = (Mat::dense(hidden, n, HIDDEN + 1), Mat::dense(&self.outer, HIDDEN + 1, q));
        matmul(&mut out, q, Accumulate::Overwrite, hidden, outer);
        out
    }

    fn predict_all(&self, asked: &[&Array2<f64>]) -> Vec<Array2<f64>> {
        let q = self.targets.mean.len();
        let predict = |asked: &&Array2<f64>| {
            let n = asked.nrows();
            let out = self.read(&self.hidden(&self.features.apply(asked, true), n), n, q);
            let out = Array2::from_shape_vec((n, q), out.into_iter().map(f64::from).collect());
            out.expect("sized above") * &self.targets.deviation + &self.targets.mean
        };
        asked.iter().map(predict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of four normal features, with their sum and the product of two as targets.
    fn rows(count: usize, stream: &str) -> (Array2<f64>, Array2<f64>) {
        let mut draws = Seed(1).at(stream, 0);
        let features = Array2::from_shape_simple_fn((count, 4), || draws.normal());
        let targets = Array2::from_shape_fn((count, 2), |(i, j)| match j {
            0 => features.row(i).sum() + 3.0,
            _ => features[[i, 0]] * features[[i, 1]],
        });
        (features, targets)
    }

    #[test]
    fn affine_read_outs_read_sums_and_mlps_products_too() {
        let ((features, targets), (asked, right)) = (rows(4000, "fit"), rows(500, "asked"));
        let left = |kind: ReadOutKind| {
            let found = kind.fit_and_predict(&features, &targets, &[&asked], Seed(0)).unwrap().remove(0);
            let off = (&found - &right).mapv(|v| v * v).sum_axis(Axis(0));
            let whole = right.var_axis(Axis(0), 0.0) * right.nrows() as f64;
            [off[0] / whole[0], off[1] / whole[1]]
        };
        let (affine, mlp) = (left(ReadOutKind::Affine), left(ReadOutKind::Mlp));
        assert!(affine[0] < 1e-12 && affine[1] > 0.9, "{affine:?}");
        assert!(mlp[0] < 0.005 && mlp[1] < 0.1, "{mlp:?}");
    }
}
