//! A stack of LSTM layers on one prompt.

use super::Parameters;
use super::matrix::Matrix;
use crate::model::networks::LstmConfig;

/// The hidden states x₀ = tokens Wᵀ + b, x_{l+1} = layer_l(x_l), and the last one once more.
pub(super) fn forward(config: &LstmConfig, params: &Parameters, tokens: &Matrix) -> (Vec<Matrix>, Matrix) {
    let mut hidden = vec![params.torch_linear("read_in", tokens)];
    for layer in 0..config.layers {
        hidden.push(states(params, layer, &hidden[layer]).h);
    }
    let last = hidden[config.layers].clone();
    (hidden, last)
}

pub(super) fn backward(
    config: &LstmConfig,
    params: &mut Parameters,
    tokens: &Matrix,
    hidden: &[Matrix],
    mut dx: Matrix,
) {
    for layer in (0..config.layers).rev() {
        dx = layer_backward(params, layer, &hidden[layer], &dx);
    }
    params.torch_linear_backward("read_in", tokens, &dx);
}

/// One layer at every token, `[tokens, width]` each: gates (input, forget, candidate, output), cell and output.
struct States {
    i: Matrix,
    f: Matrix,
    g: Matrix,
    o: Matrix,
    c: Matrix,
    h: Matrix,
}

fn names(layer: usize) -> [String; 4] {
    ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map(|name| format!("lstm.{name}_l{layer}"))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// With a_t = W_ih x_t + b_ih + W_hh h_{t−1} + b_hh, cut into four,
///
/// i = σ(a_i), f = σ(a_f), g = tanh(a_g), o = σ(a_o), c_t = f c_{t−1} + i g, h_t = o tanh(c_t).
fn states(params: &Parameters, layer: usize, x: &Matrix) -> States {
    let [w_ih, w_hh, b_ih, b_hh] = names(layer).map(|name| params.get(&name).clone());
    let (tokens, width, w_hh_t) = (x.rows, w_hh.columns, w_hh.t());
    let from_x = x.dot(&w_ih.t()).add_row(&b_ih).add_row(&b_hh);
    let [i, f, g, o, c, h] = [(); 6].map(|()| Matrix::zeros(tokens, width));
    let mut s = States { i, f, g, o, c, h };
    let (mut c, mut h) = (vec![0.0; width], Matrix::zeros(1, width));
    for t in 0..tokens {
        let from_h = h.dot(&w_hh_t);
        for k in 0..width {
            let a = |gate: usize| from_x[(t, gate * width + k)] + from_h[(0, gate * width + k)];
            let (i, f, g, o) = (sigmoid(a(0)), sigmoid(a(1)), a(2).tanh(), sigmoid(a(3)));
            c[k] = f * c[k] + i * g;
            h[(0, k)] = o * c[k].tanh();
            (s.i[(t, k)], s.f[(t, k)], s.g[(t, k)], s.o[(t, k)]) = (i, f, g, o);
            (s.c[(t, k)], s.h[(t, k)]) = (c[k], h[(0, k)]);
        }
    }
    s
}

/// From the last token to the first, dh and dc carrying what later tokens say about h_t and c_t:
///
/// do = dh tanh(c), dc += dh o (1 − tanh²(c)), di = dc g, dg = dc i, df = dc c_{t−1}, dc_{t−1} = dc f, then through σ and tanh
/// to da, and dh_{t−1} = da W_hh.
fn layer_backward(params: &mut Parameters, layer: usize, x: &Matrix, dy: &Matrix) -> Matrix {
    let s = states(params, layer, x);
    let [w_ih, w_hh, b_ih, b_hh] = names(layer);
    let (tokens, width) = (x.rows, dy.columns);
    let mut da = Matrix::zeros(tokens, 4 * width);
    let (mut dc, mut dh) = (vec![0.0; width], Matrix::zeros(1, width));
    for t in (0..tokens).rev() {
        for k in 0..width {
            let (i, f, g, o) = (s.i[(t, k)], s.f[(t, k)], s.g[(t, k)], s.o[(t, k)]);
            let c_before = if t > 0 { s.c[(t - 1, k)] } else { 0.0 };
            let (tanh_c, dh) = (s.c[(t, k)].tanh(), dy[(t, k)] + dh[(0, k)]);
            let d = dc[k] + dh * o * (1.0 - tanh_c.powi(2));
            da[(t, k)] = d * g * i * (1.0 - i);
            da[(t, width + k)] = d * c_before * f * (1.0 - f);
            da[(t, 2 * width + k)] = d * i * (1.0 - g.powi(2));
            da[(t, 3 * width + k)] = dh * tanh_c * o * (1.0 - o);
            dc[k] = d * f;
        }
        dh = Matrix::from_fn(1, 4 * width, |_, k| da[(t, k)]).dot(params.get(&w_hh));
    }
    let h_before = Matrix::from_fn(tokens, width, |t, k| if t > 0 { s.h[(t - 1, k)] } else { 0.0 });
    params.add_gradient(&w_ih, da.t().dot(x));
    params.add_gradient(&w_hh, da.t().dot(&h_before));
    params.add_gradient(&b_ih, da.sum_rows());
    params.add_gradient(&b_hh, da.sum_rows());
    da.dot(params.get(&w_ih))
}
