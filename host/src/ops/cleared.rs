//! Memory of which some words are 0 whenever a launch begins, since each launch leaves them so.
//!
//! Each stream has its own, made when it is first asked for and kept as long as the device: launches
//! on one stream come one after the other, so a launch costs neither an allocation nor a fill.

use crate::backend::Pattern;
use crate::device::lock;
use crate::storage::Storage;
use crate::stream::Slot;
use crate::{Result, Stream};
use std::collections::HashMap;
use std::sync::Mutex;

/// That of one purpose, of a device, by the bit of the stream's slot. Addresses, as memory that knows
/// its device would keep it alive; the backend frees what is left when it goes away.
#[derive(Default)]
pub(super) struct Cleared(Mutex<HashMap<u64, u64>>);

/// Memory that launches on one stream may use until this is dropped.
pub(super) struct Lent {
    pub(super) address: u64,
    /// Where it is this call's alone.
    _storage: Option<Storage>,
}

impl Cleared {
    /// That of `stream`: `bytes`, of which the first `words` of 32 bits are 0. The same for every
    /// call of a device.
    pub(super) fn get(&self, stream: &Stream, bytes: u64, words: usize) -> Result<Lent> {
        if stream.slot() == Slot::FOREIGN {
            // Which of all the streams made elsewhere it is, nobody knows.
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
    // SAFETY: the words are the first of memory that this stream has for itself.
    unsafe { backend.fill(address, Pattern::B4(0), words, stream.raw()) }
}
