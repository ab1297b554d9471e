//! F5: who forgets early pairs, and who predicts as well as whom. Algorithms, the Transformer, the LSTM.

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
        .quoted("recency-biased");
    note.claim("newton-flat", tilt(lab, newton, average), Within(-0.25, 0.25))
        .says("Newton after 5 steps: error does not depend on the gap (same measure)")
        .quoted("same error for recent and early examples");
    let (ogd_5, ogd_19) = (Bound::near(0.081, 0.25), Bound::near(0.205, 0.25));
    let (flat, over_all) = (Within(0.045, 0.085), "0.053 to 0.072 over all gaps");
    for (name, who, errors, gap, bound, quoted) in [
        ("ogd-gap-5", "Online GD", ogd, 5, ogd_5, "0.081"),
        ("ogd-gap-19", "Online GD", ogd, 19, ogd_19, "0.205"),
        ("newton-gap-0", "Newton-5", newton, 0, flat, over_all),
        ("newton-gap-19", "Newton-5", newton, 19, flat, over_all),
    ] {
        note.claim(name, mean(lab.seed, &errors[gap]), bound)
            .says(format!("{who}: error/d at gap {gap}"))
            .quoted(quoted)
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
    let far_better = [("ogd", "Online GD", ogd), ("newton-5", "Newton-5", newton)];
    for (name, who, of) in far_better {
        note.claim(&format!("better-than-{name}"), curves.ratio(of, transformer, &[LAST]), AtLeast(10.0))
            .says(format!("{who}'s error over the Transformer's at t=40"))
            .quoted("far better")
            .figure("pairs");
    }
    curves.memory(note, "remembers", "online GD over the Transformer", [ogd, transformer]);
    note.claim("flat", tilt(lab, &curves.by_gap[transformer], sum), Bound::None)
        .says("Transformer: rise of the error over 20 gaps, relative to its mean")
        .quoted("better memorization than OGD")
        .figure("forgetting");
    curves.draw(note);
    Ok(())
}

fn lstm(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let [transformer, lstm, ogd, newton] = [0, 1, 2, 3];
    let all = [AtStep::last(lab, &ISOTROPIC)?, AtStep::last(lab, &LSTM)?, OGD, NEWTON_5];
    let curves = Curves::new(lab, &all)?;
    let every: Vec<usize> = (1..=LAST).collect();
    let alike = Within(0.5, 2.0);
    note.claim("newton-5", curves.ratio(lstm, newton, &every), alike)
        .asks(&["r7"])
        .says("LSTM's error over Newton-5's, geometric mean over t = 1…40")
        .quoted("similar to Newton with 5 steps")
        .figure("pairs");
    note.claim("ogd", curves.ratio(lstm, ogd, &every), alike)
        .asks(&["r7"])
        .says("LSTM's error over online GD's, geometric mean over t = 1…40")
        .quoted("OGD has a similar trend")
        .figure("pairs");
    note.claim("transformer", curves.ratio(lstm, transformer, &[LAST]), AtLeast(10.0))
        .says("LSTM's error over the Transformer's at t=40")
        .quoted("much higher error than Transformers")
        .figure("pairs");
    note.claim("forgets", tilt(lab, &curves.by_gap[lstm], sum), AtLeast(0.25))
        .asks(&["r7"])
        .says("LSTM: rise of the error over 20 gaps, relative to its mean (flat: within ±0.25)")
        .quoted("biased towards recent examples")
        .figure("forgetting");
    curves.memory(note, "transformer-remembers", "LSTM over the Transformer", [lstm, transformer]);
    curves.memory(note, "newton-remembers", "LSTM over Newton-5", [lstm, newton]);
    curves.draw(note);
    Ok(())
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

    /// Geometric mean over `lengths` of the ratio of mean errors of learners `a` and `b`.
    fn ratio(&self, a: usize, b: usize, lengths: &[usize]) -> Estimate {
        let (a, b) = (&self.by_pairs[a], &self.by_pairs[b]);
        bootstrap(self.lab.seed, a[0].len(), |chosen| {
            let log = |t: &usize| (sum(&a[*t], chosen) / sum(&b[*t], chosen)).ln();
            (lengths.iter().map(log).sum::<f64>() / lengths.len() as f64).exp()
        })
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
            .quoted("Transformers and Newton-5 have better memorization than LSTM and OGD")
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
