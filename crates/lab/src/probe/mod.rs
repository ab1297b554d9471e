//! A network as a learner: every layer gets a read-out of its own, so that layers are steps.
//!
//! The body is frozen; an affine read-out per layer is fitted to the hidden states at the x tokens. Layers 1…L−1 are read
//! from the raw residual stream, layer L after the final LayerNorm, as in the authors' code.
//!
//! ```text
//! pass (prompts through the network) → gram (sums of states) → fit (read-outs) → read (predictions) → Probed, a learner
//! on_device: the same on a CUDA device
//! load: a run or checkpoint with its read-outs     saved: read-outs beside a checkpoint     learner: `run:DIR,ablate=zero:7`
//! patches: activations replaced by zero, their mean or a donor's     ablation: the same of layers and heads, in short
//! adam: the paper's way to fit        shown: as tables
//! outside: networks that another program runs
//! ```

mod ablation;
mod adam;
pub(crate) mod checks;
mod fit;
mod gram;
mod learner;
mod load;
mod on_device;
mod outputs;
mod outside;
mod pass;
mod patches;
mod read;
pub mod saved;
mod shown;

use std::sync::Arc;

use engine::cpu::QueryRunner;
use engine::model::hooks::Patch;
use ndarray::{Array3, Array4, s};

pub use ablation::{Ablation, Part};
pub use fit::{FIRST, Fit, HELD_OUT, HeldOut, MOST, Method, Options, TOLERANCE};
pub use learner::{NamedNetwork, SETTINGS, build};
pub use load::{LoadedNetwork, LoadedProbe, load, usual_task};
pub use outputs::{OUTPUT_TOLERANCE, OutputDifference, read_outputs};
pub use outside::{Body, FitTo, ReadBody};
pub use patches::{MEAN_PROMPTS, Outputs, Replaced, Replacement, StandIns};
pub use read::{ReadOut, ReadPoint};
pub use shown::{LayerLook, LayerTable, over_training, without_parts};

use crate::Progress;
use crate::data::prompts::{Prompts, Questions, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory, Unit};
use crate::networks::{Weights, evaluation};
use crate::registry::Id;
pub(crate) use pass::per_thread;
use pass::{GROUP, PromptRunner};

/// A network with a read-out per layer.
#[derive(Clone)]
pub struct Probed {
    id: Id,
    weights: Arc<Weights>,
    /// Per layer 0…L.
    read_outs: Vec<ReadOut>,
    patches: Vec<Patch>,
    fit: Option<Fit>,
    /// Whether the last layer alone is meant unless steps are given.
    own: bool,
}

impl Probed {
    /// Fits a read-out to every layer, on `count` prompts of a task.
    pub fn fit(name: String, weights: Weights, task: &Task, seed: Seed, count: usize) -> Result<Probed> {
        let options = Options { prompts: Some(count), ..Options::default() };
        Probed::fit_with(name, Arc::new(weights), task, seed, &options, &|_| ())
    }

    /// The same with every choice open; `progress` hears what is going on.
    pub fn fit_with(
        name: String,
        weights: Arc<Weights>,
        task: &Task,
        seed: Seed,
        options: &Options,
        progress: Progress,
    ) -> Result<Probed> {
        let (read_outs, fit) = fit::fit(&weights, task, seed, options, progress)
            .map_err(|e| Error::BadData(format!("{name}: {e}")))?;
        Ok(Probed::new(name, weights, read_outs, Some(fit)))
    }

    /// Reads every layer with the read-out that was trained for the last one, through the final LayerNorm.
    pub fn trained(name: String, weights: Arc<Weights>) -> Probed {
        Probed::trained_on(ReadPoint::Normalised, name, weights)
    }

    /// The same, reading the layers before the last at another point, such as the raw residual stream.
    pub fn trained_on(point: ReadPoint, name: String, weights: Arc<Weights>) -> Probed {
        let layers = weights.network.layers();
        let mut read_outs = vec![ReadOut::trained_on(point, &weights); layers];
        read_outs.push(ReadOut::trained_on(ReadPoint::Normalised, &weights));
        let mut probed = Probed::new(name, weights, read_outs, None);
        probed.id.given.insert("readout".into(), "trained".into());
        probed
    }

    /// The network's own output: its last layer under its own read-out, unless other layers are asked for.
    pub fn own(name: String, weights: Arc<Weights>) -> Probed {
        let id = Id { name: name.clone(), given: Default::default() };
        Probed { id, own: true, ..Probed::trained(name, weights) }
    }

    fn new(name: String, weights: Arc<Weights>, read_outs: Vec<ReadOut>, fit: Option<Fit>) -> Probed {
        Probed {
            id: Id { name, given: Default::default() },
            weights,
            read_outs,
            patches: Vec::new(),
            fit,
            own: false,
        }
    }

    /// The network.
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// The read-outs, from the read-in on.
    pub fn read_outs(&self) -> &[ReadOut] {
        &self.read_outs
    }

    /// How the read-outs were fitted; `None` for the trained one.
    pub fn fitted(&self) -> Option<&Fit> {
        self.fit.as_ref()
    }

