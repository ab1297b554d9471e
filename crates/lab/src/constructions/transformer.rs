//! A small float64 Transformer as the paper's theory defines it: attention with normalised ReLU or softmax, full or
//! causal, several heads, an MLP, residual connections, no LayerNorm.
//!
//! Axes: `p` column (token), `w` entry of the hidden state, `r` rank of a score, `u` unit of an MLP.

use std::sync::Arc;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};
use serde::{Deserialize, Serialize};

use super::map::Map;
use super::slots::{Slots, Wire};

/// A whole Transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transformer {
    /// What the entries of the hidden state mean.
    pub slots: Slots,
    /// Read-in `[w, d+1]` of tokens (x, 0) and (0, y).
    pub read_in: Array2<f64>,
    /// What is added at each position, `[p, w]`. Full attention is normalised by their number N.
    pub positions: Array2<f64>,
    /// Layers, first to last. Equal layers may be shared.
    pub layers: Vec<Arc<Layer>>,
    /// Read-out `[w]`.
    pub read_out: Array1<f64>,
}

/// h ← h + attention(h), then h ← h + MLP(h).
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// What it does, in a word or two.
    pub name: String,
    /// Which columns a column sees.
    pub mask: Mask,
    /// How scores become weights.
    pub weighting: Weighting,
    /// Attention heads; none: no attention.
    pub heads: Vec<Head>,
    /// The MLP, if there is one.
    pub mlp: Option<Mlp>,
}

/// Which columns a column sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mask {
    /// All of them.
    Full,
    /// Itself and those before it.
    Causal,
}

/// How scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weighting {
    /// ReLU(z)/N; under a causal mask ReLU(z)/t, t the pairs that are complete at the column (at least 1).
    Relu,
    /// exp(z) over its sum.
    Softmax,
}

/// One attention head: weight(⟨Q h_t, K h_s⟩) V h_s.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Q `[r, w]`.
    pub query: Map,
    /// K `[r, w]`.
    pub key: Map,
    /// V `[w, w]`.
    pub value: Map,
}

/// outer · σ(inner · h + inner_bias) + outer_bias, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlp {
    /// σ.
    pub activation: Activation,
    /// `[u, w]`
    pub inner: Map,
    /// `[u]`
    pub inner_bias: Array1<f64>,
    /// `[w, u]`
    pub outer: Map,
    /// `[w]`
    pub outer_bias: Array1<f64>,
}

/// Activation of an MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(z, 0)
    Relu,
    /// zΦ(z), Φ the normal distribution function.
    Gelu,
}

impl Activation {
    fn of(self, z: f64) -> f64 {
        match self {
            Activation::Relu => positive(z),
            Activation::Gelu => 0.5 * z * (1.0 + libm::erf(z * std::f64::consts::FRAC_1_SQRT_2)),
        }
    }
}

impl Head {
    /// From Q `[r,w]`, K `[r,w]`, V `[w,w]`; rows of Q and K that cannot contribute are dropped.
    pub fn new(query: &Array2<f64>, key: &Array2<f64>, value: &Array2<f64>) -> Head {
        let full = |row: ArrayView1<f64>| row.iter().any(|v| *v != 0.0);
        let kept: Vec<usize> =
            (0..query.nrows()).filter(|&r| full(query.row(r)) && full(key.row(r))).collect();
        let rows = |m: &Array2<f64>| Map::of(&m.select(Axis(0), &kept));
        Head { query: rows(query), key: rows(key), value: Map::of(value) }
    }

    /// A head whose score is a sum of products of slots (slot of h_t, slot of h_s, coefficient) and whose value copies
    /// slots (from, to, coefficient).
    pub fn wired(slots: &Slots, score: &[Wire], value: &[Wire]) -> Head {
        let (query, key) = slots.bilinear(score);
        Head::new(&query, &key, &slots.wires(value))
    }

