//! Shared memory of a thread block.
//!
//! [`shared_array!`](crate::shared_array) allocates it statically (CUDA's `__shared__`);
//! [`dynamic_shared!`](crate::dynamic_shared) is the dynamic shared memory whose size the launch
//! gives. Both are uninitialised, and every thread of the block sees the same bytes: write,
//! `sync_threads`, read.
//!
//! cuda_builder moves statics of section `.shared` into PTX's shared state space, and makes the
//! external `__warpsmith_dynamic_shared` an `.extern .shared` symbol.

use core::mem::MaybeUninit;

/// The storage of a [`shared_array!`](crate::shared_array): `N` elements of `T`, aligned to 16
/// bytes.
#[doc(hidden)]
#[repr(C, align(16))]
pub struct Storage<T: Copy, const N: usize>(MaybeUninit<[T; N]>);

impl<T: Copy, const N: usize> Storage<T, N> {
    /// Uninitialised, as the hardware leaves it.
    pub const UNINIT: Self = Self(MaybeUninit::uninit());
}

/// `shared_array![T; N]`: shared memory for `N` elements of `T`, as a `*mut T` to the first.
///
/// Uninitialised, one per block however many threads evaluate it. Aligned to 16 bytes, or as `T` if
/// that is more: a box of a tensor copy is a struct with `#[repr(C, align(128))]`. Each place in
/// the source is its own array; a place in a generic function is one array for all types, so
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
    /// The dynamic shared memory of the launch.
    static mut __warpsmith_dynamic_shared: [u128; 0];
}

/// The first byte of the launch's dynamic shared memory, aligned to 16 bytes. Every call returns
/// the same address. The size is the launch's `shared_bytes`.
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
/// `dynamic_shared![T; offset_bytes]` starts at that offset, which must keep `T` aligned.
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

/// An address in the block's own shared memory (PTX's `.shared::cta` window), in the form that
/// instructions take: 32 bits, not a generic pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SharedAddr(u32);

impl SharedAddr {
    /// `cvta.to.shared.u64`: converts a generic pointer to a shared memory address.
    ///
    /// *Scope*: thread. *Since*: PTX 2.0, sm_20.
    ///
    /// # Safety
    /// `pointer` points into the block's own shared memory.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn of<T>(pointer: *const T) -> Self {
        on_device!("shared::SharedAddr::of", (pointer), {
            let address: u64;
            // SAFETY: computes an address; the caller's pointer is into shared memory.
            unsafe {
                core::arch::asm!("cvta.to.shared.u64 {}, {};", out(reg64) address,
                    in(reg64) pointer, options(pure, nomem, nostack));
            }
            Self(address as u32)
        })
    }

    /// The address with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The address `bytes` further on.
    #[inline(always)]
    pub const fn add_bytes(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// The first address from here on that is a multiple of `bytes`, a power of two. Dynamic shared
    /// memory begins at a multiple of 16; a tile with a swizzle of 128 bytes wants 1024, so that
    /// the launch gives 1024 bytes more.
    ///
    /// ```
    /// # use cuda_std::shared::SharedAddr;
    /// assert_eq!(SharedAddr::from_bits(0x410).aligned_to(1024).bits(), 0x800);
    /// assert_eq!(SharedAddr::from_bits(0x800).aligned_to(1024).bits(), 0x800);
    /// ```
    #[inline(always)]
    pub const fn aligned_to(self, bytes: u32) -> Self {
        Self(self.0.next_multiple_of(bytes))
    }
}

/// An address in the shared memory of any block of the cluster (PTX's `.shared::cluster` window).
/// [`crate::cluster::mapa_shared_cluster`] computes those of other blocks. A block's own
/// [`SharedAddr`] is a valid cluster address too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ClusterAddr(u32);

impl ClusterAddr {
    /// The address with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The address `bytes` further on, in the same block.
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
