//! Guard regions: whoever writes beyond a buffer is noticed, on either side of it, and a copy that does not fit is refused.

use std::sync::Arc;

use super::Check;
use crate::cuda::buffer::{BufferError, DeviceBuffer};
use crate::cuda::guards::{Guards, Side};
use crate::cuda::memory::DeviceMemory;
use crate::cuda::{CudaError, Device};

type Result<T> = std::result::Result<T, CudaError>;

/// Values of the buffers: no multiple of a vector, so that their ends lie anywhere.
const LEN: usize = 5;

/// Writes where nobody may, each time beside a buffer of its own.
pub fn guards(device: &Arc<Device>) -> Result<Vec<Check>> {
    let check = |name: &str, holds: bool| Check {
        name: name.into(),
        error: f64::from(u8::from(!holds)),
        tolerance: 0.0,
    };
    let (memory, _) = buffers(device)?;
    let intact = memory.verify()? == 2;
    let mut checks = vec![check("buffers that were filled and read", intact)];
    for (name, side) in [
        ("a value after the end is noticed", Side::After),
        ("a value before the start is noticed", Side::Before),
    ] {
        checks.push(check(name, overrun_is_noticed(device, side)?));
    }
    let (memory, buffer) = buffers(device)?;
    let refused = memory.write(buffer, &[1.0; LEN + 1]);
    let expected = BufferError::Copy { buffer: "checked", len: LEN, found: LEN + 1 };
    let is_refused = matches!(refused, Err(CudaError::Buffer(found)) if found == expected);
    checks.push(check("a copy that is too long is refused", is_refused));
    Ok(checks)
}

/// Memory with guards, whatever the device's, and two buffers, of which the second is to be checked.
fn buffers(device: &Arc<Device>) -> Result<(DeviceMemory, DeviceBuffer<f32>)> {
    let mut memory = DeviceMemory::with_guards(Arc::new(Guards::on()), device.stream()?);
    memory.zeros::<u16>("another", LEN)?;
    let buffer = memory.filled("checked", &[1.0; LEN])?;
    memory.write(buffer.part(1..3)?, &[2.0; 2])?;
    memory.values(buffer)?;
    Ok((memory, buffer))
}

fn overrun_is_noticed(device: &Arc<Device>, side: Side) -> Result<bool> {
    let (memory, buffer) = buffers(device)?;
    let (start, bytes) = (buffer.pointer(LEN)?, size_of::<f32>() as u64);
    let at = match side {
        Side::After => start + LEN as u64 * bytes,
        Side::Before => start - bytes,
    };
    // SAFETY: the guard there belongs to the buffer's allocation and has room for a thousand values.
    unsafe { memory.write_at(at, &[0.0_f32]) }?;
    let expected = ("checked", LEN * size_of::<f32>(), side, 0);
    Ok(match memory.verify() {
        Err(CudaError::Overrun { buffer, bytes, side, offset }) => (buffer, bytes, side, offset) == expected,
        _ => false,
    })
}
