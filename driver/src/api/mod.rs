//! The functions of the API.

pub(crate) mod array;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod fill;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod graph_node;
pub(crate) mod host_memory;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod mapping;
pub(crate) mod memory;
mod missing;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod old_launch;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod tensor_map;
pub(crate) mod texture;
pub(crate) mod user_object;

use crate::call::Entry;

/// The functions of all files.
pub(crate) const ENTRIES: &[&[Entry]] = &[
    array::ENTRIES,
    capture::ENTRIES,
    context::ENTRIES,
    copy::ENTRIES,
    device::ENTRIES,
    event::ENTRIES,
    function::ENTRIES,
    graph::ENTRIES,
    graph_node::ENTRIES,
    host_memory::ENTRIES,
    launch::ENTRIES,
    library::ENTRIES,
    link::ENTRIES,
    lookup::ENTRIES,
    mapping::ENTRIES,
    memory::ENTRIES,
    module::ENTRIES,
    occupancy::ENTRIES,
    old_launch::ENTRIES,
    pointer::ENTRIES,
    pool::ENTRIES,
    stream::ENTRIES,
    tensor_map::ENTRIES,
    texture::ENTRIES,
    user_object::ENTRIES,
];
