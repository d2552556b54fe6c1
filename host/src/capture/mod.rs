//! Captures: what operations do on a device, to be done again on another one.
//!
//! A [`Recording`] has a device that records allocations, copies, fills, launches and reads. Its
//! [`Capture`] is plain data. [`Capture::replay`] does the same steps on another device, where the
//! addresses in parameters and tensor maps are those of the replay's own buffers. All streams of the
//! recording become one, whose order is that of the calls.
//!
//! An aligned word of a parameter that is an address inside a live buffer counts as that address.
//! In bytes that the host writes to the device, a tensor map is found if it is written alone.
//! Addresses are not found there.

mod replay;

use crate::backend::recorder::{Call, LaunchCall, Log, Recorder};
use crate::backend::{Backend, Pattern};
use crate::device::{Device, DeviceInfo, lock};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::tensor_map::{TensorMap, TensorMapDesc};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// What was done on a device, in order. Buffers and modules are named by their index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// PTX texts of the modules that were launched, as the device loaded them.
    pub modules: Vec<String>,
    /// Sizes of the buffers in bytes. A buffer's contents are undefined until a step writes them.
    pub buffers: Vec<u64>,
    /// All steps.
    pub steps: Vec<Step>,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Index in [`Capture::buffers`].
    pub buffer: usize,
    /// Bytes from its beginning, modulo 2^64: the address of a tensor map may lie before the memory that
    /// is read through it.
    pub offset: u64,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// A buffer (by index) is allocated.
    Alloc(usize),
    /// It is freed.
    Free(usize),
    /// The host writes these bytes.
    Write(Place, Data),
    /// The bytes of one element are repeated this many times.
    Fill(Place, Vec<u8>, u64),
    /// The first place gets this many bytes of the second.
    Copy(Place, Place, u64),
    /// A kernel is launched.
    Launch(Launch),
    /// The host reads, and got these bytes.
    Read(Place, Vec<u8>),
}

/// A launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Index in [`Capture::modules`].
    pub module: usize,
    /// Name of the kernel in the module.
    pub entry: String,
    /// Whether it may begin before the launch before it has ended (PDL).
    pub begins_early: bool,
    /// Grid, block, cluster and dynamic shared memory.
    pub config: LaunchConfig,
    /// The parameters.
    pub params: Vec<Data>,
}

/// Bytes that may refer to buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// All bytes; those of links are the recording device's.
    pub bytes: Vec<u8>,
    /// Where they refer to buffers.
    pub links: Vec<Link>,
}

/// A reference to a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Offset in the bytes.
    pub at: usize,
    /// Where it points to.
    pub to: Place,
    /// `None` for an address of 8 bytes, else the tensor map that is there.
    pub map: Option<TensorMapDesc>,
}

/// A device that records what it does.
pub struct Recording {
    device: Device,
    log: Log,
}

impl Recording {
    /// Of a new emulator. `present` changes the properties by which operations choose their kernels,
    /// such as the architecture: the emulator runs kernels for every one up to its own.
    ///
    /// # Errors
    /// As [`Device::emulator_with`].
    #[cfg(feature = "emulator")]
    pub fn emulator(
        config: warpsmith_emulator::EmulatorConfig,
        present: impl FnOnce(&mut DeviceInfo),
    ) -> Result<Self> {
        let backend = crate::backend::emulator::EmulatorBackend::new(config);
        Self::of(Box::new(backend), present)
    }

    /// Of the GPU with this ordinal.
    ///
    /// # Errors
    /// As [`Device::gpu`].
    pub fn gpu(ordinal: usize) -> Result<Self> {
        let backend = crate::backend::gpu::GpuBackend::new(ordinal)?;
        Self::of(Box::new(backend), |_| ())
    }

    fn of(backend: Box<dyn Backend>, present: impl FnOnce(&mut DeviceInfo)) -> Result<Self> {
        let mut info = backend.info().clone();
        present(&mut info);
        let (recorder, log) = Recorder::new(backend, info);
        let device = Device::from_backend(Box::new(recorder))?;
        Ok(Self { device, log })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What it did since it was made.
    ///
    /// # Errors
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) if it used memory that it
    /// did not allocate.
    pub fn capture(&self) -> Result<Capture> {
        let mut builder = Builder::default();
        for call in &*lock(&self.log) {
            builder.add(call)?;
        }
        Ok(builder.capture)
    }
}

/// Makes a capture of calls.
#[derive(Default)]
struct Builder {
    capture: Capture,
    /// Address, size in bytes and index of the buffers that are allocated.
    live: Vec<(u64, u64, usize)>,
    maps: HashMap<[u8; TensorMap::BYTES], (u64, TensorMapDesc)>,
    modules: HashMap<Arc<str>, usize>,
}

impl Builder {
    fn add(&mut self, call: &Call) -> Result<()> {
        let step = match call {
            Call::Other(_) => return Ok(()),
            Call::Encode(address, desc, bytes) => {
                self.maps.insert(*bytes, (*address, desc.clone()));
                return Ok(());
            }
            &Call::Alloc(address, bytes, _) => {
                self.live.push((address, bytes, self.capture.buffers.len()));
                self.capture.buffers.push(bytes);
                Step::Alloc(self.capture.buffers.len() - 1)
            }
            &Call::Free(address, _) => {
                let buffer = self.place(address)?.buffer;
                self.live.retain(|&(_, _, index)| index != buffer);
                Step::Free(buffer)
            }
            Call::CopyIn(to, bytes, _) => Step::Write(self.place(*to)?, self.written(bytes)),
            Call::CopyOut(from, bytes, _) => Step::Read(self.place(*from)?, bytes.clone()),
            &Call::Copy(to, from, bytes, _) => {
                Step::Copy(self.place(to)?, self.place(from)?, bytes)
            }
            &Call::Fill(to, pattern, count, _) => Step::Fill(self.place(to)?, unit(pattern), count),
            Call::Launch(launch, _) => Step::Launch(self.launch(launch)),
        };
        self.capture.steps.push(step);
        Ok(())
    }

