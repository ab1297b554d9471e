//! The operations of which the paper's proof is made, each as a single layer: mov, aff, mul, div and the sum of all columns.
//!
//! Exact with ReLU: mov, aff, mul (by attention, for bounded factors) and sum. GELU gives mul up to a scale, softmax gives
//! mov up to a scale, sum exactly, and div, which no piecewise polynomial can, up to the spacing of a grid.

use ndarray::{Array1, Array2};

use super::gate::Positions;
use super::layers::times;
use super::slots::{Slots, Wire};
use super::transformer::{Activation, Head, Layer, Mlp, Weighting};

/// *mov* by normalised ReLU: each column receives `wires` from the column `lag` before it. Columns whose slot `except`
/// holds 1 receive nothing. `columns` is N.
pub fn mov(
    slots: &Slots,
    positions: &Positions,
    columns: usize,
    lag: f64,
    wires: &[Wire],
    except: Option<&str>,
) -> Layer {
    let mut score: Vec<Wire> = positions.gate(lag, 1.0, 0.0);
    score.extend(except.map(|slot| (slot, "one", -2.0))); // 1 − 2 < 0
    Layer::attention("mov", vec![Head::wired(slots, &score, &times(wires, columns as f64))])
}

/// *mov* by softmax: the score is `scale` times the gate, and the weight of the right column 1 − O(exp(−2·scale)).
pub fn mov_softmax(slots: &Slots, positions: &Positions, scale: f64, lag: f64, wires: &[Wire]) -> Layer {
    let head = Head::wired(slots, &positions.gate(lag, scale, 0.0), wires);
    Layer { weighting: Weighting::Softmax, ..Layer::attention("mov", vec![head]) }
}

/// *aff*: `to` ← Σ coefficient · slot + bias over the terms (slot, coefficient), whatever `to` held before.
///
/// σ(z) − σ(−z) = z for ReLU and for GELU, so both are exact.
pub fn aff(slots: &Slots, activation: Activation, terms: &[(&str, f64)], bias: f64, to: &str) -> Layer {
    let mut wires: Vec<Wire> = terms.iter().map(|&(from, c)| (from, to, c)).collect();
    wires.push((to, to, -1.0));
    let mlp = linear_mlp(slots, activation, &wires, bias, to);
    Layer { mlp: Some(mlp), ..Layer::attention("aff", vec![]) }
}

/// An MLP that adds a linear map (and a bias) to the slot `to`: units z and −z for each entry.
pub fn linear_mlp(slots: &Slots, activation: Activation, wires: &[Wire], bias: f64, to: &str) -> Mlp {
    let all = slots.wires(wires);
    let to = slots.range(to);
    let (size, width) = (to.len(), slots.width());
    let (mut inner, mut outer) = (Array2::zeros((2 * size, width)), Array2::zeros((width, 2 * size)));
    let mut inner_bias = Array1::zeros(2 * size);
    for (i, row) in to.enumerate() {
        for (unit, sign) in [(2 * i, 1.0), (2 * i + 1, -1.0)] {
            inner.row_mut(unit).assign(&(&all.row(row) * sign));
            inner_bias[unit] = sign * bias;
            outer[[row, unit]] = sign;
        }
    }
    Mlp::new(activation, &inner, inner_bias, &outer)
}

/// *mul* of a number and a vector in each column, by ReLU attention: `to` += number · vector.
///
/// The scores ±number + bound·(gate − 1) select the column itself as long as |number| < 2·bound.
pub fn mul(
    slots: &Slots,
    positions: &Positions,
    columns: usize,
    bound: f64,
    (number, vector, to): (&str, &str, &str),
) -> Layer {
    gated(slots, positions, columns, bound, (number, "one"), &[(vector, to, 1.0)])
}

/// *mul* of a row and a column vector in each column, by ReLU attention: `to` += ⟨left, right⟩, for |⟨left, right⟩| < 2·bound
/// between any two columns.
pub fn inner_product(
    slots: &Slots,
    positions: &Positions,
    columns: usize,
    bound: f64,
    (left, right, to): (&str, &str, &str),
) -> Layer {
    gated(slots, positions, columns, bound, (left, right), &[("one", to, 1.0)])
}

/// Two heads that look at their own column alone: its weight is ±⟨left, right⟩, and `wires` are copied with that sign.
pub fn gated(
    slots: &Slots,
    positions: &Positions,
    columns: usize,
    bound: f64,
    (left, right): (&str, &str),
    wires: &[Wire],
) -> Layer {
    let head = |sign: f64| {
        let mut score = positions.gate(0.0, bound, -bound);
        score.push((left, right, sign));
        Head::wired(slots, &score, &times(wires, sign * columns as f64))
    };
    Layer::attention("mul", vec![head(1.0), head(-1.0)])
}

