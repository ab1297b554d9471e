//! The lab in which rows work: prompts, trajectories, induced weights and networks, each made once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{DIM, POINTS};
use crate::analyses::Analysis;
use crate::compare::similarity::{InducedWeights, Metric, View, induced_weights, of_errors};
use crate::compare::{Comparison, recorded_weights};
use crate::data::prompts::{Prompts, Questions, Task};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory};
use crate::networks::models::{Models, NETWORKS, Networks, Recipe};
use crate::patching::{self, Donor, Maps, Part, Patched, Place};
use crate::probe::{LoadedProbe, ReadPoint};
use crate::solvers;
use crate::stats::{Estimate, mean};

/// The distribution of some prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Data<'a> {
    /// Function class.
    pub function: &'a str,
    /// Input distribution.
    pub inputs: &'a str,
    /// Dimension of the inputs.
    pub dim: usize,
    /// Points per prompt.
    pub points: usize,
}

impl Data<'_> {
    /// Its task.
    pub fn task(&self) -> Result<Task> {
        Task::new(self.function, self.inputs, self.dim, self.points)
    }

    /// Pairs read at the last position.
    pub fn last(&self) -> usize {
        self.points - 1
    }
}

/// Prompts that the authors' code evaluates.
const AUTHORS_PROMPTS: usize = 320;

/// What was made already, by a text that says all about it.
type Made<T> = Mutex<HashMap<String, Arc<T>>>;

/// The lab: a seed, a number of prompts, networks, and what was computed already.
pub struct Lab {
    /// From which everything follows.
    pub seed: Seed,
    /// Prompts per evaluation.
    pub count: usize,
    networks: Box<dyn Networks>,
    say: Box<dyn Fn(&str) + Send + Sync>,
    prompts: Made<Prompts>,
    trajectories: Made<Trajectory>,
    questions: Made<Questions>,
    weights: Made<InducedWeights>,
    patched: Made<Patched>,
    learners: Mutex<HashMap<String, Arc<dyn Learner>>>,
}

impl Lab {
    /// An empty lab without networks.
    pub fn new(seed: Seed, count: usize) -> Lab {
        Lab::with(seed, count, Box::new(Models::default()))
    }

    /// An empty lab that takes its networks from `networks`.
    pub fn with(seed: Seed, count: usize, networks: Box<dyn Networks>) -> Lab {
        Lab {
            seed,
            count,
            networks,
            say: Box::new(|_| {}),
            prompts: Mutex::default(),
            trajectories: Mutex::default(),
            questions: Mutex::default(),
            weights: Mutex::default(),
            patched: Mutex::default(),
            learners: Mutex::default(),
        }
    }

    /// The same lab that says what it is doing whenever that takes a while.
    pub fn saying(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> Lab {
        self.say = Box::new(say);
        self
    }

    /// Networks that an analysis needs and that are not there.
    pub fn missing(&self, analysis: &Analysis) -> Vec<&'static str> {
        analysis
            .needs
            .iter()
            .copied()
            .filter(|name| !self.networks.has(name, self.seed, self.count))
            .collect()
    }

    /// How a network was trained, where that is not the paper's way to its end.
    pub fn other_recipe(&self, name: &str) -> Option<Recipe> {
        self.networks.other_recipe(name)
    }

    /// A network by its name, with a read-out for every layer.
    pub fn network(&self, name: &str) -> Result<Arc<dyn Learner>> {
        if let Some(known) = lock(&self.learners).get(name) {
            return Ok(known.clone());
        }
        (self.say)(&format!("read-outs for the layers of {name}"));
        let network = self.networks.probed(name, &self.say)?;
        lock(&self.learners).insert(name.to_string(), network.clone());
        Ok(network)
    }

    /// The layers of a network, 1…L.
    pub fn layers(&self, name: &str) -> Result<Steps> {
        Ok(self.network(name)?.default_steps())
    }

    /// A network under the read-out it was trained with, at every layer.
    pub fn own_read_out(&self, name: &str, state: ReadPoint) -> Result<Arc<dyn Learner>> {
        (self.say)(&format!("layers of {name} under its own read-out"));
        self.networks.own_read_out(name, state)
    }

    /// A network at checkpoints of its training.
    pub fn checkpoints(&self, name: &str) -> Result<Vec<(u64, Arc<dyn Learner>)>> {
        (self.say)(&format!("{name} at checkpoints of its training"));
        self.networks.checkpoints(name, &self.say)
    }

    /// A network itself, to take parts out of it.
    pub fn opened(&self, name: &str) -> Result<LoadedProbe> {
        self.networks.opened(name, &self.say)
    }

    /// Says what is being done.
    pub fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// A learner by its name: a network, or an algorithm with its settings.
    pub fn learner(&self, name: &str) -> Result<Arc<dyn Learner>> {
        if is_network(name) { self.network(name) } else { Ok(solvers::build(name)?.into()) }
    }

    /// The evaluation prompts of linear regression (d=20, 41 points) under an input distribution.
    pub fn prompts(&self, inputs: &str) -> Result<Arc<Prompts>> {
        self.sample(&Data { function: "linear", inputs, dim: DIM, points: POINTS })
    }

