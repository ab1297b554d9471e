//! A reproduction: which analyses, on which networks, on how many prompts; which networks must be trained first.
//!
//! [`Reproduction`] says all of it, [`Measuring`] runs the analyses, [`Cache`] keeps what they found.
//!
//! ```
//! use lab::analyses::reproduction::{Digests, Measuring, Reproduction};
//!
//! let reproduction = Reproduction { prompts: 16, ..Reproduction::default() };
//! let lab = reproduction.lab(|_| ())?;
//! let wanted = lab::analyses::select(&["E3".into()])?;
//! let (selected, not_run) = reproduction.runnable(wanted, true, &lab)?;
//! assert!(not_run.is_empty(), "E3 needs no network");
//! let digests = Digests::of(reproduction.models()?);
//! let mut measuring = Measuring { lab, cache: None, fresh: true, digests };
//! let measured = measuring.run(&selected, |_| true, |_, _| Ok::<_, lab::Error>(()))?;
//! assert_eq!(measured.findings[0].analysis, "E3");
//! # Ok::<(), lab::Error>(())
//! ```

mod cache;
mod costs;
mod measure;
mod recipes;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::kit::names;
use super::{ANALYSES, Analysis, Lab, NotRun};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::numbers::grouped;
use crate::networks::experiment::Experiment;
use crate::networks::models::{self, MINIATURE, Models, NETWORKS, PaperNetwork};
use crate::networks::runs::{self, Unfinished};

pub use cache::{CACHE, Cache, Digests, Question};
pub use costs::seconds_left;
pub use measure::{Measured, Measuring};
pub use recipes::Trained;

/// Prompts behind each measured value; the bounds of claims are set for them.
pub const PROMPTS: u32 = models::RECORDED as u32;
/// The same for a quick look.
pub const QUICK_PROMPTS: u32 = 320;

/// What is measured on: where networks are, how many prompts, which seed.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// Folder with a directory for each network.
    pub root: PathBuf,
    /// Networks from elsewhere, as NAME=DIRECTORY.
    pub given: Vec<String>,
    /// Networks that are trained meanwhile, and where; each directory has its plan already.
    pub awaited: Vec<(&'static PaperNetwork, PathBuf)>,
    /// Prompts behind each measured value.
    pub prompts: u32,
    /// Of all random numbers.
    pub seed: u64,
    /// Whether no network but the miniature is asked.
    pub quick: bool,
    /// Whether the networks were trained for this run, by the fast recipes.
    pub from_scratch: bool,
    /// Whether what networks answered once with parts patched is asked again wherever weights are there.
    pub fresh: bool,
}

impl Default for Reproduction {
    fn default() -> Reproduction {
        Reproduction {
            root: models::folder(),
            given: vec![],
            awaited: vec![],
            prompts: PROMPTS,
            seed: 0,
            quick: false,
            from_scratch: false,
            fresh: false,
        }
    }
}

/// What was run, every default written out.
#[derive(Clone, Debug, Serialize)]
pub struct ReproductionPlan {
    command: &'static str,
    /// Rows of the acceptance table.
    pub analyses: Vec<&'static str>,
    models: Vec<String>,
    prompts: u32,
    seed: u64,
}

