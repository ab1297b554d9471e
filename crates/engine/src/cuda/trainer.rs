//! Training on the device: a whole step, sampling included, is one captured CUDA graph that is replayed.
//!
//! The host writes the schedule of many steps into a table beforehand; a step reads its row, records loss and norm beside
//! it, and moves on by itself. The host only synchronises when it wants to.
//!
//! A step takes the update that the one before has left along: the optimiser moves memory while the device would wait for the forward
//! pass, which needs only the first of the parameters yet. After the last step of a table it runs by itself.

use std::borrow::Cow;
use std::sync::Arc;

use cudarc::driver::{CudaGraph, CudaStream};

use super::Precision;
use super::compiler::KernelSource;
use super::device::Device;
use super::error::{CudaError, driver};
use super::graph::{Command, Launch, MAIN};
use super::lowering::{Lowered, sources};
use super::memory::DeviceMemory;
use super::optim::{Optimiser, OptimiserCommands, ROW};
use super::runner::{CudaRunner, ParameterMemory};
use crate::model::networks::{Mode, Network};
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::optim::muon::MuonMatrix;
use crate::trainer::{Feed, NextBatch, ScheduleRow, StepResult, Trainer};

/// A network in training on the device.
pub struct CudaTrainer {
    device: Arc<Device>,
    network: Network,
    precision: Precision,
    config: AdamConfig,
    matrices: Vec<MuonMatrix>,
    batch: usize,
    stream: Arc<CudaStream>,
    parameters: Arc<ParameterMemory>,
    memory: DeviceMemory,
    optimiser: Optimiser,
    step: u64,
    shape: Option<Shape>,
}

/// What depends on the number of points.
struct Shape {
    points: usize,
    runner: CudaRunner,
    /// None for prompts of the host.
    sampling: Vec<Command>,
    optimiser: OptimiserCommands,
    /// It refers to the kernels of all the commands, so that they must stay loaded.
    graph: CudaGraph,
}

/// A whole step as one graph.
fn capture(
    runner: &CudaRunner,
    sampling: &[Command],
    optimiser: &OptimiserCommands,
) -> Result<CudaGraph, CudaError> {
    let Lowered { forward, parts, backward, .. } = &runner.lowered;
    let (join, mut updates) = ([Command::JOIN], optimiser.updates.iter());
    let mut next_update = || updates.next().map_or(&[][..], Vec::as_slice);
    // What follows the first update must not begin before it has ended, not even to copy weights ahead.
    let mut step = vec![sampling, next_update(), &join];
    let (begin, others) = parts.split_first().expect("a forward pass has a part");
    step.extend([next_update(), &forward[begin.commands.clone()]]);
    for part in others {
        // The next part's update begins behind the first command, a matmul that would wait for whole multiprocessors.
        let (matmul, rest) = forward[part.commands.clone()].split_at(1);
        step.extend([&join, matmul, next_update(), rest]);
    }
    step.extend([&backward[..], &optimiser.end]);
    runner.streams.capture(&step)
}

/// Rows of the schedule's table: the most steps that may be enqueued at once.
pub const TABLE: usize = 4096;

/// Steps that are enqueued at once: few enough that a request to stop is heard soon.
const CHUNK: usize = 256;
const _: () = assert!(CHUNK <= TABLE);

/// Prompts that are evaluated at once.
const EVALUATED: usize = 512;

impl CudaTrainer {
    /// A network with parameters and the optimiser's state as given.
    pub fn new(
        device: &Arc<Device>,
        network: &Network,
        precision: Precision,
        batch: usize,
        clip: Option<f32>,
        params: &[f32],
        adam: &OptimiserState,
    ) -> Result<CudaTrainer, CudaError> {
        let _preparing = device.preparing();
        let stream = device.urgent_stream()?;
        let parameters = Arc::new(ParameterMemory::new(device, &stream, precision, network.layout().len())?);
        parameters.set(params)?;
        let mut memory = DeviceMemory::new(device, stream.clone());
        let optimiser = Optimiser::new(device, precision, &mut memory, clip, adam)?;
        Ok(CudaTrainer {
            device: device.clone(),
            network: network.clone(),
            precision,
            config: adam.config,
            matrices: adam.muon.clone(),
            batch,
            stream,
            parameters,
            memory,
            optimiser,
            step: adam.step,
            shape: None,
        })
    }

