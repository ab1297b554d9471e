//! F5: who forgets early pairs, and who predicts as well as whom. Algorithms, the Transformer, the LSTM.

use super::f07_progression::start_of_lstm;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::LSTM;
use crate::compare::forgetting::forgetting;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F5",
        paper: Some(("Figure 5", "4.5")),
        order: 50,
        title: "Which algorithms forget the pairs they read first?",
        summary: "After 20 pairs one of the inputs already seen is asked again; the gap is how long ago it was. Asked are \
                  online gradient descent, which the newest pair moves most, and Newton after five steps, which sees all pairs \
                  at once but is far from converged. The networks' parts of the figure are F5-R1 and F5-R7.",
        needs: &[],
        run: algorithms,
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F5-R1",
        paper: Some(("Figure 5", "4.5")),
        order: 51,
        seconds: 2.8,
        title: "Does the Transformer forget, and how far is it ahead of online methods?",
        summary: "Error by pairs read, and error on a pair seen before by its age after 20 pairs, of the Transformer beside online gradient \
                  descent and five steps of Newton.",
        needs: &["r1"],
        run: transformer,
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F5-R7",
        paper: Some(("Figure 5", "4.5")),
        order: 52,
        seconds: 9.9,
        title: "Does the LSTM learn like an online method?",
        summary: "The same with an LSTM: its error beside that of the Transformer, of Newton after five steps and of online gradient \
                  descent, and whether it is better on recent pairs than on early ones.",
        needs: &["r1", "r7"],
        run: lstm,
        ..Analysis::FIGURE
    },
];

/// Pairs read before one of them is asked again.
const READ: usize = 20;
/// Prompts of which pairs are asked of networks again: each answers for twenty gaps.
const REASKED: usize = 320;
const GAP: &str = "gap g (pairs since it was seen)";
const AGE: &str = "Error on a pair seen before, by its age";

/// Errors by gap, or by pairs read, and by prompt.
type Errors = Vec<Vec<f64>>;

fn over_d(errors: Errors) -> Errors {
    errors.into_iter().map(|e| e.into_iter().map(|e| e / DIM as f64).collect()).collect()
}

fn sum(errors: &[f64], chosen: &[usize]) -> f64 {
    chosen.iter().map(|&b| errors[b]).sum()
}

fn average(errors: &[f64], chosen: &[usize]) -> f64 {
    sum(errors, chosen) / chosen.len() as f64
}

/// Slope of the error against the gap, as a share of the mean error: 0 is flat.
fn tilt(lab: &Lab, errors: &Errors, over: fn(&[f64], &[usize]) -> f64) -> Estimate {
    bootstrap(lab.seed, errors[0].len(), |chosen| {
        let points: Vec<(f64, f64)> =
            errors.iter().enumerate().map(|(gap, e)| (gap as f64, over(e, chosen))).collect();
        line(&points).1 * READ as f64 / (points.iter().map(|p| p.1).sum::<f64>() / READ as f64)
    })
}

