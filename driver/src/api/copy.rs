//! Copies and fills. An address tells whose memory it is, so one function does all directions.

use std::ffi::c_void;

use warpsmith_emulator::Footprint;

use crate::c::{Address, Copy2d, Copy3d, Data, Handle, In, Out, Side2d, Side3d, bytes, bytes_mut};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::order;
use crate::report;
use crate::state::{DEVICE_ADDRESSES, Driver, current, current_of};
use crate::work::{Work, submit, submit_and_wait};

use super::array;
use super::fill::Fill;
use super::memory::code_of;

/// Bytes that copies within the device go through at a time.
pub(super) const CHUNK: usize = 1 << 20;

/// `CU_MEMORYTYPE_HOST` and so on.
const HOST: u32 = 1;
pub(super) const DEVICE: u32 = 2;
const ARRAY: u32 = 3;

fn is_of_device(address: Address) -> bool {
    DEVICE_ADDRESSES.contains(&address)
}

/// What the emulator says of a copy.
fn checked(done: Result<(), warpsmith_emulator::MemoryError>) -> Answer {
    done.map_err(|error| {
        report::note(format_args!("copy or fill: {error}"));
        code_of(&error)
    })
}

/// Copies bytes between any two places.
///
/// # Safety
/// Ranges of the host are valid: `to` for writes, `from` for reads.
pub(crate) unsafe fn copy(driver: &Driver, to: Address, from: Address, len: usize) -> Answer {
    let emulator = &driver.emulator;
    match (is_of_device(to), is_of_device(from)) {
        (true, false) => {
            // SAFETY: the caller's contract.
            let from = unsafe { bytes(from as *const c_void, len) }?;
            checked(emulator.write(to, from))
        }
        (false, true) => {
            // SAFETY: the caller's contract.
            let to = unsafe { bytes_mut(to as *mut c_void, len) }?;
            checked(emulator.read(from, to))
        }
        (false, false) if len == 0 => Ok(()),
        (false, false) if to == 0 || from == 0 => Err(Code::INVALID_VALUE),
        (false, false) => {
            // SAFETY: the caller's contract; the ranges may overlap.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len) };
            Ok(())
        }
        (true, true) => {
            let mut staging = vec![0; len.min(CHUNK)];
            let mut done = 0;
            while done < len {
                let chunk = &mut staging[..(len - done).min(CHUNK)];
                let at = done as u64;
                checked(emulator.read(from + at, chunk))?;
                checked(emulator.write(to + at, chunk))?;
                done += chunk.len();
            }
            Ok(())
        }
    }
}

/// What a copy reads and writes, apart from memory of the host that is the host's alone.
pub(crate) fn touched(driver: &Driver, to: Address, from: Address, len: usize) -> Footprint {
    let state = driver.state();
    let part = |address| match is_of_device(address) || state.range_at(address).is_some() {
        true => order::all_of(address, len as u64),
        false => Vec::new(),
    };
    Footprint {
        reads: part(from),
        writes: part(to),
        ..Footprint::default()
    }
}

/// Copies, and waits for it.
pub(super) fn copy_now(to: Address, from: Address, len: usize) -> Answer {
    submit_and_wait(current()?, Work::Copy { to, from, len })
}

/// Copies on a stream.
pub(super) fn copy_on(stream: Handle, to: Address, from: Address, len: usize) -> Answer {
    submit(current()?, stream, Work::Copy { to, from, len })
}

/// Where a side of a copy begins.
pub(crate) fn address_of(side: Side3d) -> Address {
    match side.kind {
        HOST => side.host as Address,
        _ => side.device,
    }
}

/// Whether a side of a copy is memory of the host.
pub(crate) fn is_of_host(side: Side3d) -> bool {
    !is_of_device(address_of(side))
}

/// Rows of one side of a copy in two or three dimensions.
struct Rows {
    first: Address,
    pitch: u64,
    /// Bytes from one slice to the next.
    slice: u64,
}

impl Rows {
    /// The rows of a side, whose last byte has an address.
    fn new(side: Side3d, shape: &Copy3d) -> Answer<Self> {
        let base = address_of(side);
        let pitch = side.pitch as u64;
        let place = || {
            let slice = pitch.checked_mul(side.height as u64)?;
            let at = |x: usize, y: usize, z: usize| {
                let rows = pitch.checked_mul(y as u64)?;
                let slices = slice.checked_mul(z as u64)?;
                rows.checked_add(slices)?.checked_add(x as u64)
            };
            let first = base.checked_add(at(side.x_bytes, side.y, side.z)?)?;
            first.checked_add(at(shape.width_bytes, shape.height, shape.depth)?)?;
            Some(Self {
                first,
                pitch,
                slice,
            })
        };
        place().ok_or(Code::INVALID_VALUE)
    }

    fn row(&self, y: usize, z: usize) -> Address {
        self.first + y as u64 * self.pitch + z as u64 * self.slice
    }
}

