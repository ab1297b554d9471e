//! Properties of all rows of the table of analyses, and of those that need networks on stand-ins whose algorithm is known.

use std::collections::HashSet;
use std::sync::Arc;

use lab::analyses::{ANALYSES, Analysis, Lab, NotRun, run};
use lab::compare::matching;
use lab::compare::similarity::{InducedWeights, Metric, View, of_errors};
use lab::findings::{Chapter, Claim, Counts, Findings, Kind, Verdict};
use lab::learners::Unit;
use lab::networks::models::{Card, NETWORKS, Networks, Recipe};
use lab::networks::{NetworkSpec, Weights};
use lab::patching::{Part, Patched, Place};
use lab::probe::{self, LoadedProbe, Options, Probed, ReadPoint};
use lab::registry::Id;
use lab::{Learner, Progress, Prompts, Questions, Result, Seed, Steps, Task, Trajectory, solvers};
use ndarray::Array4;

/// An algorithm in the clothes of a network: layer l is its step `steps[l-1]`.
struct StandIn {
    solver: Box<dyn Learner>,
    steps: Vec<u64>,
    /// Added to every prediction, growing from prompt to prompt: 0 leaves the algorithm as it is.
    noise: f64,
}

impl StandIn {
    fn new(solver: &str, steps: &[u64]) -> StandIn {
        StandIn { solver: solvers::build(solver).unwrap(), steps: steps.to_vec(), noise: 0.0 }
    }

    /// Position among the recorded steps of the solver, per wanted layer.
    fn rows(&self, layers: &Steps) -> (Steps, Vec<usize>) {
        let wanted: Vec<u64> = layers.as_slice().iter().map(|&l| self.steps[l as usize - 1]).collect();
        let steps = Steps::new(wanted.clone()).unwrap();
        let rows = wanted.iter().map(|s| steps.position(*s).unwrap()).collect();
        (steps, rows)
    }
}

impl Learner for StandIn {
    fn id(&self) -> Id {
        Id { name: "stand-in".into(), given: Default::default() }
    }

    fn unit(&self) -> Unit {
        Unit::Layer
    }

    fn default_steps(&self) -> Steps {
        Steps::range(1, self.steps.len() as u64)
    }

    fn trajectory(&self, prompts: &Prompts, layers: &Steps) -> Result<Trajectory> {
        let (steps, rows) = self.rows(layers);
        let mut values = self.solver.trajectory(prompts, &steps)?.values.select(ndarray::Axis(0), &rows);
        for ((_, b, t), value) in values.indexed_iter_mut() {
            *value += self.noise * Seed(1).at("noise", (b * prompts.points() + t) as u64).normal();
        }
        Trajectory::new(self.id(), Unit::Layer, layers.clone(), values, prompts)
    }

    fn answers(&self, questions: &Questions, layers: &Steps) -> Result<Array4<f64>> {
        let (steps, rows) = self.rows(layers);
        Ok(self.solver.answers(questions, &steps)?.select(ndarray::Axis(0), &rows))
    }
}

/// Three Newton steps per layer after a layer that does nothing, as the paper finds.
const LIKE_NEWTON: [u64; 9] = [0, 2, 5, 8, 11, 14, 17, 20, 23];

/// Every network of the paper, played by an algorithm; `r1` may be another.
struct Cast {
    r1: fn() -> StandIn,
    absent: &'static str,
}

impl Networks for Cast {
    fn other_recipe(&self, _: &str) -> Option<Recipe> {
        None
    }

    fn has(&self, name: &str, _: Seed, _: usize) -> bool {
        name != self.absent
    }