fn algorithms(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let errors = |name: &str, step: u64| Ok(over_d(forgetting(&*solver(name)?, &prompts, READ, step)?));
    let curves: Result<Vec<Errors>> = [("ogd", 1), ("newton", 5), ("gd", 8), ("ols", 1)]
        .map(|(name, step)| errors(name, step))
        .into_iter()
        .collect();
    let curves = curves?;
    let [ogd, newton] = [&curves[0], &curves[1]];
    note.claim("ogd-forgets", tilt(lab, ogd, average), AtLeast(0.8))
        .says("Online GD: error grows with the gap (rise over 20 pairs, relative to its mean)")
        .quoted(
            "its predictions are biased towards getting more recent training examples correct … This property makes LSTMs similar to \
             online GD",
        );
    note.claim("newton-flat", tilt(lab, newton, average), Within(-0.25, 0.25))
        .says("Newton after 5 steps: error does not depend on the gap (same measure)")
        .quoted("five steps of Newton's method has the same error on average for recent and early examples");
    let (ogd_5, ogd_19) = (Bound::near(0.081, 0.25), Bound::near(0.205, 0.25));
    let (flat, over_all) = (Within(0.045, 0.085), "0.053 to 0.072 over all gaps");
    for (name, who, errors, gap, bound, expected) in [
        ("ogd-gap-5", "Online GD", ogd, 5, ogd_5, "0.081"),
        ("ogd-gap-19", "Online GD", ogd, 19, ogd_19, "0.205"),
        ("newton-gap-0", "Newton-5", newton, 0, flat, over_all),
        ("newton-gap-19", "Newton-5", newton, 19, flat, over_all),
    ] {
        note.claim(name, mean(lab.seed, &errors[gap]), bound)
            .says(format!("{who}: error/d at gap {gap}"))
            .ours(expected)
            .kind(Kind::Reference);
    }
    let labels = ["online GD", "Newton, 5 steps", "GD, 8 steps", "OLS"];
    let series = labels.into_iter().zip(&curves).map(|(label, errors)| {
        Series::estimates(label, (0..READ).map(|gap| (gap as f64, mean(lab.seed, &errors[gap]))))
    });
    let caption = format!(
        "After {READ} pairs the input x_(n−g) is asked again; squared error over d against the gap g, mean over {} \
         prompts with 95 % bands. OLS interpolates and is exact.",
        prompts.count()
    );
    let y = Axis::linear("mean squared error / d").range(0.0, 0.26);
    note.figure("forgetting", AGE, caption, [LinesPanel::new(Axis::linear(GAP), y, series)]);
    Ok(())
}

fn transformer(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let [transformer, ogd, newton] = [0, 1, 2];
    let curves = Curves::new(lab, &[AtStep::last(lab, &ISOTROPIC)?, OGD, NEWTON_5])?;
    note.claim("better-than-ogd", curves.at_end(ogd, transformer), AtLeast(10.0))
        .says("Online GD's error over the Transformer's at t=40")
        .ours("OGD's trend is the LSTM's, whose error is much higher than the Transformer's")
        .figure("pairs");
    note.claim("better-than-newton-5", curves.at_end(newton, transformer), AtLeast(10.0))
        .says("Newton-5's error over the Transformer's at t=40")
        .quoted("a point where it is far from converging to the OLS solution")
        .figure("pairs");
    curves.memory(note, "remembers", "online GD over the Transformer", [ogd, transformer]);
    note.claim("flat", tilt(lab, &curves.by_gap[transformer], sum), Within(-0.25, 0.25))
        .says("Transformer: rise of the error over 20 gaps, relative to its mean")
        .quoted("Transformer's attention heads can access the entire sequence of past examples")
        .figure("forgetting");
    curves.draw(note);
    Ok(())
}

fn lstm(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let [transformer, lstm, ogd, newton] = [0, 1, 2, 3];
    let all = [AtStep::last(lab, &ISOTROPIC)?, AtStep::last(lab, &LSTM)?, OGD, NEWTON_5];
    let curves = Curves::new(lab, &all)?;
    let start = start_of_lstm(lab);
    note.claim("newton-5", curves.nearest_newton(lstm)?, Within(4.0, 6.0))
        .asks(&["r7"])
        .says(format!(
            "Newton step whose errors are nearest to the LSTM's: least mean square over t = 1…40 of the logarithm of their ratio{start}"
        ))
        .quoted("Their error rate is similar to Iterative Newton's Method after only 5 iterations")
        .figure("pairs");
    note.claim("ogd", curves.furthest(lstm, ogd), AtMost(2.0))
        .asks(&["r7"])
        .says(format!("Largest factor between the LSTM's error and online GD's over t = 1…40{start}"))
        .quoted("OGD also has a similar trend as LSTM")
        .figure("pairs");
    note.claim("transformer", curves.at_end(lstm, transformer), AtLeast(10.0))
        .says("LSTM's error over the Transformer's at t=40")
        .quoted("they have much higher mean-squared error than Transformers")
        .figure("pairs");
    note.claim("forgets", tilt(lab, &curves.by_gap[lstm], sum), AtLeast(0.25))
        .asks(&["r7"])
        .says("LSTM: rise of the error over 20 gaps, relative to its mean (flat: within ±0.25)")
        .quoted(
            "its predictions are biased towards getting more recent training examples correct, as opposed to earlier examples",
        )
        .figure("forgetting");
    curves.memory(note, "transformer-remembers", "LSTM over the Transformer", [lstm, transformer]);
    curves.memory(note, "newton-remembers", "LSTM over Newton-5", [lstm, newton]);
    curves.draw(note);
    Ok(())
}