/// Both sides of a copy.
fn sides(shape: &Copy3d) -> Answer<(Rows, Rows)> {
    let (to, from) = (Rows::new(shape.to, shape)?, Rows::new(shape.from, shape)?);
    let bad_pitch = |rows: &Rows| {
        let rows_matter = shape.height > 1 || shape.depth > 1;
        rows_matter && rows.pitch < shape.width_bytes as u64
    };
    match bad_pitch(&to) || bad_pitch(&from) {
        true => Err(Code::INVALID_VALUE),
        false => Ok((to, from)),
    }
}

/// Copies rows, if the shape is right.
pub(crate) fn copy_3d(driver: &Driver, shape: &Copy3d) -> Answer<Footprint> {
    let (to, from) = sides(shape)?;
    let mut all = Footprint::default();
    if shape.width_bytes == 0 || shape.height == 0 {
        return Ok(all);
    }
    for z in 0..shape.depth {
        for y in 0..shape.height {
            let (to, from) = (to.row(y, z), from.row(y, z));
            // SAFETY: as in `Work::run`: by the contract of the functions that copy.
            unsafe { copy(driver, to, from, shape.width_bytes) }?;
            let row = touched(driver, to, from, shape.width_bytes);
            all.reads.extend(row.reads);
            all.writes.extend(row.writes);
        }
    }
    Ok(all)
}

/// Work that copies rows. Arrays become the memory that they lie in.
pub(super) fn work_of(mut shape: Copy3d) -> Answer<Work> {
    let extent = [shape.width_bytes, shape.height, shape.depth];
    for side in [&mut shape.to, &mut shape.from] {
        if side.kind == ARRAY {
            *side = array::resolved(&current()?.state(), *side, extent)?;
        }
    }
    sides(&shape)?;
    Ok(Work::Copy3d(Box::new(shape)))
}

fn copy_3d_on(stream: Option<Handle>, shape: Copy3d) -> Answer {
    submit_on(stream, work_of(shape)?)
}

/// Does work on a stream; on none, the call waits for it.
fn submit_on(stream: Option<Handle>, work: Work) -> Answer {
    match stream {
        Some(stream) => submit(current_of(stream)?, stream, work),
        None => submit_and_wait(current()?, work),
    }
}

impl From<Side2d> for Side3d {
    fn from(side: Side2d) -> Self {
        Self {
            x_bytes: side.x_bytes,
            y: side.y,
            z: 0,
            level: 0,
            kind: side.kind,
            host: side.host,
            device: side.device,
            array: side.array,
            reserved: 0,
            pitch: side.pitch,
            height: 0,
        }
    }
}

fn copy_2d(stream: Option<Handle>, shape: Copy2d) -> Answer {
    copy_3d_on(
        stream,
        Copy3d {
            from: shape.from.into(),
            to: shape.to.into(),
            width_bytes: shape.width_bytes,
            height: shape.height,
            depth: 1,
        },
    )
}

fn fill_on(
    stream: Option<Handle>,
    to: Address,
    pitch: usize,
    unit: &[u8],
    extents: [usize; 2],
) -> Answer {
    submit_on(stream, Work::Fill(Fill::new(to, pitch, unit, extents)?))
}

/// Copies of a stream, in any order; here it is that of the lists. Their attributes say when sources
/// are read, and where memory should be.
fn copy_all_on(
    stream: Handle,
    to: In<Address>,
    from: In<Address>,
    lens: In<usize>,
    count: usize,
) -> Answer {
    if count == 0 || matches!(stream, 0..=2) {
        return Err(Code::INVALID_VALUE);
    }
    let (to, from, lens) = (to.list(count)?, from.list(count)?, lens.list(count)?);
    let mut copies = to.into_iter().zip(from).zip(lens);
    copies.try_for_each(|((to, from), len)| copy_on(stream, to, from, len))
}

