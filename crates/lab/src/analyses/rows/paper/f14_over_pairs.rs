//! F14: similarity of induced weights by the number of pairs, at an early, a first working and the last layer.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{MIDDLE_RULE, ONLINE};
use crate::compare::similarity::of_weights_by_length;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F14",
    paper: Some(("Figure 14", "A.2.5")),
    order: 140,
    cost: Cost::Minutes,
    title: "Which algorithm do the induced weights resemble after how many pairs?",
    summary: "At three layers, similarity of the induced weights with each algorithm at its best step, by the pairs read. The paper \
              shows layers 2, 3 and 12: before anything is learned, the first that works, the last. Which layer is the first \
              that works differs between networks; here it is the first of the middle layers.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

/// Few pairs, in the paper's sentence about the first working layer.
const FEW: usize = 5;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let layers = lab.layers(setting.network)?;
    let begun = setting.middle(lab)?.map_or(3, |(first, _)| first).min(layers.last());
    let shown = [2.min(layers.last()), begun, layers.last()];
    let baselines = [setting.newton, setting.gd, ONLINE, setting.exact];
    let curves = shown.map(|layer| baselines.map(|baseline| by_length(lab, setting, baseline, layer)));
    let curves: Vec<Vec<Curve>> =
        curves.into_iter().map(|of| of.into_iter().collect()).collect::<Result<_>>()?;
    let [newton, ols] = [0, 3];
    let [nothing, first, last] = [&curves[0], &curves[1], &curves[2]];

    let early = nothing.iter().map(|c| over(lab, c, |_| true));
    let early = early.max_by(|a, b| a.value.total_cmp(&b.value)).expect("four of them");
    note.claim("nothing-yet", early, AtMost(0.2))
        .says("Layer 2: highest mean SimW with any of the algorithms")
        .quoted("zero similarity at layer 2");
    // how much more like least squares than like Newton, over some lengths
    let lead = |from: usize, to: usize| {
        bootstrap(lab.seed, first[ols][0].len(), |chosen| {
            let of =
                |c: &Curve| c[from - 1..to].iter().flat_map(|l| chosen.iter().map(|&p| l[p])).sum::<f64>();
            (of(&first[ols]) - of(&first[newton])) / ((to + 1 - from) * chosen.len()) as f64
        })
    };
    note.claim("ols-first", lead(1, FEW), AtLeast(0.0))
        .says(format!(
            "Layer {begun}, the first that works: SimW with OLS minus SimW with Newton after 1…{FEW} pairs"
        ))
        .quoted("at layer 3 with few examples more similar to OLS")
        .why(format!(
            "With so few pairs both are close to that layer: SimW is {:.3} with OLS and {:.3} with Newton at its best step, which \
             is chosen over all numbers of pairs.",
            over(lab, &first[ols], |t| t <= FEW).value,
            over(lab, &first[newton], |t| t <= FEW).value
        ));
    note.claim("newton-then", lead(DIM, LAST), AtMost(0.0))
        .says(format!("Layer {begun}: the same after {DIM}…{LAST} pairs"))
        .quoted("soon most similar to Newton");
    note.claim("ols-last", over(lab, &last[ols], |t| t >= 2), AtLeast(0.95))
        .says("Last layer: mean SimW with OLS over t ≥ 2")
        .quoted("converges to OLS with more than 1 example");
    note.claim("dip-ols", dip(lab, &last[ols]), AtLeast(0.01))
        .says("Last layer: how far SimW with OLS at t = d lies below its mean at t = d ± 8")
        .quoted("a dip around n = d");
    note.claim("dip-newton", dip(lab, &last[newton]), AtMost(0.01))
        .says("Last layer: the same for Newton")
        .quoted("but not for Newton");

    let panel = |(layer, found): (u64, &Vec<Curve>)| {
        let series = baselines.iter().zip(found).map(|(baseline, curve)| {
            let means = curve.iter().map(|c| c.iter().sum::<f64>() / c.len() as f64);
            Series::new(baseline.label, means.enumerate().map(|(i, mean)| ((i + 1) as f64, mean)).collect())
        });
        let y = Axis::linear("cosine of induced weights").range(-0.2, 1.05);
        LinesPanel::new(Axis::linear("in-context pairs t"), y, series)
            .titled(format!("layer {layer}"))
            .mark_x("t = d", DIM as f64)
    };
    let caption = format!(
        "Mean cosine of w̃_t of a layer and of each algorithm at its best step for that layer ({}, T=200 queries). {MIDDLE_RULE}",
        setting.about(curves[0][0][0].len())
    );
    let panels = shown.into_iter().zip(&curves).map(panel);
    note.figure("pairs", "Similarity of induced weights by the number of pairs", caption, panels);
    Ok(())
}

/// Similarities `[length][prompt]` after 1, 2, … pairs.
type Curve = Vec<Vec<f64>>;

/// A layer with a baseline at the step that matches the layer best.
fn by_length(lab: &Lab, setting: &Setting, baseline: Baseline, layer: u64) -> Result<Curve> {
    let layers = lab.layers(setting.network)?;
    let best = &setting.compare(lab, baseline, Measure::Weights)?.matching.best;
    let s = layers.position(layer).expect("one of its layers");
    let of = |name: &str, steps: &Steps| lab.weights(name, &setting.data, setting.weight_prompts, steps);
    let (own, other) = (of(setting.network, &layers)?, of(baseline.solver, &baseline.steps()?)?);
    Ok(of_weights_by_length((&own, s), (&other, best[s].unwrap_or(0))))
}

/// Mean over some lengths (from 1) of one curve, with its interval over prompts.
fn over(lab: &Lab, curve: &Curve, chosen: impl Fn(usize) -> bool) -> Estimate {
    let kept: Vec<&Vec<f64>> =
        curve.iter().enumerate().filter(|(i, _)| chosen(i + 1)).map(|(_, c)| c).collect();
    let per_prompt: Vec<f64> =
        (0..curve[0].len()).map(|b| kept.iter().map(|c| c[b]).sum::<f64>() / kept.len() as f64).collect();
    mean(lab.seed, &per_prompt)
}

/// How far a curve at t = d lies below its mean at t = d ± 8.
fn dip(lab: &Lab, curve: &Curve) -> Estimate {
    bootstrap(lab.seed, curve[0].len(), |chosen| {
        let at = |t: usize| chosen.iter().map(|&p| curve[t - 1][p]).sum::<f64>() / chosen.len() as f64;
        (at(DIM - 8) + at(DIM + 8)) / 2.0 - at(DIM)
    })
}
