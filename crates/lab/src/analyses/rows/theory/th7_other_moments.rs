//! TH7: attention layers represent sums of moments other than Newton's.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::{gram_of, newton_iterates};
use crate::linalg::{axpy, dot, matvec, norm};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH7",
    paper: Some(("Text", "B.3")),
    order: 70,
    title: "Can layers represent sums of moments other than Newton's?",
    summary: "A layer of the construction makes T ← aT − bTST, with a from the MLP and b from the value matrices; Newton has a = 2 \
              and b = 1. With other coefficients in every layer the columns should hold another polynomial of S, Σ β_s S^s x, \
              whose β follow by multiplying polynomials. Layers are run over the pairs with random coefficients and \
              compared with that polynomial. k layers have 2k coefficients for 2^k odd moments: many sums, not all.",
    run,
    ..Analysis::THEORY
}];

const LAYERS: usize = 4;
const PROMPTS: usize = 40;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let prompts = task.sample(lab.seed, "eval", 0, lab.count.min(PROMPTS));
    // [layer][prompt]: how far the columns are from the polynomial, and from Newton's iterate
    let mut off = vec![(Vec::new(), Vec::new()); LAYERS];
    for b in 0..prompts.count() {
        let mut draws = lab.seed.at("th7/coefficients", b as u64);
        let coefficients: Vec<[f64; 2]> =
            (0..LAYERS).map(|_| [1.5 + 0.3 * draws.normal(), 0.7 + 0.2 * draws.normal()]).collect();
        for (layer, found) in deviations(&prompts, b, &coefficients).into_iter().enumerate() {
            off[layer].0.push(found[0]);
            off[layer].1.push(found[1]);
        }
    }
    let farthest = worst(off.iter().flat_map(|(polynomial, _)| polynomial).copied());
    note.claim("other", farthest, AtMost(1e-10))
        .says("Random coefficients in each of four layers: largest relative deviation of the columns from Σ β_s S^s x")
        .quoted("Transformer circuits can represent other sum of moments other than Newton's method");
    note.claim("not-newton", mean(lab.seed, &off[LAYERS - 1].1), AtLeast(0.1))
        .says("Their relative distance from Newton's iterate after four layers: another sum of moments it is")
        .ours("Other coefficients, another polynomial")
        .kind(Kind::Reference);
    let average = |of: &[f64]| (of.iter().sum::<f64>() / of.len() as f64).max(1e-17);
    let by_layer = |values: Vec<f64>| (1u32..).map(f64::from).zip(values).collect::<Vec<(f64, f64)>>();
    let own = by_layer(off.iter().map(|of| average(&of.0)).collect());
    let newtons = by_layer(off.iter().map(|of| average(&of.1)).collect());
    let curves = [
        Series::new("from their polynomial", own).markers(),
        Series::new("from Newton's iterate", newtons).dashed(),
    ];
    let caption = format!(
        "Relative distance of the hidden states T x, mean over {} prompts of {LAST} pairs, each with coefficients of its own.",
        prompts.count()
    );
    let y = Axis::log10("relative distance").range(1e-17, 10.0);
    let panel = LinesPanel::new(Axis::linear("layer"), y, curves);
    note.figure("moments", "Attention layers with other coefficients", caption, [panel]);
    Ok(())
}

/// Runs layers a ← c₀a − c₁ Σ_j [ReLU(z_j) − ReLU(−z_j)] a_j, z_j = ⟨x, a_j⟩, on a = αSx of every pair; returns the relative
/// distances from the polynomial in S with the same coefficients, applied by powers of S, and from Newton, after each layer.
fn deviations(prompts: &Prompts, b: usize, coefficients: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let xs = &prompts.prompt(b).0[..LAST * DIM];
    let s = gram_of(prompts, b);
    let (alpha, iterates) = newton_iterates(&s, DIM, coefficients.len());
    let apply = |m: &[f64]| -> Vec<f64> {
        xs.chunks_exact(DIM).flat_map(|x| m.chunks_exact(DIM).map(move |row| dot(row, x))).collect()
    };
    let mut a = apply(&iterates[0]);
    // coefficients of √αS, so that α carries no digits: T = √α Σ β_s (√αS)^s
    let root = alpha.sqrt();
    let mut beta = vec![0.0, 1.0];
    let mut found = Vec::new();
    for ([keep, take], newton) in coefficients.iter().zip(&iterates[1..]) {
        let old = a.clone();
        for (x, a) in xs.chunks_exact(DIM).zip(a.chunks_exact_mut(DIM)) {
            a.iter_mut().for_each(|v| *v *= keep);
            for other in old.chunks_exact(DIM) {
                let z = dot(x, other);
                axpy(-take * (z.max(0.0) - (-z).max(0.0)), other, a);
            }
        }
        beta = step(&beta, *keep, *take);
        let polynomial: Vec<f64> = xs.chunks_exact(DIM).flat_map(|x| horner(&beta, &s, root, x)).collect();
        found.push([distance(&a, &polynomial), distance(&a, &apply(newton))]);
    }
    found
}

/// The coefficients of keep·p − take·z·p².
fn step(p: &[f64], keep: f64, take: f64) -> Vec<f64> {
    let mut next = vec![0.0; 2 * p.len()];
    p.iter().zip(&mut next).for_each(|(c, n)| *n = keep * c);
    for (i, one) in p.iter().enumerate() {
        p.iter().enumerate().for_each(|(j, other)| next[i + j + 1] -= take * one * other);
    }
    next
}

/// √α Σ β_s (√αS)^s x
fn horner(beta: &[f64], s: &[f64], root: f64, x: &[f64]) -> Vec<f64> {
    let (mut sum, mut next) = (vec![0.0; DIM], vec![0.0; DIM]);
    for coefficient in beta.iter().rev() {
        matvec(s, &sum, &mut next);
        sum.iter_mut().zip(&next).zip(x).for_each(|((sum, next), x)| *sum = root * next + coefficient * x);
    }
    sum.iter().map(|v| root * v).collect()
}

fn distance(of: &[f64], from: &[f64]) -> f64 {
    let off: Vec<f64> = of.iter().zip(from).map(|(a, b)| a - b).collect();
    norm(&off) / norm(from)
}
