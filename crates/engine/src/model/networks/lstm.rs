//! A stack of LSTM layers with linear read-in and read-out, as `torch.nn.LSTM` computes it.

use super::{Architecture, Trunk, finish, own, positive, torch_linear, weight_and_bias};
use crate::error::EngineError;
use crate::model::graph::{Graph, LayerCache};
use crate::model::ops::{Epilogue, Linear, LstmLayer, LstmQuery};
use crate::model::parameters::{Init, ParamLayout, ParamSpec};
use crate::model::plan::{Mode, PlanBuilder, Scope};

/// Sizes of an LSTM; the default is the paper's network.
#[derive(Debug, Clone, PartialEq)]
pub struct LstmConfig {
    /// Features of a token.
    pub features: usize,
    /// Width of every layer.
    pub width: usize,
    /// Layers.
    pub layers: usize,
}

impl Default for LstmConfig {
    fn default() -> Self {
        Self { features: 20, width: 256, layers: 10 }
    }
}

impl Architecture for LstmConfig {
    /// With PyTorch's names.
    fn params(&self) -> Vec<ParamSpec> {
        let h = self.width;
        let init = Init::Uniform { bound: 1.0 / (h as f32).sqrt() };
        let mut specs = torch_linear("read_in", self.features, h).to_vec();
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                specs.push(ParamSpec::new(format!("lstm.{name}_l{layer}"), shape, init))
            };
            add("weight_ih", &[4 * h, h]);
            add("weight_hh", &[4 * h, h]);
            add("bias_ih", &[4 * h]);
            add("bias_hh", &[4 * h]);
        }
        specs.extend(torch_linear("read_out", h, 1));
        specs
    }

    fn sizes(&self) -> [usize; 3] {
        [self.features, self.width, self.layers]
    }

    fn longest(&self) -> usize {
        usize::MAX
    }

    fn sees_later_tokens(&self) -> bool {
        false
    }

    /// The four gates lie one above the other.
    fn stacked(&self, name: &str) -> Option<[usize; 2]> {
        name.starts_with("lstm.").then_some([1, 4])
    }

    fn graph(&self, [batch, tokens]: [usize; 2], mode: Mode, _: Scope) -> Result<Graph, EngineError> {
        self.build(batch, tokens, mode, None)
    }

    fn query_graph(&self, prefix: &Graph, queries: usize) -> Result<Graph, EngineError> {
        let fits =
            |cache: &LayerCache| matches!(cache, LayerCache::Lstm(prefix) if prefix.width == self.width);
        if prefix.caches.len() != self.layers || !prefix.caches.iter().all(fits) {
            return Err(EngineError::Unsupported("the prefix was run by another network".into()));
        }
        self.build(prefix.batch, queries, Mode::Infer, Some(&prefix.caches))
    }
}

