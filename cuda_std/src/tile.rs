//! Tiles of wgmma operands in shared memory.
//!
//! A tile's type contains its element type and its layout (K-major or MN-major, with the 128-byte
//! swizzle). So the shared memory descriptor made of it is always the right one. Combinations that
//! the instruction lacks do not compile:
//!
//! ```compile_fail
//! use cuda_std::accumulator::InFlight;
//! use cuda_std::tile::{KMajor, MnMajor, Operand};
//! use cuda_std::wgmma::{E4m3, M64};
//! // 8-bit operands have to be K-major.
//! unsafe fn product(acc: &mut InFlight<M64<64, f32, E4m3, E4m3>>, a: Operand<E4m3, KMajor>, b: Operand<E4m3, MnMajor>) {
//!     unsafe { acc.multiply_add(a, b) }
//! }
//! # let _: unsafe fn(&mut InFlight<M64<64, f32, E4m3, E4m3>>, Operand<E4m3, KMajor>, Operand<E4m3, MnMajor>) = product;
//! ```

use core::marker::PhantomData;

use crate::pipeline::{Slot, Stage};
use crate::shared::SharedAddr;
use crate::wgmma::{Bf16, E4m3, E5m2, F16, MmaAsync, S8, Tf32, U8};
use abi::swizzle::Swizzle;
use abi::tensor_core::descriptor::{Descriptor, Layout, Major};

/// Bytes of a row of a tile along its contiguous extent: the span of the 128-byte swizzle.
pub const SPAN_BYTES: u32 = Swizzle::B128.span_bytes();

/// An element type of wgmma operands.
pub trait OperandElement: Copy {
    /// Size of an element.
    const SIZE_BYTES: u32;
    /// Extent of a tile along k, in elements: as many as fill a row of [`SPAN_BYTES`].
    const TILE_K: u32 = SPAN_BYTES / Self::SIZE_BYTES;
}

macro_rules! operand_elements {
    ($($name:ident = $bytes:literal;)*) => {$(
        impl OperandElement for $name {
            const SIZE_BYTES: u32 = $bytes;
        }
    )*};
}

operand_elements! { F16 = 2; Bf16 = 2; Tf32 = 4; E4m3 = 1; E5m2 = 1; S8 = 1; U8 = 1; }

/// Which extent of an operand is contiguous in memory, as a type.
pub trait OperandMajor: Copy {
    /// The same, as a value.
    const MAJOR: Major;
    /// The layout, as descriptors state it, of a tile with extent `tile_k` along k.
    fn layout(tile_k: u32) -> Layout;

    /// Issues the wgmma whose A has this layout and whose B has layout `LB`.
    ///
    /// # Safety
    /// As for [`MmaAsync::ss`].
    #[doc(hidden)]
    unsafe fn multiply<M: MmaAsync, LB: OperandMajor, const SCALE_D: bool>(
        acc: &mut M::Acc,
        a: Descriptor,
        b: Descriptor,
    );

    /// Issues the wgmma whose B has this layout.
    ///
    /// # Safety
    /// As for [`MmaAsync::ss`].
    #[doc(hidden)]
    unsafe fn multiply_by<M: MmaAsync, const SCALE_D: bool, const TRANS_A: bool>(
        acc: &mut M::Acc,
        a: Descriptor,
        b: Descriptor,
    );
}

/// k is contiguous. One TMA load of a box of [`SPAN_BYTES`] by MN writes a tile.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;

/// m (of A) or n (of B) is contiguous. TMA loads of boxes of [`SPAN_BYTES`] by `TILE_K`, one after
/// the other, write a tile.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;

macro_rules! operand_majors {
    ($($name:ident = $major:ident, |$tile_k:ident| $layout:expr;)*) => {$(
        impl OperandMajor for $name {
            const MAJOR: Major = Major::$major;

            #[inline(always)]
            fn layout($tile_k: u32) -> Layout {
                $layout
            }

            #[inline(always)]
            unsafe fn multiply<M: MmaAsync, LB: OperandMajor, const SCALE_D: bool>(
                acc: &mut M::Acc,
                a: Descriptor,
                b: Descriptor,
            ) {
                const TRANS_A: bool = Major::$major.transposed();
                // SAFETY: passed on to the caller.
                unsafe { LB::multiply_by::<M, SCALE_D, TRANS_A>(acc, a, b) }
            }

            #[inline(always)]
            unsafe fn multiply_by<M: MmaAsync, const SCALE_D: bool, const TRANS_A: bool>(
                acc: &mut M::Acc,
                a: Descriptor,
                b: Descriptor,
            ) {
                const TRANS_B: bool = Major::$major.transposed();
                // SAFETY: passed on to the caller.
                unsafe { M::ss::<SCALE_D, TRANS_A, TRANS_B>(acc, a.bits(), b.bits()) }
            }
        }
    )*};
}

