//! A patch in the plan of one network: which operation it follows, and which rows of which buffer it replaces.

use std::ops::Range;

use super::shapes::Shapes;
use super::{Patch, Site, SiteKind, Tokens, Values};
use crate::error::{EngineError, check_len};
use crate::model::graph::Graph;
use crate::model::plan::Var;

/// Where an activation lies.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub var: Var,
    /// What is subtracted from it to get the activation, and added to what replaces it.
    pub base: Option<Var>,
    /// Rows of a prompt.
    pub rows: usize,
    /// Tokens from one row to the next.
    pub every: usize,
    /// Values per row, and those that belong to the site.
    pub width: usize,
    pub columns: Range<usize>,
}

impl Place {
    pub fn of(graph: &Graph, site: Site) -> Result<Place, EngineError> {
        let (width, columns) = Shapes::of_graph(graph).columns(site)?;
        let block = &graph.blocks[site.block - 1];
        let (var, base) = match site.kind {
            SiteKind::ResidPre => (block.resid_pre, None),
            SiteKind::Z(_) => (block.z, None),
            SiteKind::ResidMid => (block.resid_mid, None),
            SiteKind::MlpHidden => (block.mlp_hidden, None),
            SiteKind::ResidPost => (block.resid_post, None),
            SiteKind::Out => (block.resid_post, Some(block.adds_to)),
        };
        let rows = graph.plan.len_of(var) / (graph.batch * width);
        Ok(Place { var, base, rows, every: graph.tokens.div_ceil(rows), width, columns })
    }

    /// Whether the activation is still there after a pass.
    pub fn is_kept(&self, graph: &Graph) -> bool {
        let kept = |var: Var| !graph.plan.buffers[var.0].stage_local;
        kept(self.var) && self.base.is_none_or(kept)
    }
}

/// When a patch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before an operation, by its number in the plan.
    Before(usize),
    /// After it.
    After(usize),
}

/// A patch in the plan of one network.
#[derive(Debug, Clone)]
pub(crate) struct PlannedPatch {
    pub moment: Moment,
    pub place: Place,
    /// Rows of a prompt that are replaced, each with its row of the values: of all, or of those of the prompt.
    pub replaced: Vec<(usize, usize)>,
    /// Rows of values that each prompt has of its own.
    pub per_prompt: usize,
    pub values: Values,
}

impl PlannedPatch {
    /// In whole prompts. A patch that touches nothing is refused.
    pub fn for_prompts(graph: &Graph, patch: &Patch) -> Result<PlannedPatch, EngineError> {
        let Patch { site, tokens, .. } = patch;
        let place = Place::of(graph, *site)?;
        check_tokens(graph, *site, tokens)?;
        check_values(patch, &place, graph.tokens)?;
        if let Values::PerPrompt(values) = &patch.values {
            let (batch, tokens, width) = (graph.batch, tokens.among(graph.tokens), place.columns.len());
            check_len("values of a patch", values.len(), batch * tokens * width, || {
                format!("{batch} prompts × {tokens} tokens × {width} values of {site}")
            })?;
        }
        let per_prompt = matches!(patch.values, Values::PerPrompt(_));
        let replaced = (0..place.rows).filter_map(|row| {
            let token = row * place.every;
            let index = tokens.index_of(token)?;
            Some((row, if per_prompt { index } else { token }))
        });
        let replaced: Vec<(usize, usize)> = replaced.collect();
        if replaced.is_empty() {
            let why = match place.every {
                1 => "is none of the prompt's".to_string(),
                every => format!("is computed there; accepted: multiples of {every}"),
            };
            return Err(EngineError::Unsupported(format!(
                "{site}: a patch at {} touches nothing, as none of them {why}",
                tokens.words()
            )));
        }
        let per_prompt = if per_prompt { tokens.among(graph.tokens) } else { 0 };
        Ok(PlannedPatch {
            moment: Self::moment(graph, *site, &place),
            place,
            replaced,
            per_prompt,
            values: patch.values.clone(),
        })
    }