    /// The matrix A `[w,w]` of its score h_tᵀ A h_s.
    pub fn score(&self) -> Array2<f64> {
        self.query.matrix().t().dot(&self.key.matrix())
    }
}

impl Layer {
    /// A layer without an MLP: full attention, normalised ReLU.
    pub fn attention(name: &str, heads: Vec<Head>) -> Layer {
        Layer { name: name.into(), mask: Mask::Full, weighting: Weighting::Relu, heads, mlp: None }
    }
}

/// The columns of a prompt on their way through the layers.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Hidden states `[p, w]`.
    pub h: Array2<f64>,
    /// Columns before this one are seen by all that may; those from here on only by themselves. They are queries that
    /// share a prefix. With all columns seen it is a plain sequence.
    pub seen: usize,
}

impl Transformer {
    /// Width of the hidden state.
    pub fn width(&self) -> usize {
        self.slots.width()
    }

    /// Dimension d of an input.
    pub fn dim(&self) -> usize {
        self.read_in.ncols() - 1
    }

    /// The most columns it reads, N.
    pub fn columns(&self) -> usize {
        self.positions.nrows()
    }

    /// The most heads of a layer.
    pub fn heads(&self) -> usize {
        self.layers.iter().map(|layer| layer.heads.len()).max().unwrap_or(0)
    }

    /// Numbers in its weights, zeros included.
    pub fn parameters(&self) -> usize {
        let width = self.width();
        let head = |h: &Head| (2 * h.query.rows().len() + width) * width;
        let mlp = |m: &Mlp| m.inner_bias.len() * (2 * width + 1) + width;
        let layer = |l: &Arc<Layer>| l.heads.iter().map(head).sum::<usize>() + l.mlp.as_ref().map_or(0, mlp);
        self.layers.iter().map(layer).sum::<usize>()
            + self.read_in.len()
            + self.positions.len()
            + self.read_out.len()
    }

    /// Columns x₁, y₁, …, x_t, y_t and one column for each of `queries` `[q,d]`, which all stand at the place of x_{t+1}.
    /// A prompt takes the last positions, so that x_{t+1} always stands at the last. With `seen`, the
    /// queries are columns like all others, of which there can be only one.
    pub fn read(&self, xs: &[f64], ys: &[f64], queries: &[f64], seen: bool) -> Columns {
        let (d, width) = (self.dim(), self.width());
        let (pairs, asked) = (ys.len(), queries.len() / d);
        assert!(!seen || asked == 1, "queries that are seen must be asked one by one");
        let first = self.columns() - (2 * pairs + 1);
        let mut h = Array2::zeros((2 * pairs + asked, width));
        for (p, mut h) in h.outer_iter_mut().enumerate() {
            h.assign(&self.positions.row(first + p.min(2 * pairs)));
            if p < 2 * pairs && p % 2 == 1 {
                h.scaled_add(ys[p / 2], &self.read_in.column(d));
            } else {
                let x = if p < 2 * pairs { &xs[p / 2 * d..] } else { &queries[(p - 2 * pairs) * d..] };
                h += &self.read_in.slice(s![.., ..d]).dot(&ArrayView1::from(&x[..d]));
            }
        }
        Columns { seen: if seen { 2 * pairs + 1 } else { 2 * pairs }, h }
    }

    /// Passes columns through one layer. Only columns from `first` on are wanted afterwards; the others stay as they are.
    pub fn pass(&self, layer: &Layer, columns: &mut Columns, first: usize) {
        let mut delta: Array2<f64> = Array2::zeros((columns.h.nrows() - first, self.width()));
        for head in &layer.heads {
            let weights = self.weights(layer, head, columns, first);
            let values = head.value.apply(columns.h.view());
            let seen = values.slice(s![..columns.seen, ..]);
            let mut sums = weights.slice(s![.., ..columns.seen]).dot(&seen);
            for p in columns.seen.max(first)..columns.h.nrows() {
                sums.row_mut(p - first).scaled_add(weights[[p - first, columns.seen]], &values.row(p));
            }
            head.value.add_to(&sums, &mut delta.view_mut());
        }
        let mut h = columns.h.slice_mut(s![first.., ..]);
        h += &delta;
        if let Some(mlp) = &layer.mlp {
            let change = mlp.change(h.view());
            h += &change;
        }
    }

