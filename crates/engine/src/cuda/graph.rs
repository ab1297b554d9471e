//! What the device does: kernel launches and matmuls in order, on one main stream and side streams beside it, enqueued one by
//! one or captured as a CUDA graph.
//!
//! Gradients of weights are not needed before the optimiser: they run on side streams, where they fill the
//! multiprocessors that the main stream leaves idle; so does the optimiser beside the next forward pass. Blocks of the main stream go
//! first. Captured, the streams become branches of the graph.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUevent_flags, CUgraphInstantiate_flags, CUlaunchAttributeID as AttributeId, CUstreamCaptureMode,
};
use cudarc::driver::{CudaEvent, CudaFunction, CudaGraph, CudaStream};

use super::buffer::{DeviceBuffer, Pointer};
use super::compiler::Kernels;
use super::device::Device;
use super::error::{CudaError, driver};
use super::matmul::{Matmul, WORKSPACE};
use super::memory::DeviceMemory;
use super::tensor_map::TensorMap;

/// A kernel launch with its arguments.
pub(crate) struct Launch {
    pub name: &'static str,
    function: CudaFunction,
    blocks: u32,
    threads: u32,
    /// Bytes of dynamic shared memory.
    shared: u32,
    arguments: Vec<Argument>,
    /// Programmatic dependent launch: whether the kernel may be launched before its predecessor on the main stream has
    /// ended, because it waits for that itself (`pdl_wait` in its source). This hides the launch latency.
    pdl: bool,
    /// Whether its blocks wait for each other, so that all must be resident at once.
    cooperative: bool,
}

impl Launch {
    /// A kernel of a module on `blocks` blocks of `threads` threads.
    pub(crate) fn new(
        kernels: &Kernels,
        name: &'static str,
        [blocks, threads]: [usize; 2],
        arguments: Vec<Argument>,
    ) -> Result<Launch, CudaError> {
        Self::with_shared(kernels, name, [blocks, threads], 0, arguments)
    }

    /// The same with bytes of dynamic shared memory.
    pub(crate) fn with_shared(
        kernels: &Kernels,
        name: &'static str,
        [blocks, threads]: [usize; 2],
        shared: usize,
        arguments: Vec<Argument>,
    ) -> Result<Launch, CudaError> {
        let function = kernels.get(name, shared)?;
        let [blocks, threads, shared] = [blocks, threads, shared].map(|n| n as u32);
        Ok(Launch { name, function, blocks, threads, shared, arguments, pdl: false, cooperative: false })
    }

    /// With programmatic dependent launch, if the device offers it.
    pub(crate) fn pdl(self, pdl: bool) -> Launch {
        Launch { pdl, ..self }
    }

    /// With all blocks resident at once, or refused by the driver.
    pub(crate) fn cooperative(self) -> Launch {
        Launch { cooperative: true, ..self }
    }

    /// The command on a stream.
    pub(crate) fn on(self, stream: usize) -> Command {
        Command { stream, work: Work::Kernel(self) }
    }

    /// Enqueues it, with programmatic dependent launch where both it and the device offer that.
    pub(super) fn enqueue(&self, stream: &CudaStream, pdl: bool) -> Result<(), CudaError> {
        let mut arguments: Vec<*mut std::ffi::c_void> =
            self.arguments.iter().map(|a| a.address().cast_mut()).collect();
        let (id, value) = match self.cooperative {
            true => {
                (AttributeId::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, sys::CUlaunchAttributeValue { cooperative: 1 })
            }
            false => (
                AttributeId::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            ),
        };
        let mut attribute = sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let config = sys::CUlaunchConfig {
            gridDimX: self.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared,
            hStream: stream.cu_stream(),
            attrs: &mut attribute,
            numAttrs: u32::from(self.cooperative || pdl && self.pdl),
        };
        let function = self.function.cu_function();
        // SAFETY: kernels and their arguments are written down together in `lowering`, where every pointer is asked of its buffer
        // with the number of values that the kernel touches; buffers live as long as the commands. The attribute lives
        // until the call is over, which copies it.
        unsafe { sys::cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
            .map_err(driver("launch a kernel"))
    }
}

/// What a kernel is given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    /// Eight bytes of which it reads as many as its parameter has.
    Word(u64),
    /// A description of a matrix.
    Map(TensorMap),
}

impl Argument {
    /// Where the driver reads the value.
    fn address(&self) -> *const std::ffi::c_void {
        match self {
            Argument::Word(word) => std::ptr::from_ref(word).cast(),
            Argument::Map(map) => std::ptr::from_ref(map).cast(),
        }
    }
}

/// An optional buffer that a kernel does without.
pub(crate) const ABSENT: Pointer = 0;

impl From<Pointer> for Argument {
    fn from(pointer: Pointer) -> Self {
        Argument::Word(pointer)
    }
}

impl From<TensorMap> for Argument {
    fn from(map: TensorMap) -> Self {
        Argument::Map(map)
    }
}

impl From<usize> for Argument {
    fn from(value: usize) -> Self {
        Argument::Word(value as u64)
    }
}

impl From<f32> for Argument {
    fn from(value: f32) -> Self {
        Argument::Word(u64::from(value.to_bits()))
    }
}

/// Something the device does.
pub(crate) enum Work {
    Kernel(Launch),
    Matmul(Matmul),
    /// The main stream waits for the side streams.
    Join,
}

impl Work {
    /// What it is, for profiles.
    pub(crate) fn label(&self) -> Option<String> {
        match self {
            Work::Kernel(launch) => Some(launch.name.to_string()),
            Work::Matmul(matmul) => Some(matmul.label.clone()),
            Work::Join => None,
        }
    }
}

