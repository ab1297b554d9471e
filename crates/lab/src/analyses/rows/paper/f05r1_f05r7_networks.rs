//! F5, the networks: do the Transformer and the LSTM forget early pairs, and who predicts as well as whom?

use super::f05_forgetting::{AGE, Errors, GAP, READ, over_d, sum, tilt};
use super::f07_progression::start_of_lstm;
use crate::analyses::kit::notebook::Entry;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{LSTM, ONLINE};
use crate::compare::forgetting::forgetting;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
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

/// Prompts of which pairs are asked of networks again: each answers for twenty gaps.
const REASKED: usize = 320;

fn transformer(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let [transformer, ogd, newton, random] = [0, 1, 2, 3];
    let curves = Curves::new(lab, &[AtStep::last(lab, &ISOTROPIC)?, OGD, NEWTON_5, RANDOM_OGD])?;
    let theirs = curves.by_authors()?;
    note.claim("better-than-ogd", curves.at_end(ogd, transformer), AtLeast(10.0))
        .says("Online GD's error over the Transformer's at t=40")
        .ours("OGD's trend is the LSTM's, whose error is much higher than the Transformer's")
        .authors(theirs.at_end(random, transformer))
        .figure("pairs");
    note.claim("better-than-newton-5", curves.at_end(newton, transformer), AtLeast(10.0))
        .says("Newton-5's error over the Transformer's at t=40")
        .quoted("a point where it is far from converging to the OLS solution")
        .figure("pairs");
    curves
        .remembers(note, "remembers", "online GD over the Transformer", [ogd, transformer])
        .authors(theirs.memory([random, transformer]));
    note.claim("flat", tilt(lab, &curves.by_gap[transformer]), Within(-0.25, 0.25))
        .says("Transformer: rise of the error over 20 gaps, relative to its mean")
        .quoted("Transformer's attention heads can access the entire sequence of past examples")
        .figure("forgetting");
    curves.draw(note);
    Ok(())
}

fn lstm(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let [transformer, lstm, ogd, newton, random] = [0, 1, 2, 3, 4];
    let all = [AtStep::last(lab, &ISOTROPIC)?, AtStep::last(lab, &LSTM)?, OGD, NEWTON_5, RANDOM_OGD];
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
        .authors(curves.by_authors()?.furthest(lstm, random))
        .figure("pairs");
    note.claim("transformer", curves.at_end(lstm, transformer), AtLeast(10.0))
        .says("LSTM's error over the Transformer's at t=40")
        .quoted("they have much higher mean-squared error than Transformers")
        .figure("pairs");
    note.claim("forgets", tilt(lab, &curves.by_gap[lstm]), AtLeast(0.25))
        .asks(&["r7"])
        .says("LSTM: rise of the error over 20 gaps, relative to its mean (flat: within ±0.25)")
        .quoted(
            "its predictions are biased towards getting more recent training examples correct, as opposed to earlier examples",
        )
        .figure("forgetting");
    curves.remembers(note, "transformer-remembers", "LSTM over the Transformer", [lstm, transformer]);
    curves.remembers(note, "newton-remembers", "LSTM over Newton-5", [lstm, newton]);
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
    /// In legends; without one it is not drawn.
    label: Option<&'static str>,
    name: &'static str,
    step: u64,
    steps: Option<Steps>,
}

const OGD: AtStep = AtStep { label: Some("online GD"), name: "ogd", step: 1, steps: None };
/// The same as the authors' code has it, from a random start; its curve would hide the other.
const RANDOM_OGD: AtStep = AtStep { label: None, name: ONLINE.authors_solver, step: 1, steps: None };
const NEWTON_5: AtStep = AtStep { label: Some("Newton, 5 steps"), name: "newton", step: 5, steps: None };

impl AtStep {
    /// A network at its last layer.
    fn last(lab: &Lab, setting: &Setting) -> Result<AtStep> {
        let layers = lab.layers(setting.network)?;
        Ok(AtStep {
            label: Some(setting.who),
            name: setting.network,
            step: layers.last(),
            steps: Some(layers),
        })
    }
}

/// Squared errors over d of some learners, by pairs read and on re-asked pairs by their age.
struct Curves<'a> {
    lab: &'a Lab,
    labels: Vec<Option<&'static str>>,
    /// The names of those that are networks.
    networks: Vec<Option<&'static str>>,
    by_pairs: Vec<Errors>,
    by_gap: Vec<Errors>,
    /// The fewest pairs after which learners are held against each other.
    fewest: usize,
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
        Ok(Curves { lab, labels, networks, by_pairs, by_gap, fewest: 1 })
    }

    /// The same on as many prompts as the authors evaluate, from the position before the first pair on.
    fn by_authors(&self) -> Result<Curves<'a>> {
        let count = ISOTROPIC.authors_prompts(self.lab)?.count();
        let first = |errors: &Vec<f64>| errors[..count.min(errors.len())].to_vec();
        let of_all = |all: &[Errors]| all.iter().map(|errors| errors.iter().map(first).collect()).collect();
        Ok(Curves {
            lab: self.lab,
            labels: self.labels.clone(),
            networks: self.networks.clone(),
            by_pairs: of_all(&self.by_pairs),
            by_gap: of_all(&self.by_gap),
            fewest: 0,
        })
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
            worst((self.fewest..=LAST).map(apart)).exp()
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
    fn memory(&self, [a, b]: [usize; 2]) -> Estimate {
        let (a, b) = (&self.by_gap[a], &self.by_gap[b]);
        let total = |errors: &Errors, chosen: &[usize]| errors.iter().map(|e| sum(e, chosen)).sum::<f64>();
        bootstrap(self.lab.seed, a[0].len(), |chosen| total(a, chosen) / total(b, chosen))
    }

    /// The claim that the second of two learners remembers better.
    fn remembers<'n>(&self, note: &'n mut Notebook, name: &str, words: &str, both: [usize; 2]) -> Entry<'n> {
        let networks: Vec<&str> = both.into_iter().filter_map(|i| self.networks[i]).collect();
        note.claim(name, self.memory(both), AtLeast(1.0))
            .asks(&networks)
            .says(format!("Mean error on pairs seen before: {words}"))
            .quoted("both Transformers and not-converged Newton have better memorization than LSTM and OGD")
            .figure("forgetting")
    }

    fn draw(&self, note: &mut Notebook) {
        let drawn =
            |e: Estimate| Estimate { value: e.value.max(1e-6), low: e.low.max(1e-6), high: e.high.max(1e-6) };
        let panel = |x: &str, all: &[Errors]| {
            let labelled =
                self.labels.iter().zip(all).filter_map(|(label, errors)| Some(((*label)?, errors)));
            let curves = labelled.map(|(label, errors)| {
                let found = errors.iter().enumerate();
                Series::estimates(label, found.map(|(i, e)| (i as f64, drawn(mean(self.lab.seed, e)))))
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