    fn find(&self, address: u64) -> Option<Place> {
        let inside = |&&(base, bytes, _): &&(u64, u64, usize)| {
            address >= base && address - base <= bytes // the end is a place too
        };
        let &(base, _, buffer) = self.live.iter().find(inside)?;
        let offset = address - base;
        Some(Place { buffer, offset })
    }

    /// The place of a tensor map's address. The buffer is the one that has the map's last element.
    fn of_map(&self, address: u64, desc: &TensorMapDesc) -> Option<Place> {
        let strides = desc.strides_bytes.iter();
        let steps = desc.dims.iter().skip(1).zip(strides);
        let last = steps.fold(address, |at, (dim, stride)| {
            at.wrapping_add((dim - 1).wrapping_mul(*stride))
        });
        match self.find(last) {
            Some(place) => Some(Place {
                offset: place.offset.wrapping_sub(last.wrapping_sub(address)),
                ..place
            }),
            None => self.find(address),
        }
    }

    fn place(&self, address: u64) -> Result<Place> {
        self.find(address).ok_or_else(|| {
            Error::unsupported(
                format!("memory at {address:#x}, which the device did not allocate"),
                "captures of memory that the recording device allocated",
            )
        })
    }

    fn launch(&mut self, call: &LaunchCall) -> Launch {
        let modules = &mut self.capture.modules;
        let module = *self.modules.entry(call.text.clone()).or_insert_with(|| {
            modules.push(call.text.to_string());
            modules.len() - 1
        });
        Launch {
            module,
            entry: call.entry.to_string(),
            begins_early: call.begins_early,
            config: call.config,
            params: call.params.iter().map(|bytes| self.linked(bytes)).collect(),
        }
    }

    /// What the host writes: a tensor map, or bytes without references.
    fn written(&self, bytes: &[u8]) -> Data {
        match bytes.len() {
            TensorMap::BYTES => self.linked(bytes),
            _ => Data {
                bytes: bytes.to_vec(),
                links: Vec::new(),
            },
        }
    }

    fn linked(&self, bytes: &[u8]) -> Data {
        let mut links = Vec::new();
        let mut at = 0;
        while at + 8 <= bytes.len() {
            let map = bytes[at..].first_chunk().and_then(|map| self.maps.get(map));
            let mapped =
                map.and_then(|(address, desc)| Some((self.of_map(*address, desc)?, desc.clone())));
            if let Some((to, desc)) = mapped {
                let map = Some(desc);
                links.push(Link { at, to, map });
                at += TensorMap::BYTES;
                continue;
            }
            let word = bytes[at..].first_chunk().copied().unwrap_or_default();
            if let Some(to) = self.find(u64::from_ne_bytes(word)) {
                links.push(Link { at, to, map: None });
            }
            at += 8;
        }
        let bytes = bytes.to_vec();
        Data { bytes, links }
    }
}

fn unit(pattern: Pattern) -> Vec<u8> {
    match pattern {
        Pattern::B1(byte) => vec![byte],
        Pattern::B2(value) => value.to_ne_bytes().into(),
        Pattern::B4(value) => value.to_ne_bytes().into(),
        Pattern::B8(value) => value.to_ne_bytes().into(),
    }
}

impl Capture {
    /// Its launches, in order.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(launch),
            _ => None,
        })
    }

    /// What the host read, in order.
    pub fn reads(&self) -> impl Iterator<Item = &[u8]> {
        self.steps.iter().filter_map(|step| match step {
            Step::Read(_, bytes) => Some(&bytes[..]),
            _ => None,
        })
    }

    /// The same up to the last launch of `entry`, and then reads of all buffers that its launches
    /// refer to.
    pub fn up_to(&self, entry: &str) -> Self {
        let launches = |step: &Step| matches!(step, Step::Launch(launch) if launch.entry == entry);
        let end = self
            .steps
            .iter()
            .rposition(launches)
            .map_or(0, |last| last + 1);
        let mut steps = self.steps[..end].to_vec();
        let of_entry = self.launches().filter(|launch| launch.entry == entry);
        let links = of_entry.flat_map(|launch| launch.params.iter().flat_map(|data| &data.links));
        let mut buffers: Vec<usize> = links.map(|link| link.to.buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        steps.retain(|step| !matches!(step, Step::Read(..) | Step::Free(_)));
        for buffer in buffers {
            let bytes = self.buffers.get(buffer).map_or(0, |&bytes| bytes as usize);
            steps.push(Step::Read(Place { buffer, offset: 0 }, vec![0; bytes]));
        }
        Self {
            steps,
            ..self.clone()
        }
    }

    /// The text of the first module with a kernel of this name; `None` if it was not launched.
    pub fn text_of(&mut self, entry: &str) -> Option<&mut String> {
        let module = self.launches().find(|launch| launch.entry == entry)?.module;
        self.modules.get_mut(module)
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests;