    /// The trajectory of an algorithm on [`Lab::prompts`].
    pub fn trajectory(&self, learner: &str, inputs: &str, steps: &Steps) -> Result<Arc<Trajectory>> {
        self.path(learner, &Data { function: "linear", inputs, dim: DIM, points: POINTS }, steps)
    }

    /// The evaluation prompts of a distribution.
    pub fn sample(&self, data: &Data) -> Result<Arc<Prompts>> {
        self.made(&self.prompts, format!("{data:?}"), || {
            Ok(data.task()?.sample(self.seed, "eval", 0, self.count))
        })
    }

    /// The trajectory of an algorithm or a network on [`Lab::sample`].
    pub fn path(&self, learner: &str, data: &Data, steps: &Steps) -> Result<Arc<Trajectory>> {
        self.made(&self.trajectories, format!("{learner} | {data:?} | {steps}"), || {
            let found = self.learner(learner)?;
            (self.say)(&format!("{learner} on {} prompts", self.count));
            found.trajectory(&*self.sample(data)?, steps)
        })
    }

    /// The first of [`Lab::sample`], as many as the authors evaluate.
    pub fn authors_sample(&self, data: &Data) -> Result<Arc<Prompts>> {
        self.made(&self.prompts, format!("{data:?} | authors"), || {
            Ok(data.task()?.sample(self.seed, "eval", 0, AUTHORS_PROMPTS.min(self.count)))
        })
    }

    /// The trajectory of an algorithm or a network on [`Lab::authors_sample`].
    pub fn authors_path(&self, learner: &str, data: &Data, steps: &Steps) -> Result<Arc<Trajectory>> {
        self.made(&self.trajectories, format!("{learner} | {data:?} | {steps} | authors"), || {
            let (found, prompts) = (self.learner(learner)?, self.authors_sample(data)?);
            (self.say)(&format!("{learner} on {} prompts", prompts.count()));
            found.trajectory(&prompts, steps)
        })
    }

    /// The first `count` of [`Lab::sample`] with fresh queries after 1, 2, … pairs, for induced weights.
    pub fn questions(&self, data: &Data, count: usize) -> Result<Arc<Questions>> {
        self.made(&self.questions, format!("{data:?} | {count}"), || {
            Ok(recorded_weights::questions(&data.task()?, self.seed, self.count.min(count)))
        })
    }

    /// Weights that the answers of an algorithm or a network to [`Lab::questions`] imply.
    pub fn weights(
        &self,
        learner: &str,
        data: &Data,
        count: usize,
        steps: &Steps,
    ) -> Result<Arc<InducedWeights>> {
        self.made(&self.weights, format!("{learner} | {data:?} | {count} | {steps}"), || {
            let questions = self.questions(data, count)?;
            if is_network(learner)
                && let Some(kept) = self.networks.induced(learner, &questions, steps)?
            {
                return Ok(kept);
            }
            let found = self.learner(learner)?;
            (self.say)(&format!("induced weights of {learner} on {} prompts", questions.prompts.count()));
            induced_weights(&*found, &questions, steps)
        })
    }

    /// How far the answers of a network follow donors after some pairs, by the role of the tokens whose residual stream is patched.
    pub fn follows(&self, network: &str, data: &Data, donor: Donor, pairs: usize) -> Result<Maps> {
        let patched = self.patched(network, data, donor, pairs)?;
        Ok(Maps::of_patched(&patched, Part::Stream, Place::ROLES.to_vec(), pairs, self.seed))
    }

    /// The answers behind [`Lab::follows`].
    pub fn patched(&self, network: &str, data: &Data, donor: Donor, pairs: usize) -> Result<Arc<Patched>> {
        self.made(&self.patched, format!("{network} | {data:?} | {donor} | {pairs}"), || {
            let task = Task::new(data.function, data.inputs, data.dim, pairs + 1)?;
            let (prompts, donors) = donor.pairs(&task, self.seed, self.count.min(patching::PATCHED));
            self.networks.patched(network, [&prompts, &donors], &self.say)
        })
    }

    /// Every step of one learner with every step of another by their errors on [`Lab::sample`], under resampled prompts.
    pub fn compare(
        &self,
        data: &Data,
        a: (&str, &Steps),
        b: (&str, &Steps),
        metric: Metric,
    ) -> Result<Comparison> {
        let (a, b) = (self.path(a.0, data, a.1)?, self.path(b.0, data, b.1)?);
        let map = of_errors(&a, &b, &*self.sample(data)?, View::default(), metric)?;
        Ok(Comparison::new(map).resampled(self.seed))
    }

    /// Mean squared error over d (the paper's normalised error) after `t` pairs at a step.
    pub fn error(&self, trajectory: &Trajectory, prompts: &Prompts, step: u64, t: usize) -> Estimate {
        let scale = 1.0 / prompts.dim() as f64;
        let errors: Vec<f64> =
            trajectory.squared_errors(prompts, step, t).iter().map(|e| e * scale).collect();
        mean(self.seed, &errors)
    }

    /// Looks up what was made, or makes it. Not under the lock: making one thing may need another.
    fn made<T>(&self, known: &Made<T>, key: String, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        if let Some(found) = lock(known).get(&key) {
            return Ok(found.clone());
        }
        let made = Arc::new(make()?);
        lock(known).insert(key, made.clone());
        Ok(made)
    }
}

fn is_network(name: &str) -> bool {
    NETWORKS.iter().any(|network| network.name == name)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}