operand_majors! {
    KMajor = K, |_tile_k| Layout::k_major(Swizzle::B128);
    MnMajor = Mn, |tile_k| Layout::mn_major(Swizzle::B128, tile_k);
}

/// A ring of tiles of `MN` rows (of A) or columns (of B) by [`OperandElement::TILE_K`], one for each
/// stage of a [`Pipeline`](crate::pipeline::Pipeline), with a swizzle of 128 bytes.
///
/// Where k is contiguous a tile is one tensor copy: of a map with boxes of `[TILE_K, MN]` elements and
/// a swizzle of 128 bytes, at `[k, mn]`:
///
/// ```
/// # use cuda_std::pipeline::{Producer, Stages};
/// # use cuda_std::tile::{KMajor, TileRing};
/// # use cuda_std::tma::{TensorMap, cp_async_bulk_tensor_2d_shared_cluster_global};
/// # use cuda_std::wgmma::Bf16;
/// type Tiles = TileRing<Bf16, KMajor, 128>;
/// type Ring = Producer<Stages<4>>;
/// unsafe fn load(tiles: Tiles, map: *const TensorMap, k: i32, mn: i32, producer: &mut Ring) {
///     unsafe {
///         let slot = producer.acquire(Tiles::TILE_BYTES);
///         let to = tiles.destination(&slot);
///         cp_async_bulk_tensor_2d_shared_cluster_global(to, map, [k, mn], slot.barrier());
///     }
/// }
/// # let _: unsafe fn(Tiles, *const TensorMap, i32, i32, &mut Ring) = load;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TileRing<E, L, const MN: u32> {
    base: SharedAddr,
    holds: PhantomData<(E, L)>,
}

impl<E: OperandElement, L: OperandMajor, const MN: u32> TileRing<E, L, MN> {
    /// Size of a tile: the bytes of a stage.
    pub const TILE_BYTES: u32 = MN * SPAN_BYTES;

    /// The ring at `base`, which is a multiple of 1024 bytes, the size of a 128-byte swizzle atom.
    ///
    /// # Safety
    /// [`TILE_BYTES`](Self::TILE_BYTES) per stage from `base` on belong to this ring alone.
    #[inline(always)]
    pub const unsafe fn at(base: SharedAddr) -> Self {
        Self {
            base,
            holds: PhantomData,
        }
    }

    /// Address to which the producer loads the tile of `slot`.
    #[inline(always)]
    pub const fn destination(&self, slot: &Slot) -> SharedAddr {
        self.base.add_bytes(slot.index() * Self::TILE_BYTES)
    }

    /// The tile of `stage` as an operand, starting at row (of A) or column (of B) `mn`, a multiple
    /// of 64.
    #[inline(always)]
    pub fn operand<'stage>(&self, stage: &'stage Stage, mn: u32) -> Operand<'stage, E, L> {
        // 64 rows (or columns) take 64 * SPAN_BYTES in both layouts. K-major: 64 rows of a span
        // each. MN-major: a box of TILE_K = 64 rows of 64 elements, which fill a span because only
        // 16-bit elements can be MN-major.
        let address = self
            .base
            .add_bytes(stage.index() * Self::TILE_BYTES + mn * SPAN_BYTES);
        Operand {
            descriptor: Descriptor::new(address.bits(), L::layout(E::TILE_K)),
            holds: PhantomData,
        }
    }
}

/// A tile as a wgmma operand, valid for as long as its stage is held.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'stage, E, L> {
    descriptor: Descriptor,
    holds: PhantomData<(&'stage (), E, L)>,
}

impl<E: OperandElement, L: OperandMajor> Operand<'_, E, L> {
    /// wgmma instructions that it takes to go through a tile's k; each covers 32 bytes of k
    /// elements.
    pub const STEPS: u32 = SPAN_BYTES / 32;

    /// The shared memory descriptor of the tile's beginning.
    #[inline(always)]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// The operand that starts 64 × `block` rows (or columns) further on.
    #[inline(always)]
    pub const fn block(&self, block: u32) -> Self {
        Self {
            descriptor: self.descriptor.advanced(64 * block * SPAN_BYTES),
            holds: PhantomData,
        }
    }

    /// The shared memory descriptor for instruction `step` of [`STEPS`](Self::STEPS) along k.
    #[inline(always)]
    pub fn step(&self, step: u32) -> Descriptor {
        let bytes = L::layout(E::TILE_K).k_step_bytes(E::SIZE_BYTES);
        self.descriptor.advanced(step * bytes)
    }
}
