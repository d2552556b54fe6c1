//! Hopper's tensor memory accelerator (TMA): asynchronous bulk copies, each issued by one thread.
//!
//! - [`tensor`]: boxes of a tensor of 1 to 5 dimensions that a [`TensorMap`] describes.
//! - [`bulk`]: contiguous bytes.
//! - [`reduce`]: copies that combine the source with the destination, by addition or another
//!   operation.
//! - [`policy`]: L2 cache policies for these copies.
//!
//! Completion: a copy into shared memory counts its transaction bytes on an mbarrier. A copy from
//! shared to global memory belongs to a bulk group, which the issuing thread commits and waits for.
//!
//! All copies are of the async proxy. What threads wrote to shared memory by ordinary stores needs
//! a [`fence_proxy_async_shared_cta`](crate::fence::fence_proxy_async_shared_cta) by those threads,
//! and then a barrier, before a TMA store may read it. Each instruction that a lane executes is a
//! copy of its own, so exactly one lane issues: choose it by
//! [`elect_sync`](crate::elect::elect_sync).

pub mod bulk;
pub mod policy;
pub mod reduce;
pub mod tensor;

pub use bulk::*;
pub use policy::*;
pub use reduce::*;
pub use tensor::*;

/// A tensor map (tensor descriptor): an opaque object of 128 bytes that the host encodes and the
/// hardware reads. It states the tensor's address, extents, strides, box and swizzle.
///
/// A kernel gets it as a pointer to global (or constant) memory, or as a launch parameter:
/// [`TensorMapParam`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TensorMap([u64; 16]);

/// A tensor map that the launch passes by value (CUDA's `__grid_constant__ const CUtensorMap`).
///
/// For the host, the parameter is 128 bytes, aligned to 64. In the kernel, it is the address of
/// these bytes, so nothing has to be copied to device memory before a launch. cuda_builder
/// recognises the parameter by this type's name.
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
    /// The address of the map, valid while the kernel runs.
    #[inline(always)]
    pub const fn as_ptr(self) -> *const TensorMap {
        self.0
    }
}

/// `prefetch.tensormap [map]`: prefetches the tensor map, so that the first copy does not wait for
/// it.
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
