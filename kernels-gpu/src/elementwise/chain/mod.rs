//! `y = steps(a, b, c, d)` of every element: a program of functions, interpreted.
//!
//! **Timeline** of a thread: load the first two inputs, 16 bytes a tensor and chunk; then per group
//! of 8 elements: for each step fetch its operand and apply it to all 8; store. All threads of a
//! launch take the same way, so that a step costs a table jump for 8 elements.
//!
//! A chunk is 8 neighbours where no tensor's elements are wider than 2 bytes (two groups a thread), 4
//! where one's are (one group of two chunks). Where the layout has no chunks, and in the last block,
//! elements are gathered one by one, each guarded.

mod access;
pub(super) mod convert;
mod steps;

use cuda_std::param::ByValue;
use cuda_std::{dynamic_shared, kernel, thread};
use spec::elementwise::{ChainParams, GROUP, THREADS};

use access::{Tensors, Tile};
use steps::Machine;

/// Both entries.
///
/// # Safety
/// As [`chain`].
#[inline(always)]
unsafe fn run<const CVT: bool>(tensors: [*mut u8; 5], params: &ChainParams, kept: *mut [f32; 4]) {
    let tile = Tile::of(params, thread::block_idx_x(), thread::thread_idx_x());
    let tensors = Tensors { tensors, params };
    // SAFETY: the launch's tensors; a tile that is full lies inside of them.
    let early = unsafe { tensors.load_early(&tile) };
    for group in 0..tile.groups {
        let mut machine = Machine::new();
        // SAFETY: as above; the launch gives shared memory for what the program keeps.
        unsafe {
            machine.interpret::<CVT>(&tensors, &tile, group, &early, kept);
            tensors.store::<CVT>(&tile, group, machine.value);
        }
    }
}

macro_rules! chains {
    ($($(#[$attribute:meta])* $name:ident: $cvt:literal;)*) => {$(
        /// A program over up to four inputs.
        ///
        /// # Safety
        /// Launched as `spec::elementwise` says, with tensors of these extents, strides and dtypes,
        /// and a program of valid steps.
        $(#[$attribute])*
        pub unsafe fn $name(
            y: *mut u8,
            a: *const u8,
            b: *const u8,
            c: *const u8,
            d: *const u8,
            params: ByValue<ChainParams, 704>,
        ) {
            let tensors = [y, a.cast_mut(), b.cast_mut(), c.cast_mut(), d.cast_mut()];
            // SAFETY: the launch's promise.
            unsafe { run::<$cvt>(tensors, &params, dynamic_shared![[f32; 4]]) }
        }
    )*};
}

chains! {
    #[kernel(max_threads = THREADS, min_blocks = 6)]
    chain: false;
}

const _: () = assert!(GROUP == 8, "the machine's registers");