    /// In queries that all stand at one token, after those before it. `None` where the patch touches the tokens before alone; one that
    /// touches nothing is refused.
    pub fn for_queries(
        graph: &Graph,
        patch: &Patch,
        token: usize,
    ) -> Result<Option<PlannedPatch>, EngineError> {
        let Patch { site, tokens, values } = patch;
        let place = Place::of(graph, *site)?;
        check_values(patch, &place, token + 1)?;
        let Some(index) = tokens.index_of(token) else {
            if (0..token).any(|before| tokens.index_of(before).is_some()) {
                return Ok(None);
            }
            return Err(EngineError::Unsupported(format!(
                "{site}: a patch at {} touches nothing, as queries stand at token {token}; accepted: that token, or one \
                 before it",
                tokens.words()
            )));
        };
        let per_prompt = match (values, tokens) {
            (Values::PerPrompt(values), Tokens::These(tokens)) => {
                let (batch, tokens, width) = (graph.batch, tokens.len(), place.columns.len());
                check_len("values of a patch", values.len(), batch * tokens * width, || {
                    format!("{batch} prompts × {tokens} tokens × {width} values of {site}")
                })?;
                tokens
            }
            (Values::PerPrompt(_), _) => {
                return Err(EngineError::Unsupported(format!(
                    "{site}: queries stand at one token, so that values of their own for each prompt need the tokens by \
                     their numbers; given: {}",
                    tokens.words()
                )));
            }
            _ => 0,
        };
        let from = if per_prompt > 0 { index } else { token };
        Ok(Some(PlannedPatch {
            moment: Self::moment(graph, *site, &place),
            replaced: (0..place.rows).map(|row| (row, from)).collect(),
            place,
            per_prompt,
            values: values.clone(),
        }))
    }

    /// When values of a site are replaced. The stream before a block is replaced right before it, so that passes from that block on see
    /// it, too.
    pub fn moment(graph: &Graph, site: Site, place: &Place) -> Moment {
        let layers = &graph.plan.layers;
        if site.kind == SiteKind::ResidPre {
            return Moment::Before(layers[site.block - 1]);
        }
        // in inference blocks share buffers, so that the operation is looked for in its own block
        let end = layers.get(site.block).copied().unwrap_or(graph.plan.ops.len());
        let within = &graph.plan.ops[..end];
        Moment::After(within.iter().rposition(|op| op.out() == place.var).expect("computed by the plan"))
    }

    /// Rows in `[batch, rows]` that are replaced, each with its row of all values.
    pub fn rows(&self, batch: usize) -> Vec<[usize; 2]> {
        let rows = self.place.rows;
        let of = |prompt: usize| {
            let own = self.replaced.iter();
            own.map(move |(row, from)| [prompt * rows + row, prompt * self.per_prompt + from])
        };
        (0..batch).flat_map(of).collect()
    }

    /// The values of one row of a prompt, by its number; `None` is zero.
    pub fn row(&self, prompt: usize, from: usize) -> Option<&[f32]> {
        let width = self.place.columns.len();
        match &self.values {
            Values::Zero => None,
            Values::PerPosition(values) => Some(&values[from * width..][..width]),
            Values::PerPrompt(values) => Some(&values[(prompt * self.per_prompt + from) * width..][..width]),
        }
    }

    /// Writes into rows `[prompts, rows, width]` of prompts from number `first` on; `base` is what values are added to, if anything.
    pub fn write(&self, out: &mut [f32], base: Option<&[f32]>, first: usize) {
        let Place { rows, width, ref columns, .. } = self.place;
        for (prompt, out) in out.chunks_exact_mut(rows * width).enumerate() {
            for &(row, from) in &self.replaced {
                let place = &mut out[row * width..][columns.clone()];
                match self.row(first + prompt, from) {
                    Some(values) => place.copy_from_slice(values),
                    None => place.fill(0.0),
                }
                if let Some(base) = base {
                    let base = &base[(prompt * rows + row) * width..][columns.clone()];
                    place.iter_mut().zip(base).for_each(|(o, b)| *o += b);
                }
            }
        }
    }
}

fn check_tokens(graph: &Graph, site: Site, tokens: &Tokens) -> Result<(), EngineError> {
    let Tokens::These(tokens) = tokens else { return Ok(()) };
    if tokens.is_empty() {
        return Err(EngineError::Unsupported(format!(
            "{site}: a patch at no token changes nothing; accepted: at least one"
        )));
    }
    match tokens.iter().find(|token| **token >= graph.tokens) {
        Some(token) => Err(EngineError::Unsupported(format!(
            "{site}: there is no token {token}; accepted: 0 to {}",
            graph.tokens - 1
        ))),
        None => Ok(()),
    }
}

/// Values that are the same for every prompt must be whole rows, as many as there are positions.
fn check_values(patch: &Patch, place: &Place, positions: usize) -> Result<(), EngineError> {
    let Values::PerPosition(values) = &patch.values else { return Ok(()) };
    let (site, width) = (patch.site, place.columns.len());
    if !values.len().is_multiple_of(width) {
        return Err(EngineError::Unsupported(format!(
            "{site}: {} values are no whole rows; accepted: [positions, {width}]",
            values.len()
        )));
    }
    let rows = values.len() / width;
    if rows < positions {
        return Err(EngineError::Unsupported(format!(
            "{site}: a patch has values for {rows} positions, but {positions} are needed"
        )));
    }
    Ok(())
}
