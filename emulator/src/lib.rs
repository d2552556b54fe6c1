//! A PTX emulator: runs kernels on the CPU and reports what is wrong with them.
//!
//! An [`Emulator`] is a virtual GPU. It loads PTX modules from their text, holds global memory, and
//! launches kernels. A kernel with a fault (an access out of bounds, a deadlock, a data race and so
//! on) ends in a [`Report`]. It names the kernel, the PTX line, the block and the thread.
//!
//! # What is modelled
//! The results of instructions: where PTX leaves a choice, those of an H200; `.approx` instructions
//! within the distances that [`semantics::approx`] lists. Divergence and reconvergence of warps,
//! barriers, mbarriers and clusters. `cp.async`, bulk and tensor (TMA) copies, `mma` and `wgmma`.
//! An instruction, modifier or directive that is not modelled is the error of the kernels that need
//! it. Time is not modelled: [`profile`] counts what a launch did, not how long a GPU would take.
//!
//! ```
//! use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig};
//!
//! let emulator = Emulator::new(EmulatorConfig::default());
//! let module = emulator.load(
//!     ".version 7.0 .target sm_75 .address_size 64
//!      .visible .entry double(.param .u64 data) {
//!          .reg .u64 %a; .reg .u32 %t, %v;
//!          ld.param.u64 %a, [data];
//!          mov.u32 %t, %tid.x;
//!          mad.wide.u32 %a, %t, 4, %a;
//!          ld.global.u32 %v, [%a];
//!          add.u32 %v, %v, %v;
//!          st.global.u32 [%a], %v;
//!          ret;
//!      }",
//! )?;
//! let data = emulator.alloc(8)?;
//! emulator.write(data, &[3, 0, 0, 0, 5, 0, 0, 0])?;
//! let shape = LaunchConfig { grid: [1; 3], block: [2, 1, 1], shared_bytes: 0, cluster: None };
//! let stats = emulator.launch(&module, "double", &shape, &[&data.to_le_bytes()])?;
//! let mut out = [0; 8];
//! emulator.read(data, &mut out)?;
//! assert_eq!(out, [6, 0, 0, 0, 10, 0, 0, 0]);
//! assert_eq!(stats.lane_instructions, 2 * 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In a debug build
//! It is an interpreter, and more than ten times slower if it is not optimised. In your `Cargo.toml`:
//!
//! ```toml
//! [profile.dev.package.warpsmith-emulator]
//! opt-level = 3
//! ```
//!
//! # Determinism
//! The same module, memory, launch and seed give the same bits, whatever the number of host
//! threads. Blocks run in parallel unless the kernel can make blocks depend on each other's order.
//! Such a kernel has atomics on global memory (or through generic addresses), loads from there that
//! are volatile or stronger, or bulk copies that reduce. The blocks of such a kernel are scheduled
//! in a fixed order on one host thread. Blocks that race through plain accesses have no defined
//! result on a GPU; here the race is reported.
//!
//! # What the checks find
//! | fault | found |
//! |---|---|
//! | global access outside an allocation, in a guard gap, or in freed memory | always, except an access that lands in another live allocation |
//! | access not aligned to its size | always |
//! | read of bytes that neither the host nor a kernel has written | where what was read matters, in global, shared and local memory |
//! | register that the thread never wrote, or a result of arithmetic on one, as an address or a guard, stored, or passed to an instruction other than arithmetic | always, on the path that the lane took; a part that is left open of what moves and logic put together: never |
//! | result that depends on what `shfl.sync` gives a lane whose source takes no part | as a difference between seeds |
//! | shared access outside the block's memory, or local access outside the thread's stack | always; an access that runs from one variable into the next: never |
//! | aligned barrier or warp-wide instruction that lanes of a warp do not reach together | always, on the path that the lanes took |
//! | deadlock at barriers, at mbarriers, or for registers of `setmaxnreg` | always, with what each warp waits for, and where |
//! | misuse of mbarriers, copies, tensor maps and clusters | always, at the instruction that issued them |
//! | a block that exits, and nobody has waited for a copy from or into its shared memory | always |
//! | register of a `wgmma` touched before its `wgmma.wait_group`, or between the `wgmma.fence` and the `wgmma` | accumulators always; registers of A when their value changes |
//! | warps of a warpgroup that run different `wgmma`, or not all of them | always |
//! | `wgmma` descriptor that does not fit its swizzle's pattern, or that leads outside of shared memory or to bytes that were never written | always; one that leads to other bytes that were written: only by the result |
//! | two unordered accesses in a cluster, at least one a write, by threads or asynchronous operations | always in the schedule that ran, whichever came first; never if a release or acquire by another lane of the warp hides it |
//! | `ld.global.nc` of what the same cluster has written | always |
//! | a missing `fence.proxy.async` between a write and an access by the async proxy | always in the schedule that ran |
//! | two such accesses by blocks that cannot wait for each other | always |
//! | two such accesses by blocks that can wait for each other through flags in global memory | sometimes |
//!
//! The last five rows are the race checks, which [`Checks::QUICK`] turns off. `docs/emulator.md`
//! says, under Races, how they work and what they miss.

mod check;
mod config;
mod emulator;
mod error;
mod exec;
mod explore;
mod fifo;
mod footprint;
mod image;
mod limits;
mod lower;
mod memory;
mod module;
mod output;
pub mod profile;
mod program;
mod report;
pub mod semantics;
mod tensor_map;
pub mod trace;

pub use config::{Checks, EmulatorConfig, Ignored, LaunchConfig, LaunchStats};
pub use emulator::{COMPUTE_CAPABILITY, Emulator, MULTIPROCESSORS};
pub use error::{ImageError, LaunchError, LoadError, MemoryError};
pub use explore::Explorer;
pub use fifo::PRINTF_FIFO_BYTES;
pub use footprint::{Footprint, Touched};
pub use image::{AddressMode, Channel, IMAGE_EXTENT, ImageDesc, ImageKind, TextureDesc};
pub use lower::ParamLayout;
pub use module::Module;
pub use output::Output;
pub use report::{FaultKind, Place, Report};
pub use tensor_map::{
    Fill, Im2col, Swizzle, TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TENSOR_MAP_RANK, TensorMapDesc,
    TensorMapError, TensorMapType,
};
