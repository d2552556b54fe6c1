//! Shared memory of a thread block.
//!
//! [`shared_array!`](crate::shared_array) declares it at compile time,
//! [`dynamic_shared!`](crate::dynamic_shared) is what the launch gave. Both are uninitialised and
//! every thread of the block sees the same bytes: write, `sync_threads`, read.
//!
//! cuda_builder puts a static of section `.shared` into PTX's shared state space, and the
//! external `__warpsmith_dynamic_shared` becomes `.extern .shared`.

use core::mem::MaybeUninit;

/// What a [`shared_array!`](crate::shared_array) is made of: `N` of `T`, aligned to 16 bytes.
#[doc(hidden)]
#[repr(C, align(16))]
pub struct Storage<T: Copy, const N: usize>(MaybeUninit<[T; N]>);

impl<T: Copy, const N: usize> Storage<T, N> {
    /// Uninitialised, as the hardware leaves it.
    pub const UNINIT: Self = Self(MaybeUninit::uninit());
}

/// `shared_array![T; N]`: shared memory for `N` elements of `T`, as a `*mut T` to the first.
///
/// Uninitialised, aligned to 16 bytes, one per block however many threads evaluate it. Each place
/// in the source is its own array; a place in a generic function is one array for all types, so
/// generic bodies take the pointer from their entry. `T` is `Copy`, `N` a constant.
///
/// On the host it is an ordinary static.
///
/// ```
/// use cuda_std::shared_array;
/// let tile: *mut f32 = shared_array![f32; 256];
/// assert!(tile.addr() % 16 == 0);
/// ```
#[macro_export]
macro_rules! shared_array {
    ($ty:ty; $len:expr) => {{
        #[cfg_attr(target_arch = "nvptx64", unsafe(link_section = ".shared"))]
        static mut SHARED: $crate::shared::Storage<$ty, { $len }> =
            $crate::shared::Storage::<$ty, { $len }>::UNINIT;
        (&raw mut SHARED).cast::<$ty>()
    }};
}

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// The launch's dynamic shared memory.
    static mut __warpsmith_dynamic_shared: [u128; 0];
}

/// The first byte of the launch's dynamic shared memory, aligned to 16 bytes. All kernels and
/// calls see the same memory; its size is the launch's `shared_bytes`.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn dynamic_base() -> *mut u8 {
    on_device!("shared::dynamic_base", (), {
        (&raw mut __warpsmith_dynamic_shared).cast::<u8>()
    })
}

/// `dynamic_shared![T]`: the launch's dynamic shared memory as a `*mut T`.
///
/// `dynamic_shared![T; offset_bytes]` starts that many bytes in; the offset must keep `T` aligned.
#[macro_export]
macro_rules! dynamic_shared {
    ($ty:ty) => {
        $crate::shared::dynamic_base().cast::<$ty>()
    };
    ($ty:ty; $offset_bytes:expr) => {
        $crate::shared::dynamic_base()
            .wrapping_add($offset_bytes)
            .cast::<$ty>()
    };
}

/// An address in the block's shared memory as the instructions take it: 32 bits, not a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SharedAddr(u32);

impl SharedAddr {
    /// `cvta.to.shared.u64`: the address of what `pointer` points to.
    ///
    /// *Scope*: thread. *Since*: PTX 2.0, sm_20.
    ///
    /// # Safety
    /// `pointer` is into the block's own shared memory.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn of<T>(pointer: *const T) -> Self {
        on_device!("shared::SharedAddr::of", (pointer), {
            let address: u64;
            // SAFETY: computes an address; the caller's pointer is a shared one.
            unsafe {
                core::arch::asm!("cvta.to.shared.u64 {}, {};", out(reg64) address,
                    in(reg64) pointer, options(pure, nomem, nostack));
            }
            Self(address as u32)
        })
    }

    /// The address of these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// `bytes` further on.
    #[inline(always)]
    pub const fn add_bytes(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// An address in the shared memory of a block of the cluster; [`crate::cluster`] maps them. The
/// block's own addresses are such addresses too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ClusterAddr(u32);

impl ClusterAddr {
    /// The address of these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// `bytes` further on, in the same block.
    #[inline(always)]
    pub const fn add_bytes(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl From<SharedAddr> for ClusterAddr {
    #[inline(always)]
    fn from(address: SharedAddr) -> Self {
        Self(address.0)
    }
}