    fn probed(&self, name: &str, _: Progress) -> Result<Arc<dyn Learner>> {
        Ok(Arc::new(match name {
            "r1" => (self.r1)(),
            "r3" => StandIn::new("newton:lambda=0.01", &LIKE_NEWTON),
            "r6-8" | "r6-16" => StandIn::new("gd", &[1, 2, 4]),
            "r7" => StandIn::new("ogd", &[1, 1, 1]),
            "r8" => StandIn::new("mlp-gd:eta=0.003", &[1, 4, 16, 64]),
            "r9" => StandIn::new("mlp-gd:eta=0.003,activation=tanh", &[1, 1, 1, 1, 1, 8, 32, 128]),
            _ => StandIn::new("newton", &LIKE_NEWTON),
        }))
    }

    fn own_read_out(&self, _: &str, _: ReadPoint) -> Result<Arc<dyn Learner>> {
        Ok(Arc::new(StandIn::new("newton", &[0, 0, 0, 0, 0, 0, 0, 0, 23])))
    }

    /// A real network, as small as can be and not trained: parts of it can be ablated.
    fn opened(&self, _: &str, _: Progress) -> Result<LoadedProbe> {
        let spec = probe::usual_task(20);
        let task = spec.build()?;
        let options = Options { prompts: Some(8), held_out: 8, ..Options::default() };
        let weights = Arc::new(tiny()?);
        let probed = Probed::fit_with("tiny".into(), weights, &task, Seed(0), &options, &|_| ())?;
        Ok(LoadedProbe { probed, task: spec, seed: 0, saved: None, unfinished: None, notes: vec![] })
    }

    fn induced(&self, _: &str, _: &Questions, _: &Steps) -> Result<Option<InducedWeights>> {
        Ok(None)
    }

    fn patched(&self, _: &str, pair: [&Prompts; 2], _: Progress) -> Result<Patched> {
        Patched::of(&tiny()?, pair, Part::Stream, &Place::ROLES)
    }

    fn checkpoints(&self, _: &str, _: Progress) -> Result<Vec<(u64, Arc<dyn Learner>)>> {
        let moment = |(step, reached): (u64, &'static [u64])| -> (u64, Arc<dyn Learner>) {
            (step, Arc::new(StandIn::new("newton", reached)))
        };
        let growing: [(u64, &'static [u64]); 3] = [(1, &[0, 0, 1]), (10, &[0, 2, 5]), (100, &[2, 10, 18])];
        Ok(growing.into_iter().map(moment).collect())
    }
}

/// The first weights of a Transformer.
fn tiny() -> Result<Weights> {
    let spec = probe::usual_task(20);
    let network = "kind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 8";
    let network = toml::from_str::<NetworkSpec>(network).unwrap().build(spec.dim, spec.points)?;
    let layout = network.layout();
    Ok(Weights::new(network, layout.initial(&Seed(0))))
}

fn like_newton() -> StandIn {
    StandIn::new("newton", &LIKE_NEWTON)
}

fn lab(r1: fn() -> StandIn, prompts: usize) -> Lab {
    Lab::with(Seed(3), prompts, Box::new(Cast { r1, absent: "" }))
}

fn row(id: &str) -> &'static Analysis {
    ANALYSES.iter().find(|a| a.id == id).unwrap_or_else(|| panic!("no analysis {id}"))
}

fn claim<'a>(findings: &'a Findings, id: &str) -> &'a Claim {
    findings.claims.iter().find(|c| c.id == id).unwrap_or_else(|| panic!("no claim {id}"))
}