/// Work and the stream it belongs to; work on a side stream waits for everything before it on the main stream.
pub(crate) struct Command {
    pub stream: usize,
    pub work: Work,
}

impl Command {
    /// The main stream waits for the side streams.
    pub(crate) const JOIN: Command = Command { stream: MAIN, work: Work::Join };
}

/// Streams, and cuBLASLt's workspace on each.
pub(crate) struct Streams {
    device: Arc<Device>,
    streams: Vec<Arc<CudaStream>>,
    workspaces: Vec<DeviceBuffer<u8>>,
    events: Vec<CudaEvent>,
}

/// The main stream.
pub(crate) const MAIN: usize = 0;
/// One main stream and the side streams.
pub(crate) const STREAMS: usize = 3;

impl Streams {
    pub(crate) fn new(
        device: &Arc<Device>,
        main: Arc<CudaStream>,
        memory: &mut DeviceMemory,
    ) -> Result<Streams, CudaError> {
        let mut streams = vec![main];
        while streams.len() < STREAMS {
            streams.push(device.stream()?);
        }
        let (mut workspaces, mut events) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            workspaces.push(memory.zeros("workspace", WORKSPACE)?);
            events.push(device.context.new_event(None).map_err(driver("create an event"))?);
        }
        Ok(Streams { device: device.clone(), streams, workspaces, events })
    }

    /// The main stream, for other work in its order.
    pub(crate) fn main(&self) -> Arc<CudaStream> {
        self.streams[MAIN].clone()
    }

    /// An error if something that was enqueued has failed; waits for nothing.
    pub(crate) fn check(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives.
        match unsafe { sys::cuStreamQuery(self.streams[MAIN].cu_stream()) } {
            sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            failure => failure.result().map_err(driver("finish its work")),
        }
    }

    /// `after` waits for what has been enqueued on `before` so far.
    fn order(&self, before: usize, after: usize) -> Result<(), CudaError> {
        let event = &self.events[before];
        event.record(&self.streams[before]).map_err(driver("order streams"))?;
        self.streams[after].wait(event).map_err(driver("order streams"))
    }

    /// Enqueues commands.
    pub(crate) fn enqueue<'a>(
        &self,
        commands: impl IntoIterator<Item = &'a Command>,
    ) -> Result<(), CudaError> {
        self.device.context.bind_to_thread().map_err(driver("bind the device"))?;
        let mut busy = [false; STREAMS];
        let mut joined = false;
        for Command { stream: number, work } in commands {
            if *number != MAIN {
                self.order(MAIN, *number)?;
                busy[*number] = true;
            }
            let stream = &self.streams[*number];
            match work {
                Work::Kernel(launch) => {
                    // Behind side streams there is more than one kernel to wait for.
                    let pdl = self.device.info.is_hopper() && *number == MAIN && !joined;
                    launch.enqueue(stream, pdl)?
                }
                Work::Matmul(matmul) => matmul.enqueue(stream, self.workspaces[*number])?,
                // A stream without work is no part of a captured graph and must not be waited for.
                Work::Join => {
                    (1..STREAMS).filter(|&side| busy[side]).try_for_each(|side| self.order(side, MAIN))?;
                    busy = [false; STREAMS];
                }
            }
            if *number == MAIN {
                joined = matches!(work, Work::Join);
            }
        }
        Ok(())
    }

    /// Captures lists of commands, one after the other, as a CUDA graph.
    pub(crate) fn capture(&self, lists: &[&[Command]]) -> Result<CudaGraph, CudaError> {
        let main = &self.streams[MAIN];
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        main.begin_capture(mode).map_err(driver("begin a stream capture"))?;
        let enqueued = self.enqueue(lists.iter().copied().flatten());
        // Kernels keep the priority of the stream that they were captured on.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        let graph = main.end_capture(flags).map_err(driver("instantiate a CUDA graph"));
        enqueued?;
        graph?.ok_or_else(|| CudaError::Unsupported("a step without work".into()))
    }

    /// Microseconds that commands take alone, one after the other: the mean of many after a few to warm up.
    pub(crate) fn time(&self, commands: &[&Command]) -> Result<f64, CudaError> {
        const WARM_UP: usize = 6;
        const TIMED: usize = 60;
        let stream = &self.streams[MAIN];
        let run = |command: &Command| match &command.work {
            Work::Kernel(launch) => launch.enqueue(stream, false),
            Work::Matmul(matmul) => matmul.enqueue(stream, self.workspaces[MAIN]),
            Work::Join => Ok(()),
        };
        let mut turns = commands.iter().cycle();
        turns.by_ref().take(WARM_UP).try_for_each(|command| run(command))?;
        Ok(self.timed(|| turns.take(TIMED).try_for_each(|command| run(command)))? / TIMED as f64)
    }

    /// Microseconds of what is enqueued on the main stream.
    pub(crate) fn timed(&self, enqueue: impl FnOnce() -> Result<(), CudaError>) -> Result<f64, CudaError> {
        let event = || {
            let flags = CUevent_flags::CU_EVENT_DEFAULT;
            self.device.context.new_event(Some(flags)).map_err(driver("create an event"))
        };
        let (start, end) = (event()?, event()?);
        let stream = &self.streams[MAIN];
        start.record(stream).map_err(driver("record an event"))?;
        enqueue()?;
        end.record(stream).map_err(driver("record an event"))?;
        end.synchronize().map_err(driver("finish its work"))?;
        let ms = start.elapsed_ms(&end).map_err(driver("read a timer"))?;
        Ok(f64::from(ms) * 1e3)
    }
}
