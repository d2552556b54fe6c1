//! Workspaces: memory through which the launches of one call, or the blocks of one launch, pass
//! intermediate results.
//!
//! Each stream keeps its own until [`Device::trim_memory`](crate::Device::trim_memory), so a call
//! costs neither an allocation nor a fill. Several threads may share a stream. The stream orders
//! single launches, but not the launches of two calls. So [`Workspaces::lend`] is the only way to a
//! workspace. It gives one call all of the stream's until its last launch is enqueued.

use crate::backend::Pattern;
use crate::device::{Device, lock};
use crate::storage::Storage;
use crate::stream::{Slot, StreamTable};
use crate::{Result, Stream};
use std::sync::Mutex;

/// The workspaces of a device, by slot of the stream. They are stored as addresses, since a
/// `Storage` would keep its device alive; the backend frees them when the device is dropped.
pub(crate) struct Workspaces([Mutex<[Kept; PURPOSES]>; StreamTable::SLOTS]);

/// A workspace that a call needs.
#[derive(Clone, Copy)]
pub(super) struct Workspace {
    pub(super) purpose: Purpose,
    /// The same for every call of a device with this purpose.
    pub(super) bytes: u64,
    /// Words of 32 bits at its start that are 0 before the launches, which leave them 0.
    pub(super) words: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// The tile counter of attention with a persistent grid.
    AttentionTiles,
    /// Partial sums of stream-K: see [`abi::gemm::stream_k`].
    StreamK,
    /// Counters by which the blocks of a gradient of norms keep pace.
    Paces,
    /// Tickets of reductions (counters of finished parts), then partial results.
    Reduce,
    /// Pairs of the parts of rows that [`TopK`](super::TopK) cuts.
    TopKPairs,
}

const PURPOSES: usize = Purpose::TopKPairs as usize + 1;

/// A workspace of a stream.
#[derive(Default)]
struct Kept {
    /// 0 if there is none.
    address: u64,
    is_clear: bool,
}

impl Default for Workspaces {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Workspaces {
    /// Calls `launches`, which enqueues all launches that use the workspace, with its address, or
    /// with 0 if none is `wanted`. No other call that uses a workspace of this stream enqueues
    /// anything meanwhile, so `launches` itself does not call this function.
    ///
    /// # Errors
    /// Those of `launches`. As these may have left anything, the workspace is cleared before the
    /// next call. [`DeviceError::OutOfMemory`](crate::DeviceError::OutOfMemory) and
    /// [`DeviceError::Driver`](crate::DeviceError::Driver) where there is no workspace.
    pub(super) fn lend(
        &self,
        wanted: Option<Workspace>,
        stream: &Stream,
        launches: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        let Some(Workspace {
            purpose,
            bytes,
            words,
        }) = wanted
        else {
            return launches(0);
        };
        let backend = stream.device().backend();
        // A stream made elsewhere has no slot of its own. Captured launches run later, beside the
        // stream's own launches, and memory allocated meanwhile is the graph's.
        if stream.slot() == Slot::FOREIGN || backend.is_capturing(stream.raw())? {
            let storage = Storage::alloc(stream, bytes)?;
            clear(storage.address(), words, stream)?;
            return launches(storage.address());
        }
        let kept = &mut lock(&self.0[stream.slot().index()])[purpose as usize];
        if kept.address == 0 {
            kept.address = backend.alloc(bytes, stream.raw())?;
        }
        if !kept.is_clear {
            clear(kept.address, words, stream)?;
        }
        kept.is_clear = false;
        launches(kept.address)?;
        kept.is_clear = true;
        Ok(())
    }

    /// Frees the workspaces of all streams of `device`, which this is of, behind the work that uses
    /// them, except those of streams that are captured into graphs.
    pub(crate) fn free(&self, device: &Device) -> Result<()> {
        let backend = device.backend();
        for (slot, all) in Slot::all().zip(&self.0) {
            let Some(raw) = device.streams().raw(slot) else {
                continue;
            };
            if backend.is_capturing(raw)? {
                continue;
            }
            for kept in lock(all).iter_mut().filter(|kept| kept.address != 0) {
                // SAFETY: allocated in `lend` and freed once; only this stream used it.
                unsafe { backend.free(kept.address, raw) }?;
                *kept = Kept::default();
            }
        }
        Ok(())
    }
}

fn clear(address: u64, words: usize, stream: &Stream) -> Result<()> {
    if words == 0 {
        return Ok(());
    }
    let backend = stream.device().backend();
    // SAFETY: the words are at the start of memory that only this stream uses.
    unsafe { backend.fill(address, Pattern::B4(0), words, stream.raw()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::backend::recorder::{capturing_device, recording_device, take};

    const WANTED: Option<Workspace> = Some(Workspace {
        purpose: Purpose::Reduce,
        bytes: 64,
        words: 4,
    });

    #[test]
    fn memory_is_cleared_once_and_again_after_a_launch_that_failed() {
        let (device, log) = recording_device();
        let stream = device.stream().expect("s1");
        let lend = |came: Result<()>| device.workspaces().lend(WANTED, &stream, |_| came);
        lend(Ok(())).expect("the launch's");
        assert_eq!(take(&log), ["alloc s1", "fill s1"]);
        lend(Err(Error::Bug("a fault"))).expect_err("it");
        assert!(take(&log).is_empty());
        lend(Ok(())).expect("the launch's");
        assert_eq!(take(&log), ["fill s1"]);
        lend(Ok(())).expect("the launch's");
        assert!(take(&log).is_empty());
    }

    #[test]
    fn launches_into_a_graph_have_memory_of_their_own() {
        let (device, log) = capturing_device();
        let stream = device.stream().expect("s1");
        for _ in 0..2 {
            let lent = device.workspaces().lend(WANTED, &stream, |_| Ok(()));
            lent.expect("the launch's");
            assert_eq!(take(&log), ["alloc s1", "fill s1", "free s1"]);
        }
        device.trim_memory().expect("trims");
        assert_eq!(take(&log), ["synchronize device"]);
    }

    #[test]
    fn trimmed_workspaces_are_made_anew() {
        let (device, log) = recording_device();
        let streams = [(); 2].map(|()| device.stream().expect("a stream"));
        for _ in 0..2 {
            for stream in &streams {
                let lent = device.workspaces().lend(WANTED, stream, |_| Ok(()));
                lent.expect("the launch's");
            }
            assert_eq!(take(&log), ["alloc s1", "fill s1", "alloc s2", "fill s2"]);
            device.trim_memory().expect("trims");
            assert_eq!(take(&log), ["free s1", "free s2", "synchronize device"]);
        }
    }

    #[test]
    fn a_call_has_the_workspaces_of_its_stream_until_its_last_launch() {
        let (device, _) = recording_device();
        let [stream, other] = [(); 2].map(|()| device.stream().expect("a stream"));
        let workspaces = device.workspaces();
        let slot = |stream: &Stream| &workspaces.0[stream.slot().index()];
        let lent = workspaces.lend(WANTED, &stream, |_| {
            assert!(slot(&stream).try_lock().is_err());
            assert!(slot(&other).try_lock().is_ok());
            Ok(())
        });
        lent.expect("the launch's");
        assert!(slot(&stream).try_lock().is_ok());
    }
}
