//! The functions of the API.

mod context;
mod copy;
mod device;
mod event;
mod function;
mod host_memory;
mod launch;
mod library;
mod link;
mod lookup;
mod memory;
mod missing;
mod module;
mod occupancy;
mod pointer;
mod pool;
mod stream;
mod tensor_map;

use crate::call::Entry;

/// The functions of all files.
pub(crate) const ENTRIES: &[&[Entry]] = &[
    context::ENTRIES,
    copy::ENTRIES,
    device::ENTRIES,
    event::ENTRIES,
    function::ENTRIES,
    host_memory::ENTRIES,
    launch::ENTRIES,
    library::ENTRIES,
    link::ENTRIES,
    lookup::ENTRIES,
    memory::ENTRIES,
    module::ENTRIES,
    occupancy::ENTRIES,
    pointer::ENTRIES,
    pool::ENTRIES,
    stream::ENTRIES,
    tensor_map::ENTRIES,
];
