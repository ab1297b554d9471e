//! The forward pass in parts: the optimiser moves the parameters of one while the part before it runs.
//!
//! Adam moves 30 bytes for each parameter and computes little, the forward pass computes and waits: one beside the other they take less
//! than one after the other.

use std::ops::Range;

use crate::model::graph::Graph;
use crate::model::ops::Op;

/// A stretch of the forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForwardPart {
    /// Its commands in `Lowered::forward`.
    pub commands: Range<usize>,
    /// Values of the flat buffer up to the last parameter that it reads, or a part before it.
    pub reach: usize,
}

/// Shares of the parameters: nothing runs beside the first part's, and beside those of each other part the whole part before.
const SHARES: [usize; 4] = [1, 2, 4, 8];

/// Fewer parameters than these fill the device for so short a time that cuts cost more.
const WORTH_CUTTING: usize = 1 << 20;

/// Cuts a forward pass whose operations begin at the commands `starts`, the last of which is their number.
pub(super) fn parts(graph: &Graph, starts: &[usize]) -> Vec<ForwardPart> {
    let ops = graph.plan.ops();
    let reach_of = |op: &Op| op.params().iter().map(|param| param.range().end).max().unwrap_or(0);
    let total = ops.iter().map(reach_of).max().unwrap_or(0);
    let (mut parts, mut first, mut reach) = (Vec::new(), 0, 0);
    for (i, (op, &start)) in ops.iter().zip(starts).enumerate() {
        let shares: usize = SHARES[..=parts.len()].iter().sum();
        let has_share = reach * SHARES.iter().sum::<usize>() >= shares * total;
        // Enough must be left to be worth another launch.
        let is_worth_it =
            total >= WORTH_CUTTING && 3 * (total - reach) >= total && parts.len() + 1 < SHARES.len();
        // A LayerNorm may be computed by the matmul before it; layers of an LSTM run together.
        let is_inside = match op {
            Op::LayerNorm(_) => true,
            Op::LstmLayer(_) => i > 0 && matches!(ops[i - 1], Op::LstmLayer(_)),
            _ => false,
        };
        if has_share && is_worth_it && start > first && !is_inside {
            parts.push(ForwardPart { commands: first..start, reach });
            first = start;
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

    #[test]
    fn parts_grow_and_are_everything() {
        let (_, starts, parts) = parts_of(&r1());
        assert_eq!(parts.len(), SHARES.len());
        assert_eq!(parts[0].commands.start, 0);
        assert!(parts.windows(2).all(|pair| pair[0].commands.end == pair[1].commands.start));
        assert_eq!(parts[3].commands.end, starts[starts.len() - 1]);
        assert_eq!(parts[3].reach, r1().layout().len());
        let own: Vec<usize> = parts
            .iter()
            .scan(0, |before, part| Some(part.reach - std::mem::replace(before, part.reach)))
            .collect();
        assert!(own.is_sorted() && 10 * own[0] < parts[3].reach, "{own:?}");
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