    /// Prepares steps with `points` points per prompt, fed as said.
    pub fn prepare(&mut self, points: usize, feed: &Feed) -> Result<(), CudaError> {
        let device = self.device.clone();
        let _preparing = device.preparing();
        self.shape = None; // free the old buffers before the new ones are made
        let graph = self.network.graph(self.batch, 2 * points, Mode::Train)?;
        let parameters = self.parameters.clone();
        let runner = CudaRunner::with(&device, graph, self.precision, parameters, self.stream.clone())?;
        let sampling = match feed {
            Feed::Host => Vec::new(),
            Feed::Kernel { source, threads } => vec![self.sampling(&runner, source, *threads)?],
        };
        let reaches: Vec<usize> = runner.lowered.parts.iter().map(|part| part.reach).collect();
        let (at, len) = (self.parameters.at, self.parameters.len);
        let optimiser = self.optimiser.commands(&device, self.precision, at, len, &reaches)?;
        // Outside of a capture first: libraries load what they need on first use.
        runner.streams.enqueue(&runner.lowered.forward)?;
        self.device.synchronize()?;
        let graph = capture(&runner, &sampling, &optimiser)?;
        self.shape = Some(Shape { points, runner, sampling, optimiser, graph });
        Ok(())
    }

    /// As [`Trainer::tune`].
    pub fn tune_in_step(&mut self) -> Result<(), CudaError> {
        let device = self.device.clone();
        let _preparing = device.preparing();
        let Shape { runner, sampling, optimiser, graph, .. } = self.shape.as_mut().expect("prepared before");
        runner.tune_in_step(&device)?;
        *graph = capture(runner, sampling, optimiser)?;
        Ok(())
    }

    fn sampling(&self, runner: &CudaRunner, source: &str, threads: u32) -> Result<Command, CudaError> {
        let kernels = self.device.compile(&KernelSource::sampler(self.precision, source))?;
        let targets = runner.graph().targets.expect("training has targets");
        let (tokens, targets) = (runner.place(runner.graph().input)?, runner.place(targets)?);
        let points = self.batch * runner.points();
        let pointers = [
            tokens.pointer(2 * points * runner.graph().features)?,
            targets.pointer(points)?,
            self.optimiser.schedule()?,
            self.optimiser.progress()?,
        ];
        let grid = [self.batch, threads as usize];
        Ok(Launch::new(&kernels, "sample", grid, pointers.map(Into::into).to_vec())?.on(MAIN))
    }

    /// Writes the schedule of the next steps; at most [`TABLE`] of them.
    fn write_schedule(&self, schedule: &[ScheduleRow]) -> Result<(), CudaError> {
        assert!(schedule.len() <= TABLE, "the schedule's table has {TABLE} rows");
        let mut words = Vec::with_capacity(ROW * schedule.len());
        for (row, number) in schedule.iter().zip(self.step + 1..) {
            let [rate, root] = self.config.corrected(row.rate, number);
            words.extend([rate.to_bits(), root.to_bits(), row.dims, row.rate.to_bits()]);
        }
        self.memory.write(self.optimiser.rows.part(..words.len())?, &words)?;
        self.memory.write(self.optimiser.progress, &[self.step, self.step, 0])
    }

    /// As [`Trainer::run`], on the prompts that a kernel samples, or else on those that the host wrote last.
    pub fn run_on_device(&mut self, schedule: &[ScheduleRow]) -> Result<Vec<StepResult>, CudaError> {
        let device = self.device.clone();
        let _stepping = device.gate.step();
        let shape = self.shape.as_ref().expect("prepared before");
        self.write_schedule(schedule)?;
        for _ in schedule {
            // Given more work after a launch failure, libcuda may end the process before anyone has said what happened.
            shape.runner.streams.check()?;
            shape.graph.launch().map_err(driver("launch a CUDA graph"))?;
        }
        self.collect(schedule.len())
    }

    fn launch_fed(&mut self, tokens: &[f32], targets: &[f32]) -> Result<(), CudaError> {
        let shape = self.shape.as_mut().expect("prepared before");
        shape.runner.set_tokens(tokens)?;
        shape.runner.set_targets(targets)?;
        shape.graph.launch().map_err(driver("launch a CUDA graph"))
    }

