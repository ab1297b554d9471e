//! F14: similarity of induced weights by the number of pairs, at an early, a first working and the last layer.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::setting::{Baseline, ISOTROPIC, MIDDLE_RULE, ONLINE, middle};
use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome};
use crate::compare::similarity::of_weights_by_length;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series};
use crate::stats::{Estimate, bootstrap, mean};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F14",
    order: 140,
    cost: crate::analyses::Cost::Minutes,
    title: "From nothing to least squares: induced weights by the number of pairs",
    summary: "At three layers, similarity of the induced weights with each algorithm at its best step, by the pairs read. The paper \
              shows layers 2, 3 and 12: before anything is learned, the first that works, the last. Which layer is the first \
              that works differs between networks; here it is the first of the middle layers.",
    needs: &["r1"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

/// Few pairs, in the paper's sentence about the first working layer.
const FEW: usize = 5;

fn run(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let layers = lab.layers(setting.network)?;
    let begun = middle(lab, setting)?.map_or(3, |(first, _)| first).min(layers.last());
    let baselines = [setting.newton, setting.gd, ONLINE, setting.exact];
    let weights = lab.weights(setting.network, &setting.data, setting.weight_prompts, &layers)?;
    let by_length = |baseline: &Baseline, layer: u64| -> Result<Vec<Vec<f64>>> {
        let best = Compared::new(lab, setting, *baseline, Measure::Weights)?.matching.best;
        let s = layers.position(layer).expect("one of its layers");
        let other =
            lab.weights(baseline.solver, &setting.data, setting.weight_prompts, &baseline.steps()?)?;
        Ok(of_weights_by_length((&weights, s), (&other, best[s].unwrap_or(0))))
    };
    // mean over some lengths (1-based) of one curve, with its interval over prompts
    let over = |curve: &[Vec<f64>], chosen: &dyn Fn(usize) -> bool| -> Estimate {
        let kept: Vec<&Vec<f64>> =
            curve.iter().enumerate().filter(|(i, _)| chosen(i + 1)).map(|(_, c)| c).collect();
        let per_prompt: Vec<f64> =
            (0..curve[0].len()).map(|b| kept.iter().map(|c| c[b]).sum::<f64>() / kept.len() as f64).collect();
        mean(lab.seed, &per_prompt)
    };
    let mut panels = Vec::new();
    let mut curves = Vec::new();
    for layer in [2.min(layers.last()), begun, layers.last()] {
        let found = baselines.iter().map(|r| by_length(r, layer)).collect::<Result<Vec<_>>>()?;
        let series = baselines.iter().zip(&found).map(|(baseline, curve)| {
            let points = curve
                .iter()
                .enumerate()
                .map(|(i, c)| ((i + 1) as f64, c.iter().sum::<f64>() / c.len() as f64));
            Series::new(baseline.label, points.collect())
        });
        panels.push(Panel::Lines(LinesPanel {
            title: format!("layer {layer}"),
            x: Axis::new("in-context pairs t", Scale::Linear),
            y: Axis::new("cosine of induced weights", Scale::Linear).range(-0.2, 1.05),
            series: series.collect(),
            references: vec![Reference { label: "t = d".into(), at: At::X(DIM as f64) }],
        }));
        curves.push(found);
    }
    let [newton, _, _, ols] = [0, 1, 2, 3];
    let all = |_: usize| true;
    let early = curves[0]
        .iter()
        .map(|c| over(c, &all))
        .max_by(|a, b| a.value.total_cmp(&b.value))
        .expect("four of them");
    let lead = |first: usize, last: usize| {
        let (a, b) = (&curves[1][ols], &curves[1][newton]);
        bootstrap(lab.seed, a[0].len(), |chosen| {
            let of = |c: &[Vec<f64>]| {
                c[first - 1..last].iter().flat_map(|l| chosen.iter().map(|&p| l[p])).sum::<f64>()
            };
            (of(a) - of(b)) / ((last + 1 - first) * chosen.len()) as f64
        })
    };
    let dip = |curve: &[Vec<f64>]| {
        bootstrap(lab.seed, curve[0].len(), |chosen| {
            let at = |t: usize| chosen.iter().map(|&p| curve[t - 1][p]).sum::<f64>() / chosen.len() as f64;
            (at(DIM - 8) + at(DIM + 8)) / 2.0 - at(DIM)
        })
    };
    let (ols_dip, newton_dip) = (dip(&curves[2][ols]), dip(&curves[2][newton]));
    let claim = |id: &str, what: String, value: Estimate, bound: Bound, quoted: &str| {
        Claim::of(id, Kind::Paper, what, value, bound).quoted(quoted).figure("f14-pairs")
    };
    let claims = vec![
        claim(
            "F14.nothing-yet",
            "Layer 2: highest mean SimW with any of the algorithms".into(),
            early,
            Bound::AtMost(0.2),
            "zero similarity at layer 2",
        ),
        claim(
            "F14.ols-first",
            format!(
                "Layer {begun}, the first that works: SimW with OLS minus SimW with Newton after 1…{FEW} pairs"
            ),
            lead(1, FEW),
            Bound::AtLeast(0.0),
            "with few examples more similar to OLS",
        )
        .why(format!(
            "With so few pairs both are close to that layer: SimW is {:.3} with OLS and {:.3} with Newton at its best step, which \
             is chosen over all numbers of pairs.",
            over(&curves[1][ols], &|t| t <= FEW).value,
            over(&curves[1][newton], &|t| t <= FEW).value
        )),
        claim(
            "F14.newton-then",
            format!("Layer {begun}: the same after {DIM}…{LAST} pairs"),
            lead(DIM, LAST),
            Bound::AtMost(0.0),
            "soon most similar to Newton",
        ),
        claim(
            "F14.ols-last",
            "Last layer: mean SimW with OLS over t ≥ 2".into(),
            over(&curves[2][ols], &|t| t >= 2),
            Bound::AtLeast(0.95),
            "converges to OLS with more than 1 example",
        ),
        claim(
            "F14.dip-ols",
            "Last layer: how far SimW with OLS at t = d lies below its mean at t = d ± 8".into(),
            ols_dip,
            Bound::AtLeast(0.01),
            "a dip around n = d",
        ),
        claim(
            "F14.dip-newton",
            "Last layer: the same for Newton".into(),
            newton_dip,
            Bound::AtMost(0.01),
            "but not for Newton",
        ),
    ];
    let figure = Figure {
        id: "f14-pairs".into(),
        title: "Similarity of induced weights by the number of pairs".into(),
        caption: format!(
            "Mean cosine of w̃_t of a layer and of each algorithm at its best step for that layer ({}, {} prompts, T=200 queries). {MIDDLE_RULE}",
            setting.words,
            curves[0][0][0].len()
        ),
        panels,
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
