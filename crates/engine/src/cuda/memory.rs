//! Device memory: buffers of exactly the size asked for, and copies from and to the host that fit them.

use std::sync::Arc;

use cudarc::driver::{self, CudaSlice, CudaStream, DevicePtr};

use super::buffer::{BufferError, DType, DeviceBuffer, Element, Pointer, StorageBuffer};
use super::device::Device;
use super::error::{CudaError, driver as failed};
use super::guards::{Guards, Layout, PATTERN, overwritten};

/// Buffers of one network, which live as long as it.
pub(crate) struct DeviceMemory {
    stream: Arc<CudaStream>,
    guards: Arc<Guards>,
    allocations: Vec<Allocation>,
    /// Bytes allocated, guards included.
    pub bytes: usize,
}

/// Buffers of one length, `step` values from start to start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferStack {
    /// From the first value of the first to the last of the last.
    pub all: StorageBuffer,
    pub len: usize,
    pub step: usize,
}

impl BufferStack {
    /// One of them.
    pub(crate) fn item(&self, place: usize) -> Result<StorageBuffer, BufferError> {
        self.all.part(place * self.step..place * self.step + self.len)
    }
}

/// Buffers with their guards, where there are any.
struct Allocation {
    slice: CudaSlice<u8>,
    label: &'static str,
    layout: Layout,
}

impl DeviceMemory {
    /// Memory for work on one stream of a device; with guards while the device has them switched on.
    pub(crate) fn new(device: &Device, stream: Arc<CudaStream>) -> Self {
        Self::with_guards(device.guards.clone(), stream)
    }

    /// The same with guards of its own.
    pub(crate) fn with_guards(guards: Arc<Guards>, stream: Arc<CudaStream>) -> Self {
        Self { stream, guards, allocations: Vec::new(), bytes: 0 }
    }

    /// Other memory for work on the same stream.
    pub(crate) fn beside(&self) -> Self {
        Self::with_guards(self.guards.clone(), self.stream.clone())
    }

    /// A buffer of `len` zeros; the label names it where something goes wrong.
    pub(crate) fn zeros<T: Element>(
        &mut self,
        label: &'static str,
        len: usize,
    ) -> Result<DeviceBuffer<T>, CudaError> {
        let at = self.allocate(label, Layout::new(len * size_of::<T>(), self.guards.are_on()))?;
        Ok(DeviceBuffer::new(label, at, len))
    }

    /// `count` buffers of `len` zeros each, equally far apart.
    fn stacked<T: Element>(
        &mut self,
        label: &'static str,
        [len, count]: [usize; 2],
    ) -> Result<(DeviceBuffer<T>, usize), CudaError> {
        let layout = Layout::stacked(len * size_of::<T>(), count, self.guards.are_on());
        let step = layout.step / size_of::<T>();
        let at = self.allocate(label, layout)?;
        Ok((DeviceBuffer::new(label, at, (count - 1) * step + len), step))
    }

    /// The same of a type chosen at run time.
    pub(crate) fn storage_stack(
        &mut self,
        label: &'static str,
        dtype: DType,
        [len, count]: [usize; 2],
    ) -> Result<BufferStack, CudaError> {
        let (all, step) = match dtype {
            DType::Float => {
                let (all, step) = self.stacked(label, [len, count])?;
                (StorageBuffer::Float(all), step)
            }
            DType::Bf16 => {
                let (all, step) = self.stacked(label, [len, count])?;
                (StorageBuffer::Bf16(all), step)
            }
        };
        Ok(BufferStack { all, len, step })
    }

    /// Zeros, and guards around the buffers of a layout, of which the first begins at the address returned.
    fn allocate(&mut self, label: &'static str, layout: Layout) -> Result<Pointer, CudaError> {
        let size = layout.size;
        let slice = self.stream.alloc_zeros::<u8>(size).map_err(|source| {
            match self.stream.context().mem_get_info() {
                Ok((free, total)) if free < size => {
                    CudaError::Memory { needed_mib: size >> 20, free_mib: free >> 20, total_mib: total >> 20 }
                }
                _ => CudaError::Driver { action: "allocate memory", source },
            }
        })?;
        let start = slice.device_ptr(&self.stream).0;
        self.allocations.push(Allocation { slice, label, layout });
        self.bytes += size;
        for (_, guard) in layout.guards() {
            let (at, stream) = (start + guard.start as u64, self.stream.cu_stream());
            // SAFETY: guards are ranges of the allocation; the context was bound by its allocation.
            unsafe { driver::result::memset_d8_async(at, PATTERN, guard.len(), stream) }
                .map_err(failed("fill a guard"))?;
        }
        Ok(start + layout.offset as u64)
    }