#[test]
fn every_analysis_gives_claims_with_figures_and_says_why_one_fails() {
    let lab = lab(like_newton, 24);
    let (mut ids, mut pictures) = (HashSet::new(), HashSet::new());
    let mut asked: HashSet<&str> = HashSet::new();
    for analysis in ANALYSES.iter() {
        asked.extend(analysis.needs);
        let found = run(analysis, &lab).unwrap_or_else(|e| panic!("{}: {e}", analysis.id));
        assert!(!found.claims.is_empty() && !found.figures.is_empty(), "{}", analysis.id);
        for figure in &found.figures {
            assert!(!figure.panels.is_empty() && figure.caption.len() > 20, "{}", figure.id);
            assert!(pictures.insert(figure.id.clone()), "{} occurs twice", figure.id);
        }
        let titles = found.figures.iter().map(|f| &f.title).chain(found.tables.iter().map(|t| &t.title));
        titles.for_each(|title| assert!(!asserts(title), "{} says what was found: {title}", analysis.id));
        if let Some(headline) = &found.headline {
            assert!(found.figures.iter().any(|f| f.id == headline.figure), "no figure {}", headline.figure);
            let known = |id: &String| found.claims.iter().any(|claim| claim.id == *id);
            assert!(headline.claims.iter().all(known), "{:?}", headline.claims);
        }
        for claim in &found.claims {
            let row = analysis.id.replace("-prime", "'");
            assert!(claim.id.starts_with(&format!("{row}.")), "{} of {}", claim.id, analysis.id);
            assert!(ids.insert(claim.id.clone()), "{} occurs twice", claim.id);
            assert!(claim.statement.len() > 5, "{} says nothing", claim.id);
            // a row that asks networks may have claims on what it builds itself
            assert!(claim.network.is_empty() || !analysis.needs.is_empty(), "{} asks whom?", claim.id);
            let open = matches!(claim.verdict, Verdict::Fails | Verdict::Unsettled);
            assert_eq!(open, !claim.why.is_empty(), "{}: why?", claim.id);
            let laid = claim.verdict == Verdict::Fails && claim.kind == Kind::Paper;
            assert_eq!(laid, claim.cause.is_some(), "{}: network, protocol or paper?", claim.id);
            let shown = claim.figure.as_ref().unwrap_or_else(|| panic!("{} has no figure", claim.id));
            assert!(found.figures.iter().any(|f| f.id == *shown), "{}: no figure {shown}", claim.id);
        }
    }
    assert_eq!(asked.len(), NETWORKS.len(), "every network is asked something");
}