/// Newton steps among which the LSTM's is looked for.
const SEARCHED: [u64; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Where values on a grid are lowest, between its points by the parabola through the lowest and its neighbours.
fn lowest(values: &[f64]) -> f64 {
    let i = (0..values.len()).min_by(|&i, &j| values[i].total_cmp(&values[j])).unwrap_or(0);
    match values[i.saturating_sub(1)..].first_chunk() {
        Some([before, here, after]) if i > 0 => {
            i as f64 + 0.5 * (before - after) / (before - 2.0 * here + after)
        }
        _ => i as f64,
    }
}

/// A learner at one step, and the steps recorded to get there.
struct AtStep {
    label: &'static str,
    name: &'static str,
    step: u64,
    steps: Option<Steps>,
}

const OGD: AtStep = AtStep { label: "online GD", name: "ogd", step: 1, steps: None };
const NEWTON_5: AtStep = AtStep { label: "Newton, 5 steps", name: "newton", step: 5, steps: None };

impl AtStep {
    /// A network at its last layer.
    fn last(lab: &Lab, setting: &Setting) -> Result<AtStep> {
        let layers = lab.layers(setting.network)?;
        Ok(AtStep { label: setting.who, name: setting.network, step: layers.last(), steps: Some(layers) })
    }
}

/// Squared errors over d of some learners, by pairs read and on re-asked pairs by their age.
struct Curves<'a> {
    lab: &'a Lab,
    labels: Vec<&'static str>,
    /// The names of those that are networks.
    networks: Vec<Option<&'static str>>,
    by_pairs: Vec<Errors>,
    by_gap: Vec<Errors>,
}

