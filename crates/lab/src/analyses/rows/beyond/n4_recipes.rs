//! N4: does it depend on how one trains? The same network by the paper's recipe and by faster ones.

use super::trained::{Trained, best_by_layer};
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, NOISY, ONE_HEAD, SKEWED};
use crate::compare::rates::BEYOND_DOUBT;
use crate::stats::over_runs;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N4",
    order: 40,
    seconds: 2.7,
    title: "Does it depend on how one trains?",
    summary: "The paper trains by Adam at 1e-4 for 500,001 steps of 64 prompts; by Muon the same networks have a lower loss after \
              8,000 to 10,000 steps of 256. Each is asked the questions of F3 and F2: whether the rate against Newton and gradient \
              descent is that of the task, or of the recipe.",
    needs: &[
        "r1", "r1-fast", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4", "r2", "r2-fast", "r3", "r3-fast",
        "r4", "r4-fast", "r5", "r5-fast",
    ],
    run,
    ..Analysis::BEYOND
}];

/// One recipe: what it is called in ids and in words, a task, and its networks, one per seed.
struct Recipe {
    id: &'static str,
    words: &'static str,
    task: &'static Setting,
    networks: &'static [&'static str],
}

const fn recipe(
    id: &'static str,
    words: &'static str,
    task: &'static Setting,
    networks: &'static [&'static str],
) -> Recipe {
    Recipe { id, words, task, networks }
}

/// All recipes. The first of a task is the paper's.
static RECIPES: [Recipe; 10] = [
    recipe("r1-paper", "R1, the paper's recipe", &ISOTROPIC, &["r1"]),
    recipe("r1-muon", "R1, Muon, five seeds", &ISOTROPIC, &SEEDS),
    recipe("r2-paper", "R2, the paper's recipe to step 425,000", &SKEWED, &["r2"]),
    recipe("r2-fast", "R2, the fast recipe", &SKEWED, &["r2-fast"]),
    recipe("r3-paper", "R3, the paper's recipe", &NOISY, &["r3"]),
    recipe("r3-fast", "R3, the fast recipe", &NOISY, &["r3-fast"]),
    recipe("r4-paper", "R4, the paper's recipe", &ONE_HEAD, &["r4"]),
    recipe("r4-fast", "R4, the fast recipe", &ONE_HEAD, &["r4-fast"]),
    recipe("r5-paper", "R5, the paper's recipe to step 376,100", &DEEP, &["r5"]),
    recipe("r5-fast", "R5, the fast recipe", &DEEP, &["r5-fast"]),
];

