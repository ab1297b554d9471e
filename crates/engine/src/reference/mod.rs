//! GPT-2 and the LSTM as their formulas, forward and backward: the yardstick that every device is tested against.
//!
//! Written to be read, not to be fast: double precision, one prompt after the other, matrices of one row per token. A
//! function `f` computes its output from its input; `f_backward` computes the gradient of the input from that of the output
//! and adds the gradients of its parameters. It computes again what it needs of the forward pass, so nothing is saved but
//! the hidden states.

mod gpt2;
mod lstm;
mod matrix;

use std::collections::HashMap;

use crate::model::networks::Network;
use crate::model::parameters::ParamLayout;
use gpt2::Gpt2;
use matrix::Matrix;

/// What a network computes from a batch of prompts, and the gradient of its loss.
#[derive(Debug, Clone, Default)]
pub struct Evaluation {
    /// Hidden states `[batch, tokens, width]`: the read-in (with positions), then one per layer.
    pub hidden: Vec<Vec<f64>>,
    /// What the read-out reads, `[batch, tokens, width]`: after the final LayerNorm for GPT-2.
    pub last: Vec<f64>,
    /// Predictions at the x tokens (0, 2, 4, …), `[batch, points]`.
    pub predictions: Vec<f64>,
    /// Mean over all predictions of (prediction − y)².
    pub loss: f64,
    /// Gradient of the loss for every parameter, in the order of the flat buffer.
    pub gradients: Vec<f64>,
}

/// Evaluates a network on prompts `[batch, tokens, features]` with targets `[batch, points]`.
///
/// ```
/// use engine::model::networks::{LstmConfig, Network};
///
/// let network = Network::Lstm(LstmConfig { features: 2, width: 3, layers: 1 });
/// let params = vec![0.1; network.layout().len()];
/// let found = engine::reference::evaluate(&network, &params, &[0.5; 4 * 2], &[1.0; 2], 1); // a prompt of 4 tokens
/// assert_eq!((found.predictions.len(), found.gradients.len()), (2, params.len()));
/// ```
///
/// # Panics
/// If a buffer has not the length of the parameters, of `batch` prompts, or of one target per x token.
pub fn evaluate(network: &Network, params: &[f64], tokens: &[f64], ys: &[f64], batch: usize) -> Evaluation {
    let mut params = Parameters::new(network.layout(), params);
    let (features, length) = (network.features(), tokens.len() / (batch * network.features()));
    assert_eq!(tokens.len(), batch * length * features, "values of whole prompts");
    assert_eq!(ys.len(), batch * length.div_ceil(2), "one target per x token");
    let mut found = Evaluation { hidden: vec![Vec::new(); network.layers() + 1], ..Default::default() };
    for (tokens, own) in tokens.chunks_exact(length * features).zip(ys.chunks_exact(length.div_ceil(2))) {
        let tokens = Matrix { rows: length, columns: features, data: tokens.to_vec() };
        let (hidden, last) = match network {
            Network::Gpt2(config) => Gpt2 { config, params: &mut params }.forward(&tokens),
            Network::Lstm(config) => lstm::forward(config, &params, &tokens),
        };
        let outputs = params.torch_linear("read_out", &last); // one number per token
        let mut doutputs = Matrix::zeros(length, 1);
        for (point, y) in own.iter().enumerate() {
            let prediction = outputs[(2 * point, 0)];
            found.predictions.push(prediction);
            found.loss += (prediction - y).powi(2) / ys.len() as f64;
            doutputs[(2 * point, 0)] = 2.0 * (prediction - y) / ys.len() as f64;
        }
        let dlast = params.torch_linear_backward("read_out", &last, &doutputs);
        match network {
            Network::Gpt2(config) => {
                Gpt2 { config, params: &mut params }.backward(&tokens, &hidden, &dlast);
            }
            Network::Lstm(config) => lstm::backward(config, &mut params, &tokens, &hidden, dlast),
        }
        found.hidden.iter_mut().zip(&hidden).for_each(|(all, own)| all.extend(&own.data));
        found.last.extend(&last.data);
    }
    found.gradients = params.flat_gradients();
    found
}

/// Parameters by name, as matrices, and the gradients added up so far.
struct Parameters {
    layout: ParamLayout,
    values: HashMap<String, Matrix>,
    gradients: HashMap<String, Matrix>,
}

impl Parameters {
    fn new(layout: ParamLayout, flat: &[f64]) -> Self {
        assert_eq!(flat.len(), layout.len(), "length of the parameter buffer");
        let (mut values, mut gradients) = (HashMap::new(), HashMap::new());
        for (spec, place) in layout.iter() {
            let columns = *spec.shape.last().expect("no parameter is a scalar");
            let rows = spec.len() / columns;
            values.insert(spec.name.clone(), Matrix { rows, columns, data: flat[place.range()].to_vec() });
            gradients.insert(spec.name.clone(), Matrix::zeros(rows, columns));
        }
        Self { layout, values, gradients }
    }

    fn get(&self, name: &str) -> &Matrix {
        &self.values[name]
    }

    fn add_gradient(&mut self, name: &str, gradient: Matrix) {
        let sum = self.gradients.get_mut(name).expect("a parameter of the network");
        *sum = &*sum + gradient;
    }

    fn flat_gradients(&self) -> Vec<f64> {
        self.layout.iter().flat_map(|(spec, _)| &self.gradients[&spec.name].data).copied().collect()
    }

    /// y = x Wᵀ + b, with W `[out, in]` as in `torch.nn.Linear`.
    fn torch_linear(&self, name: &str, x: &Matrix) -> Matrix {
        x.dot(&self.get(&format!("{name}.weight")).t()).add_row(self.get(&format!("{name}.bias")))
    }

    /// dW = dyᵀ x, db = Σ_t dy_t, dx = dy W
    fn torch_linear_backward(&mut self, name: &str, x: &Matrix, dy: &Matrix) -> Matrix {
        self.add_gradient(&format!("{name}.weight"), dy.t().dot(x));
        self.add_gradient(&format!("{name}.bias"), dy.sum_rows());
        dy.dot(self.get(&format!("{name}.weight")))
    }
}
