//! Weights as block pictures.

use std::collections::BTreeSet;

use ndarray::Array2;

use super::Construction;
use super::describe::{stretches, weighting};
use super::transformer::{Layer, Mlp};
use crate::findings::{Block, BlocksPanel, Figure};

/// One panel per different layer; in each the scores A and values V of every head and what the MLP adds, block by block.
pub fn picture(id: &str, construction: &Construction) -> Figure {
    let recipe = &construction.recipe;
    let transformer = &construction.transformer;
    let panels = stretches(construction).into_iter().map(|(first, last, layer)| {
        let which = if first == last { format!("Layer {first}") } else { format!("Layers {first}–{last}") };
        let title = match weighting(layer) {
            "–" => format!("{which}: {}", layer.name),
            words => format!("{which}: {} ({words})", layer.name),
        };
        panel(title, construction, layer)
    });
    Figure::new(
        id,
        format!("The weights of {} iterations in {} layers", recipe.iterations, transformer.layers.len()),
        format!(
            "Every different layer of the construction ({}; d = {}, n = {}, width {}). A: the score of a head is \
             h_tᵀ A h_s; V: what it carries from slot (column) to slot (row); MLP: its linear part. A cell is one number; a \
             diagonal of cells is a multiple of the identity, with its factor beside it.",
            recipe.variant.summary(),
            recipe.dim,
            recipe.pairs,
            transformer.width()
        ),
        panels,
    )
}

fn panel(title: String, construction: &Construction, layer: &Layer) -> BlocksPanel {
    let slots = &construction.transformer.slots;
    let mut matrices: Vec<(String, Array2<f64>)> = Vec::new();
    for (m, head) in layer.heads.iter().enumerate() {
        let number = subscript(m + 1);
        matrices.push((format!("A{number}"), head.score()));
        matrices.push((format!("V{number}"), head.value.matrix()));
    }
    matrices.extend(layer.mlp.as_ref().map(|mlp| ("MLP".to_string(), linear_part(mlp))));
    // Slots that no matrix of this layer touches are left out.
    let touched: BTreeSet<usize> = (0..slots.0.len())
        .filter(|&i| {
            let range = slots.range(&slots.0[i].name);
            matrices.iter().any(|(_, m)| {
                m.indexed_iter().any(|((r, c), v)| *v != 0.0 && (range.contains(&r) || range.contains(&c)))
            })
        })
        .collect();
    let kept: Vec<usize> = touched.iter().flat_map(|&i| slots.range(&slots.0[i].name)).collect();
    let blocks = matrices.into_iter().map(|(name, matrix)| Block {
        name,
        values: kept.iter().map(|&r| kept.iter().map(|&c| matrix[[r, c]]).collect()).collect(),
    });
    BlocksPanel {
        title,
        slots: touched.iter().map(|&i| (slots.0[i].name.clone(), slots.0[i].size)).collect(),
        blocks: blocks.collect(),
    }
}

/// Units come in pairs σ(z) − σ(−z) = z: half of outer·inner is the linear map they make.
fn linear_part(mlp: &Mlp) -> Array2<f64> {
    mlp.outer.matrix().dot(&mlp.inner.matrix()) * 0.5
}

fn subscript(number: usize) -> String {
    let digit = |c: char| char::from_u32('₀' as u32 + (c as u32 - '0' as u32)).unwrap_or(c);
    number.to_string().chars().map(digit).collect()
}
