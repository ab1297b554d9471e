//! What a construction is, in words: its README.

use std::fmt::Write;

use super::transformer::{Layer, Mask, Weighting};
use super::{Construction, Variant};
use crate::findings::numbers::counted;

/// Layers in words, one line per stretch of equal layers: (first, last, layer), counted from 1.
pub fn stretches(construction: &Construction) -> Vec<(usize, usize, &Layer)> {
    let mut stretches: Vec<(usize, usize, &Layer)> = Vec::new();
    for (i, layer) in construction.transformer.layers.iter().enumerate() {
        match stretches.last_mut() {
            Some((_, last, before)) if *before == &**layer => *last = i + 1,
            _ => stretches.push((i + 1, i + 1, layer)),
        }
    }
    stretches
}

/// The README that goes with the weights: slots, layers, tensors, and what was measured.
pub fn readme(construction: &Construction, measured: &str) -> String {
    let recipe = &construction.recipe;
    let transformer = &construction.transformer;
    let (n, columns) = (recipe.pairs, recipe.columns());
    let (_, step) = recipe.variant.step_name();
    let mut text = format!(
        "# {} in {}\n\n\
         A Transformer with weights built by hand: {}. d = {}, up to n = {n} pairs (N = {columns} columns), {step} = {:e}. \
         {}, width {}, at most {}, {} numbers. {measured}\n\n\
         Columns are x₁, y₁, …, x_t, y_t, x_test, t ≤ n, at the last 2t+1 of the N positions. A layer is \
         h ← h + Σ_heads Σ_s weight(⟨Q h_t, K h_s⟩) V h_s, then h ← h + MLP(h). The prediction is slot `out` of the last \
         column.",
        counted(recipe.iterations, "iteration", "iterations"),
        counted(transformer.layers.len(), "layer", "layers"),
        recipe.variant.summary(),
        recipe.dim,
        recipe.step,
        counted(transformer.layers.len(), "layer", "layers"),
        transformer.width(),
        counted(transformer.heads(), "head", "heads"),
        transformer.parameters(),
    );
    if matches!(recipe.variant, Variant::Paper | Variant::Printed) {
        let _ = write!(text, " Labels must stay below {} in size.", 2.0 * recipe.label_bound);
    }
    text += "\n\n## Slots\n\n| slot | entries | holds |\n|---|---|---|\n";
    for slot in &transformer.slots.0 {
        let range = transformer.slots.range(&slot.name);
        let _ = writeln!(text, "| `{}` | {}–{} | {} |", slot.name, range.start, range.end - 1, slot.meaning);
    }
    text += "\n## Layers\n\n| layers | what | attention | heads | MLP units |\n|---|---|---|---|---|\n";
    for (first, last, layer) in stretches(construction) {
        let which = if first == last { first.to_string() } else { format!("{first}–{last}") };
        let units = layer.mlp.as_ref().map_or("–".into(), |mlp| {
            format!("{} {:?}", mlp.inner_bias.len(), mlp.activation).to_lowercase()
        });
        let _ = writeln!(
            text,
            "| {which} | {} | {} | {} | {units} |",
            layer.name,
            weighting(layer),
            layer.heads.len()
        );
    }
    text += "\n## Tensors (float64)\n\n\
             `read_in` [w, d+1] reads tokens (x, 0) and (0, y); `positions` [N, w] is added; `layers.L.heads.M.query` [r, w], \
             `.key` [r, w], `.value` [w, w]; `layers.L.mlp.inner` [u, w], `.inner_bias`, `.outer` [w, u], `.outer_bias`; \
             `read_out` [w]. Layers count from 0.\n\n\
             Run them: `iclab predict construct:FILE --prompts p.npz --out o.npz`.\n";
    text
}

/// How a layer weighs what it sees, in words.
pub fn weighting(layer: &Layer) -> &'static str {
    match (layer.heads.is_empty(), layer.weighting, layer.mask) {
        (true, _, _) => "–",
        (_, Weighting::Relu, Mask::Full) => "ReLU/N, full",
        (_, Weighting::Relu, Mask::Causal) => "ReLU/t, causal",
        (_, Weighting::Softmax, Mask::Full) => "softmax, full",
        (_, Weighting::Softmax, Mask::Causal) => "softmax, causal",
    }
}