    /// Weights `[p, seen + 1]` of the columns from `first` on: of each column that is seen, and last of a query on itself.
    fn weights(&self, layer: &Layer, head: &Head, columns: &Columns, first: usize) -> Array2<f64> {
        let (h, seen) = (&columns.h, columns.seen);
        let query = head.query.apply(h.slice(s![first.., ..]));
        let key = head.key.apply(h.view());
        let mut scores = Array2::zeros((query.nrows(), seen + 1));
        let keys = key.slice(s![..seen, ..]);
        general_mat_mul(1.0, &query, &keys.t(), 0.0, &mut scores.slice_mut(s![.., ..seen]));
        for (i, mut row) in scores.outer_iter_mut().enumerate() {
            let p = first + i;
            let asked = p >= seen;
            row[seen] = if asked { query.row(i).dot(&key.row(p)) } else { f64::NEG_INFINITY };
            // A query stands behind everything that is seen.
            let place = p.min(seen);
            if layer.mask == Mask::Causal && !asked {
                row.slice_mut(s![p + 1..]).fill(f64::NEG_INFINITY);
            }
            match (layer.weighting, layer.mask) {
                (Weighting::Softmax, _) => softmax(row),
                (Weighting::Relu, Mask::Full) => relu(row, self.columns() as f64),
                (Weighting::Relu, Mask::Causal) => relu(row, (place.div_ceil(2)).max(1) as f64),
            }
        }
        scores
    }

    /// The prediction read from a column.
    pub fn read_out(&self, h: ArrayView1<f64>) -> f64 {
        self.read_out.dot(&h)
    }
}

/// max(z, 0), but NaN stays NaN: what has diverged should look it.
#[inline]
fn positive(z: f64) -> f64 {
    if z < 0.0 { 0.0 } else { z }
}

/// ReLU(z)/n
fn relu(mut row: ndarray::ArrayViewMut1<f64>, n: f64) {
    let scale = 1.0 / n;
    row.mapv_inplace(|z| positive(z) * scale);
}

fn softmax(mut row: ndarray::ArrayViewMut1<f64>) {
    let largest = row.fold(f64::NEG_INFINITY, |m, z| m.max(*z));
    row.mapv_inplace(|z| (z - largest).exp());
    let sum = row.sum();
    row.mapv_inplace(|z| z / sum);
}

impl Mlp {
    /// From inner weights `[u,w]`, their bias `[u]` and outer weights `[w,u]`, without an outer bias.
    pub fn new(
        activation: Activation,
        inner: &Array2<f64>,
        inner_bias: Array1<f64>,
        outer: &Array2<f64>,
    ) -> Mlp {
        let outer_bias = Array1::zeros(outer.nrows());
        Mlp { activation, inner: Map::of(inner), inner_bias, outer: Map::of(outer), outer_bias }
    }

    /// `mlp(h)` for hidden states `[p, w]`.
    fn change(&self, h: ArrayView2<f64>) -> Array2<f64> {
        let mut units = Array2::zeros((h.nrows(), self.inner_bias.len()));
        units += &self.inner_bias;
        self.inner.add_to(&self.inner.apply(h), &mut units.view_mut());
        units.mapv_inplace(|z| self.activation.of(z));
        let mut change = Array2::zeros((h.nrows(), self.outer_bias.len()));
        change += &self.outer_bias;
        self.outer.add_to(&self.outer.apply(units.view()), &mut change.view_mut());
        change
    }
}