    /// The activations that are replaced.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.weights.network.layers()
    }

    fn check(&self, prompts: &Prompts, steps: &Steps) -> Result<()> {
        let layers = self.layers() as u64;
        if steps.last() > layers {
            let why = format!("{} has layers 0 to {layers}", self.id);
            return Err(Error::BadSteps { text: steps.to_string(), why });
        }
        let features = self.weights.network.features();
        if prompts.dim() > features {
            return Err(Error::BadData(format!(
                "prompts of {} dimensions for {}; accepted: at most {features}",
                prompts.dim(),
                self.id
            )));
        }
        Ok(())
    }
}

impl Learner for Probed {
    fn id(&self) -> Id {
        self.id.clone()
    }

    fn unit(&self) -> Unit {
        Unit::Layer
    }

    fn default_steps(&self) -> Steps {
        let last = self.layers() as u64;
        if self.own { Steps::single(last) } else { Steps::range(1, last) }
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        self.check(prompts, steps)?;
        let tokens = prompts.count() * (2 * prompts.points() - 1);
        let multiply_adds = self.weights.params().len() as f64 * tokens as f64;
        let found = evaluation::on_cuda_if_worth(multiply_adds, |device, precision| {
            self.trajectory_on(device, precision, prompts, steps)
        })?;
        let values = found.map_or_else(|| self.trajectory_on_cores(prompts, steps), Ok)?;
        Trajectory::new(self.id(), Unit::Layer, steps.clone(), values, prompts)
    }

    fn answers(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>> {
        self.check(&questions.prompts, steps)?;
        let found =
            evaluation::on_cuda(|device, precision| self.answers_on(device, precision, questions, steps))?;
        found.map_or_else(|| self.answers_on_cores(questions, steps), Ok)
    }
}

impl Probed {
    /// Predictions `[s, b, t]`.
    fn trajectory_on_cores(&self, prompts: &Prompts, steps: &Steps) -> Result<Array3<f64>> {
        let (count, points) = (prompts.count(), prompts.points());
        let groups = per_thread(
            count.div_ceil(GROUP),
            || PromptRunner::new(&self.weights, &self.patches),
            |reader, group| {
                let prompts = prompts.part(group * GROUP, GROUP);
                let runner = reader.run(&prompts)?;
                let mut values = Array3::zeros((steps.len(), prompts.count(), points));
                for (mut values, &layer) in values.outer_iter_mut().zip(steps.as_slice()) {
                    let out = values.as_slice_mut().expect("standard layout");
                    self.read_outs[layer as usize].read(runner, layer as usize, out);
                }
                Ok(values)
            },
        )?;
        let mut values = Array3::zeros((steps.len(), count, points));
        for (i, group) in groups.iter().enumerate() {
            let first = i * GROUP;
            values.slice_mut(s![.., first..first + group.dim().1, ..]).assign(group);
        }
        Ok(values)
    }

    /// Each prefix runs once; every query token then attends to its keys and values alone.
    fn answers_on_cores(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>> {
        let (count, asked, _) = questions.queries.dim();
        // One prompt at a time: what its queries make on the way stays in the thread's caches.
        let prompts = per_thread(
            count,
            || (PromptRunner::over_all_tokens(&self.weights, &self.patches), None),
            |(reader, runner), prompt| self.answers_of(questions, steps, prompt, reader, runner),
        )?;
        let mut values = Array4::zeros((steps.len(), count, questions.lengths.len(), asked));
        for (b, answers) in prompts.iter().enumerate() {
            values.slice_mut(s![.., b, .., ..]).assign(answers);
        }
        Ok(values)
    }

    /// Answers `[s, l, q]` for one prompt.
    fn answers_of(
        &self,
        questions: &Questions,
        steps: &Steps,
        prompt: usize,
        reader: &mut PromptRunner,
        runner: &mut Option<QueryRunner>,
    ) -> Result<Array3<f64>> {
        let network = &self.weights.network;
        let asked = questions.queries.dim().1;
        let prefix = reader.run(&questions.prompts.part(prompt, 1))?;
        if runner.is_none() {
            let mut fresh = network.query_runner(prefix, asked)?;
            fresh.patch(&self.patches)?;
            *runner = Some(fresh);
        }
        let query = runner.as_mut().expect("made above");
        let mut tokens = vec![0.0; asked * network.features()];
        for (q, token) in tokens.chunks_exact_mut(network.features()).enumerate() {
            let x = questions.queries.slice(s![prompt, q, ..]);
            token.iter_mut().zip(x).for_each(|(t, x)| *t = *x as f32);
        }
        let mut values = Array3::zeros((steps.len(), questions.lengths.len(), asked));
        let mut out = vec![0.0; asked];
        for (l, &length) in questions.lengths.iter().enumerate() {
            query.forward(self.weights.for_passes(), prefix, length, &tokens)?;
            for (i, &layer) in steps.as_slice().iter().enumerate() {
                self.read_outs[layer as usize].read(query, layer as usize, &mut out);
                values.slice_mut(s![i, l, ..]).assign(&ndarray::ArrayView1::from(&out));
            }
        }
        Ok(values)
    }
}
