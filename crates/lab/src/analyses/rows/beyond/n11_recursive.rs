//! N11, the candidate that reads labels one after the other: recursive least squares on innovations; and the order in which a
//! network reads them.

use super::n10_where_labels_live::{PAIRS, halfway};
use super::n11_candidates::{BUILT, NEWTON, READ_BUILT, options};
use super::n11_tests::{Inside, MARGIN, Says, Test, verdict};
use crate::analyses::kit::prelude::*;
use crate::constructions::{Constructed, build_rls, deviations};
use crate::data::prompts::Questions;
use crate::data::seed::Seed;
use crate::linalg::norm;
use crate::patching::{Donor, Maps, Part, Patched, Place};
use crate::states::States;
use crate::streams::Between;

/// Prompts, each with a donor, whose labels are patched in three parts.
const IN_PARTS: usize = 48;
/// The same for the construction, which is exact.
const IN_PARTS_BUILT: usize = 24;
/// P = δI at first.
const DELTA: f64 = 1.0;

/// Recursive least squares as weights, and what was measured inside.
pub struct Recursive {
    /// The five numbers.
    pub inside: Inside,
    /// How much later late labels are read than early ones, as [`lateness`] says.
    late: Estimate,
}

impl Recursive {
    /// Builds it, and writes down that it is what it should be.
    pub fn of(lab: &Lab, note: &mut Notebook) -> Result<Recursive> {
        lab.say("recursive least squares as weights");
        let (dim, pairs) = BUILT;
        let task = Task::new("linear", "gaussian", dim, pairs + 1)?;
        let sample = task.sample(lab.seed, "candidates", 0, 256);
        let lengths = sample.xs.rows().into_iter().map(|x| norm(&x.to_vec()));
        let longest = 2.0 * lengths.fold(0.0, f64::max); // so that no other prompt's is longer
        let (construction, each) = build_rls(dim, pairs, DELTA, longest)?;
        let learner = Constructed::new("rls", construction.clone());
        let found = learner.after_pairs(&sample, pairs, &Steps::single(0))?;
        let queries = sample.xs.slice(ndarray::s![.., pairs.., ..]).to_owned();
        let questions = Questions { prompts: sample, lengths: vec![pairs], queries };
        let right = solver(&learner.solver(pairs))?.answers(&questions, &Steps::single(1))?;
        let right = right.slice(ndarray::s![.., .., 0, 0]).to_owned();
        note.claim("rls-exact", deviations(&found, &right)[0], AtMost(1e-9))
            .asks(&[])
            .says("Recursive least squares, as weights: the largest deviation from the algorithm, of the size of answers")
            .ours("Its weights are the algorithm")
            .figure("built");
        // before the first layer, and after each pair
        let looked_at: Vec<usize> = std::iter::once(0).chain((0..=pairs).map(|j| 1 + j * each)).collect();
        let read = &looked_at[..looked_at.len() - 1];
        let (prompts, donors) = Donor::Labels.pairs(&task, lab.seed, IN_PARTS_BUILT);
        let patched =
            |places: &[Place]| Patched::of_streams(&construction, [&prompts, &donors], places, read);
        let labels = patched(&Place::ROLES)?;
        let labels = Maps::of_patched(&labels, Part::Stream, Place::ROLES.to_vec(), pairs, lab.seed);
        let (late, _) = lateness(&patched(&thirds(pairs))?, lab.seed);
        // two thirds of the layers, were there news in every label: without noise there is none after as many pairs as dimensions
        note.claim("rls-order", late, Bound::None)
            .asks(&[])
            .says("Recursive least squares, as weights: how much later the last third of the labels is read than the first")
            .figure("built");
        let streams = Between { whole: &construction, looked_at };
        let states = States::of(&streams, &task, &options(NEWTON.into(), READ_BUILT, &[pairs], lab.seed))?;
        Ok(Recursive { inside: Inside::of(&labels, &states), late })
    }

    /// The verdict on it, for a network whose order of reading was measured or not.
    pub fn verdict(&self, found: &Inside, late: Option<Estimate>) -> String {
        let order = Test { name: "order", words: "", says: "", margin: Some(MARGIN) };
        let said = late.map_or(Says::Nothing, |late| order.says_of(late, self.late.value));
        let by_tests = verdict(found, &self.inside);
        match (said, by_tests.starts_with("refuted")) {
            (Says::Refutes, true) => format!("{by_tests}, order"),
            (Says::Refutes, false) => "refuted by order".into(),
            _ => by_tests,
        }
    }
}

/// The labels in three parts: early, middle, late.
fn thirds(pairs: usize) -> [Place; 3] {
    [0, 1, 2].map(|part| Place::Labels { first: part * pairs / 3, end: (part + 1) * pairs / 3 })
}

/// How much later the last third of labels is read than the first: layers between those before which half of each is left, over
/// all layers; and how far answers follow each third, layer by layer.
fn lateness(found: &Patched, seed: Seed) -> (Estimate, [Vec<f64>; 3]) {
    let layers = found.patched.len();
    let curve = |third: usize, chosen: &[usize]| found.share(third, chosen);
    let late = bootstrap(seed, found.base.len(), |chosen| {
        (halfway(&curve(2, chosen)) - halfway(&curve(0, chosen))) / layers as f64
    });
    let everyone: Vec<usize> = (0..found.base.len()).collect();
    (late, [0, 1, 2].map(|third| curve(third, &everyone)))
}

/// The order in which a network reads labels.
pub fn order(lab: &Lab, note: &mut Notebook, setting: &Setting) -> Result<Estimate> {
    let Data { function, inputs, dim, .. } = setting.data;
    lab.say("labels of r1, early and late ones");
    let task = Task::new(function, inputs, dim, PAIRS + 1)?;
    let (prompts, donors) = Donor::Labels.pairs(&task, lab.seed, lab.count.min(IN_PARTS));
    let opened = lab.opened(setting.network)?;
    let weights = opened.probed.weights();
    let found = Patched::of(weights, [&prompts, &donors], Part::Stream, &thirds(PAIRS))?;
    let (late, curves) = lateness(&found, lab.seed);
    let names = ["first third of the pairs", "second third", "last third"];
    let curves = curves.into_iter().zip(names).map(|(curve, name)| {
        let points = curve.into_iter().enumerate().map(|(l, v)| ((l + 1) as f64, v));
        Series::new(name, points.collect()).markers()
    });
    let panel = LinesPanel::new(Axis::linear("layer"), Axis::linear("share of the way"), curves);
    let caption = format!(
        "How far answers of R1 follow other labels in the y tokens of each third of the {PAIRS} pairs ({IN_PARTS} prompts). Recursive \
         least squares would read one third after the other."
    );
    note.figure("order", "Are labels read one after the other?", caption, [panel]);
    note.claim("r1-order", late, AtMost(0.2))
        .asks(&[setting.network])
        .says("How much later the last third of the labels is read than the first: layers between the halves of both, over all layers")
        .ours("All labels are read at the same layers; one after the other it would be N11.rls-order")
        .figure("order");
    Ok(late)
}
