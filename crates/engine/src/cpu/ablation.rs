//! Ablations in the plan of one network: what replaces the output of one of its operations.

use std::sync::Arc;

use crate::cpu::workspace::GroupView;
use crate::error::EngineError;
use crate::model::ablation::{AblatedPart, Part};
use crate::model::graph::Graph;
use crate::model::ops::Op;
use crate::model::plan::Var;

/// An ablation in the plan of one network.
#[derive(Debug, Clone)]
pub(crate) struct PlannedAblation {
    /// The operation, by its number in the plan.
    pub after: usize,
    /// Where the output is.
    out: Var,
    /// The residual stream that it is added to.
    resid_pre: Option<Var>,
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
pub(crate) enum RowPositions {
    /// Whole prompts.
    Prompt,
    /// Queries, all at one position.
    Query(usize),
}

impl PlannedAblation {
    /// Finds all of them in a graph; each must have an output for the first `positions` positions.
    pub fn all(graph: &Graph, ablations: &[AblatedPart], positions: usize) -> Result<Vec<Self>, EngineError> {
        let planned = |ablation| {
            let planned = Self::new(graph, ablation)?;
            planned.check(positions)?;
            Ok(planned)
        };
        ablations.iter().map(planned).collect()
    }

    fn new(graph: &Graph, ablation: &AblatedPart) -> Result<Self, EngineError> {
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
        let (Part::Layer(layer) | Part::Head { layer, .. }) = ablation.part;
        let bad = |what: String| Err(EngineError::Unsupported(what));
        if attention.is_empty() {
            return bad(
                "only the layers of a Transformer add to a residual stream, so only they can be replaced"
                    .into(),
            );
        }
        let Some(&(index, out, heads, size)) = layer.checked_sub(1).and_then(|l| attention.get(l)) else {
            return bad(format!("there is no layer {layer}; accepted: 1 to {}", attention.len()));
        };
        let width = heads * size;
        let rows = graph.plan.len_of(out) / (graph.batch * width);
        let every = graph.tokens.div_ceil(rows);
        let planned = match ablation.part {
            Part::Layer(_) => {
                let out = graph.hidden[layer];
                let after =
                    graph.plan.ops.iter().rposition(|op| op.out() == out).expect("computed by the plan");
                let resid_pre = Some(graph.blocks[layer - 1].resid_pre);
                Self { after, out, resid_pre, rows, every, width, columns: 0..width, output: None }
            }
            Part::Head { head, .. } if head >= heads => {
                return bad(format!(
                    "there is no head {head} in layer {layer}; accepted: 0 to {}",
                    heads - 1
                ));
            }
            Part::Head { head, .. } => {
                let columns = head * size..(head + 1) * size;
                Self { after: index, out, resid_pre: None, rows, every, width, columns, output: None }
            }
        };
        Ok(Self { output: ablation.output.clone(), ..planned })
    }

    /// Refuses an output that does not reach as far as prompts or queries do.
    pub fn check(&self, positions: usize) -> Result<(), EngineError> {
        match &self.output {
            Some(output) if output.len() < positions * self.columns.len() => {
                Err(EngineError::Unsupported(format!(
                    "an ablation has an output for {} positions, but {positions} are needed",
                    output.len() / self.columns.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the output.
    pub fn apply(&self, view: &mut GroupView, positions: RowPositions) {
        let out = view.take(self.out);
        let part = self.columns.len();
        for (row, out) in out.chunks_exact_mut(self.width).enumerate() {
            let place = &mut out[self.columns.clone()];
            let position = match positions {
                RowPositions::Prompt => row % self.rows * self.every,
                RowPositions::Query(position) => position,
            };
            match &self.output {
                Some(output) => place.copy_from_slice(&output[position * part..][..part]),
                None => place.fill(0.0),
            }
            if let Some(resid_pre) = self.resid_pre {
                let resid_pre = &view.value(resid_pre)[row * self.width..];
                place.iter_mut().zip(resid_pre).for_each(|(o, r)| *o += r);
            }
        }
        view.put(self.out, out);
    }
}
