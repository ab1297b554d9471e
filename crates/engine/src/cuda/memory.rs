//! Device memory.

use std::sync::Arc;

use cudarc::driver::{self, CudaSlice, CudaStream, DevicePtr};

use super::error::{CudaError, driver as failed};

/// A pointer into device memory.
pub(crate) type Pointer = u64;

/// Buffers of one network, which live as long as it.
pub(crate) struct DeviceMemory {
    stream: Arc<CudaStream>,
    slices: Vec<CudaSlice<u8>>,
    /// Bytes handed out.
    pub bytes: usize,
}

/// Every buffer is padded by this many bytes, so that the last tile or vector may reach beyond its end.
const PADDING: usize = 1 << 16;

impl DeviceMemory {
    pub(crate) fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, slices: Vec::new(), bytes: 0 }
    }

    /// A buffer of zeros.
    pub(crate) fn zeros(&mut self, bytes: usize) -> Result<Pointer, CudaError> {
        let size = bytes.next_multiple_of(256) + PADDING;
        let slice = self.stream.alloc_zeros::<u8>(size).map_err(|source| {
            match self.stream.context().mem_get_info() {
                Ok((free, total)) if free < size => {
                    CudaError::Memory { needed_mib: size >> 20, free_mib: free >> 20, total_mib: total >> 20 }
                }
                _ => CudaError::Driver { action: "allocate memory", source },
            }
        })?;
        let pointer = slice.device_ptr(&self.stream).0;
        self.slices.push(slice);
        self.bytes += size;
        Ok(pointer)
    }

    /// A buffer with given contents.
    pub(crate) fn filled(&mut self, bytes: &[u8]) -> Result<Pointer, CudaError> {
        let pointer = self.zeros(bytes.len())?;
        self.write(pointer, bytes)?;
        Ok(pointer)
    }

    /// Copies from the host; returns when the bytes have been taken.
    pub(crate) fn write(&self, to: Pointer, bytes: &[u8]) -> Result<(), CudaError> {
        self.stream.context().bind_to_thread().map_err(failed("bind the device"))?;
        // SAFETY: `to` is a buffer of this memory with at least as many bytes; pageable memory is copied before the call returns.
        unsafe { driver::result::memcpy_htod_async(to, bytes, self.stream.cu_stream()) }
            .map_err(failed("copy to the device"))?;
        self.stream.synchronize().map_err(failed("copy to the device"))
    }

    /// Copies to the host, after everything given to this memory's stream is done.
    pub(crate) fn read(&self, from: Pointer, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.stream.context().bind_to_thread().map_err(failed("bind the device"))?;
        // SAFETY: `from` is a buffer of this memory with at least as many bytes.
        unsafe { driver::result::memcpy_dtoh_async(bytes, from, self.stream.cu_stream()) }
            .map_err(failed("copy from the device"))?;
        self.stream.synchronize().map_err(failed("finish its work"))
    }

    /// Waits until everything given to this memory's stream is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(failed("finish its work"))
    }
}
