//! F14: similarity of induced weights by the number of pairs, at layers 2, 3 and 12.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::ONLINE;
use crate::compare::similarity::of_weights_by_length;
use crate::findings::Reading;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F14",
    paper: Some(("Figure 14", "A.2.5")),
    order: 140,
    cost: Cost::Minutes,
    title: "Which algorithm do the induced weights resemble after how many pairs?",
    summary: "At the paper's layers 2, 3 and 12, similarity of the induced weights with each algorithm at its best step, by the pairs \
              read: before anything is learned, the first that works, the last. Which layer is the first that works differs between \
              networks; the first of our middle layers is a second reading.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

/// Few pairs, in the paper's sentence about its third layer.
const FEW: usize = 5;
/// Newton among the [`candidates`].
const NEWTON: usize = 0;
/// Least squares among the [`candidates`].
const OLS: usize = 2;

fn candidates(setting: &Setting) -> [Baseline; 4] {
    [setting.newton, setting.gd, setting.exact, ONLINE]
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let layers = lab.layers(setting.network)?;
    let with = |layer: u64, choose: fn(Baseline) -> Baseline| -> Result<Vec<Curve>> {
        let layer = layer.min(layers.last());
        let candidates = candidates(setting).map(choose);
        candidates.map(|baseline| by_length(lab, setting, baseline, layer)).into_iter().collect()
    };
    let at = |layer: u64| with(layer, |baseline| baseline);
    let shown = [2, 3, layers.last()];
    let [nothing, third, last] = [at(shown[0])?, at(shown[1])?, at(shown[2])?];
    let begun = setting.middle(lab)?.map_or(3, |(first, _)| first);
    let first = at(begun)?;
    // the steps of the authors' code
    let third_by_authors = with(shown[1], Baseline::by_authors)?;

    let early = nothing.iter().map(|c| over(lab, c, |_| true));
    let early = early.max_by(|a, b| a.value.total_cmp(&b.value)).expect("four of them");
    note.claim("nothing-yet", early, AtMost(0.2))
        .says("Layer 2: highest mean SimW with any of the algorithms")
        .quoted("it has zero similarity to all candidate algorithms");
    let ahead = |of: &[Curve]| lead(lab, &of[OLS], &[&of[NEWTON]], 1, FEW);
    note.claim("ols-first", ahead(&third), AtLeast(0.0))
        .says(format!("Layer 3: SimW with OLS minus SimW with Newton, mean over t = 1…{FEW}"))
        .quoted("when provided few examples, Transformers are more similar to OLS")
        .authors(ahead(&third_by_authors))
        .also(&format!("{}: {begun}", Reading::OUR_LAYERS), ahead(&first))
        .why(format!(
            "With so few pairs both are close to that layer: SimW is {:.3} with OLS and {:.3} with Newton at its best step, which \
             is chosen over all numbers of pairs.",
            over(lab, &third[OLS], |t| t <= FEW).value,
            over(lab, &third[NEWTON], |t| t <= FEW).value
        ));
    let ahead = |of: &[Curve]| {
        let others: Vec<&Curve> =
            of.iter().enumerate().filter(|(i, _)| *i != NEWTON).map(|(_, c)| c).collect();
        lead(lab, &of[NEWTON], &others, DIM, LAST)
    };
    note.claim("newton-then", ahead(&third), AtLeast(0.0))
        .says(format!(
            "Layer 3: SimW with Newton minus that with the next best candidate, mean over t = {DIM}…{LAST}"
        ))
        .quoted("but soon become most similar to the Iterative Newton's Method")
        .authors(ahead(&third_by_authors))
        .also(&format!("{}: {begun}", Reading::OUR_LAYERS), ahead(&first));
    note.claim("ols-last", over(lab, &last[OLS], |t| t >= 2), AtLeast(0.95))
        .says("Last layer: mean SimW with OLS over t ≥ 2")
        .quoted(
            "Transformers in the later layers converge to the OLS solution when provided more than 1 example",
        );
    note.claim("dip-ols", dip(lab, &last[OLS]), AtLeast(0.01))
        .says("Last layer: how far SimW with OLS at t = d lies below its mean at t = d ± 8")
        .quoted("there is a dip around … for similarity between Transformers and OLS")
        .figure("dip");
    note.claim("dip-newton", dip(lab, &last[NEWTON]), AtMost(0.01))
        .says("Last layer: the same for Newton")
        .quoted("but not for Transformers and Newton")
        .figure("dip");

    let caption = format!(
        "Mean cosine of w̃_t of a layer and of each algorithm at its best step for that layer ({}, T=200 queries, 95 % bands). The \
         layers are the paper's.",
        setting.about(last[OLS][0].len())
    );
    let panels = shown.into_iter().zip([&nothing, &third, &last]).map(|(layer, curves)| {
        let y = Axis::linear("cosine of induced weights").range(-0.2, 1.05);
        panel(lab, y, curves, 1, &[0, 1, 2, 3]).titled(format!("layer {layer}"))
    });
    note.figure("pairs", "Similarity of induced weights by the number of pairs", caption, panels);
    let caption = format!(
        "The last layer of the figure above, close to 1 and without online GD ({}): whether there is a dip at t = d, and with whom.",
        setting.about(last[OLS][0].len())
    );
    let y = Axis::linear("cosine of induced weights");
    let close = panel(lab, y, &last, 2, &[0, 1, OLS]);
    note.figure("dip", "The last layer around t = d", caption, [close]);
    Ok(())
}

/// Some of the candidates by the number of pairs, from `first` on.
fn panel(lab: &Lab, y: Axis, curves: &[Curve], first: usize, drawn: &[usize]) -> LinesPanel {
    let series = drawn.iter().map(|&i| {
        let means = curves[i].iter().enumerate().skip(first - 1);
        let means = means.map(|(i, cosines)| ((i + 1) as f64, mean(lab.seed, cosines)));
        Series::estimates(candidates(&ISOTROPIC)[i].label, means)
    });
    LinesPanel::new(Axis::linear("in-context pairs t"), y, series).mark_x("t = d", DIM as f64)
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

/// How much higher one curve is than the best of others, over some lengths and the same prompts.
fn lead(lab: &Lab, one: &Curve, others: &[&Curve], from: usize, to: usize) -> Estimate {
    let of = |curve: &Curve, chosen: &[usize]| {
        let sum = curve[from - 1..to].iter().flat_map(|c| chosen.iter().map(|&p| c[p])).sum::<f64>();
        sum / ((to + 1 - from) * chosen.len()) as f64
    };
    bootstrap(lab.seed, one[0].len(), |chosen| {
        of(one, chosen) - others.iter().map(|other| of(other, chosen)).fold(f64::NEG_INFINITY, f64::max)
    })
}

/// How far a curve at t = d lies below its mean at t = d ± 8.
fn dip(lab: &Lab, curve: &Curve) -> Estimate {
    bootstrap(lab.seed, curve[0].len(), |chosen| {
        let at = |t: usize| chosen.iter().map(|&p| curve[t - 1][p]).sum::<f64>() / chosen.len() as f64;
        (at(DIM - 8) + at(DIM + 8)) / 2.0 - at(DIM)
    })
}