/// A network that must be trained first, and the experiment that trains it.
pub type ToTrain = (&'static PaperNetwork, PathBuf);

impl Reproduction {
    /// The networks.
    pub fn models(&self) -> Result<Models> {
        let mut models = Models::under(&self.root).asked_again(self.fresh);
        for text in &self.given {
            models.give(text)?;
        }
        for (network, dir) in &self.awaited {
            models.expect(network, dir)?;
        }
        Ok(models)
    }

    /// Whether every network that an analysis may ask is trained.
    pub fn is_ready(&self, analysis: &Analysis) -> bool {
        let awaited = self.awaited.iter().filter(|(network, _)| analysis.may_ask(network.name));
        awaited.into_iter().all(|(_, dir)| runs::finished(dir).is_some())
    }

    /// All networks from elsewhere, trained or not yet, as NAME=DIRECTORY.
    fn networks_given(&self) -> Vec<String> {
        let awaited = self.awaited.iter().map(|(network, dir)| format!("{}={}", network.name, dir.display()));
        self.given.iter().cloned().chain(awaited).collect()
    }

    /// Networks from elsewhere whose training is not over.
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let dirs = self.given.iter().filter_map(|text| Some(text.split_once('=')?.1));
        dirs.filter_map(|dir| runs::unfinished(Path::new(dir))).collect()
    }

    /// The bench with these networks; `say` hears what it does.
    pub fn lab(&self, say: impl Fn(&str) + Send + Sync + 'static) -> Result<Lab> {
        let lab = Lab::with(Seed(self.seed), self.prompts as usize, Box::new(self.models()?));
        Ok(lab.saying(say))
    }

    /// Networks to train for running some analyses from scratch, by the experiments in a folder. R1 and its kin, which most
    /// analyses ask, come first, then what takes longest.
    pub fn from_scratch(wanted: &[&Analysis], experiments: &Path) -> Result<Vec<ToTrain>> {
        let needed =
            |n: &&PaperNetwork| n.name != MINIATURE && wanted.iter().any(|a| a.needs.contains(&n.name));
        let networks = NETWORKS.iter().filter(needed);
        let found: Vec<ToTrain> =
            networks.clone().filter_map(|n| Some((n, experiment(n, experiments)?))).collect();
        if found.is_empty() && networks.count() > 0 {
            let why =
                "has no experiment for any network; accepted: a folder with r1-fast.toml, … (--experiments)";
            return Err(Error::content(experiments, why));
        }
        let read = |(_, path): &ToTrain| Experiment::read(path);
        let experiments = found.iter().map(read).collect::<Result<Vec<Experiment>>>()?;
        let mut ranked = Vec::new();
        for ((network, _), experiment) in found.iter().zip(&experiments) {
            // A training that keeps checkpoints on its way serves those, too, who ask for its end alone.
            let covering = (0..found.len()).filter(|&i| experiments[i].covers(experiment));
            let most = covering.max_by_key(|&i| experiments[i].training.keep).expect("it covers itself");
            let rank = (!models::is_kin(network.name, "r1"), Reverse(experiment.work()? as u64));
            ranked.push((rank, (*network, found[most].1.clone())));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        Ok(ranked.into_iter().map(|(_, found)| found).collect())
    }

    /// The miniature, if some analyses need it and it is not there.
    pub fn missing_miniature(&self, wanted: &[&Analysis], experiments: &Path) -> Result<Vec<ToTrain>> {
        let needed = wanted.iter().any(|analysis| analysis.needs.contains(&MINIATURE));
        if !needed || self.models()?.is_here(MINIATURE) {
            return Ok(vec![]);
        }
        let network = models::named(MINIATURE)?;
        let path = experiment(network, experiments).ok_or_else(|| {
            let why = "is not there; accepted: a folder of experiments that has it (--experiments)";
            Error::content(experiments.join("miniature.toml"), why)
        })?;
        Ok(vec![(network, path)])
    }

    /// What can be run, and what cannot for want of a network; when analyses were named, the latter is an error.
    pub fn runnable(
        &self,
        mut wanted: Vec<&'static Analysis>,
        named: bool,
        lab: &Lab,
    ) -> Result<(Vec<&'static Analysis>, Vec<NotRun>)> {
        let mut not_run = Vec::new();
        wanted.retain(|analysis| {
            let missing = lab.missing(analysis);
            let large = self.quick && analysis.needs.iter().any(|need| *need != MINIATURE);
            let unasked = !named && analysis.needs.contains(&MINIATURE);
            if large {
                let networks = names::of(analysis.needs);
                not_run.push(NotRun {
                    analysis: analysis.id.into(),
                    title: analysis.title.into(),
                    why: format!("asks {networks}; with --quick only the miniature is asked"),
                });
            } else if !missing.is_empty() && !unasked {
                not_run.push(NotRun::without(analysis, &missing));
            }
            !large && missing.is_empty()
        });
        match not_run.first() {
            Some(first) if named => {
                let places = if self.quick { String::new() } else { format!("; {}", missing_networks()) };
                Err(Error::BadData(format!("{} cannot be run: {}{places}", first.analysis, first.why)))
            }
            _ => Ok((wanted, not_run)),
        }
    }

    /// What this run is of the whole, for its reader: which analyses were not asked for, and prompts fewer than bounds are set
    /// for. Nothing for a whole reproduction.
    pub fn scope(&self, selected: &[&Analysis], not_run: &[NotRun], named: bool) -> Vec<String> {
        let (count, all) = (selected.len(), ANALYSES.len());
        let mut sentences = Vec::new();
        let miniature = all - count - not_run.len();
        if named {
            let only = format!("Only what was asked for: {count} of {all} analyses (iclab list analyses)");
            sentences.push(only);
        } else if self.quick {
            sentences.push(format!(
                "A quick look: {count} of {all} analyses. {} ask networks other than the miniature and were not run; iclab \
                 reproduce runs them. The miniature has a fast recipe of its own: nothing here is judged by the paper's networks",
                not_run.len()
            ));
        } else if miniature > 0 {
            sentences
                .push("M1 was not run: it asks the miniature, which iclab reproduce --quick trains".into());
        }
        if self.from_scratch {
            sentences.push(
                "From scratch: every network was trained for this run by its fast recipe, so that claims of the paper are judged \
                 by networks that are not of the paper's recipe"
                    .into(),
            );
        }
        if self.prompts < PROMPTS {
            sentences.push(format!(
                "Measured on {} prompts; bounds are set for {}, so that a claim near its bound may turn",
                grouped(self.prompts.into()),
                grouped(PROMPTS.into())
            ));
        }
        sentences
    }

    /// The plan of running these analyses.
    pub fn plan(&self, selected: &[&'static Analysis]) -> ReproductionPlan {
        ReproductionPlan {
            command: "reproduce",
            analyses: selected.iter().map(|analysis| analysis.id).collect(),
            models: self.networks_given(),
            prompts: self.prompts,
            seed: self.seed,
        }
    }

    /// What must be added to `iclab reproduce --only ID` to measure the same; `root` as it was given.
    pub fn options(&self, root: Option<&Path>) -> String {
        let mut options: String =
            self.networks_given().iter().map(|model| format!(" --model {model}")).collect();
        options.extend(root.map(|root| format!(" --models {}", root.display())));
        if self.prompts != PROMPTS {
            options += &format!(" --prompts {}", self.prompts);
        }
        if self.seed != 0 {
            options += &format!(" --seed {}", self.seed);
        }
        options
    }
}

/// Where networks were looked for, and how to get them.
pub fn missing_networks() -> String {
    format!("looked in {}; {}", models::looked_in(), models::how_to_get())
}

/// The experiment of a network, if the folder has one or the program does.
fn experiment(network: &PaperNetwork, folder: &Path) -> Option<PathBuf> {
    Some(folder.join(format!("{}.toml", network.experiment()))).filter(|path| Experiment::is_there(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyses::select;

    /// The scope of a run without networks, and how many analyses it leaves out for want of them.
    fn scope(of: &Reproduction, only: &[&str]) -> (Vec<String>, usize) {
        let only: Vec<String> = only.iter().map(|id| id.to_string()).collect();
        let lab = Lab::new(Seed(0), of.prompts as usize);
        let (selected, not_run) = of.runnable(select(&only).unwrap(), !only.is_empty(), &lab).unwrap();
        (of.scope(&selected, &not_run, !only.is_empty()), not_run.len())
    }

    #[test]
    fn from_scratch_trains_what_most_analyses_ask_first_and_by_fast_recipes_alone() {
        let found = Reproduction::from_scratch(&ANALYSES, Path::new("experiments")).unwrap();
        let names: Vec<&str> = found.iter().map(|(network, _)| network.name).collect();
        let first = names.iter().position(|name| !models::is_kin(name, "r1")).unwrap();
        assert!(first >= 7 && names[first..].iter().all(|name| !models::is_kin(name, "r1")), "{names:?}");
        assert_eq!(names[first], "r8", "then what takes longest: {names:?}");
        for (network, path) in &found {
            let steps = Experiment::read(path).unwrap().training.steps;
            assert!(steps <= 20_000, "{}: {steps} steps", network.name);
        }
        let of = |name: &str| &found.iter().find(|(network, _)| network.name == name).unwrap().1;
        assert!(of("r1-along").ends_with("r1-along-fast.toml"));
        assert_eq!([of("r1"), of("r1-fast")], [of("r1-along"); 2], "one training, whose end they ask for");
        assert!(of("r1-seed1").ends_with("r1-seed1-fast.toml"), "another seed");
    }

    #[test]
    fn an_analysis_waits_for_the_kin_of_what_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let mut of = Reproduction { root: PathBuf::new(), ..Reproduction::default() };
        for name in ["r1-fast", "r1-relu-fast", "r8-fast"] {
            let path = Path::new("experiments").join(format!("{name}.toml"));
            let network = models::named(name.strip_suffix("-fast").unwrap()).unwrap();
            let dir = runs::announce(dir.path(), &Experiment::read(&path).unwrap()).unwrap();
            of.awaited.push((network, dir));
        }
        let rows = select(&["E3".into(), "F3".into(), "F20".into()]).unwrap();
        let ready =
            |of: &Reproduction| rows.iter().filter(|a| of.is_ready(a)).map(|a| a.id).collect::<Vec<_>>();
        assert_eq!(ready(&of), ["E3"]);
        assert!(of.lab(|_| ()).unwrap().missing(rows[0]).is_empty(), "it will be there");
        let ends = |k: usize| {
            let text = r#"{"steps":1,"prompts":1,"mean_loss":1.0,"bayes_floor":null,"last_error_over_d":1.0,"errors":[]}"#;
            std::fs::write(of.awaited[k].1.join("result.json"), text).unwrap();
            assert!(runs::finished(&of.awaited[k].1).is_some(), "that is a result");
        };
        ends(0);
        assert_eq!(ready(&of), ["E3"], "R1 with ReLU is still trained");
        ends(1);
        assert_eq!(ready(&of), ["F3", "E3"]);
        ends(2);
        assert_eq!(ready(&of), ["F3", "F20", "E3"]);
    }

    #[test]
    fn what_can_be_measured_does_not_wait() {
        let lab = Lab::new(Seed(0), 16);
        let rows = select(&["E2".into(), "E3".into(), "E5".into()]).unwrap();
        let digests = Digests::of(Models::default());
        let mut measuring = Measuring { lab, cache: None, fresh: true, digests };
        let (mut asked, said) = (0, std::cell::RefCell::new(Vec::new()));
        let ready = |analysis: &Analysis| {
            asked += usize::from(analysis.id == "E2");
            analysis.id != "E2" || asked > 3
        };
        let next = |measured: &Measured, next: Option<&Analysis>| {
            said.borrow_mut().push((measured.findings.len(), next.map(|analysis| analysis.id)));
            Ok::<(), Error>(())
        };
        let measured = measuring.run(&rows, ready, next).unwrap();
        assert_eq!(said.into_inner(), [(0, Some("E3")), (1, Some("E5")), (2, None), (2, Some("E2"))]);
        let found: Vec<&str> = measured.findings.iter().map(|f| f.analysis.as_str()).collect();
        assert_eq!(found, ["E2", "E3", "E5"], "in the order of the report");
        let gives_up = |_: &Measured, next: Option<&Analysis>| match next {
            Some(_) => Ok(()),
            None => Err(Error::Training("it failed".into())),
        };
        assert!(measuring.run(&rows, |analysis| analysis.id != "E2", gives_up).is_err());
    }

    #[test]
    fn a_run_says_what_it_is_not() {
        let whole = Reproduction::default();
        let (words, without) = scope(&whole, &[]);
        assert_eq!(words, ["M1 was not run: it asks the miniature, which iclab reproduce --quick trains"]);
        let all = ANALYSES.len();
        let only = scope(&whole, &["E3", "REF"]).0;
        assert_eq!(only, [format!("Only what was asked for: 2 of {all} analyses (iclab list analyses)")]);
        let quick = Reproduction { quick: true, prompts: QUICK_PROMPTS, ..whole };
        let (words, left_out) = scope(&quick, &[]);
        assert_eq!(left_out, without, "the same are left out, for other reasons");
        let [look, prompts] = words.as_slice() else { panic!("{words:?}") };
        assert!(look.contains(&format!("{left_out} ask networks other than the miniature")), "{look}");
        assert!(prompts.starts_with("Measured on 320 prompts; bounds are set for 1,280"), "{prompts}");
    }
}
