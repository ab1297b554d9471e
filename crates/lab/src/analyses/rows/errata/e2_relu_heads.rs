//! E2: the two ReLU heads of the proof need opposite value matrices.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::{gram_of, newton_iterates};
use crate::linalg::{axpy, dot, norm};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E2",
    paper: Some(("Theorem 5.1", "B.2")),
    order: 20,
    title: "Do two ReLU heads with equal values make a product?",
    summary: "The proof writes z as ReLU(z) + ReLU(−z) with the same value matrix in both heads. That sum is |z|. \
              With V₂ = −V₁ it is ReLU(z) − ReLU(−z) = z, and a layer is one Newton iteration to round-off. Both are \
              run here as attention layers over the pairs, against the iteration itself.",
    run,
    ..Analysis::ERRATUM
}];

const LAYERS: usize = 12;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let prompts = task.sample(lab.seed, "eval", 0, lab.count.min(200));
    // [layer][prompt] for each sign of the second head's values
    let deviations = |sign: f64| {
        let mut by_layer = vec![vec![]; LAYERS];
        for b in 0..prompts.count() {
            by_layer.iter_mut().zip(layers(&prompts, b, sign)).for_each(|(layer, off)| layer.push(off));
        }
        by_layer
    };
    let (printed, right) = (deviations(1.0), deviations(-1.0));
    note.claim("printed", mean(lab.seed, &printed[0]), AtLeast(0.01))
        .says("Equal value matrices: relative deviation from one Newton iteration after one layer")
        .quoted("ReLU(x_tᵀx_j) + ReLU(−x_tᵀx_j) = ⟨x_t, x_j⟩");
    note.claim("right", worst(right.iter().flatten().copied()), AtMost(1e-10))
        .says("Opposite value matrices: largest relative deviation over 12 layers")
        .ours("ReLU(z) − ReLU(−z) = z");
    let curve = |label: &str, deviations: &[Vec<f64>]| {
        let mean = |off: &[f64]| (off.iter().sum::<f64>() / off.len() as f64).max(1e-17);
        let points = deviations.iter().enumerate().map(|(l, off)| ((l + 1) as f64, mean(off)));
        Series::new(label, points.collect())
    };
    let series = [curve("printed: V₂ = V₁", &printed).dashed(), curve("right: V₂ = −V₁", &right).markers()];
    let caption = format!(
        "Relative deviation of the hidden states T x from Newton's iteration after each layer, mean over {} prompts \
         of 40 pairs. With equal value matrices the layer computes |z| in place of z and is lost at once.",
        prompts.count()
    );
    let y = Axis::log10("relative deviation").range(1e-17, 1e3);
    let panel = LinesPanel::new(Axis::linear("layer"), y, series);
    note.figure("relu-heads", "Attention layers as Newton iterations", caption, [panel]);
    Ok(())
}

/// Runs attention layers h ← h − ½ Σ_j [ReLU(z_j) + sign·ReLU(−z_j)] a_j, z_j = ⟨x, a_j⟩, then h ← 2h of the MLP,
/// on a = T x of every pair; returns the deviation from the Newton iteration after each layer.
fn layers(prompts: &Prompts, b: usize, sign: f64) -> Vec<f64> {
    let xs = &prompts.prompt(b).0[..LAST * DIM];
    let apply = |m: &[f64]| -> Vec<f64> {
        xs.chunks_exact(DIM).flat_map(|x| m.chunks_exact(DIM).map(move |row| dot(row, x))).collect()
    };
    let (_, iterates) = newton_iterates(&gram_of(prompts, b), DIM, LAYERS);
    let mut a = apply(&iterates[0]);
    let mut layer = |iterate: &Vec<f64>| {
        let old = a.clone();
        for (x, a) in xs.chunks_exact(DIM).zip(a.chunks_exact_mut(DIM)) {
            for other in old.chunks_exact(DIM) {
                let z = dot(x, other);
                let heads = z.max(0.0) + sign * (-z).max(0.0);
                axpy(-0.5 * heads, other, a);
            }
            a.iter_mut().for_each(|v| *v *= 2.0);
        }
        let right = apply(iterate);
        let off: Vec<f64> = a.iter().zip(&right).map(|(a, b)| a - b).collect();
        norm(&off) / norm(&right)
    };
    iterates[1..].iter().map(&mut layer).collect()
}
