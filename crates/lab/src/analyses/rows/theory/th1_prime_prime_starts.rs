//! TH1″: the compact construction from αS and from ηI, layers against the condition number.

use super::constructed::{
    DIMS, ITERATIONS, SIZE, constant, grid, layers_needed, prompts, recipe, spread, worst,
};
use crate::analyses::kit::prelude::*;
use crate::constructions::picture::picture;
use crate::constructions::{Recipe, Start, Variant, build};
use crate::data::seed::Seed;
use crate::parallel;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH1-prime-prime",
    paper: Some(("Theorem 5.1", "5")),
    order: 12,
    title: "How many layers does each start of Newton's iteration need?",
    summary: "Ours. The paper starts Newton's iteration at αS, a sum over all pairs that takes a layer of its own and squares \
              every eigenvalue: on an eigenvalue λ of S the residual 1 − αλ² is squared by each layer. From ηI the first \
              layer, which moves every pair into its y column, can write ηx beside x; the residual is 1 − ηλ. To reach ε \
              takes log₂ κ + log₂ ln(1/ε) iterations in place of 2 log₂ κ + log₂ ln(1/ε). Both are run as Transformers.",
    run,
    ..Analysis::THEORY
}];

/// Error that the layers are to reach.
const EPSILON: f64 = 1e-6;
/// Problems at each κ; the same bases and solutions at every κ.
const PROBLEMS: usize = 16;
/// Iterations that are enough for κ = 1000 from either start: 2 log₂ κ + log₂ ln(1/ε) is below 24.
const ENOUGH: usize = 32;
/// The rates are asymptotic: −ln(1 − 1/κ) is 1/κ to 6 % from here on.
const LARGE: f64 = 10.0;

/// Layers per doubling of κ. From theory, written down on 2026-11-17 before anything was measured: 1 from ηI and 2 from αS, a
/// tenth to either side for whole layers (at most .05 of a slope over seven doublings) and for 1/κ in place of −ln(1 − 1/κ)
/// (.02).
const FROM_IDENTITY: Bound = Within(0.9, 1.1);
const FROM_GRAM: Bound = Within(1.8, 2.2);

/// κ from 1 to 1000, eight to a factor of ten.
fn kappas() -> impl Iterator<Item = f64> {
    (0..=24).map(|i| 10f64.powf(f64::from(i) / 8.0))
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let identity = Variant::Compact(Start::Identity);
    let starts = [Needed::of(lab.seed, Start::Gram)?, Needed::of(lab.seed, Start::Identity)?];
    note.claim("exact", worst(&grid(lab.seed, identity, ITERATIONS)?), AtMost(1e-9))
        .says(
            "From ηI: largest relative deviation from Newton with the same start; d = 1, 2, 5, 20, n = d/2 … 5d, \
             κ = 1, 100, k = 0 … 20",
        )
        .kind(Kind::Beyond);
    let sample = prompts(lab.seed, 5, 10, 1, 16)?;
    let mut fewer = Vec::new();
    for dim in DIMS {
        for iterations in 0..=ITERATIONS {
            let layers = |variant| {
                let recipe = Recipe { iterations, dim, ..recipe(variant, &sample, 0) };
                Ok::<_, crate::error::Error>(build(&recipe)?.transformer.layers.len())
            };
            fewer.push(layers(Variant::Compact(Start::Gram))? - layers(identity)?);
        }
    }
    note.claim("layers", constant(&fewer), Within(1.0, 1.0))
        .says("Layers that the start ηI saves before the first iteration")
        .kind(Kind::Beyond);
    let [gram, from_identity] = &starts;
    let slopes = [
        ("gram", gram, FROM_GRAM, "2 log₂ κ + log₂ ln(1/ε) iterations"),
        ("identity", from_identity, FROM_IDENTITY, "log₂ κ + log₂ ln(1/ε) iterations"),
    ];
    for (name, needed, bound, theory) in slopes {
        let slope = bootstrap(lab.seed, PROBLEMS, |chosen| needed.slope(chosen));
        note.claim(name, slope, bound)
            .says(format!("From {} to 10⁻⁶: layers per doubling of κ (κ = 10 … 1000)", needed.label))
            .ours(theory)
            .kind(Kind::Beyond);
    }

    let series = starts.iter().flat_map(|needed| {
        let everyone: Vec<usize> = (0..PROBLEMS).collect();
        let theory = kappas().map(|kappa| (kappa, needed.in_theory(kappa))).collect();
        [
            Series::new(needed.label, needed.mean(&everyone)).markers(),
            Series::new(format!("{}, theory", needed.label), theory).dashed(),
        ]
    });
    let caption = format!(
        "Layers that a constructed Transformer needs until its weights are within 10⁻⁶ of the solution: mean over {PROBLEMS} \
         {SIZE}-dimensional problems with eigenvalues of S spread geometrically over [1, κ]. α = 1/λ² and η = 1/λ, λ the \
         largest eigenvalue: half of what converges. Layers before and after the iterations are counted. Dashed, where the \
         residual of the smallest eigenvalue reaches 10⁻⁶, not rounded to whole layers."
    );
    let panel = LinesPanel::new(Axis::log10("condition number κ of S"), Axis::linear("layers"), series);
    note.figure("layers", "Layers to a given accuracy by start", caption, [panel]);
    let small = build(&recipe(identity, &sample, 12))?;
    note.paste(vec![picture("th1-prime-prime-weights", &small)], vec![]);
    Ok(())
}

