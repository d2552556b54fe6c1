//! Workspaces whose first words are 0 whenever a launch begins, because each launch resets them.
//!
//! Each stream has its own, made when it is first asked for and kept as long as the device: launches
//! on one stream come one after the other, so a launch costs neither an allocation nor a fill. One that
//! failed may have left anything, so the next one's is cleared anew.

use crate::backend::Pattern;
use crate::device::lock;
use crate::storage::Storage;
use crate::stream::Slot;
use crate::{Result, Stream};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;

/// The workspaces of a device for one purpose, by the bit of the stream's slot. They are stored as
/// addresses, since a `Storage` would keep its device alive; the backend frees them when the device
/// is dropped.
#[derive(Default)]
pub(super) struct Cleared(Mutex<HashMap<u64, Held>>);

/// A stream's.
struct Held {
    address: u64,
    is_clear: bool,
}

/// Memory that launches on one stream may use until this is dropped.
pub(super) struct Lent<'a> {
    pub(super) address: u64,
    of: Owner<'a>,
}

enum Owner<'a> {
    /// This call's alone.
    Call { _storage: Storage },
    /// The stream's, by the bit of its slot.
    Stream(&'a Cleared, u64),
}

impl Cleared {
    /// That of `stream`: `bytes`, of which the first `words` of 32 bits are 0. The same for every
    /// call of a device.
    pub(super) fn get(&self, stream: &Stream, bytes: u64, words: usize) -> Result<Lent<'_>> {
        let backend = stream.device().backend();
        // Of streams made elsewhere nobody knows which one it is. What is captured into a graph runs
        // later, beside the stream's own launches, and memory allocated meanwhile is the graph's.
        if stream.slot() == Slot::FOREIGN || backend.is_capturing(stream.raw())? {
            let storage = Storage::alloc(stream, bytes)?;
            clear(storage.address(), words, stream)?;
            return Ok(Lent {
                address: storage.address(),
                of: Owner::Call { _storage: storage },
            });
        }
        let bit = stream.slot().bit();
        let mut known = lock(&self.0);
        let held = match known.entry(bit) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(place) => place.insert(Held {
                address: backend.alloc(bytes, stream.raw())?,
                is_clear: false,
            }),
        };
        if !held.is_clear {
            clear(held.address, words, stream)?;
            held.is_clear = true;
        }
        Ok(Lent {
            address: held.address,
            of: Owner::Stream(self, bit),
        })
    }
}

/// Passes on what came of the launch that used what was lent, if anything was. The emulator goes on after
/// one that failed.
pub(super) fn after(lent: Option<&Lent<'_>>, launched: Result<()>) -> Result<()> {
    if launched.is_err()
        && let Some(Owner::Stream(cleared, bit)) = lent.map(|lent| &lent.of)
        && let Some(held) = lock(&cleared.0).get_mut(bit)
    {
        held.is_clear = false;
    }
    launched
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

    #[test]
    fn memory_is_cleared_once_and_again_after_a_launch_that_failed() {
        let (device, log) = recording_device();
        let stream = device.stream().expect("s1");
        let cleared = Cleared::default();
        let lend = || cleared.get(&stream, 64, 4).expect("it is lent");
        after(Some(&lend()), Ok(())).expect("the launch's");
        assert_eq!(take(&log), ["alloc s1", "fill s1"]);
        after(Some(&lend()), Err(Error::Bug("a fault"))).expect_err("it");
        assert!(take(&log).is_empty());
        after(Some(&lend()), Ok(())).expect("the launch's");
        assert_eq!(take(&log), ["fill s1"]);
        lend();
        assert!(take(&log).is_empty());
    }

    #[test]
    fn launches_into_a_graph_have_memory_of_their_own() {
        let (device, log) = capturing_device();
        let stream = device.stream().expect("s1");
        let cleared = Cleared::default();
        for _ in 0..2 {
            drop(cleared.get(&stream, 64, 4).expect("it is lent"));
            assert_eq!(take(&log), ["alloc s1", "fill s1", "free s1"]);
        }
    }
}
