//! Bulk copies: one thread moves a tile or a run of bytes in the background (the tensor memory
//! accelerator).
//!
//! - [`tensor`]: tiles of a tensor that a [`TensorMap`] describes, 1 to 5 dimensions.
//! - [`bulk`]: runs of bytes.
//! - [`reduce`]: the same towards memory, adding (or another operation) to what is there.
//! - [`policy`]: how L2 is to keep what is copied.
//!
//! Copies into shared memory count their bytes on an mbarrier; copies out of it are waited for in
//! groups. All are of the async proxy: what threads wrote into shared memory needs
//! [`fence_proxy_async_shared_cta`](crate::fence::fence_proxy_async_shared_cta) before a store reads
//! it. One thread issues, not the warp: choose it by `elect_sync`.

pub mod bulk;
pub mod policy;
pub mod reduce;
pub mod tensor;

pub use bulk::*;
pub use policy::*;
pub use reduce::*;
pub use tensor::*;

/// What the host encoded of a tensor: 128 bytes that only the hardware reads.
///
/// It reaches a kernel as a pointer to global (or constant) memory, or among the launch's parameters:
/// [`TensorMapParam`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TensorMap([u64; 16]);

/// A tensor map that the launch passes by value: a kernel's parameter of this type (of this name:
/// cuda_builder looks for it) is 128 bytes, aligned to 64, on the host's side, and where they are
/// on the device's. Nothing is copied to device memory before a launch.
///
/// ```
/// # use cuda_std::tma::{TensorMapParam, prefetch_tensormap};
/// #[cuda_std::kernel(arch = "sm_90a")]
/// pub unsafe fn load(map: TensorMapParam) {
///     unsafe { prefetch_tensormap(map.as_ptr()) }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct TensorMapParam(*const TensorMap);

impl TensorMapParam {
    /// Where the map is, for as long as the kernel runs.
    #[inline(always)]
    pub const fn as_ptr(self) -> *const TensorMap {
        self.0
    }
}

/// `prefetch.tensormap [map]`: brings the tensor map near, before the first copy needs it.
///
/// *Scope*: thread. *Since*: PTX 8.0, sm_90.
///
/// # Safety
/// `map` points to a tensor map.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn prefetch_tensormap(map: *const TensorMap) {
    on_device!("tma::prefetch_tensormap", (map), {
        // SAFETY: the caller's map is one.
        unsafe { core::arch::asm!("prefetch.tensormap [{}];", in(reg64) map, options(nostack)) }
    })
}

macro_rules! groups {
    ($($name:ident $(<const $n:ident>)? = $instruction:literal $operand:literal, $doc:literal;)*)
        => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 8.0, sm_90.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name$(<const $n: u32>)?() {
            on_device!("tma", (), {
                // SAFETY: waits for copies that the thread has issued.
                unsafe {
                    core::arch::asm!(concat!($instruction, $operand, ";"), $(const $n,)?
                        options(nostack));
                }
            })
        }
    )*};
}

groups! {
    cp_async_bulk_commit_group = "cp.async.bulk.commit_group" "",
        "the thread's bulk copies out of shared memory since the last one are a group.";
    cp_async_bulk_wait_group<const N> = "cp.async.bulk.wait_group" " {}",
        "waits until at most `N` of the thread's groups are not complete, the latest.";
    cp_async_bulk_wait_group_read<const N> = "cp.async.bulk.wait_group.read" " {}",
        "waits until at most `N` of the thread's groups still read shared memory, the latest: \
         then it may be written again.";
}