/// Five trainings by Muon.
pub const SEEDS: [&str; 5] = ["r1-fast", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4"];

/// The networks of a recipe, measured.
struct Measured {
    recipe: &'static Recipe,
    trained: Vec<Trained>,
}

impl Measured {
    /// A value of every network: over seeds by Student's t, or of the one network over prompts.
    fn over(&self, value: impl Fn(&Trained) -> Estimate) -> Estimate {
        match self.trained.as_slice() {
            [only] => value(only),
            several => over_runs(&several.iter().map(|t| value(t).value).collect::<Vec<_>>()),
        }
    }

    fn slope(&self) -> Estimate {
        self.over(|t| t.newton.per_step(Trend::Linear))
    }

    fn doublings(&self) -> Estimate {
        self.over(|t| t.gd.per_step(Trend::Exponential))
    }
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let mut found: Vec<Measured> = Vec::new();
    for recipe in &RECIPES {
        lab.say(recipe.words);
        let measure = |name: &&'static str| Trained::measure(lab, &Setting { network: name, ..*recipe.task });
        let trained = recipe.networks.iter().map(measure).collect::<Result<_>>()?;
        found.push(Measured { recipe, trained });
    }
    // what F3 and F2 say is of twelve layers
    for of in found.iter().filter(|of| of.recipe.task.layers == ISOTROPIC.layers) {
        judge(note, of);
    }
    for pair in found.windows(2).filter(|pair| pair[0].recipe.task.network == pair[1].recipe.task.network) {
        differ(note, found.iter().find(|of| of.recipe.task.network == pair[1].recipe.task.network), &pair[1]);
    }
    deeper(note, &found);
    let of = |networks: &[&str]| -> Vec<&Measured> {
        found.iter().filter(|of| networks.contains(&of.recipe.task.network)).collect()
    };
    figure(lab, note, "recipes", "Best-matching steps by layer and recipe", &of(&["r1", "r2", "r3", "r4"]));
    figure(lab, note, "depth", "Best-matching steps of 12 layers and of 24", &of(&["r1", "r5"]));
    table(note, &found);
    Ok(())
}

/// What a layer of 24 is worth, beside one of 12 by the same recipe: whether a deeper network spreads the same work or repeats it.
fn deeper(note: &mut Notebook, found: &[Measured]) {
    let by_id = |id: &str| found.iter().find(|of| of.recipe.id == id).expect("a recipe of the table");
    for (deep, shallow) in [("r5-paper", "r1-paper"), ("r5-fast", "r1-muon")] {
        let [deep, shallow] = [deep, shallow].map(by_id);
        let asked: Vec<&str> = [deep, shallow].iter().flat_map(|of| of.recipe.networks).copied().collect();
        let [long, short] = [deep, shallow].map(|of| of.over(|t| by_our_layers(&t.newton, Trend::Linear)));
        note.claim(&format!("{}-depth", deep.recipe.id), quotient(long, short), Bound::None)
            .asks(&asked)
            .says(format!(
                "{}: Newton steps per layer over those of {} (middle layers by our rule); a half if the same work were spread \
                 over twice the layers",
                deep.recipe.words, shallow.recipe.words
            ))
            .figure("depth")
            .ours("");
    }
}

/// Steps, or doublings of steps, per layer over the middle layers by our rule.
fn by_our_layers(of: &Compared, trend: Trend) -> Estimate {
    of.over_our_layers().map_or(Estimate::NONE, |fit| fit.per_step(trend))
}

/// A quotient of two estimates that do not know of each other: relative deviations add up as squares.
fn quotient(over: Estimate, under: Estimate) -> Estimate {
    let value = over.value / under.value;
    let below = (1.0 - over.low / over.value).hypot(under.high / under.value - 1.0);
    let above = (over.high / over.value - 1.0).hypot(1.0 - under.low / under.value);
    Estimate { value, low: value * (1.0 - below), high: value * (1.0 + above) }
}

/// The statements of F3 and F2 for one recipe.
fn judge(note: &mut Notebook, of: &Measured) {
    let Recipe { id, words, networks, .. } = of.recipe;
    let claims = [
        (
            "line",
            "a line fits the best Newton steps better than an exponential (layers 3 to 9, BIC difference)",
            of.over(|t| t.newton.evidence(Trend::Linear)),
            Bound::Beyond(BEYOND_DOUBT),
            "As F3.newton-linear",
        ),
        (
            "slope",
            "Newton steps per layer (layers 3 to 9)",
            of.slope(),
            Within(2.5, 3.5),
            "As F3.newton-slope",
        ),
        (
            "exponential",
            "an exponential fits the best GD steps better than a line, a power law or a parabola (layers 3 to 9, BIC difference)",
            of.over(|t| t.gd.evidence(Trend::Exponential)),
            Bound::Beyond(BEYOND_DOUBT),
            "As F3.gd-exponential",
        ),
        ("doublings", "doublings of GD steps per layer (layers 3 to 9)", of.doublings(), Bound::None, ""),
        (
            "similar",
            "SimE of the last layer with its best Newton step",
            of.over(|t| t.newton.last_similarity()),
            AtLeast(0.99),
            "As F3.last-layer",
        ),
        (
            "last-step",
            "best Newton step of the last layer",
            of.over(|t| t.newton.last_step()),
            Within(18.0, 24.0),
            "As F3.last-step",
        ),
        (
            "superlinear",
            "growth from layer to layer of the e-folds by which a layer lowers the median error at t=40 (layers 3 to 8)",
            of.over(|t| t.superlinear),
            AtLeast(0.0),
            "As F2",
        ),
    ];
    for (name, says, value, bound, expected) in claims {
        note.claim(&format!("{id}-{name}"), value, bound)
            .asks(networks)
            .says(format!("{words}: {says}"))
            .ours(expected);
    }
}

/// Whether a recipe has the rate of the paper's.
fn differ(note: &mut Notebook, paper: Option<&Measured>, other: &Measured) {
    let Some(paper) = paper else { return };
    let (first, last) = other.recipe.task.layers;
    let asked: Vec<&str> = [paper, other].iter().flat_map(|of| of.recipe.networks).copied().collect();
    // neither interval knows of the other; where there are seeds theirs is by far the wider one
    let apart = |one: Estimate, two: Estimate| {
        let value = two.value - one.value;
        let below = (two.value - two.low).hypot(one.high - one.value);
        let above = (two.high - two.value).hypot(one.value - one.low);
        Estimate { value, low: value - below, high: value + above }
    };
    let rates = [
        ("slope", "Newton steps per layer", 0.25, Measured::slope as fn(&Measured) -> Estimate),
        ("doublings", "doublings of GD steps per layer", 0.125, Measured::doublings),
    ];
    for (name, what, slack, rate) in rates {
        note.claim(
            &format!("{}-same-{name}", other.recipe.id),
            apart(rate(paper), rate(other)),
            Within(-slack, slack),
        )
        .asks(&asked)
        .says(format!(
            "{}, less {}: {what} (layers {first} to {last})",
            other.recipe.words, paper.recipe.words
        ))
        .ours("The same rate, whatever the recipe");
    }
}

fn figure(lab: &Lab, note: &mut Notebook, name: &str, title: &str, found: &[&Measured]) {
    let panel = |title: &str, y: Axis, least: f64, of: fn(&Trained) -> &Compared| {
        let curves = found.iter().map(|measured| {
            let all: Vec<Vec<(f64, f64)>> = measured.trained.iter().map(|t| best_by_layer(of(t))).collect();
            let at = |i: usize| {
                let values: Vec<f64> = all.iter().map(|curve| curve[i].1).filter(|v| *v >= least).collect();
                (all[0][i].0, values.iter().sum::<f64>() / values.len() as f64)
            };
            Series::new(measured.recipe.words, (0..all[0].len()).map(at).collect()).markers()
        });
        LinesPanel::new(Axis::linear("layer"), y, curves.collect::<Vec<_>>()).titled(title)
    };
    let panels = [
        panel("Newton", Axis::linear("best Newton step"), 0.0, |t| &t.newton),
        panel("Gradient descent", Axis::log2("best GD step"), 0.5, |t| &t.gd),
    ];
    let caption = format!(
        "The most similar step of each layer by SimE, a curve per recipe ({} prompts of each task); of several seeds the mean.",
        lab.count
    );
    note.figure(name, title, caption, panels);
}

fn table(note: &mut Notebook, found: &[Measured]) {
    let rows = found.iter().map(|of| {
        vec![
            of.recipe.words.to_string(),
            of.slope().cell(2),
            of.over(|t| by_our_layers(&t.newton, Trend::Linear)).cell(2),
            of.over(|t| t.newton.evidence(Trend::Linear)).cell(1),
            of.over(|t| t.newton.last_step()).cell(1),
            of.over(|t| t.newton.last_similarity()).cell(4),
            of.doublings().cell(2),
            of.over(|t| by_our_layers(&t.gd, Trend::Exponential)).cell(2),
            of.over(|t| t.gd.evidence(Trend::Exponential)).cell(1),
            of.over(|t| t.superlinear).cell(3),
        ]
    });
    let columns = [
        "network and recipe",
        "Newton steps per layer",
        "by our layers",
        "BIC for a line",
        "last layer's step",
        "SimE there",
        "GD doublings per layer",
        "by our layers",
        "BIC for an exponential",
        "superlinearity",
    ];
    let caption = "Layers 3 to 9 (of R5's 24 layers 6 to 18), and the middle layers by our rule. Intervals of 95 %: over prompts for one network, over seeds \
                   (Student's t) for several.";
    note.table("recipes", "Rates by recipe", caption, columns, rows.collect::<Vec<_>>());
}
