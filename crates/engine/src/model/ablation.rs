//! Changes to what a Transformer computes on the way: a layer that adds nothing, a head that tells every prompt the same.

use std::sync::Arc;

use crate::cpu::executor::Graph;
use crate::cpu::ops::Op;
use crate::cpu::workspace::Share;
use crate::error::EngineError;
use crate::model::plan::Var;

/// A part of a Transformer whose output can be replaced. Layers count from 1: layer l makes hidden state l.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All that a block adds to the stream.
    Layer(usize),
    /// What one attention head hands to the projection.
    Head {
        /// The block.
        layer: usize,
        /// From 0.
        head: usize,
    },
}

/// A part of a network that gives the same output for every prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervention {
    /// Which part.
    pub part: Part,
    /// Its output instead, one row per position `[positions, width of the part]`; nothing at all when absent.
    pub output: Option<Arc<[f32]>>,
}

/// An intervention in the plan of one network: what happens after one of its operations.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The operation, by its number in the plan.
    pub after: usize,
    /// Where the output is.
    out: Var,
    /// The stream that it is added to.
    stream: Option<Var>,
    /// Rows of a prompt in `out`, and how many positions lie between them.
    rows: usize,
    every: usize,
    /// Values per row of `out`, and those that the part has.
    width: usize,
    columns: std::ops::Range<usize>,
    output: Option<Arc<[f32]>>,
}

/// The position of every row of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Positions {
    /// Whole prompts.
    Prompt,
    /// Queries, all at one position.
    Query(usize),
}

impl Change {
    /// Finds the place of an intervention in a graph.
    pub fn new(graph: &Graph, intervention: &Intervention) -> Result<Change, EngineError> {
        let attention: Vec<(usize, Var, usize, usize)> = graph
            .plan
            .ops
            .iter()
            .enumerate()
            .filter_map(|(i, op)| match op {
                Op::Attention(op) => Some((i, op.out, op.heads, op.size)),
                Op::QueryAttention(op) => Some((i, op.out, op.prefix.heads, op.prefix.size)),
                _ => None,
            })
            .collect();
        let (Part::Layer(layer) | Part::Head { layer, .. }) = intervention.part;
        let bad = |what: String| Err(EngineError::Unsupported(what));
        if attention.is_empty() {
            return bad(
                "only the layers of a Transformer add to a stream, so only they can be replaced".into()
            );
        }
        let Some(&(index, out, heads, size)) = layer.checked_sub(1).and_then(|l| attention.get(l)) else {
            return bad(format!("there is no layer {layer}; accepted: 1 to {}", attention.len()));
        };
        let width = heads * size;
        let rows = graph.plan.len_of(out) / (graph.batch * width);
        let every = graph.tokens.div_ceil(rows);
        let change = match intervention.part {
            Part::Layer(_) => {
                let out = graph.hidden[layer];
                let after =
                    graph.plan.ops.iter().rposition(|op| op.out() == out).expect("computed by the plan");
                let stream = Some(graph.streams[layer - 1]);
                Change { after, out, stream, rows, every, width, columns: 0..width, output: None }
            }
            Part::Head { head, .. } if head >= heads => {
                return bad(format!(
                    "there is no head {head} in layer {layer}; accepted: 0 to {}",
                    heads - 1
                ));
            }
            Part::Head { head, .. } => {
                let columns = head * size..(head + 1) * size;
                Change { after: index, out, stream: None, rows, every, width, columns, output: None }
            }
        };
        Ok(Change { output: intervention.output.clone(), ..change })
    }

    /// Refuses an output that does not reach as far as prompts or queries do.
    pub fn check(&self, positions: usize) -> Result<(), EngineError> {
        match &self.output {
            Some(output) if output.len() < positions * self.columns.len() => {
                Err(EngineError::Unsupported(format!(
                    "an intervention knows what to put at {} positions, but {positions} are asked for",
                    output.len() / self.columns.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the output.
    pub fn apply(&self, share: &mut Share, positions: Positions) {
        let out = share.take(self.out);
        let part = self.columns.len();
        for (row, out) in out.chunks_exact_mut(self.width).enumerate() {
            let place = &mut out[self.columns.clone()];
            let position = match positions {
                Positions::Prompt => row % self.rows * self.every,
                Positions::Query(position) => position,
            };
            match &self.output {
                Some(output) => place.copy_from_slice(&output[position * part..][..part]),
                None => place.fill(0.0),
            }
            if let Some(stream) = self.stream {
                let stream = &share.value(stream)[row * self.width..];
                place.iter_mut().zip(stream).for_each(|(o, s)| *o += s);
            }
        }
        share.put(self.out, out);
    }
}