    /// Has the last step move the parameters, and reads what `asked` steps reported.
    fn collect(&mut self, asked: usize) -> Result<Vec<StepResult>, CudaError> {
        let shape = self.shape.as_ref().expect("prepared before");
        shape.runner.streams.enqueue(shape.optimiser.updates.iter().flatten().chain([&Command::JOIN]))?;
        let numbers = self.memory.values(self.optimiser.results.part(..2 * asked)?)?;
        let mut progress = [0; 3];
        self.memory.read(self.optimiser.progress, &mut progress)?;
        let [step, ..] = progress;
        let taken = (step - self.step) as usize;
        self.step = step;
        // A step that was not taken has reported its loss and norm all the same.
        let reported = (taken + 1).min(asked);
        let results = numbers.chunks_exact(2).take(reported).map(|n| StepResult { loss: n[0], norm: n[1] });
        Ok(results.collect())
    }

    /// Parameters as they are now.
    pub fn params(&self) -> Result<Vec<f32>, CudaError> {
        self.parameters.params()
    }

    /// Moments and step count as they are now.
    pub fn optimiser(&self) -> Result<OptimiserState, CudaError> {
        let len = self.parameters.len;
        let mean = self.memory.values(self.optimiser.mean.part(..len)?)?;
        let square = self.memory.values(self.optimiser.square.part(..len)?)?;
        Ok(OptimiserState { config: self.config, mean, square, step: self.step, muon: self.matrices.clone() })
    }
}

impl<E: From<CudaError>> Trainer<E> for CudaTrainer {
    fn done(&self) -> u64 {
        self.step
    }

    fn params(&self) -> Result<Cow<'_, [f32]>, E> {
        Ok(Cow::Owned(CudaTrainer::params(self)?))
    }

    fn optimiser(&self) -> Result<Cow<'_, OptimiserState>, E> {
        Ok(Cow::Owned(CudaTrainer::optimiser(self)?))
    }

    fn device_bytes(&self) -> Option<usize> {
        let shape = self.shape.as_ref().map_or(0, |shape| shape.runner.bytes());
        Some(self.memory.bytes + self.parameters.memory.bytes + shape)
    }

    fn points(&self) -> Option<usize> {
        self.shape.as_ref().map(|shape| shape.points)
    }

    fn prepare(&mut self, points: usize, feed: &Feed) -> Result<(), E> {
        Ok(CudaTrainer::prepare(self, points, feed)?)
    }

    fn tune(&mut self) -> Result<(), E> {
        Ok(self.tune_in_step()?)
    }

    /// Kernels are compiled for each number of points: over a second that the device would wait for.
    fn prepare_ahead(&self, shapes: &[(usize, Feed)]) {
        let mut kernels = Vec::new();
        for (points, feed) in shapes {
            // A shape that the device cannot run is refused when it comes, where there is someone to tell.
            let Ok(graph) = self.network.graph(self.batch, 2 * points, Mode::Train) else { continue };
            kernels.extend(sources(&self.device.info, self.precision, &graph).unwrap_or_default());
            if let Feed::Kernel { source, .. } = feed {
                kernels.push(KernelSource::sampler(self.precision, source));
            }
        }
        let device = self.device.clone();
        std::thread::spawn(move || device.precompile(kernels));
    }

    fn chunk(&self) -> usize {
        CHUNK
    }

    fn run(&mut self, schedule: &[ScheduleRow], next: NextBatch<'_, E>) -> Result<Vec<StepResult>, E> {
        if !self.shape.as_ref().expect("prepared before").sampling.is_empty() {
            return Ok(self.run_on_device(schedule)?);
        }
        let device = self.device.clone();
        let _stepping = device.gate.step();
        self.write_schedule(schedule)?;
        for _ in schedule {
            let prompts = next()?;
            self.launch_fed(&prompts.tokens, &prompts.targets)?;
        }
        Ok(self.collect(schedule.len())?)
    }

    /// In float32 whatever the training: the weights are, and whoever reads the checkpoint.
    fn predictions(&self, tokens: &[f32], points: usize) -> Result<Vec<f32>, E> {
        let prompt = 2 * points * self.network.features();
        let count = tokens.len() / prompt;
        let (batch, precision) = (EVALUATED.min(count), Precision::Float32);
        let mut runner =
            CudaRunner::new(&self.device, &self.network, precision, [batch, 2 * points], Mode::Infer)?;
        runner.set_params(&CudaTrainer::params(self)?)?;
        let mut all = Vec::with_capacity(count * points);
        for chunk in tokens.chunks(batch * prompt) {
            // The last chunk is filled up with prompts of zeros.
            let mut chunk = chunk.to_vec();
            chunk.resize(batch * prompt, 0.0);
            runner.set_tokens(&chunk)?;
            runner.forward()?;
            all.extend(runner.predictions()?);
        }
        all.truncate(count * points);
        Ok(all)
    }
}
