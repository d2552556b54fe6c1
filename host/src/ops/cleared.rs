//! Workspaces whose first words are 0 whenever a launch begins, because each launch resets them.
//!
//! Each stream has one, which is allocated at its first use and kept as long as the device.
//! Launches on one stream run one after the other, so they can share it, and a launch needs neither
//! an allocation nor a fill.

use crate::backend::Pattern;
use crate::device::lock;
use crate::storage::Storage;
use crate::stream::Slot;
use crate::{Result, Stream};
use std::collections::HashMap;
use std::sync::Mutex;

/// The workspaces of a device for one purpose, by the bit of the stream's slot. They are stored as
/// addresses, since a `Storage` would keep its device alive; the backend frees them when the device
/// is dropped.
#[derive(Default)]
pub(super) struct Cleared(Mutex<HashMap<u64, u64>>);

/// A workspace that launches on one stream may use until this is dropped.
pub(super) struct Lent {
    pub(super) address: u64,
    /// Owns the memory where it was allocated for this call alone.
    _storage: Option<Storage>,
}

impl Cleared {
    /// The workspace of `stream`: `bytes` bytes, of which the first `words` 32-bit words are 0. All
    /// calls of a device must pass the same `bytes` and `words`.
    pub(super) fn get(&self, stream: &Stream, bytes: u64, words: usize) -> Result<Lent> {
        if stream.slot() == Slot::FOREIGN {
            // Foreign streams share one slot, so they cannot share a workspace by slot.
            let storage = Storage::alloc(stream, bytes)?;
            clear(storage.address(), words, stream)?;
            return Ok(Lent {
                address: storage.address(),
                _storage: Some(storage),
            });
        }
        let mut known = lock(&self.0);
        let address = match known.get(&stream.slot().bit()) {
            Some(&address) => address,
            None => {
                let address = stream.device().backend().alloc(bytes, stream.raw())?;
                clear(address, words, stream)?;
                known.insert(stream.slot().bit(), address);
                address
            }
        };
        Ok(Lent {
            address,
            _storage: None,
        })
    }
}

fn clear(address: u64, words: usize, stream: &Stream) -> Result<()> {
    let backend = stream.device().backend();
    // SAFETY: the words are at the start of memory that only this stream uses.
    unsafe { backend.fill(address, Pattern::B4(0), words, stream.raw()) }
}
