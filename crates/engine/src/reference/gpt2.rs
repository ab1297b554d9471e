//! GPT-2 on one prompt.

use std::f64::consts::PI;

use super::Parameters;
use super::matrix::Matrix;
use crate::model::networks::Gpt2Config;
use crate::model::ops::{Activation, Mask, Weighting};

pub(super) struct Gpt2<'a> {
    pub(super) config: &'a Gpt2Config,
    pub(super) params: &'a mut Parameters,
}

impl Gpt2<'_> {
    /// The hidden states x₀ = tokens Wᵀ + b + positions, x_{l+1} = block_l(x_l), and the last one after LayerNorm.
    pub(super) fn forward(&self, tokens: &Matrix) -> (Vec<Matrix>, Matrix) {
        let wpe = self.params.get("wpe.weight");
        let positions = Matrix::from_fn(tokens.rows, self.config.width, |t, i| wpe[(t, i)]);
        let mut hidden = vec![&self.params.torch_linear("read_in", tokens) + positions];
        for layer in 0..self.config.layers {
            hidden.push(self.block(layer, &hidden[layer]));
        }
        let last = self.layer_norm("ln_f", &hidden[self.config.layers]);
        (hidden, last)
    }

    pub(super) fn backward(&mut self, tokens: &Matrix, hidden: &[Matrix], dlast: &Matrix) {
        let Gpt2Config { positions, width, layers, .. } = *self.config;
        let mut dx = self.layer_norm_backward("ln_f", &hidden[layers], dlast);
        for layer in (0..layers).rev() {
            dx = self.block_backward(layer, &hidden[layer], &dx);
        }
        let dwpe = Matrix::from_fn(positions, width, |t, i| if t < dx.rows { dx[(t, i)] } else { 0.0 });
        self.params.add_gradient("wpe.weight", dwpe);
        self.params.torch_linear_backward("read_in", tokens, &dx);
    }

    /// x = x + attn(ln_1(x)); x = x + mlp(ln_2(x))
    fn block(&self, layer: usize, x: &Matrix) -> Matrix {
        let [ln_1, attn, ln_2, mlp] = names(layer);
        let x = x + self.attn(&attn, &self.layer_norm(&ln_1, x));
        &x + self.mlp(&mlp, &self.layer_norm(&ln_2, &x))
    }

    /// The residual stream passes its gradient on; each branch adds its own, through its LayerNorm.
    fn block_backward(&mut self, layer: usize, x: &Matrix, dy: &Matrix) -> Matrix {
        let [ln_1, attn, ln_2, mlp] = names(layer);
        let normed = self.layer_norm(&ln_1, x);
        let mid = x + self.attn(&attn, &normed);
        let dnormed = self.mlp_backward(&mlp, &self.layer_norm(&ln_2, &mid), dy);
        let dmid = dy + self.layer_norm_backward(&ln_2, &mid, &dnormed);
        let dnormed = self.attn_backward(&attn, &normed, &dmid);
        &dmid + self.layer_norm_backward(&ln_1, x, &dnormed)
    }

    /// y = x W + b, with W `[in, out]` as in Hugging Face's `Conv1D`.
    fn linear(&self, name: &str, x: &Matrix) -> Matrix {
        x.dot(self.params.get(&format!("{name}.weight"))).add_row(self.params.get(&format!("{name}.bias")))
    }

    /// dW = xᵀ dy, db = Σ_t dy_t, dx = dy Wᵀ
    fn linear_backward(&mut self, name: &str, x: &Matrix, dy: &Matrix) -> Matrix {
        self.params.add_gradient(&format!("{name}.weight"), x.t().dot(dy));
        self.params.add_gradient(&format!("{name}.bias"), dy.sum_rows());
        dy.dot(&self.params.get(&format!("{name}.weight")).t())
    }

    /// y = z · gain + bias with z = (x − mean) / √(variance + ε)
    fn layer_norm(&self, name: &str, x: &Matrix) -> Matrix {
        let [gain, bias] = ["weight", "bias"].map(|part| self.params.get(&format!("{name}.{part}")));
        let (z, _) = normalise(x);
        Matrix::from_fn(x.rows, x.columns, |t, i| z[(t, i)] * gain[(0, i)] + bias[(0, i)])
    }

    /// dgain = Σ_t dy·z, dbias = Σ_t dy; with g = dy·gain: dx = (g − mean(g) − z·mean(g·z)) / √(variance + ε)
    fn layer_norm_backward(&mut self, name: &str, x: &Matrix, dy: &Matrix) -> Matrix {
        let (z, rstd) = normalise(x);
        self.params.add_gradient(&format!("{name}.weight"), dy.zip(&z, |dy, z| dy * z).sum_rows());
        self.params.add_gradient(&format!("{name}.bias"), dy.sum_rows());
        let gain = self.params.get(&format!("{name}.weight"));
        let g = Matrix::from_fn(x.rows, x.columns, |t, i| dy[(t, i)] * gain[(0, i)]);
        let (mean_g, mean_gz) = (means(&g), means(&g.zip(&z, |g, z| g * z)));
        let dx = |t, i| rstd[t] * (g[(t, i)] - mean_g[t] - z[(t, i)] * mean_gz[t]);
        Matrix::from_fn(x.rows, x.columns, dx)
    }

    /// The heads z = P V side by side, projected.
    fn attn(&self, name: &str, x: &Matrix) -> Matrix {
        let qkv = self.linear(&format!("{name}.c_attn"), x);
        self.linear(&format!("{name}.c_proj"), &self.heads(&qkv))
    }

    fn attn_backward(&mut self, name: &str, x: &Matrix, dy: &Matrix) -> Matrix {
        let [c_attn, c_proj] = ["c_attn", "c_proj"].map(|part| format!("{name}.{part}"));
        let qkv = self.linear(&c_attn, x);
        let dz = self.linear_backward(&c_proj, &self.heads(&qkv), dy);
        let dqkv = self.heads_backward(&qkv, &dz);
        self.linear_backward(&c_attn, x, &dqkv)
    }

    /// Queries, keys and values of a head.
    fn qkv(&self, qkv: &Matrix, head: usize) -> [Matrix; 3] {
        let (width, size) = (self.config.width, self.size());
        [0, 1, 2].map(|part| qkv.columns_from(part * width + head * size, size))
    }

    /// Width of a head.
    fn size(&self) -> usize {
        self.config.width / self.config.heads
    }

    /// S = Q Kᵀ / √size
    fn scores(&self, q: &Matrix, k: &Matrix) -> Matrix {
        q.dot(&k.t()).map(|s| s / (self.size() as f64).sqrt())
    }

    fn heads(&self, qkv: &Matrix) -> Matrix {
        let head = |head| {
            let [q, k, v] = self.qkv(qkv, head);
            self.weights(&self.scores(&q, &k)).dot(&v)
        };
        side_by_side(&(0..self.config.heads).map(head).collect::<Vec<_>>())
    }

    /// dP = dz Vᵀ, dV = Pᵀ dz, dQ = dS K / √size, dK = dSᵀ Q / √size
    fn heads_backward(&self, qkv: &Matrix, dz: &Matrix) -> Matrix {
        let [mut dq, mut dk, mut dv] = [const { Vec::new() }; 3];
        for head in 0..self.config.heads {
            let [q, k, v] = self.qkv(qkv, head);
            let dz = dz.columns_from(head * self.size(), self.size());
            let p = self.weights(&self.scores(&q, &k));
            let ds = self.weights_backward(&p, &dz.dot(&v.t()));
            let ds = ds.map(|d| d / (self.size() as f64).sqrt());
            dq.push(ds.dot(&k));
            dk.push(ds.t().dot(&q));
            dv.push(p.t().dot(&dz));
        }
        side_by_side(&[dq, dk, dv].concat())
    }

    /// How many tokens of a prompt token `t` sees: itself and those before it, or all.
    fn seen(&self, t: usize, tokens: usize) -> usize {
        match self.config.attention.mask {
            Mask::Causal => t + 1,
            Mask::Full => tokens,
        }
    }

    /// P from S, over the n tokens that a row sees: exp(s) / Σ exp(s), max(s, 0) / n or s / n.
    fn weights(&self, scores: &Matrix) -> Matrix {
        let mut p = Matrix::zeros(scores.rows, scores.columns);
        for t in 0..scores.rows {
            let n = self.seen(t, scores.columns);
            let s = &scores.row(t)[..n];
            let largest = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = s.iter().map(|s| (s - largest).exp()).sum();
            for (j, s) in s.iter().enumerate() {
                p[(t, j)] = match self.config.attention.weighting {
                    Weighting::Softmax => (s - largest).exp() / sum,
                    Weighting::Relu => s.max(0.0) / n as f64,
                    Weighting::Linear => s / n as f64,
                };
            }
        }
        p
    }

    /// dS from dP: p (dp − Σ dp·p), dp / n where p > 0, or dp / n.
    fn weights_backward(&self, p: &Matrix, dp: &Matrix) -> Matrix {
        let mut ds = Matrix::zeros(p.rows, p.columns);
        for t in 0..p.rows {
            let n = self.seen(t, p.columns);
            let sum: f64 = p.row(t).iter().zip(dp.row(t)).map(|(p, dp)| p * dp).sum();
            for j in 0..n {
                let (p, dp) = (p[(t, j)], dp[(t, j)]);
                ds[(t, j)] = match self.config.attention.weighting {
                    Weighting::Softmax => p * (dp - sum),
                    Weighting::Relu if p <= 0.0 => 0.0,
                    Weighting::Relu | Weighting::Linear => dp / n as f64,
                };
            }
        }
        ds
    }

    /// activation(x W₁ + b₁) W₂ + b₂
    fn mlp(&self, name: &str, x: &Matrix) -> Matrix {
        let a = self.linear(&format!("{name}.c_fc"), x).map(|a| self.activation(a));
        self.linear(&format!("{name}.c_proj"), &a)
    }

    fn mlp_backward(&mut self, name: &str, x: &Matrix, dy: &Matrix) -> Matrix {
        let [c_fc, c_proj] = ["c_fc", "c_proj"].map(|part| format!("{name}.{part}"));
        let a = self.linear(&c_fc, x);
        let da = self.linear_backward(&c_proj, &a.map(|a| self.activation(a)), dy);
        let da = da.zip(&a, |da, a| da * self.derivative(a));
        self.linear_backward(&c_fc, x, &da)
    }

    /// GELU in its tanh form, x/2 (1 + tanh(u)) with u = √(2/π) (x + 0.044715 x³), or max(x, 0).
    fn activation(&self, x: f64) -> f64 {
        match self.config.activation {
            Activation::Gelu => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
            Activation::Relu => x.max(0.0),
        }
    }

    /// (1 + tanh(u))/2 + x/2 (1 − tanh²(u)) u′, or 1 where x > 0.
    fn derivative(&self, x: f64) -> f64 {
        let tanh = ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh();
        let slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x.powi(2));
        match self.config.activation {
            Activation::Gelu => 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh.powi(2)) * slope,
            Activation::Relu => f64::from(u8::from(x > 0.0)),
        }
    }
}

fn names(layer: usize) -> [String; 4] {
    ["ln_1", "attn", "ln_2", "mlp"].map(|part| format!("h.{layer}.{part}"))
}

/// The mean of every row.
fn means(x: &Matrix) -> Vec<f64> {
    (0..x.rows).map(|t| x.row(t).iter().sum::<f64>() / x.columns as f64).collect()
}

/// z = (x − mean) / √(variance + ε), and 1 / √(variance + ε), for every row.
fn normalise(x: &Matrix) -> (Matrix, Vec<f64>) {
    const EPSILON: f64 = 1e-5;
    let mean = means(x);
    let centred = Matrix::from_fn(x.rows, x.columns, |t, i| x[(t, i)] - mean[t]);
    let variance = means(&centred.map(|x| x * x));
    let rstd: Vec<f64> = variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt()).collect();
    (Matrix::from_fn(x.rows, x.columns, |t, i| centred[(t, i)] * rstd[t]), rstd)
}

/// Matrices of one shape, as the columns of one.
fn side_by_side(parts: &[Matrix]) -> Matrix {
    let (rows, size) = (parts[0].rows, parts[0].columns);
    Matrix::from_fn(rows, parts.len() * size, |t, i| parts[i / size][(t, i % size)])
}