#[test]
fn every_row_has_a_place_of_its_own_and_a_file_named_after_it() {
    let mut places = HashSet::new();
    for row in ANALYSES.iter() {
        assert!(places.insert((row.chapter, row.order)), "{} stands where another row does", row.id);
    }
    // f03_f16_f22_f24_error_maps.rs has F3, F16, F22 and F24; th1_prime_… has TH1-prime, f02r1_… has F2-R1; f05_… and
    // f07_… also have the rows F5-… and F7-…
    let plain = |id: &str| id.to_lowercase().replace(['-', '_'], "").replace('0', "");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src/analyses/rows");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut found = 0;
    for path in files.map(|entry| entry.unwrap().path()) {
        let name = plain(path.file_stem().unwrap().to_str().unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        let ids = text.lines().filter_map(|line| line.trim().strip_prefix("id: \"")?.strip_suffix("\","));
        for id in ids {
            found += 1;
            let stem = id.split_once('-').map_or(id, |(stem, _)| stem);
            let named = name.contains(&plain(id)) || name.contains(&plain(stem));
            assert!(named, "{id} stands in {}, whose name does not say so", path.display());
        }
    }
    assert_eq!(found, ANALYSES.len(), "every row is found in a file");
}

#[test]
fn every_row_about_the_paper_says_where_the_paper_has_it() {
    for row in ANALYSES.iter() {
        let beyond = row.chapter == Chapter::Beyond;
        // E7 is about the step size in the authors' code, which the paper does not print
        assert_eq!(row.paper.is_none(), beyond || row.id == "E7", "{}: where in the paper?", row.id);
        let Some((label, section)) = row.paper else { continue };
        let number = row.id.split('-').next().unwrap();
        if let Some(figure) = number.strip_prefix('F') {
            assert_eq!(label, format!("Figure {figure}"), "{}", row.id);
        }
        let numbered =
            section.split('.').all(|part| part.parse::<u32>().is_ok() || ["A", "B"].contains(&part));
        assert!(numbered, "{}: section {section}", row.id);
    }
}

/// Words by which a heading would say what was found; that is for claims and their verdicts.
const ASSERTS: [&str; 24] = [
    "is",
    "are",
    "was",
    "were",
    "does",
    "do",
    "has",
    "have",
    "not",
    "no",
    "become",
    "becomes",
    "falls",
    "fails",
    "holds",
    "hurts",
    "costs",
    "forgets",
    "improves",
    "converges",
    "diverges",
    "resembles",
    "reveals",
    "shows",
];

#[test]
fn titles_ask_and_verdicts_answer() {
    for row in ANALYSES.iter() {
        assert!(row.title.ends_with('?'), "{} says before it is measured: {}", row.id, row.title);
        assert!(row.title.chars().count() <= 100, "{} is long for a heading: {}", row.id, row.title);
        assert!(row.summary.ends_with('.'), "{}", row.id);
    }
}

/// Whether a heading says what was found.
fn asserts(title: &str) -> bool {
    let says = |word: &str| ASSERTS.contains(&word);
    !title.ends_with('?') && title.split(|c: char| !c.is_alphanumeric()).any(says)
}

#[test]
fn claims_are_counted_by_whose_statements_they_are() {
    let found: Vec<Findings> =
        ["F26", "E3", "REF", "TH1-prime"].map(|id| run(row(id), &Lab::new(Seed(0), 24)).unwrap()).into();
    let kinds = |id: &str| {
        let found = found.iter().find(|f| f.analysis == id).unwrap();
        Counts::by_kind(&found.claims).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("F26"), [Kind::Paper, Kind::Reference]);
    assert_eq!(kinds("E3"), [Kind::Erratum]);
    assert_eq!(kinds("REF"), [Kind::Reference]);
    assert_eq!(kinds("TH1-prime"), [Kind::Paper, Kind::Beyond]);
    let claims = || found.iter().flat_map(|f| &f.claims);
    let split: usize = Counts::by_kind(claims().collect::<Vec<_>>()).iter().map(|(_, c)| c.total()).sum();
    assert_eq!(split, claims().count(), "every claim is of one kind");
}

#[test]
fn a_network_that_runs_newton_is_found_to() {
    let lab = lab(like_newton, 64);
    let found = run(row("F3"), &lab).unwrap();
    for id in ["F3.newton-linear", "F3.newton-slope", "F3.gd-exponential", "F3.last-layer", "F3.gd-jump"] {
        assert_eq!(claim(&found, id).verdict, Verdict::Holds, "{:?}", claim(&found, id));
    }
    assert!((claim(&found, "F3.newton-slope").measured - 3.0).abs() < 1e-9);
    for id in ["F9", "F2-R1", "Q6", "F27", "F7"] {
        let found = run(row(id), &lab).unwrap();
        for claim in &found.claims {
            assert_ne!(claim.verdict, Verdict::Fails, "{claim:?}");
        }
    }
}

#[test]
fn a_network_that_runs_gradient_descent_is_found_to() {
    let descends = || StandIn::new("gd", &[0, 20, 40, 60, 80, 100, 120, 140, 160]);
    let found = run(row("F3"), &lab(descends, 64)).unwrap();
    assert_eq!(claim(&found, "F3.gd-jump").verdict, Verdict::Fails);
    // on seven matches a power law is as good as a line, so that the exponential is not refuted beyond doubt
    let exponential = claim(&found, "F3.gd-exponential");
    assert_ne!(exponential.verdict, Verdict::Holds, "{exponential:?}");
    let against_a_line =
        exponential.readings.iter().find(|reading| reading.by.contains("line alone")).unwrap();
    assert!(against_a_line.interval.is_some_and(|(_, high)| high < 0.0), "{exponential:?}");
}

#[test]
fn noise_on_the_predictions_turns_verdicts() {
    let noisy = || StandIn { noise: 3.0, ..like_newton() };
    let lab = lab(noisy, 64);
    for (row_id, id) in [("F3", "F3.last-layer"), ("Q6", "Q6.last"), ("F7", "F7.newton-resembles-late")] {
        let found = run(row(row_id), &lab).unwrap();
        assert_eq!(claim(&found, id).verdict, Verdict::Fails, "{:?}", claim(&found, id));
    }
}

#[test]
fn a_network_that_never_begins_settles_nothing_and_is_no_error() {
    let idle = || StandIn::new("gd", &[0, 0, 0]);
    let found = run(row("F3"), &lab(idle, 24)).unwrap();
    assert!(claim(&found, "F3.newton-slope").measured.is_nan());
    for id in ["F3.newton-slope", "F3.newton-linear", "F3.gd-exponential"] {
        assert_eq!(claim(&found, id).verdict, Verdict::Unsettled);
    }
    assert_eq!(claim(&found, "F3.last-layer").verdict, Verdict::Fails);
}

#[test]
fn two_learners_are_told_apart_only_where_they_differ() {
    let prompts = Task::new("linear", "gaussian", 4, 12).unwrap().sample(Seed(2), "t", 0, 60);
    let path = |name: &str, steps: &Steps| solvers::build(name).unwrap().trajectory(&prompts, steps).unwrap();
    let newton = path("newton", &Steps::range(0, 6));
    let map =
        |other: &Trajectory| of_errors(&newton, other, &prompts, View::default(), Metric::Cosine).unwrap();
    let (itself, ogd) = (map(&newton), map(&path("ogd", &Steps::single(1))));
    for same in matching::advantage(&itself, &itself, Seed(1)) {
        assert_eq!((same.value, same.low, same.high), (0.0, 0.0, 0.0));
    }
    for ahead in matching::advantage(&itself, &ogd, Seed(1)) {
        assert!(ahead.low > 0.0 && ahead.low <= ahead.value && ahead.value <= ahead.high, "{ahead:?}");
    }
}

#[test]
fn without_its_network_an_analysis_says_what_it_needs() {
    let lab = Lab::with(Seed(0), 16, Box::new(Cast { r1: like_newton, absent: "r2" }));
    assert!(lab.missing(row("F3")).is_empty());
    assert_eq!(lab.missing(row("Q7")), ["r2"]);
    let words = NotRun::without(row("Q7"), &lab.missing(row("Q7"))).why;
    assert!(words.contains("models/r2") && words.contains("experiments/r2-fast.toml"), "{words}");
    // every network can be trained from the file that is named
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    for network in NETWORKS {
        let path = format!("{root}/{}.toml", network.experiment());
        let experiment = lab::networks::experiment::Experiment::read(path.as_ref()).unwrap();
        let task =
            (experiment.task.function.as_str(), experiment.task.inputs.as_str(), experiment.task.points);
        assert_eq!(task, (network.function, network.inputs, network.points), "{}", network.name);
    }
}

#[test]
fn what_is_shipped_was_trained_by_the_experiments_that_are_shipped() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut found = 0;
    for network in NETWORKS {
        let read = |path: String| lab::networks::experiment::Experiment::read(path.as_ref()).unwrap();
        let plan = format!("{root}/models/{}/plan.toml", network.name);
        if std::path::Path::new(&plan).exists() {
            found += 1;
            let card = Card::read(format!("{root}/models/{}", network.name).as_ref()).unwrap();
            // seeds are trained by one experiment, and have a file each to be trained again
            let by_the_paper = card.experiment == network.name;
            let name = if by_the_paper { card.experiment } else { network.experiment() };
            let experiment = read(format!("{root}/experiments/{name}.toml"));
            // The name of a run does not depend on when checkpoints were taken, unless its file says so.
            assert_eq!(read(plan).hash(), experiment.hash(), "{}", network.name);
        }
    }
    assert!(found >= NETWORKS.len() - 1, "all but the miniature are shipped");
}
