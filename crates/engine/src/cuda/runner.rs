//! A network on the device at one shape.

use std::sync::Arc;

use super::Precision;
use super::buffer::{DeviceBuffer, StorageBuffer};
use super::device::Device;
use super::error::CudaError;
use super::graph::{Command, Streams};
use super::hooks::DevicePatches;
use super::lowering::{DeviceParameters, Lowered, PrefixBuffers, lower};
use super::memory::DeviceMemory;
use super::state_readers::StateReaders;
use crate::error::check_len;
use crate::model::graph::Graph;
use crate::model::networks::{Mode, Network};
use crate::model::plan::Var;

/// The optimiser moves four values of the flat buffers at a time (`adam.cu`): parameters, gradients and moments are rounded up to
/// whole vectors, whose spare values stay 0.
pub(crate) fn whole_vectors(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Parameters and gradients of a network in device memory.
pub(crate) struct ParameterMemory {
    pub memory: DeviceMemory,
    pub at: DeviceParameters,
    pub len: usize,
}

impl ParameterMemory {
    pub(crate) fn new(
        device: &Device,
        stream: &Arc<cudarc::driver::CudaStream>,
        precision: Precision,
        len: usize,
    ) -> Result<Self, CudaError> {
        let (mut memory, whole) = (DeviceMemory::new(device, stream.clone()), whole_vectors(len));
        let params = memory.zeros("parameters", whole)?;
        let rounded = match precision {
            Precision::Bf16 => StorageBuffer::Bf16(memory.zeros("parameters in bf16", whole)?),
            _ => StorageBuffer::Float(params),
        };
        let (grads, loss) = (memory.zeros("gradients", whole)?, memory.zeros("loss", 1)?);
        Ok(Self { memory, at: DeviceParameters { params, rounded, grads, loss }, len })
    }

    /// Copies parameters to the device, and in the storage type where matmuls read them so.
    pub(crate) fn set(&self, params: &[f32]) -> Result<(), CudaError> {
        check_len("parameters", params.len(), self.len, || "the network's parameters".into())?;
        self.memory.write(self.at.params.part(..self.len)?, params)?;
        if let StorageBuffer::Bf16(buffer) = self.at.rounded {
            let rounded: Vec<u16> = params.iter().map(|&p| half::bf16::from_f32(p).to_bits()).collect();
            self.memory.write(buffer.part(..self.len)?, &rounded)?;
        }
        Ok(())
    }

    /// Parameters as they are now.
    pub(crate) fn params(&self) -> Result<Vec<f32>, CudaError> {
        self.memory.values(self.at.params.part(..self.len)?)
    }
}

/// A network ready to run on the device. Buffers are allocated once, here.
pub struct CudaRunner {
    graph: Graph,
    pub(crate) lowered: Lowered,
    pub(crate) streams: Streams,
    parameters: Arc<ParameterMemory>,
    precision: Precision,
    pub(crate) patches: DevicePatches,
    pub(super) readers: StateReaders,
}

impl CudaRunner {
    /// Plans a network for `batch` prompts of `tokens` tokens on a device.
    pub fn new(
        device: &Arc<Device>,
        network: &Network,
        precision: Precision,
        [batch, tokens]: [usize; 2],
        mode: Mode,
    ) -> Result<CudaRunner, CudaError> {
        let _preparing = device.preparing();
        let stream = device.urgent_stream()?;
        let parameters = Arc::new(ParameterMemory::new(device, &stream, precision, network.layout().len())?);
        Self::with(device, network.graph(batch, tokens, mode)?, precision, parameters, stream)
    }

    /// The same on parameters that exist already.
    pub(crate) fn with(
        device: &Arc<Device>,
        graph: Graph,
        precision: Precision,
        parameters: Arc<ParameterMemory>,
        stream: Arc<cudarc::driver::CudaStream>,
    ) -> Result<CudaRunner, CudaError> {
        Self::lowered(device, graph, precision, parameters, None, stream)
    }

    /// A graph of queries after prompts that `prefix` reads, on its stream and with its parameters. `prefix` must outlive it.
    pub(super) fn after(
        device: &Arc<Device>,
        graph: Graph,
        prefix: &CudaRunner,
        seen: DeviceBuffer<i32>,
    ) -> Result<CudaRunner, CudaError> {
        let buffers =
            PrefixBuffers { values: prefix.lowered.values.clone(), seen, tokens: prefix.graph.tokens };
        let (parameters, stream) = (prefix.parameters.clone(), prefix.streams.main());
        Self::lowered(device, graph, prefix.precision, parameters, Some(buffers), stream)
    }

    fn lowered(
        device: &Arc<Device>,
        graph: Graph,
        precision: Precision,
        parameters: Arc<ParameterMemory>,
        prefix: Option<PrefixBuffers>,
        stream: Arc<cudarc::driver::CudaStream>,
    ) -> Result<CudaRunner, CudaError> {
        let mut memory = DeviceMemory::new(device, stream.clone());
        let streams = Streams::new(device, stream, &mut memory)?;
        let lowered = lower(device, precision, &graph, parameters.at, prefix, memory)?;
        let (patches, readers) = Default::default();
        Ok(CudaRunner { graph, lowered, streams, parameters, precision, patches, readers })
    }

    /// The graph that is run.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How numbers are stored and multiplied.
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Predictions per prompt.
    pub fn points(&self) -> usize {
        self.graph.tokens.div_ceil(2)
    }

    /// Bytes of device memory in use for this shape, parameters not counted.
    pub fn bytes(&self) -> usize {
        self.lowered.memory.bytes
    }

    /// Copies parameters to the device.
    pub fn set_params(&mut self, params: &[f32]) -> Result<(), CudaError> {
        self.parameters.set(params)
    }

    /// Feeds tokens `[batch, tokens, features]`.
    pub fn set_tokens(&mut self, tokens: &[f32]) -> Result<(), CudaError> {
        let Graph { batch, tokens: t, features, input, .. } = self.graph;
        check_len("tokens", tokens.len(), batch * t * features, || {
            format!("{batch} prompts × {t} tokens × {features} features")
        })?;
        self.lowered.memory.write(self.place(input)?, tokens)
    }

    /// Feeds targets `[batch, points]`.
    pub fn set_targets(&mut self, ys: &[f32]) -> Result<(), CudaError> {
        let Some(targets) = self.graph.targets else {
            return Err(CudaError::Unsupported("a network built for inference takes no targets".into()));
        };
        let (batch, points) = (self.graph.batch, self.points());
        check_len("targets", ys.len(), batch * points, || format!("{batch} prompts × {points} points"))?;
        self.lowered.memory.write(self.place(targets)?, ys)
    }

    /// Computes hidden states and predictions.
    pub fn forward(&mut self) -> Result<(), CudaError> {
        self.forward_after(0)
    }

    /// Computes the loss and the gradients; call once after each [`CudaRunner::forward`].
    pub fn backward(&mut self) -> Result<(), CudaError> {
        self.streams.enqueue(&self.lowered.backward)
    }

    /// The loss of the last backward pass.
    pub fn loss(&self) -> Result<f32, CudaError> {
        Ok(self.lowered.memory.values(self.parameters.at.loss)?[0])
    }

    /// Gradients of all parameters, in the order of the flat buffer.
    pub fn gradients(&self) -> Result<Vec<f32>, CudaError> {
        self.lowered.memory.values(self.parameters.at.grads.part(..self.parameters.len)?)
    }

    /// Predictions `[batch, points]`.
    pub fn predictions(&self) -> Result<Vec<f32>, CudaError> {
        self.value(self.graph.predictions)
    }

    /// Number of hidden states: layers + 1.
    pub fn hidden_count(&self) -> usize {
        self.graph.hidden.len()
    }

    /// Hidden state of a layer, `[batch, tokens, width]`.
    pub fn hidden(&self, layer: usize) -> Result<Vec<f32>, CudaError> {
        self.value(self.graph.hidden[layer])
    }

    /// What the read-out reads, `[batch, tokens, width]`.
    pub fn last(&self) -> Result<Vec<f32>, CudaError> {
        self.value(self.graph.last)
    }

    /// Microseconds of each kind of command, alone on the device, and how often it occurs in a step. All of a kind take turns, so
    /// that none finds in the cache what it left there itself.
    pub fn profile(&self) -> Result<Vec<(String, f64, usize)>, CudaError> {
        let mut found: Vec<(String, Vec<&Command>)> = Vec::new();
        for command in self.lowered.forward.iter().chain(&self.lowered.backward) {
            let Some(label) = command.work.label() else { continue };
            match found.iter_mut().find(|(other, _)| *other == label) {
                Some((_, commands)) => commands.push(command),
                None => found.push((label, vec![command])),
            }
        }
        let time = |(label, commands): (String, Vec<&Command>)| {
            Ok((label, self.streams.time(&commands)?, commands.len()))
        };
        found.into_iter().map(time).collect()
    }

    /// The buffer of tokens or targets.
    pub(crate) fn place(&self, var: Var) -> Result<DeviceBuffer<f32>, CudaError> {
        Ok(self.lowered.values[var.0].expect("inputs have places").float()?)
    }

    /// A value as float32.
    pub(crate) fn value(&self, var: Var) -> Result<Vec<f32>, CudaError> {
        match self.lowered.values[var.0].expect("the operation ran") {
            StorageBuffer::Float(buffer) => self.lowered.memory.values(buffer),
            StorageBuffer::Bf16(buffer) => {
                let bits = self.lowered.memory.values(buffer)?;
                Ok(bits.into_iter().map(|bits| half::bf16::from_bits(bits).to_f32()).collect())
            }
        }
    }
}
