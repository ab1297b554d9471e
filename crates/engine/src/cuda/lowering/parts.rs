//! The forward pass in parts: the optimiser moves the parameters of one while the part before it runs.
//!
//! Adam moves 30 bytes for each parameter and computes little, the forward pass computes and waits: one beside the other they take less
//! than one after the other.

use std::ops::Range;

use crate::model::graph::Graph;
use crate::model::ops::{Epilogue, Op};

/// A stretch of the forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForwardPart {
    /// Its commands in `Lowered::forward`.
    pub commands: Range<usize>,
    /// Values of the flat buffer up to the last parameter that it reads, or a part before it.
    pub reach: usize,
}

/// Fewer parameters than these fill the device for so short a time that cuts cost more.
const WORTH_CUTTING: usize = 1 << 20;

/// Cuts a forward pass whose operations begin at the commands `starts`, the last of which is their number.
///
/// The first part is what comes before the first matmul, which is little, as nothing runs beside its update. Each other part has at least
/// twice the parameters of the one before, which runs beside its update.
pub(super) fn parts(graph: &Graph, starts: &[usize]) -> Vec<ForwardPart> {
    let ops = graph.plan.ops();
    let reach_of = |op: &Op| op.params().iter().map(|param| param.range().end).max().unwrap_or(0);
    let total = ops.iter().map(reach_of).max().unwrap_or(0);
    let mut parts = Vec::new();
    // The first command of this part; how many parameters the part before has, and up to where that and this one reach.
    let (mut first, mut before, mut reached, mut reach) = (0, 0, 0, 0);
    for (op, &start) in ops.iter().zip(starts) {
        // Enough must be left to be worth another launch.
        let is_worth_it = total >= WORTH_CUTTING && 3 * (total - reach) >= total;
        // A cut costs programmatic launch, which a matmul of the library does without.
        let is_library = matches!(op, Op::Linear(op) if matches!(op.epilogue, Epilogue::None));
        if reach - reached >= 2 * before && is_worth_it && start > first && is_library {
            parts.push(ForwardPart { commands: first..start, reach });
            (first, before, reached) = (start, reach - reached, reach);
        }
        reach = reach.max(reach_of(op));
    }
    parts.push(ForwardPart { commands: first..starts[ops.len()], reach });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, LstmConfig, Mode, Network};

    /// Parts of a network, with three commands for each operation but none for a LayerNorm, as where matmuls compute it.
    fn parts_of(network: &Network) -> (Graph, Vec<usize>, Vec<ForwardPart>) {
        let graph = network.graph(2, 10, Mode::Train).unwrap();
        let mut starts = vec![0];
        for op in graph.plan.ops() {
            starts.push(starts[starts.len() - 1] + if matches!(op, Op::LayerNorm(_)) { 0 } else { 3 });
        }
        let parts = parts(&graph, &starts);
        (graph, starts, parts)
    }

    fn r1() -> Network {
        Network::Gpt2(Gpt2Config::default())
    }

    #[test]
    fn every_command_reads_what_its_part_or_one_before_reaches() {
        let (graph, starts, parts) = parts_of(&r1());
        let ops = graph.plan.ops();
        for (i, op) in ops.iter().enumerate().filter(|(_, op)| !matches!(op, Op::LayerNorm(_))) {
            let part = parts.iter().find(|part| part.commands.contains(&starts[i])).unwrap();
            let fused = ops[i + 1..].iter().take_while(|next| matches!(next, Op::LayerNorm(_)));
            for param in std::iter::once(op).chain(fused).flat_map(Op::params) {
                assert!(param.range().end <= part.reach, "{} reads beyond {}", op.label(), part.reach);
            }
        }
    }

    /// Layers of the parts behind the first.
    fn layers_of_parts(layers: usize) -> Vec<usize> {
        let network = Network::Gpt2(Gpt2Config { layers, ..Gpt2Config::default() });
        let (_, starts, parts) = parts_of(&network);
        let last = &parts[parts.len() - 1];
        assert_eq!((last.commands.end, last.reach), (starts[starts.len() - 1], network.layout().len()));
        assert_eq!(parts[0].commands.start, 0);
        assert!(parts.windows(2).all(|pair| pair[0].commands.end == pair[1].commands.start));
        let layer = last.reach / layers;
        assert!(10 * parts[0].reach < layer, "{parts:?}");
        parts.windows(2).map(|pair| (pair[1].reach - pair[0].reach + layer / 2) / layer).collect()
    }

    #[test]
    fn parts_grow_and_are_everything() {
        assert_eq!(layers_of_parts(12), [1, 2, 4, 5]);
        assert_eq!(layers_of_parts(24), [1, 2, 4, 8, 9]);
    }

    /// What begins a part does without programmatic launch.
    #[test]
    fn parts_begin_with_matmuls_of_the_library() {
        let (graph, starts, parts) = parts_of(&r1());
        for part in &parts[1..] {
            let begun = starts.iter().rposition(|&start| start == part.commands.start).unwrap();
            let op = &graph.plan.ops()[begun];
            assert!(matches!(op, Op::Linear(op) if matches!(op.epilogue, Epilogue::None)), "{}", op.label());
        }
    }

    #[test]
    fn small_networks_and_stacks_of_lstm_layers_are_one_part() {
        let small = Network::Gpt2(Gpt2Config { width: 64, heads: 2, ..Gpt2Config::default() });
        assert_eq!(parts_of(&small).2.len(), 1);
        let lstm = Network::Lstm(LstmConfig { features: 20, width: 256, layers: 10 });
        let graph = lstm.graph(2, 10, Mode::Train).unwrap();
        // All layers begin with the first.
        let starts: Vec<usize> =
            (0..=graph.plan.ops().len()).map(|i| if i < 11 { i.min(1) } else { i }).collect();
        assert_eq!(parts(&graph, &starts).len(), 1);
    }
}
