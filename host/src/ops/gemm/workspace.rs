//! Memory through which blocks of one launch hand sums over: see [`spec::gemm::stream_k`].
//!
//! Each stream has its own, made when it is first asked for and kept as long as the device: launches
//! on one stream come one after the other, and each leaves the flags as it found them, so a launch
//! costs neither an allocation nor a fill.

use super::call::{Call, Memory};
use crate::backend::Pattern;
use crate::device::lock;
use crate::stream::Slot;
use crate::{Result, Stream};
use spec::gemm::sm90::TILE_128X128;
use spec::gemm::stream_k::{BLOCKS_MAX, FLAGS, workspace_bytes};
use std::collections::HashMap;
use std::sync::Mutex;

/// Of a device, by the bit of the stream's slot. Addresses, as memory that knows its device would
/// keep it alive; the backend frees what is left when it goes away.
#[derive(Default)]
pub(super) struct Workspaces(Mutex<HashMap<u64, u64>>);

/// A workspace that launches on one stream may use until this is dropped.
pub(super) struct Workspace {
    pub(super) address: u64,
    /// Where it is this call's alone.
    _memory: Option<Memory>,
}

/// Results of the largest tile that is cut.
const RESULTS_MAX: u32 = {
    assert!(TILE_128X128.takes_stream_k());
    TILE_128X128.tile_m * TILE_128X128.tile_n
};

impl Workspaces {
    /// That of the call's stream.
    pub(super) fn get(&self, call: &Call<'_>) -> Result<Workspace> {
        let stream = call.stream;
        let multiprocessors = stream.device().info().multiprocessors.clamp(1, BLOCKS_MAX);
        let bytes = workspace_bytes(multiprocessors, RESULTS_MAX);
        if stream.slot() == Slot::FOREIGN {
            // Which of all the streams made elsewhere it is, nobody knows.
            let memory = call.workspace(bytes)?;
            clear_flags(memory.address(), stream)?;
            return Ok(Workspace {
                address: memory.address(),
                _memory: Some(memory),
            });
        }
        let mut known = lock(&self.0);
        let address = match known.get(&stream.slot().bit()) {
            Some(&address) => address,
            None => {
                let address = stream.device().backend().alloc(bytes, stream.raw())?;
                clear_flags(address, stream)?;
                known.insert(stream.slot().bit(), address);
                address
            }
        };
        Ok(Workspace {
            address,
            _memory: None,
        })
    }
}

fn clear_flags(address: u64, stream: &Stream) -> Result<()> {
    let backend = stream.device().backend();
    // SAFETY: the flags are the first of a workspace, which this stream has for itself.
    unsafe { backend.fill(address, Pattern::B4(0), FLAGS as usize, stream.raw()) }
}
