//! Activations of a network on the CPU: read by name, and replaced while it runs.

use std::ops::Range;
use std::sync::Arc;

use crate::cpu::packed_weights::ForwardParams;
use crate::cpu::runner::Runner;
use crate::cpu::workspace::GroupView;
use crate::error::{EngineError, check_len};
use crate::model::graph::Graph;
use crate::model::hooks::{Patch, Site, SiteKind};
use crate::model::plan::{Mode, Var};

/// Where an activation lies.
struct Place {
    var: Var,
    /// Rows of a prompt.
    rows: usize,
    /// Tokens from one row to the next.
    every: usize,
    /// Values per row, and those that belong to the site.
    width: usize,
    columns: Range<usize>,
}

impl Place {
    fn of(graph: &Graph, site: Site) -> Result<Place, EngineError> {
        let bad = |what: String| Err(EngineError::Unsupported(what));
        if graph.blocks.is_empty() {
            return bad(format!("{site}: only a Transformer has blocks with named activations"));
        }
        let Some(block) = site.block.checked_sub(1).and_then(|at| graph.blocks.get(at)) else {
            return bad(format!("{site}: there is no such block; accepted: 1 to {}", graph.blocks.len()));
        };
        let var = match site.kind {
            SiteKind::ResidPre => block.resid_pre,
            SiteKind::Z(_) => block.z,
            SiteKind::ResidMid => block.resid_mid,
            SiteKind::MlpHidden => block.mlp_hidden,
            SiteKind::ResidPost => block.resid_post,
        };
        let stream = graph.plan.len_of(graph.hidden[0]) / (graph.batch * graph.tokens);
        let width = if site.kind == SiteKind::MlpHidden { 4 * stream } else { stream };
        let rows = graph.plan.len_of(var) / (graph.batch * width);
        let columns = match site.kind {
            SiteKind::Z(Some(head)) if head >= block.heads => {
                return bad(format!("{site}: there is no such head; accepted: 0 to {}", block.heads - 1));
            }
            SiteKind::Z(Some(head)) => {
                let size = width / block.heads;
                head * size..(head + 1) * size
            }
            _ => 0..width,
        };
        Ok(Place { var, rows, every: graph.tokens.div_ceil(rows), width, columns })
    }
}

/// A patch in the plan of one network.
#[derive(Debug, Clone)]
pub(crate) struct PlannedPatch {
    /// The operation that computes the activation, by its number in the plan.
    pub after: usize,
    out: Var,
    rows: usize,
    width: usize,
    columns: Range<usize>,
    /// Rows of a prompt that are replaced.
    replaced: Vec<usize>,
    values: Arc<[f32]>,
}

impl PlannedPatch {
    fn new(graph: &Graph, patch: &Patch) -> Result<PlannedPatch, EngineError> {
        let Patch { site, tokens, values } = patch;
        let Place { var, rows, every, width, columns } = Place::of(graph, *site)?;
        let bad = |what: String| Err(EngineError::Unsupported(what));
        if tokens.is_empty() {
            return bad(format!("{site}: a patch at no token changes nothing; accepted: at least one"));
        }
        if let Some(token) = tokens.iter().find(|&&token| token >= graph.tokens || token % every != 0) {
            let accepted = match every {
                1 => format!("0 to {}", graph.tokens - 1),
                _ => format!("multiples of {every}, as only they are computed there"),
            };
            return bad(format!("{site}: there is no token {token}; accepted: {accepted}"));
        }
        check_len("values of a patch", values.len(), graph.batch * tokens.len() * columns.len(), || {
            format!("{} prompts × {} tokens × {} values of {site}", graph.batch, tokens.len(), columns.len())
        })?;
        // in inference blocks share buffers, so that the operation is looked for in its own block; the stream before a block
        // is computed before it
        let layers = &graph.plan.layers;
        let end = layers.get(site.block).copied().unwrap_or(graph.plan.ops.len());
        let before = &graph.plan.ops[..end];
        let after = before.iter().rposition(|op| op.out() == var).expect("computed by the plan");
        let replaced = tokens.iter().map(|token| token / every).collect();
        Ok(PlannedPatch { after, out: var, rows, width, columns, replaced, values: values.clone() })
    }

    /// Replaces the activation of the prompts of a group.
    pub fn apply(&self, view: &mut GroupView) {
        let (first, out) = (view.first, view.take(self.out));
        self.write(out, first);
        view.put(self.out, out);
    }

    /// Writes into the rows of prompts from number `first` on.
    fn write(&self, out: &mut [f32], first: usize) {
        let part = self.columns.len();
        for (prompt, out) in out.chunks_exact_mut(self.rows * self.width).enumerate() {
            let values = &self.values[(first + prompt) * self.replaced.len() * part..];
            for (&row, values) in self.replaced.iter().zip(values.chunks_exact(part)) {
                out[row * self.width..][self.columns.clone()].copy_from_slice(values);
            }
        }
    }
}

impl Runner {
    /// An activation of the last forward pass, `[batch, tokens, width of the site]`. Networks built for inference keep the
    /// residual streams before and after blocks alone; those built for training keep all.
    pub fn activation(&self, site: Site) -> Result<Vec<f32>, EngineError> {
        let graph = self.graph();
        let Place { var, width, columns, .. } = Place::of(graph, site)?;
        let stored =
            graph.mode == Mode::Train || matches!(site.kind, SiteKind::ResidPre | SiteKind::ResidPost);
        if !stored {
            return Err(EngineError::Unsupported(format!(
                "{site} is not kept in inference; accepted: blocks.L.resid_pre, blocks.L.resid_post, or a network built for \
                 training"
            )));
        }
        let rows = self.buffers.value(var).chunks_exact(width);
        Ok(rows.flat_map(|row| row[columns.clone()].iter().copied()).collect())
    }

    /// From now on, forward passes take these values in place of what they compute; earlier patches end. A patch that would
    /// touch nothing is refused.
    pub fn patch(&mut self, patches: &[Patch]) -> Result<(), EngineError> {
        self.patches =
            patches.iter().map(|patch| PlannedPatch::new(&self.graph, patch)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Writes values into the residual stream before a block, for [`Runner::forward_from`] that block.
    pub fn write(&mut self, patch: &Patch) -> Result<(), EngineError> {
        if patch.site.kind != SiteKind::ResidPre {
            return Err(EngineError::Unsupported(format!(
                "{} is computed inside its block; accepted to be written before: blocks.L.resid_pre",
                patch.site
            )));
        }
        let planned = PlannedPatch::new(&self.graph, patch)?;
        planned.write(self.buffers.value_mut(planned.out), 0);
        Ok(())
    }

    /// The forward pass from a block on: what came before is taken as the last passes left it.
    ///
    /// # Panics
    /// If `params` has not the length of the network's parameters, or there is no such block.
    pub fn forward_from<'a>(&mut self, params: impl Into<ForwardParams<'a>>, block: usize) {
        let first = self.graph.plan.layers[block - 1];
        self.forward_after(params.into(), first);
    }
}
