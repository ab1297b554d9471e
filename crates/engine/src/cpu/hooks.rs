//! Activations of a network on the CPU: read by name, and replaced while it runs.

use crate::cpu::packed_weights::ForwardParams;
use crate::cpu::runner::Runner;
use crate::cpu::workspace::GroupView;
use crate::error::EngineError;
use crate::model::hooks::{Patch, Place, PlannedPatch, Site, SiteKind};

impl PlannedPatch {
    /// Replaces the activation of the prompts of a group.
    pub(super) fn apply(&self, view: &mut GroupView) {
        let (first, out) = (view.first, view.take(self.place.var));
        self.write(out, self.place.base.map(|base| view.value(base)), first);
        view.put(self.place.var, out);
    }
}

impl Runner {
    /// An activation of the last forward pass, `[batch, tokens, width of the site]`. Networks built for inference keep the
    /// residual streams before and after blocks, and what blocks add to them; those built for training keep all.
    pub fn activation(&self, site: Site) -> Result<Vec<f32>, EngineError> {
        let graph = self.graph();
        let place = Place::of(graph, site)?;
        if !place.is_kept(graph) {
            return Err(EngineError::Unsupported(format!(
                "{site} is not kept in inference; accepted: blocks.L.resid_pre, blocks.L.resid_post, blocks.L.out, or a \
                 network built for training"
            )));
        }
        let Place { var, base, width, columns, .. } = place;
        let rows = self.buffers.value(var).chunks_exact(width);
        let mut values: Vec<f32> = rows.flat_map(|row| row[columns.clone()].iter().copied()).collect();
        if let Some(base) = base {
            // sites with a base are as wide as it
            values.iter_mut().zip(self.buffers.value(base)).for_each(|(v, b)| *v -= b);
        }
        Ok(values)
    }

    /// From now on, forward passes take these values in place of what they compute, in this order; earlier patches end. A patch that
    /// would touch nothing is refused.
    pub fn patch(&mut self, patches: &[Patch]) -> Result<(), EngineError> {
        let planned = patches.iter().map(|patch| PlannedPatch::for_prompts(&self.graph, patch));
        self.patches = planned.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Writes values into the residual stream before a block, for [`Runner::forward_from`] that block.
    pub fn write(&mut self, patch: &Patch) -> Result<(), EngineError> {
        check_before_block(patch)?;
        let planned = PlannedPatch::for_prompts(&self.graph, patch)?;
        planned.write(self.buffers.value_mut(planned.place.var), None, 0);
        Ok(())
    }

    /// The forward pass from a block on: what came before is taken as the last passes left it.
    ///
    /// # Panics
    /// If `params` has not the length of the network's parameters.
    pub fn forward_from<'a>(
        &mut self,
        params: impl Into<ForwardParams<'a>>,
        block: usize,
    ) -> Result<(), EngineError> {
        // that there is such a block
        Place::of(&self.graph, Site { block, kind: SiteKind::ResidPre })?;
        let first = self.graph.plan.layers[block - 1];
        self.forward_after(params.into(), first);
        Ok(())
    }
}

/// Refuses to write what a block computes itself.
pub(crate) fn check_before_block(patch: &Patch) -> Result<(), EngineError> {
    match patch.site.kind {
        SiteKind::ResidPre => Ok(()),
        _ => Err(EngineError::Unsupported(format!(
            "{} is computed inside its block; accepted to be written before: blocks.L.resid_pre",
            patch.site
        ))),
    }
}