entries! {
    fn cuMemcpy | cuMemcpy_ptds: "cuMemcpy" @ 4000 (to: Address, from: Address, len: usize) {
        copy_now(to, from, len)
    }

    fn cuMemcpyAsync | cuMemcpyAsync_ptsz: "cuMemcpyAsync" @ 4000 (
        to: Address, from: Address, len: usize, stream: Handle,
    ) {
        copy_on(stream, to, from, len)
    }

    fn cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz: "cuMemcpyBatchAsync" @ 12080 (
        to: In<Address>, from: In<Address>, lens: In<usize>, count: usize, _attributes: Data,
        _indices: In<usize>, _attribute_count: usize, _failed: Out<usize>, stream: Handle,
    ) {
        copy_all_on(stream, to, from, lens, count)
    }

    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz: "cuMemcpyBatchAsync" @ 13000 (
        to: In<Address>, from: In<Address>, lens: In<usize>, count: usize, _attributes: Data,
        _indices: In<usize>, _attribute_count: usize, stream: Handle,
    ) {
        copy_all_on(stream, to, from, lens, count)
    }

    fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds: "cuMemcpyHtoD" @ 3020 (
        to: Address, from: Address, len: usize,
    ) {
        copy_now(to, from, len)
    }

    fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz: "cuMemcpyHtoDAsync" @ 3020 (
        to: Address, from: Address, len: usize, stream: Handle,
    ) {
        copy_on(stream, to, from, len)
    }

    fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds: "cuMemcpyDtoH" @ 3020 (
        to: Address, from: Address, len: usize,
    ) {
        copy_now(to, from, len)
    }

    fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz: "cuMemcpyDtoHAsync" @ 3020 (
        to: Address, from: Address, len: usize, stream: Handle,
    ) {
        copy_on(stream, to, from, len)
    }

    fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds: "cuMemcpyDtoD" @ 3020 (
        to: Address, from: Address, len: usize,
    ) {
        copy_now(to, from, len)
    }

    fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz: "cuMemcpyDtoDAsync" @ 3020 (
        to: Address, from: Address, len: usize, stream: Handle,
    ) {
        copy_on(stream, to, from, len)
    }

    fn cuMemcpyPeer | cuMemcpyPeer_ptds: "cuMemcpyPeer" @ 4000 (
        to: Address, _to_context: Handle, from: Address, _from_context: Handle, len: usize,
    ) {
        copy_now(to, from, len)
    }

    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz: "cuMemcpyPeerAsync" @ 4000 (
        to: Address, _to_context: Handle, from: Address, _from_context: Handle, len: usize,
        stream: Handle,
    ) {
        copy_on(stream, to, from, len)
    }

    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds: "cuMemcpy2D" @ 3020 (shape: In<Copy2d>) {
        copy_2d(None, shape.get()?)
    }

    fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds: "cuMemcpy2DUnaligned" @ 3020 (
        shape: In<Copy2d>,
    ) {
        copy_2d(None, shape.get()?)
    }

    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz: "cuMemcpy2DAsync" @ 3020 (
        shape: In<Copy2d>, stream: Handle,
    ) {
        copy_2d(Some(stream), shape.get()?)
    }

    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds: "cuMemcpy3D" @ 3020 (shape: In<Copy3d>) {
        copy_3d_on(None, shape.get()?)
    }

    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz: "cuMemcpy3DAsync" @ 3020 (
        shape: In<Copy3d>, stream: Handle,
    ) {
        copy_3d_on(Some(stream), shape.get()?)
    }

    fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds: "cuMemsetD8" @ 3020 (
        to: Address, value: u8, count: usize,
    ) {
        fill_on(None, to, 0, &[value], [count, 1])
    }

    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds: "cuMemsetD16" @ 3020 (
        to: Address, value: u16, count: usize,
    ) {
        fill_on(None, to, 0, &value.to_ne_bytes(), [count, 1])
    }

    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds: "cuMemsetD32" @ 3020 (
        to: Address, value: u32, count: usize,
    ) {
        fill_on(None, to, 0, &value.to_ne_bytes(), [count, 1])
    }

    fn cuMemsetD8Async | cuMemsetD8Async_ptsz: "cuMemsetD8Async" @ 3020 (
        to: Address, value: u8, count: usize, stream: Handle,
    ) {
        fill_on(Some(stream), to, 0, &[value], [count, 1])
    }

    fn cuMemsetD16Async | cuMemsetD16Async_ptsz: "cuMemsetD16Async" @ 3020 (
        to: Address, value: u16, count: usize, stream: Handle,
    ) {
        fill_on(Some(stream), to, 0, &value.to_ne_bytes(), [count, 1])
    }

    fn cuMemsetD32Async | cuMemsetD32Async_ptsz: "cuMemsetD32Async" @ 3020 (
        to: Address, value: u32, count: usize, stream: Handle,
    ) {
        fill_on(Some(stream), to, 0, &value.to_ne_bytes(), [count, 1])
    }

    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds: "cuMemsetD2D8" @ 3020 (
        to: Address, pitch: usize, value: u8, width: usize, height: usize,
    ) {
        fill_on(None, to, pitch, &[value], [width, height])
    }

    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds: "cuMemsetD2D16" @ 3020 (
        to: Address, pitch: usize, value: u16, width: usize, height: usize,
    ) {
        fill_on(None, to, pitch, &value.to_ne_bytes(), [width, height])
    }

    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds: "cuMemsetD2D32" @ 3020 (
        to: Address, pitch: usize, value: u32, width: usize, height: usize,
    ) {
        fill_on(None, to, pitch, &value.to_ne_bytes(), [width, height])
    }

    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz: "cuMemsetD2D8Async" @ 3020 (
        to: Address, pitch: usize, value: u8, width: usize, height: usize, stream: Handle,
    ) {
        fill_on(Some(stream), to, pitch, &[value], [width, height])
    }

    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz: "cuMemsetD2D16Async" @ 3020 (
        to: Address, pitch: usize, value: u16, width: usize, height: usize, stream: Handle,
    ) {
        fill_on(Some(stream), to, pitch, &value.to_ne_bytes(), [width, height])
    }

    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz: "cuMemsetD2D32Async" @ 3020 (
        to: Address, pitch: usize, value: u32, width: usize, height: usize, stream: Handle,
    ) {
        fill_on(Some(stream), to, pitch, &value.to_ne_bytes(), [width, height])
    }
}