/// Layers that the compact construction needs from a start.
struct Needed {
    start: Start,
    label: &'static str,
    /// By problem and κ.
    layers: Vec<Vec<f64>>,
}

impl Needed {
    fn of(seed: Seed, start: Start) -> Result<Needed> {
        let label = match start {
            Start::Gram => "αS",
            Start::Identity => "ηI",
        };
        let needed = |i: usize, kappa: f64| {
            let problem = spread(seed, i as u64, kappa)?;
            let variant = Variant::Compact(start);
            let [layers] = layers_needed(&problem, variant, step(start, kappa), ENOUGH, [EPSILON])?;
            Ok(layers)
        };
        let of_problem = |i: usize| kappas().map(|kappa| needed(i, kappa)).collect::<Result<Vec<_>>>();
        let layers = parallel::map(PROBLEMS, of_problem).into_iter().collect::<Result<_>>()?;
        Ok(Needed { start, label, layers })
    }

    /// (κ, mean over the chosen problems).
    fn mean(&self, chosen: &[usize]) -> Vec<(f64, f64)> {
        let mean = |k: usize| chosen.iter().map(|&i| self.layers[i][k]).sum::<f64>() / chosen.len() as f64;
        kappas().enumerate().map(|(k, kappa)| (kappa, mean(k))).collect()
    }

    /// Layers per doubling of κ where it is large, by least squares.
    fn slope(&self, chosen: &[usize]) -> f64 {
        let large = self.mean(chosen).into_iter().filter(|(kappa, _)| *kappa >= LARGE);
        let (_, slope, _) = line(&large.map(|(kappa, layers)| (kappa.log2(), layers)).collect::<Vec<_>>());
        slope
    }

    /// 2^k ln(1 − z) = ln ε for the smallest eigenvalue 1, where z is its share αλ² or ηλ of the largest; and the layers around
    /// the iterations.
    fn in_theory(&self, kappa: f64) -> f64 {
        let k = (EPSILON.ln() / (-step(self.start, kappa)).ln_1p()).log2();
        let around = match self.start {
            Start::Gram => 3.0,
            Start::Identity => 2.0,
        };
        k.max(0.0) + around
    }
}

/// α or η: half of what converges where the eigenvalues of S reach from 1 to κ.
fn step(start: Start, kappa: f64) -> f64 {
    match start {
        Start::Gram => 1.0 / (kappa * kappa),
        Start::Identity => 1.0 / kappa,
    }
}
