//! Pieces of work, which are done at once or captured into a graph.

use super::{Shared, memory_error};
use crate::backend::{CapturedGraph, Pattern, RawStream};
use crate::device::lock;
use crate::error::Result;
use std::sync::Arc;
use warpsmith_emulator::{Emulator, LaunchConfig, MemoryError, Module};

/// Size of the host buffer that copies and fills go through.
const COPY_CHUNK: usize = 1 << 20;

/// A piece of work.
pub(super) enum Work {
    /// To, from, number of bytes.
    Copy(u64, u64, usize),
    /// To, what, how often.
    Fill(u64, Pattern, usize),
    Launch(Box<Launch>),
}

pub(super) struct Launch {
    pub(super) module: Module,
    pub(super) name: Box<str>,
    pub(super) config: LaunchConfig,
    /// Bytes of each parameter.
    pub(super) params: Vec<Box<[u8]>>,
}

impl Shared {
    /// Does the work, or captures it.
    pub(super) fn enqueue(&self, stream: RawStream, work: Work) -> Result<()> {
        if let Some(captured) = lock(&self.state).captures.get_mut(&stream.0) {
            captured.push(work);
            return Ok(());
        }
        self.run(stream, &work)
    }

    fn run(&self, stream: RawStream, work: &Work) -> Result<()> {
        match work {
            &Work::Copy(to, from, bytes) => self
                .on_stream(stream, |emulator| copy(emulator, to, from, bytes))?
                .map_err(memory_error),
            &Work::Fill(to, pattern, count) => self
                .on_stream(stream, |emulator| fill(emulator, to, pattern, count))?
                .map_err(memory_error),
            Work::Launch(launch) => self.launch(stream, launch),
        }
    }

    fn launch(&self, stream: RawStream, launch: &Launch) -> Result<()> {
        let params: Vec<&[u8]> = launch.params.iter().map(|bytes| &**bytes).collect();
        let launched = self.on_stream(stream, |emulator| {
            emulator.launch_unprinted(&launch.module, &launch.name, &launch.config, &params)
        })?;
        // The writer may use the stream, whose turn is over.
        self.emulator.print();
        let stats = launched.map_err(|error| self.launch_error(error))?;
        let mut state = lock(&self.state);
        state.lane_instructions += stats.lane_instructions;
        state.last_launch = Some(Arc::new(stats));
        Ok(())
    }
}

fn copy(emulator: &Emulator, to: u64, from: u64, bytes: usize) -> Result<(), MemoryError> {
    let mut staging = vec![0; bytes.min(COPY_CHUNK)];
    let mut done = 0;
    while done < bytes {
        let chunk = &mut staging[..(bytes - done).min(COPY_CHUNK)];
        emulator.read(from + done as u64, chunk)?;
        emulator.write(to + done as u64, chunk)?;
        done += chunk.len();
    }
    Ok(())
}

fn fill(emulator: &Emulator, to: u64, pattern: Pattern, count: usize) -> Result<(), MemoryError> {
    let unit: &[u8] = match &pattern {
        Pattern::B1(byte) => return emulator.fill(to, *byte, count as u64),
        Pattern::B2(value) => &value.to_le_bytes(),
        Pattern::B4(value) => &value.to_le_bytes(),
        Pattern::B8(value) => &value.to_le_bytes(),
    };
    if unit.iter().all(|byte| *byte == unit[0]) {
        return emulator.fill(to, unit[0], (count * unit.len()) as u64);
    }
    let bytes = count * unit.len();
    let block = unit.repeat(count.min(COPY_CHUNK / unit.len()));
    let mut done = 0;
    while done < bytes {
        let chunk = &block[..(bytes - done).min(block.len())];
        emulator.write(to + done as u64, chunk)?;
        done += chunk.len();
    }
    Ok(())
}

/// Captured work.
pub(super) struct EmulatorGraph {
    pub(super) shared: Arc<Shared>,
    pub(super) work: Vec<Work>,
}

impl CapturedGraph for EmulatorGraph {
    unsafe fn launch(&self, stream: RawStream) -> Result<()> {
        self.work
            .iter()
            .try_for_each(|work| self.shared.run(stream, work))
    }
}