impl LstmConfig {
    /// Makes every layer above the first begin as (nearly) the identity: its candidate is its input, its input and output
    /// gates are open, its forget gate is closed, and all else is small. Ten layers then leave the plateau as one
    /// layer does; from PyTorch's start the signal is lost on the way up.
    ///
    /// # Panics
    /// If `params` has not the length of the network's parameters.
    pub fn pass_through(&self, params: &mut [f32]) {
        const GAIN: f32 = 1.3;
        const GATE: f32 = 3.0;
        const REST: f32 = 0.1;
        let (h, layout) = (self.width, ParamLayout::new(self.params()));
        let place = |name: &str, layer| own(&layout, &format!("lstm.{name}_l{layer}"));
        for layer in 1..self.layers {
            for name in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
                place(name, layer).of_mut(params).iter_mut().for_each(|w| *w *= REST);
            }
            let weights = place("weight_ih", layer).of_mut(params);
            (0..h).for_each(|i| weights[(2 * h + i) * h + i] += GAIN);
            let bias = place("bias_ih", layer).of_mut(params);
            for (gate, open) in [(0, GATE), (1, -GATE), (3, GATE)] {
                bias[gate * h..(gate + 1) * h].iter_mut().for_each(|b| *b += open);
            }
        }
    }

    /// Makes the input weights of every layer above the first larger, so that a layer passes on as much of the signal as it
    /// gets, and builds nothing else in. From PyTorch's start each layer loses nearly three quarters: of the tenth layer's
    /// states, .02 in size, only 7e-7 depend on the prompt, which no bf16 or TF32 product can see.
    ///
    /// # Panics
    /// If `params` has not the length of the network's parameters.
    pub fn unit_gain(&self, params: &mut [f32]) {
        // measured: gains of 3, 4 and 5 end at .02, .12 and .21 after ten layers that begin with .2
        const GAIN: f32 = 4.0;
        let layout = ParamLayout::new(self.params());
        for layer in 1..self.layers {
            let weights = own(&layout, &format!("lstm.weight_ih_l{layer}"));
            weights.of_mut(params).iter_mut().for_each(|w| *w *= GAIN);
        }
    }

    fn build(
        &self,
        batch: usize,
        tokens: usize,
        mode: Mode,
        prefix: Option<&[LayerCache]>,
    ) -> Result<Graph, EngineError> {
        positive("features", self.features)?;
        positive("width", self.width)?;
        let layout = ParamLayout::new(self.params());
        let (width, rows) = (self.width, batch * tokens);
        let mut plan = PlanBuilder::new(mode, [batch, tokens]);
        let input = plan.input(rows * self.features, false);
        let mut h = plan.result(rows * width);
        let sizes = [rows, self.features, width];
        Linear::add(&mut plan, input, weight_and_bias(&layout, "read_in"), true, sizes, Epilogue::None, h);
        let mut hidden = vec![h];
        let mut caches = Vec::new();
        for layer in 0..self.layers {
            plan.begin_layer();
            h = match prefix {
                None => {
                    let params = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
                        .map(|name| own(&layout, &format!("lstm.{name}_l{layer}")));
                    let op = LstmLayer::add(&mut plan, h, params, [batch, tokens, width, width]);
                    caches.push(LayerCache::Lstm(op));
                    op.out
                }
                Some(caches) => {
                    let LayerCache::Lstm(prefix) = caches[layer] else {
                        return Err(EngineError::Unsupported("the prefix was run by another network".into()));
                    };
                    LstmQuery::add(&mut plan, h, prefix, tokens)
                }
            };
            hidden.push(h);
        }
        let stride = if prefix.is_none() { 2 } else { 1 };
        let trunk = Trunk { input, hidden, blocks: Vec::new(), caches, last: (h, tokens), stride };
        Ok(finish(plan, self, [batch, tokens], trunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::Network;
    use crate::model::parameters::SplitMix;

    const LAYERS: usize = 10;

    /// The first and the last layer's states on a few random tokens, from a start.
    fn ends(start: impl Fn(&LstmConfig, &mut [f32])) -> (Vec<f32>, Vec<f32>) {
        let config = LstmConfig { features: 3, width: 64, layers: LAYERS };
        let network = Network::Lstm(config.clone());
        let mut params = network.layout().initial(&SplitMix::new(1));
        start(&config, &mut params);
        let mut runner = network.runner(4, 10, Mode::Infer).unwrap();
        let tokens: Vec<f32> = (0..120).map(|i| 2.0 * (i as f32 * 1.7).sin()).collect();
        runner.set_tokens(&tokens).unwrap();
        runner.forward(&params);
        (runner.hidden(1).to_vec(), runner.hidden(LAYERS).to_vec())
    }

    #[test]
    fn layers_may_begin_as_the_identity() {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let agreement = |(first, last): (Vec<f32>, Vec<f32>)| {
            dot(&first, &last) / (dot(&first, &first) * dot(&last, &last)).sqrt()
        };
        let (through, usual) = (ends(LstmConfig::pass_through), ends(|_, _| ()));
        assert!(agreement(through) > 0.8 && agreement(usual) < 0.5);
    }

    #[test]
    fn layers_may_begin_by_keeping_the_size_of_the_signal() {
        // what differs between prompts, at the last token of each
        let signal = |states: &[f32]| {
            let last = |b: usize| &states[(b * 10 + 9) * 64..(b * 10 + 10) * 64];
            let apart = last(0).iter().zip(last(1)).map(|(x, y)| (x - y).powi(2)).sum::<f32>();
            apart.sqrt()
        };
        let kept = |(first, last): (Vec<f32>, Vec<f32>)| signal(&last) / signal(&first);
        let (gain, usual) = (kept(ends(LstmConfig::unit_gain)), kept(ends(|_, _| ())));
        assert!((0.1..3.0).contains(&gain) && usual < 1e-3, "{gain} and {usual}");
    }
}
