//! A program: commands for the device in order, on one main lane and side lanes beside it.
//!
//! Gradients of weights are not needed before the optimiser: they run on side lanes, where they fill the
//! multiprocessors that the main lane leaves idle. Captured, lanes become branches of the graph.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUlaunchAttributeID as AttributeId};
use cudarc::driver::{CudaEvent, CudaFunction, CudaStream};

use super::device::{Device, Memory, Pointer};
use super::error::{CudaError, driver};
use super::product::{Product, WORKSPACE};

/// A kernel with its arguments.
pub(crate) struct Launch {
    pub name: &'static str,
    pub function: CudaFunction,
    pub blocks: u32,
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    pub arguments: Vec<Argument>,
    /// Whether it may be started before the work ahead of it on the main lane has ended, because it waits for that itself
    /// (`await_previous` in its source): what starting it takes is then hidden.
    pub early: bool,
}

/// Eight bytes of which a kernel reads as many as its parameter has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument(u64);

impl From<Pointer> for Argument {
    fn from(pointer: Pointer) -> Self {
        Argument(pointer)
    }
}

impl From<usize> for Argument {
    fn from(value: usize) -> Self {
        Argument(value as u64)
    }
}

impl From<f32> for Argument {
    fn from(value: f32) -> Self {
        Argument(u64::from(value.to_bits()))
    }
}

/// Something the device does.
pub(crate) enum Work {
    Kernel(Launch),
    Product(Product),
    /// Lane 0 waits for the others.
    Join,
}

impl Work {
    /// What it is, for profiles.
    pub(crate) fn label(&self) -> Option<String> {
        match self {
            Work::Kernel(launch) => Some(launch.name.to_string()),
            Work::Product(product) => Some(product.label.clone()),
            Work::Join => None,
        }
    }
}

/// Work and the lane it belongs to; work on a side lane waits for everything before it on lane 0.
pub(crate) struct Command {
    pub lane: usize,
    pub work: Work,
}

/// Streams, and scratch space for the products on each.
pub(crate) struct Lanes {
    device: Arc<Device>,
    pub streams: Vec<Arc<CudaStream>>,
    workspaces: Vec<Pointer>,
    events: Vec<CudaEvent>,
}

/// One main lane and the side lanes.
pub(crate) const LANES: usize = 3;

impl Lanes {
    pub(crate) fn new(
        device: &Arc<Device>,
        main: Arc<CudaStream>,
        memory: &mut Memory,
    ) -> Result<Lanes, CudaError> {
        let mut lanes =
            Lanes { device: device.clone(), streams: vec![main], workspaces: Vec::new(), events: Vec::new() };
        while lanes.streams.len() < LANES {
            lanes.streams.push(device.stream()?);
        }
        for _ in 0..LANES {
            lanes.workspaces.push(memory.zeros(WORKSPACE)?);
            lanes.events.push(device.context.new_event(None).map_err(driver("make an event"))?);
        }
        Ok(lanes)
    }

    /// `after` waits for what `before` has been given so far.
    fn order(&self, before: usize, after: usize) -> Result<(), CudaError> {
        let event = &self.events[before];
        event.record(&self.streams[before]).map_err(driver("order work"))?;
        self.streams[after].wait(event).map_err(driver("order work"))
    }

    /// Gives commands to the device.
    pub(crate) fn issue(&self, commands: &[Command]) -> Result<(), CudaError> {
        self.device.context.bind_to_thread().map_err(driver("bind the device"))?;
        let mut busy = [false; LANES];
        for Command { lane, work } in commands {
            if *lane > 0 {
                self.order(0, *lane)?;
                busy[*lane] = true;
            }
            let stream = &self.streams[*lane];
            match work {
                Work::Kernel(launch) => launch.issue(stream, self.device.is_hopper() && *lane == 0)?,
                Work::Product(product) => product.issue(stream, self.workspaces[*lane])?,
                // A lane without work is no part of a captured graph and must not be waited for.
                Work::Join => {
                    (1..LANES).filter(|&side| busy[side]).try_for_each(|side| self.order(side, 0))?
                }
            }
        }
        Ok(())
    }

    /// Microseconds that commands take alone, one after the other: the mean of many after a few to warm up.
    pub(crate) fn time(&self, commands: &[&Command]) -> Result<f64, CudaError> {
        const WARM: usize = 6;
        const TIMED: usize = 60;
        let event = || {
            let flags = cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
            self.device.context.new_event(Some(flags)).map_err(driver("make an event"))
        };
        let (start, end) = (event()?, event()?);
        let stream = &self.streams[0];
        for (round, command) in commands.iter().cycle().take(WARM + TIMED).enumerate() {
            if round == WARM {
                start.record(stream).map_err(driver("note the time"))?;
            }
            match &command.work {
                Work::Kernel(launch) => launch.issue(stream, false)?,
                Work::Product(product) => product.issue(stream, self.workspaces[0])?,
                Work::Join => {}
            }
        }
        end.record(stream).map_err(driver("note the time"))?;
        end.synchronize().map_err(driver("finish its work"))?;
        let ms = start.elapsed_ms(&end).map_err(driver("measure time"))?;
        Ok(f64::from(ms) * 1e3 / TIMED as f64)
    }
}

impl Launch {
    /// `early`: whether kernels that may be started early are.
    fn issue(&self, stream: &CudaStream, early: bool) -> Result<(), CudaError> {
        let mut arguments: Vec<*mut std::ffi::c_void> =
            self.arguments.iter().map(|a| std::ptr::from_ref(&a.0).cast_mut().cast()).collect();
        let mut attribute = sys::CUlaunchAttribute {
            id: AttributeId::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
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
            numAttrs: u32::from(early && self.early),
        };
        let function = self.function.cu_function();
        // SAFETY: kernels and their arguments are written down together in `lowering`; pointers are buffers that live as
        // long as the program. The attribute lives until the call is over, which copies it.
        unsafe { sys::cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
            .map_err(driver("launch a kernel"))
    }
}