    /// A buffer of zeros of a type chosen at run time.
    pub(crate) fn storage(
        &mut self,
        label: &'static str,
        dtype: DType,
        len: usize,
    ) -> Result<StorageBuffer, CudaError> {
        Ok(match dtype {
            DType::Float => StorageBuffer::Float(self.zeros(label, len)?),
            DType::Bf16 => StorageBuffer::Bf16(self.zeros(label, len)?),
        })
    }

    /// A buffer with given contents.
    pub(crate) fn filled<T: Element>(
        &mut self,
        label: &'static str,
        values: &[T],
    ) -> Result<DeviceBuffer<T>, CudaError> {
        let buffer = self.zeros(label, values.len())?;
        self.write(buffer, values)?;
        Ok(buffer)
    }

    /// Copies all of a buffer (or of a part) from the host; returns when the values have been taken.
    pub(crate) fn write<T: Element>(&self, to: DeviceBuffer<T>, values: &[T]) -> Result<(), CudaError> {
        let at = to.copied(values.len())?;
        // SAFETY: as many values lie there.
        unsafe { self.write_at(at, values) }
    }

    /// Copies to an address.
    ///
    /// # Safety
    /// An allocation of this memory must hold as many values from there on.
    pub(super) unsafe fn write_at<T: Element>(&self, at: Pointer, values: &[T]) -> Result<(), CudaError> {
        self.stream.context().bind_to_thread().map_err(failed("bind the device"))?;
        // SAFETY: as promised by the caller; pageable memory is copied before the call returns.
        unsafe { driver::result::memcpy_htod_async(at, values, self.stream.cu_stream()) }
            .map_err(failed("copy to the device"))?;
        self.synchronize_to("copy to the device")
    }

    /// Copies all of a buffer (or of a part) to the host, after everything given to this memory's stream is done.
    pub(crate) fn read<T: Element>(&self, from: DeviceBuffer<T>, values: &mut [T]) -> Result<(), CudaError> {
        let at = from.copied(values.len())?;
        // SAFETY: as many values lie there.
        unsafe { self.read_at(at, values) }
    }

    /// Copies from an address.
    ///
    /// # Safety
    /// As [`Self::write_at`].
    unsafe fn read_at<T: Element>(&self, at: Pointer, values: &mut [T]) -> Result<(), CudaError> {
        self.stream.context().bind_to_thread().map_err(failed("bind the device"))?;
        // SAFETY: as promised by the caller; every pattern of bits is a value.
        unsafe { driver::result::memcpy_dtoh_async(values, at, self.stream.cu_stream()) }
            .map_err(failed("copy from the device"))?;
        self.synchronize()
    }

    /// The values of a buffer.
    pub(crate) fn values<T: Element>(&self, from: DeviceBuffer<T>) -> Result<Vec<T>, CudaError> {
        let mut values = vec![T::default(); from.len()];
        self.read(from, &mut values)?;
        Ok(values)
    }

    /// Waits until everything given to this memory's stream is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.synchronize_to("finish its work")
    }

    fn synchronize_to(&self, action: &'static str) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(failed(action))
    }

    /// How many buffers have guards that are as they were filled; an error for the first one that has not.
    pub(crate) fn verify(&self) -> Result<usize, CudaError> {
        let mut intact = 0;
        for Allocation { slice, label, layout } in &self.allocations {
            let start = slice.device_ptr(&self.stream).0;
            let mut guarded = false;
            for (side, guard) in layout.guards() {
                let mut bytes = vec![0_u8; guard.len()];
                // SAFETY: guards are ranges of the allocation.
                unsafe { self.read_at(start + guard.start as u64, &mut bytes) }?;
                if let Some(offset) = overwritten(side, &bytes) {
                    return Err(CudaError::Overrun { buffer: label, bytes: layout.bytes, side, offset });
                }
                guarded = true;
            }
            intact += if guarded { layout.count } else { 0 };
        }
        Ok(intact)
    }
}

impl Drop for DeviceMemory {
    /// Guards are looked at when their buffers end; without guards nothing is waited for.
    fn drop(&mut self) {
        if self.allocations.iter().any(|allocation| allocation.layout.offset > 0) {
            self.guards.file(self.verify());
        }
    }
}