impl<'a> Curves<'a> {
    fn new(lab: &'a Lab, all: &[AtStep]) -> Result<Curves<'a>> {
        let data = &ISOTROPIC.data;
        let prompts = lab.sample(data)?;
        // no more of a prompt than is read, and one point after it
        let short = prompts.head(REASKED, READ + 1);
        let (mut by_pairs, mut by_gap) = (Vec::new(), Vec::new());
        for AtStep { name, step, steps, .. } in all {
            let path = lab.path(name, data, steps.as_ref().unwrap_or(&Steps::single(*step)))?;
            let pairs = (0..prompts.points()).map(|t| path.squared_errors(&prompts, *step, t));
            by_pairs.push(over_d(pairs.collect()));
            by_gap.push(over_d(forgetting(&*lab.learner(name)?, &short, READ, *step)?));
        }
        let labels = all.iter().map(|at| at.label).collect();
        let networks = all.iter().map(|at| at.steps.as_ref().map(|_| at.name)).collect();
        Ok(Curves { lab, labels, networks, by_pairs, by_gap })
    }

    /// The mean error of learner `a` over that of learner `b` after all pairs.
    fn at_end(&self, a: usize, b: usize) -> Estimate {
        ratio(self.lab.seed, &self.by_pairs[a][LAST], &self.by_pairs[b][LAST])
    }

    /// Largest factor, either way, between the mean errors of two learners after any number of pairs.
    fn furthest(&self, a: usize, b: usize) -> Estimate {
        let (a, b) = (&self.by_pairs[a], &self.by_pairs[b]);
        bootstrap(self.lab.seed, a[0].len(), |chosen| {
            let apart = |t: usize| (sum(&a[t], chosen) / sum(&b[t], chosen)).ln().abs();
            (1..=LAST).map(apart).fold(0.0, f64::max).exp()
        })
    }

    /// The Newton step, between whole ones by a parabola, whose mean errors are nearest to those of learner `a`.
    fn nearest_newton(&self, a: usize) -> Result<Estimate> {
        let (prompts, newton) = (ISOTROPIC.prompts(self.lab)?, ISOTROPIC.path(self.lab, ISOTROPIC.newton)?);
        let of_step = |&step: &u64| (0..=LAST).map(|t| newton.squared_errors(&prompts, step, t)).collect();
        let steps: Vec<Errors> = SEARCHED.iter().map(of_step).map(over_d).collect();
        let own = &self.by_pairs[a];
        Ok(bootstrap(self.lab.seed, own[0].len(), |chosen| {
            let own: Vec<f64> = own.iter().map(|e| sum(e, chosen)).collect();
            let apart = |step: &Errors| {
                (1..=LAST).map(|t| (sum(&step[t], chosen) / own[t]).ln().powi(2)).sum::<f64>()
            };
            let apart: Vec<f64> = steps.iter().map(apart).collect();
            SEARCHED[0] as f64 + lowest(&apart)
        }))
    }

    /// Ratio of the mean errors of two learners on re-asked pairs; above 1 when the second remembers better.
    fn memory(&self, note: &mut Notebook, name: &str, words: &str, [a, b]: [usize; 2]) {
        let networks: Vec<&str> = [a, b].map(|i| self.networks[i]).into_iter().flatten().collect();
        let (a, b) = (&self.by_gap[a], &self.by_gap[b]);
        let total = |errors: &Errors, chosen: &[usize]| errors.iter().map(|e| sum(e, chosen)).sum::<f64>();
        let ratio = bootstrap(self.lab.seed, a[0].len(), |chosen| total(a, chosen) / total(b, chosen));
        note.claim(name, ratio, AtLeast(1.0))
            .asks(&networks)
            .says(format!("Mean error on pairs seen before: {words}"))
            .quoted("both Transformers and not-converged Newton have better memorization than LSTM and OGD")
            .figure("forgetting");
    }

    fn draw(&self, note: &mut Notebook) {
        let drawn =
            |e: Estimate| Estimate { value: e.value.max(1e-6), low: e.low.max(1e-6), high: e.high.max(1e-6) };
        let panel = |x: &str, all: &[Errors]| {
            let curves = self.labels.iter().zip(all).map(|(label, errors)| {
                let found = errors.iter().enumerate();
                Series::estimates(*label, found.map(|(i, e)| (i as f64, drawn(mean(self.lab.seed, e)))))
            });
            let y = Axis::log10("mean squared error / d").range(1e-6, 3.0);
            LinesPanel::new(Axis::linear(x), y, curves)
        };
        let caption = format!(
            "Mean squared error over d on the next label after t pairs, {} ({} prompts, 95 % bands).",
            ISOTROPIC.words,
            self.by_pairs[0][0].len()
        );
        let pairs = panel("in-context pairs t", &self.by_pairs).mark_x("t = d", DIM as f64);
        note.figure("pairs", "Error by pairs read", caption, [pairs]);
        let caption = format!(
            "After {READ} pairs the input x_(n−g) is asked again; squared error over d against the gap g ({} prompts, \
             95 % bands; values below 10⁻⁶ are drawn there).",
            self.by_gap[0][0].len()
        );
        note.figure("forgetting", AGE, caption, [panel(GAP, &self.by_gap)]);
    }
}
