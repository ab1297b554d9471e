//! Q7: the condition number hardly hurts the Transformer.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::SKEWED;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q7",
    paper: Some(("Text", "4.3")),
    order: 70,
    title: "Does the condition number hurt the Transformer?",
    summary: "Steps of Newton and of gradient descent that the last layer of a Transformer is worth on isotropic and on \
              ill-conditioned data, by the error after 40 pairs and by SimE. The paper has as many of the one and many \
              more of the other.",
    needs: &["r1", "r2"],
    run,
    ..Analysis::STATEMENT
}];

/// Another reading of what the last layer is worth.
const BY_SIMILARITY: &str = "best match by SimE";

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let newton = [ISOTROPIC.errors(lab, ISOTROPIC.newton)?, SKEWED.errors(lab, SKEWED.newton)?];
    let gd = [ISOTROPIC.errors(lab, ISOTROPIC.gd)?, SKEWED.errors(lab, SKEWED.gd)?];
    // by the error after 40 pairs, which the condition number rules; SimE is ruled by errors around t = d, where prompts of
    // both kinds are ill-conditioned
    let steps_to = |setting: &Setting, baseline: Baseline| steps_to_last(lab, setting, baseline);
    let by_error = [steps_to(&ISOTROPIC, ISOTROPIC.newton)?, steps_to(&SKEWED, SKEWED.newton)?];
    let gd_by_error = [steps_to(&ISOTROPIC, ISOTROPIC.gd)?, steps_to(&SKEWED, SKEWED.gd)?];
    let authors = [
        ISOTROPIC.by_authors(lab, ISOTROPIC.newton)?.last_step(),
        SKEWED.by_authors(lab, SKEWED.newton)?.last_step(),
    ];
    let matched = newton.each_ref().map(|c| c.last_step());
    note.claim("newton", difference(by_error), Within(-3.0, 3.0))
        .says("Newton iterations to the last layer's mean error after 40 pairs: κ=100 minus isotropic")
        .quoted("closely matches Iterative Newton's Method with 21 iterations, same as when Σ = I")
        .also(BY_SIMILARITY, difference(matched))
        .authors(difference(authors));
    note.claim("gd", quotient(gd_by_error), AtLeast(10.0))
        .says("GD steps to the last layer's mean error after 40 pairs: κ=100 over isotropic (√κ is 10)")
        .quoted("the number steps required for GD's convergence increases significantly")
        .also(BY_SIMILARITY, quotient(gd.each_ref().map(|c| c.last_step())));
    let curve = |(c, label): (&Compared, &str)| {
        let layers = c.matching.a.as_slice().iter();
        let best = |layer: u64| c.step_for(layer).filter(|s| *s > 0).map_or(f64::NAN, |s| s as f64);
        Series::new(label, layers.map(|&l| (l as f64, best(l))).collect()).markers()
    };
    let panel = |(pair, scale): (&[Compared; 2], Scale)| {
        let y = Axis::new(format!("best {} steps", pair[0].baseline.label), scale);
        let curves = [(&pair[0], "isotropic"), (&pair[1], "κ = 100")].map(curve);
        LinesPanel::new(Axis::linear("Transformer layers"), y, curves)
    };
    note.figure(
        "best",
        "Best-matching steps on isotropic and on ill-conditioned data",
        format!("Two networks, each trained and asked on its own data ({} prompts).", lab.count),
        [(&newton, Scale::Linear), (&gd, Scale::Log2)].map(panel),
    );
    let rows = [(newton, by_error), (gd, gd_by_error)].map(|(pair, steps)| {
        let there = |c: &Compared| c.matching.similarity.last().copied().unwrap_or(f64::NAN);
        let cell = |i: usize| {
            let c = &pair[i];
            format!("{:.1} by error, {:.1} by SimE ({:.4})", steps[i].value, c.last_step().value, there(c))
        };
        vec![pair[0].baseline.label.to_string(), cell(0), cell(1)]
    });
    let caption = "Steps that reach the last layer's mean error after 40 pairs, and those that are most similar by SimE over all \
                   t, with SimE there.";
    let columns = ["algorithm", "isotropic", "κ = 100"];
    note.table("last", "Steps that match the last layer", caption, columns, rows);
    Ok(())
}

/// Steps of a baseline until its mean error after all pairs is that of the network's last layer, between the searched steps on
/// a line through logarithms of errors; both resampled together.
fn steps_to_last(lab: &Lab, setting: &Setting, baseline: Baseline) -> Result<Estimate> {
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let path = setting.path(lab, baseline)?;
    let last = network.squared_errors(&prompts, network.steps.last(), LAST);
    let steps = path.steps.as_slice();
    let errors: Vec<Vec<f64>> = steps.iter().map(|&s| path.squared_errors(&prompts, s, LAST)).collect();
    let log_sum = |of: &[f64], chosen: &[usize]| chosen.iter().map(|&b| of[b]).sum::<f64>().ln();
    Ok(bootstrap(lab.seed, prompts.count(), |chosen| {
        let goal = log_sum(&last, chosen);
        let mut before = f64::NAN;
        for (i, of) in errors.iter().enumerate() {
            let here = log_sum(of, chosen);
            if here <= goal {
                let share = if before.is_nan() { 1.0 } else { (before - goal) / (before - here) };
                let from = if i == 0 { steps[0] } else { steps[i - 1] } as f64;
                return from + share * (steps[i] as f64 - from);
            }
            before = here;
        }
        f64::NAN
    }))
}

/// The second less the first, of prompts that have nothing to do with each other: widths add as squares do.
fn difference([first, second]: [Estimate; 2]) -> Estimate {
    let value = second.value - first.value;
    let below = (second.value - second.low).hypot(first.high - first.value);
    let above = (second.high - second.value).hypot(first.value - first.low);
    Estimate { value, low: value - below, high: value + above }
}

/// The second over the first, likewise.
fn quotient(pair: [Estimate; 2]) -> Estimate {
    let log = |e: Estimate| Estimate { value: e.value.ln(), low: e.low.ln(), high: e.high.ln() };
    let Estimate { value, low, high } = difference(pair.map(log));
    Estimate { value: value.exp(), low: low.exp(), high: high.exp() }
}
