//! Does the steps of a capture on another device.

use super::{Capture, Data, Launch, Place, Step};
use crate::Stream;
use crate::backend::Pattern;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::launch::KernelArg;
use crate::storage::Storage;
use std::collections::HashMap;
use std::ffi::c_void;

impl Capture {
    /// Does all steps on `device`; returns what the host read, in order.
    ///
    /// # Errors
    /// Those of loading PTX, of allocations and launches.
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) or
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for a capture that is not
    /// consistent.
    ///
    /// # Safety
    /// On a GPU, the kernels access nothing but the buffers of the capture. (The emulator checks
    /// that.)
    pub unsafe fn replay(&self, device: &Device) -> Result<Vec<Vec<u8>>> {
        let stream = device.stream()?;
        let mut replay = Replay {
            capture: self,
            kernels: HashMap::new(),
            buffers: self.buffers.iter().map(|_| None).collect(),
            stream: &stream,
            reads: Vec::new(),
        };
        for step in &self.steps {
            // SAFETY: passed on to the caller.
            unsafe { replay.step(step) }?;
        }
        stream.synchronize()?;
        Ok(replay.reads)
    }
}

struct Replay<'a> {
    capture: &'a Capture,
    /// By module and entry.
    kernels: HashMap<(usize, &'a str), Kernel>,
    buffers: Vec<Option<Storage>>,
    stream: &'a Stream,
    reads: Vec<Vec<u8>>,
}

impl<'a> Replay<'a> {
    /// # Safety
    /// See [`Capture::replay`].
    unsafe fn step(&mut self, step: &'a Step) -> Result<()> {
        let backend = self.stream.device().backend();
        let on = self.stream.raw();
        match step {
            &Step::Alloc(buffer) => {
                let bytes = self.capture.buffers.get(buffer).ok_or_else(unknown)?;
                self.buffers[buffer] = Some(Storage::alloc(self.stream, *bytes)?);
            }
            &Step::Free(buffer) => *self.buffers.get_mut(buffer).ok_or_else(unknown)? = None,
            Step::Write(to, data) => {
                let bytes = self.bytes(data)?;
                self.storage(to)?.write(to.offset, &bytes.0)?;
            }
            Step::Fill(to, unit, count) => {
                let bytes = unit.len() * *count as usize;
                let address = self.range(to, bytes)?;
                // SAFETY: the range is inside a live allocation.
                unsafe { backend.fill(address, pattern(unit)?, *count as usize, on) }?;
            }
            Step::Copy(to, from, bytes) => {
                let bytes = *bytes as usize;
                let (to, from) = (self.range(to, bytes)?, self.range(from, bytes)?);
                // SAFETY: the ranges are inside live allocations.
                unsafe { backend.copy(to, from, bytes, on) }?;
            }
            // SAFETY: passed on to the caller.
            Step::Launch(launch) => unsafe { self.launch(launch) }?,
            Step::Read(from, was) => {
                let mut bytes = vec![0; was.len()];
                self.storage(from)?.read(from.offset, &mut bytes)?;
                self.reads.push(bytes);
            }
        }
        Ok(())
    }

    fn storage(&self, place: &Place) -> Result<&Storage> {
        let buffer = self.buffers.get(place.buffer);
        buffer.and_then(Option::as_ref).ok_or_else(unknown)
    }

    /// The address of `bytes` bytes at `place`.
    fn range(&self, place: &Place, bytes: usize) -> Result<u64> {
        let storage = self.storage(place)?;
        storage.check_range(place.offset, bytes)?;
        Ok(storage.address() + place.offset)
    }

    /// # Safety
    /// See [`Capture::replay`].
    unsafe fn launch(&mut self, launch: &'a Launch) -> Result<()> {
        let params: Vec<Bytes> = launch
            .params
            .iter()
            .map(|data| self.bytes(data))
            .collect::<Result<_>>()?;
        let kernel = match self.kernels.get(&(launch.module, &launch.entry)) {
            Some(kernel) => kernel.clone(),
            None => {
                let text = self
                    .capture
                    .modules
                    .get(launch.module)
                    .ok_or_else(unknown)?;
                let module = self.stream.device().load_ptx(text)?;
                let kernel = match launch.begins_early {
                    // SAFETY: it was launched so when it was captured.
                    true => unsafe { module.early_kernel(&launch.entry) }?,
                    false => module.kernel(&launch.entry)?,
                };
                let key = (launch.module, launch.entry.as_str());
                self.kernels.entry(key).or_insert(kernel).clone()
            }
        };
        let args: Vec<&dyn KernelArg> = params.iter().map(|param| param as _).collect();
        // SAFETY: passed on to the caller.
        unsafe { kernel.launch(self.stream, launch.config, &args[..]) }
    }

    /// The bytes of `data` as they are on this device.
    fn bytes(&self, data: &Data) -> Result<Bytes> {
        let mut bytes = data.bytes.clone();
        for link in &data.links {
            let encoded = match &link.map {
                None => self.range(&link.to, 0)?.to_ne_bytes().to_vec(),
                Some(desc) => {
                    let address = self.storage(&link.to)?.address();
                    let address = address.wrapping_add(link.to.offset);
                    let map = desc.encode_at(self.stream.device(), address)?;
                    map.bytes().to_vec()
                }
            };
            let to = bytes.get_mut(link.at..link.at + encoded.len());
            to.ok_or_else(unknown)?.copy_from_slice(&encoded);
        }
        Ok(Bytes(bytes))
    }
}

fn unknown() -> Error {
    Error::unsupported(
        "a step that refers to a buffer or module that is not there",
        "captures as a recording makes them",
    )
}

/// A parameter's bytes.
struct Bytes(Vec<u8>);

// SAFETY: the vector's own bytes, which are initialised.
unsafe impl KernelArg for Bytes {
    fn size_bytes(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

fn pattern(unit: &[u8]) -> Result<Pattern> {
    let bytes = |_| {
        Error::unsupported(
            format!("a fill with elements of {} bytes", unit.len()),
            "1, 2, 4 and 8 bytes",
        )
    };
    Ok(match unit.len() {
        1 => Pattern::B1(unit[0]),
        2 => Pattern::B2(u16::from_ne_bytes(unit.try_into().map_err(bytes)?)),
        4 => Pattern::B4(u32::from_ne_bytes(unit.try_into().map_err(bytes)?)),
        _ => Pattern::B8(u64::from_ne_bytes(unit.try_into().map_err(bytes)?)),
    })
}
