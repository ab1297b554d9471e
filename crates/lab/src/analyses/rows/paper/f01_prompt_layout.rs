//! F1: how a prompt is laid out, and where a prediction is read.

use engine::deviation::{least, worst};
use ndarray::{Array2, Array3};

use crate::analyses::Analysis;
use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::notebook::Notebook;
use crate::data::prompts::{Prompts, Task};
use crate::error::Result;
use crate::findings::Bound::{AtLeast, AtMost};
use crate::findings::HeatmapPanel;
use crate::networks::{AttentionSpec, NetworkSpec, Weights, tokens};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F1",
    paper: Some(("Figure 1", "3.2")),
    order: 10,
    title: "What can each prediction see of its prompt?",
    summary: "A prompt x₁, y₁, x₂, y₂, … becomes tokens x₁, (y₁,0,…,0), x₂, … and the prediction of y_t is read at x_t. Whether a network \
              could see the answer is not a matter of belief: every token is changed in turn and the predictions are watched. The network \
              is a fresh one, since the layout does not depend on training.",
    needs: &[],
    run,
    ..Analysis::FIGURE
}];

/// Small enough to be seen as a picture.
const DIM: usize = 5;
const POINTS: usize = 8;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let prompts = task.sample(lab.seed, "eval", 0, lab.count);
    let (positions, attention) = (2 * POINTS, AttentionSpec::Softmax);
    let network = NetworkSpec::Gpt2 { layers: 2, heads: 2, width: 32, positions, attention };
    let network = network.build(DIM, POINTS)?;
    let params = network.layout().initial(&lab.seed);
    let weights = Weights::new(network, params);
    let influence = influence(&weights, &prompts.head(1, POINTS))?;
    // the prediction of point t (from 0) is read at token 2t; token 2t + 1 is its label
    let of = |later: bool| {
        let pairs = influence.indexed_iter().filter(move |((token, t), _)| (*token > 2 * t) == later);
        pairs.map(|(_, change)| *change)
    };
    note.claim("layout", misplaced(&prompts), AtMost(0.0))
        .says("Numbers in the tokens that are not where the layout x₁, (y₁,0,…,0), x₂, … has them")
        .quoted("we follow same the setup as … to zero-pad");
    note.claim("unseen", worst(of(true)), AtMost(0.0))
        .says("Largest change of a prediction when its own label or any later token is changed")
        .quoted("is not observed by the Transformers model");
    note.claim("seen", least(of(false)), AtLeast(1e-12))
        .says("Smallest change of a prediction when its own x or any earlier token is changed")
        .quoted("the model sees the first … in-context examples");
    let caption = format!(
        "Left: the tokens of one prompt (d={DIM}, {POINTS} points), x and y in turn. Right: how much each prediction changes when \
         one token is changed, as a power of ten; hatched where it does not change at all. The prediction of y_t is read at x_t and \
         sees nothing after it. A fresh network of two layers."
    );
    let panels = [seen(&prompts), changes(&influence)];
    note.figure("prompt", "A prompt, and what each prediction can see", caption, panels);
    Ok(())
}

/// Numbers that are not where the layout has them.
fn misplaced(prompts: &Prompts) -> usize {
    let tokens = tokens(prompts, DIM);
    let expected = |b: usize, token: usize, i: usize| match (token % 2, i) {
        (0, i) => prompts.xs[[b, token / 2, i]] as f32,
        (_, 0) => prompts.ys[[b, token / 2]] as f32,
        _ => 0.0,
    };
    let at = |i: usize| (i / (2 * POINTS * DIM), i / DIM % (2 * POINTS), i % DIM);
    let wrong = |(i, value): &(usize, f32)| {
        let (b, token, feature) = at(*i);
        *value != expected(b, token, feature)
    };
    let missing = (prompts.count() * 2 * POINTS * DIM).abs_diff(tokens.len());
    missing + tokens.into_iter().enumerate().filter(wrong).count()
}

/// How much the prediction of each point changes when a token is moved by 1: `[token, t]`.
fn influence(weights: &Weights, prompt: &Prompts) -> Result<Array2<f64>> {
    let mut xs = Array3::zeros((2 * POINTS + 1, POINTS, DIM));
    let mut ys = Array2::zeros((2 * POINTS + 1, POINTS));
    for changed in 0..=2 * POINTS {
        xs.index_axis_mut(ndarray::Axis(0), changed).assign(&prompt.xs.index_axis(ndarray::Axis(0), 0));
        ys.row_mut(changed).assign(&prompt.ys.row(0));
        match (changed / 2, changed % 2) {
            (POINTS, _) => {} // the last is left as it is
            (point, 0) => xs.slice_mut(ndarray::s![changed, point, ..]).mapv_inplace(|x| x + 1.0),
            (point, _) => ys[[changed, point]] += 1.0,
        }
    }
    let said = weights.predictions(&Prompts::new(xs, ys)?)?;
    let change = |(token, t): (usize, usize)| (said[[token, t]] - said[[2 * POINTS, t]]).abs();
    Ok(Array2::from_shape_fn((2 * POINTS, POINTS), change))
}

/// The tokens of the first prompt.
fn seen(prompts: &Prompts) -> HeatmapPanel {
    let tokens = tokens(prompts, DIM);
    let row = |i: usize| (0..2 * POINTS).map(|token| f64::from(tokens[token * DIM + i])).collect();
    panel("Tokens", "entry", "value", (0..DIM).map(row).collect())
}

fn changes(influence: &Array2<f64>) -> HeatmapPanel {
    let row = |t: usize| {
        let logs = (0..2 * POINTS).map(|token| influence[[token, t]].log10());
        logs.map(|log| if log.is_finite() { log } else { f64::NAN }).collect()
    };
    panel("What moves a prediction", "prediction of y", "log₁₀ change", (0..POINTS).map(row).collect())
}

/// A map over all tokens.
fn panel(title: &str, y: &str, value: &str, values: Vec<Vec<f64>>) -> HeatmapPanel {
    let numbered = |count: usize| (1..=count as u64).collect();
    let x = ("token: x₁, y₁, x₂, y₂, …", numbered(2 * POINTS));
    HeatmapPanel::plain(title, x, (y, numbered(values.len())), value, values)
}