/// *mul* of an a×b and a b×c matrix in each column, by a GELU MLP: `to` += left · right, row-major.
///
/// GELU(z) + GELU(−z) = z·erf(z/√2) ≈ √(2/π) z², and xy = ¼[(x+y)² − (x−y)²]; factors are scaled by `scale`, so that the error
/// falls like scale² until round-off, which grows like 1/scale, takes over.
pub fn mul_gelu(
    slots: &Slots,
    scale: f64,
    (a, b, c): (usize, usize, usize),
    (left, right, to): (&str, &str, &str),
) -> Layer {
    let (left, right, to) = (slots.range(left), slots.range(right), slots.range(to));
    assert_eq!((left.len(), right.len(), to.len()), (a * b, b * c, a * c), "slots of the right sizes");
    let (units, width) = (4 * a * b * c, slots.width());
    let (mut inner, mut outer) = (Array2::zeros((units, width)), Array2::zeros((width, units)));
    let gain = (std::f64::consts::PI / 2.0).sqrt() / (4.0 * scale * scale);
    let mut unit = 0;
    for i in 0..a {
        for j in 0..b {
            for k in 0..c {
                let (x, y, z) = (left.start + i * b + j, right.start + j * c + k, to.start + i * c + k);
                for (sign, other) in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)] {
                    inner[[unit, x]] += sign * scale;
                    inner[[unit, y]] += sign * other * scale;
                    outer[[z, unit]] = other * gain;
                    unit += 1;
                }
            }
        }
    }
    let mlp = Mlp::new(Activation::Gelu, &inner, Array1::zeros(units), &outer);
    Layer { mlp: Some(mlp), ..Layer::attention("mul", vec![]) }
}

/// The summation lemma: every column receives the sum of all columns. One head suffices: its score is the constant 1.
pub fn sum(slots: &Slots, columns: usize, wires: &[Wire]) -> Layer {
    Layer::attention("sum", vec![Head::wired(slots, &[("one", "one", 1.0)], &times(wires, columns as f64))])
}

/// The summation lemma with the two heads of the paper, K₂ = −K₁ and V₂ = V₁: ReLU(1) + ReLU(−1) = 1, right as printed.
pub fn sum_with_two_heads(slots: &Slots, columns: usize, wires: &[Wire]) -> Layer {
    let head = |sign: f64| Head::wired(slots, &[("one", "one", sign)], &times(wires, columns as f64));
    Layer::attention("sum", vec![head(1.0), head(-1.0)])
}

/// The summation lemma by softmax: equal scores make equal weights 1/`present`, so the number of columns must be known.
pub fn sum_softmax(slots: &Slots, present: usize, wires: &[Wire]) -> Layer {
    let head = Head::wired(slots, &[], &times(wires, present as f64));
    Layer { weighting: Weighting::Softmax, ..Layer::attention("sum", vec![head]) }
}

/// *div*: `to` += numerator / |denominator|, by softmax and a GELU MLP of the given scale.
///
/// Under weights ∝ ω e^{cu} on nodes u between −L and L, the distance L − |u| has mean 1/|c|: the exponential distribution. The columns
/// themselves serve as nodes ([`reciprocal_grid`]); slot `reciprocal` receives the mean, and the MLP multiplies.
pub fn div(
    slots: &Slots,
    scale: f64,
    (numerator, denominator, reciprocal, to): (&str, &str, &str, &str),
) -> Layer {
    let score = [(denominator, "node", 1.0), ("one", "log_weight", 1.0)];
    let head = Head::wired(slots, &score, &[("distance", reciprocal, 1.0)]);
    let size = slots.range(numerator).len();
    let product = mul_gelu(slots, scale, (size, 1, 1), (numerator, reciprocal, to));
    Layer { weighting: Weighting::Softmax, mlp: product.mlp, ..Layer::attention("div", vec![head]) }
}

/// Writes slots `node`, `distance` and `log_weight` of a table `[p,w]`: the two ends of [−L, L] with nodes whose distance from
/// their end grows geometrically from `low` to L/2, which integrates e^{−cu} for all c from about 1/L to 1/low.
pub fn reciprocal_grid(slots: &Slots, low: f64, length: f64, table: &mut Array2<f64>) {
    let nodes = table.nrows();
    let per_end = nodes.div_ceil(2).max(2);
    let step = (length / 2.0 / low).ln() / (per_end - 1) as f64;
    for p in 0..nodes {
        let distance = low * (step * (p / 2) as f64).exp();
        let end = if p % 2 == 0 { 1.0 } else { -1.0 };
        table[[p, slots.range("node").start]] = end * (length - distance);
        table[[p, slots.range("distance").start]] = distance;
        table[[p, slots.range("log_weight").start]] = distance.ln();
    }
}
