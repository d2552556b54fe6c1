//! A thread's vectors of a tile, which are as far apart as the row's lanes of a warp cover; their
//! loads, stores and slots.

use abi::reduce::{KIND_LARGEST, KIND_LOG_SUM, KIND_PRODUCT, KIND_SMALLEST};
use abi::scan::{THREADS, VECTORS};
use cuda_std::hint::opaque;
use cuda_std::{convert, mem, thread};
use half::{bf16, f16};

use crate::reduce::load::{Load, Raw};
use crate::reduce::number::Number;
use crate::reduce::partial::Partial;

use super::kind::Kind;

/// Vectors of a tile that a thread handles at a time. Others wait for them, but all at once would
/// be much code and many registers.
pub(super) const AT_ONCE: usize = 4;

/// An element type that is loaded and stored `V` at once.
pub(super) trait Stored<const V: usize>: Load<V> {
    /// The bits of an element, in the low bits of the result.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn read_bits(at: *const u8) -> u64;

    /// # Safety
    /// It is writable.
    unsafe fn write_bits(at: *mut u8, bits: u64);

    /// A vector of results as it is in memory. In these, all are NaN from the first NaN on.
    fn packed(xs: [Self::Number; V]) -> Raw;

    /// The same bits, by an instruction of sm_80.
    #[inline(always)]
    fn packed_sm80(xs: [Self::Number; V]) -> Raw {
        Self::packed(xs)
    }

    /// The bits of a vector's first element.
    #[inline(always)]
    fn bits_of(raw: Raw) -> u64 {
        match Self::bytes(0) {
            8 => u64::from(raw[0]) | u64::from(raw[1]) << 32,
            4 => u64::from(raw[0]),
            _ => u64::from(raw[0] & 0xffff),
        }
    }

    /// The neutral element, which must be an element of this type as well.
    #[inline(always)]
    fn neutral<const IS_LSE: bool>(kind: Kind<IS_LSE>) -> Self::Number
    where
        Self::Number: Partial,
    {
        match kind.code() {
            KIND_PRODUCT => Self::Number::ONE,
            KIND_LARGEST | KIND_LOG_SUM => Self::extremes()[0],
            KIND_SMALLEST => Self::extremes()[1],
            _ => Self::Number::ZERO,
        }
    }

    /// The least value, which is above no element, and the greatest, which is below none.
    #[inline(always)]
    fn extremes() -> [Self::Number; 2]
    where
        Self::Number: Partial,
    {
        [Self::Number::LEAST, Self::Number::MOST]
    }
}

macro_rules! stored_32 {
    ($($ty:ty: |$x:ident| $narrow:expr, $extremes:expr;)*) => {$(
        impl Stored<4> for $ty {
            #[inline(always)]
            fn extremes() -> [Self::Number; 2] {
                $extremes
            }
            #[inline(always)]
            unsafe fn read_bits(at: *const u8) -> u64 {
                // SAFETY: passed on to the caller.
                u64::from(unsafe { at.cast::<u32>().read() })
            }
            #[inline(always)]
            unsafe fn write_bits(at: *mut u8, bits: u64) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u32>().write(bits as u32) }
            }
            #[inline(always)]
            fn packed(xs: [Self::Number; 4]) -> Raw {
                let narrow = |$x: Self::Number| -> u32 { $narrow };
                [narrow(xs[0]), narrow(xs[1]), narrow(xs[2]), narrow(xs[3])]
            }
        }
    )*};
}

macro_rules! stored_16 {
    ($($ty:ty: |$xs:ident| $packed:expr $(, sm80 $pair:path)?;)*) => {$(
        impl Stored<8> for $ty {
            #[inline(always)]
            unsafe fn read_bits(at: *const u8) -> u64 {
                // SAFETY: passed on to the caller.
                u64::from(unsafe { at.cast::<u16>().read() })
            }
            #[inline(always)]
            unsafe fn write_bits(at: *mut u8, bits: u64) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u16>().write(bits as u16) }
            }
            #[inline(always)]
            fn packed($xs: [f32; 8]) -> Raw {
                $packed
            }
            $(#[inline(always)]
            fn packed_sm80(xs: [f32; 8]) -> Raw {
                core::array::from_fn(|i| $pair(xs[2 * i], xs[2 * i + 1]))
            })?
        }
    )*};
}

macro_rules! stored_64 {
    ($($ty:ty: |$x:ident| $bits:expr;)*) => {$(
        impl Stored<2> for $ty {
            #[inline(always)]
            unsafe fn read_bits(at: *const u8) -> u64 {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u64>().read() }
            }
            #[inline(always)]
            unsafe fn write_bits(at: *mut u8, bits: u64) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u64>().write(bits) }
            }
            #[inline(always)]
            fn packed(xs: [$ty; 2]) -> Raw {
                let bits = |$x: $ty| -> u64 { $bits };
                let (a, b) = (bits(xs[0]), bits(xs[1]));
                [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
            }
        }
    )*};
}

stored_32! {
    f32: |x| x.to_bits(), [f32::NEG_INFINITY, f32::INFINITY];
    i32: |x| x as u32, [i32::MIN, i32::MAX].map(i64::from);
}
stored_16! {
    f16: |xs| {
        let pair = |low, high| {
            u32::from(convert::f32_to_f16(low)) | u32::from(convert::f32_to_f16(high)) << 16
        };
        [pair(xs[0], xs[1]), pair(xs[2], xs[3]), pair(xs[4], xs[5]), pair(xs[6], xs[7])]
    };
    bf16: |xs| bf16_packed(xs), sm80 convert::f32x2_to_bf16x2_cvt;
}
stored_64! {
    // Canonical NaN, as it depends on the device which of several NaNs an f64 sum returns.
    f64: |x| Number::nan(x).to_bits();
    i64: |x| x as u64;
}

/// The bits of [`convert::f32_to_bf16`], for vectors in which all are NaN from the first NaN on:
/// only the last element is tested for NaN.
#[inline(always)]
fn bf16_packed(xs: [f32; 8]) -> Raw {
    let rounded = xs.map(|x| {
        let bits = x.to_bits();
        bits.wrapping_add(0x7fff + ((bits >> 16) & 1))
    });
    let mut raw =
        core::array::from_fn(|i| rounded[2 * i] >> 16 | (rounded[2 * i + 1] & 0xffff_0000));
    if Number::is_nan(xs[7]) {
        raw = core::array::from_fn(|i| {
            let half = |x: f32, rounded: u32| match Number::is_nan(x) {
                true => 0x7fff,
                false => rounded,
            };
            half(xs[2 * i], raw[i] & 0xffff) | half(xs[2 * i + 1], raw[i] >> 16) << 16
        });
    }
    raw
}

/// A thread's vectors in a tile of its row; elements are counted from the tile's first.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// First element of the thread's first vector.
    pub(super) first: i32,
    /// Distance between its vectors.
    pub(super) step: i32,
    /// The row's first element in the tile.
    pub(super) begin: i32,
    /// One past the row's last element in the tile.
    pub(super) end: i32,
}

/// 16 bytes shifted down by one element.
#[inline(always)]
fn without_first(bits: [u64; 2], size: u32) -> [u64; 2] {
    match size {
        8 => [bits[1], 0],
        _ => {
            let bits_of = 8 * size;
            [
                bits[0] >> bits_of | bits[1] << (64 - bits_of),
                bits[1] >> bits_of,
            ]
        }
    }
}

/// 16 bytes shifted up by one element, with `first` at the bottom.
#[inline(always)]
fn with_first(bits: [u64; 2], first: u64, size: u32) -> [u64; 2] {
    match size {
        8 => [first, bits[0]],
        _ => {
            let bits_of = 8 * size;
            [
                bits[0] << bits_of | first,
                bits[1] << bits_of | bits[0] >> (64 - bits_of),
            ]
        }
    }
}

impl Span {
    /// Whether all elements of the vector from `first` on exist.
    #[inline(always)]
    pub(super) fn is_whole(&self, first: i32, lanes: i32) -> bool {
        first >= self.begin && first + lanes <= self.end
    }

    /// Whether some of them exist.
    #[inline(always)]
    fn is_any(&self, first: i32, lanes: i32) -> bool {
        first + lanes > self.begin && first < self.end
    }

    /// Whether some, but not all, elements of one of the thread's vectors exist.
    #[inline(always)]
    fn has_part(&self, lanes: i32) -> bool {
        // Counted from the thread's first element; lanes and step are powers of two.
        let left = self.end - self.first;
        let part = left & (lanes - 1);
        let start = left - part;
        let is_own =
            start & (self.step - 1) == 0 && start >= 0 && start < self.step * VECTORS as i32;
        self.first < self.begin || (part != 0 && is_own)
    }

    /// Loads the vectors of a tile to their slots. Elements that do not exist are neutral.
    ///
    /// # Safety
    /// The tile is readable; the vectors are at multiples of 16 bytes.
    #[inline(always)]
    pub(super) unsafe fn load<T: Stored<V, Number: Partial>, const V: usize, const IS_LSE: bool>(
        &self,
        tile: *const u8,
        slots: &Slots,
        kind: Kind<IS_LSE>,
    ) {
        let (size, lanes) = (T::bytes(0), V as i32);
        let at = |element: i32| tile.wrapping_offset(element as isize * size as isize);
        // Half of the vectors at a time: all of them would take too many registers.
        let (mut u, mut first, mut from) = (opaque(0) as usize, self.first, at(self.first));
        while u < opaque(VECTORS as u32) as usize {
            let mut raws: [Raw; AT_ONCE] = [[0; 4]; AT_ONCE];
            for raw in &mut raws {
                if self.is_whole(first, lanes) {
                    // SAFETY: elements of the tile, aligned.
                    *raw = unsafe { T::vector(from, 0) };
                }
                first += self.step;
                from = from.wrapping_offset(self.step as isize * size as isize);
            }
            for (i, &raw) in raws.iter().enumerate() {
                // SAFETY: this thread's slot.
                unsafe { slots.write(u + i, raw) };
            }
            u += AT_ONCE;
        }
        // A row's first and last vector may be incomplete. (These loops are not unrolled.)
        let (mut u, mut first) = (0, self.first);
        while self.has_part(lanes) && u < opaque(VECTORS as u32) {
            if self.is_any(first, lanes) && !self.is_whole(first, lanes) {
                let filler = T::bits_of(T::packed([T::neutral(kind); V]));
                let mut bits = [0; 2];
                let mut element = first + lanes;
                while element > opaque(first as u32) as i32 {
                    element -= 1;
                    let one = match element >= self.begin && element < self.end {
                        // SAFETY: an element of the tile.
                        true => unsafe { T::read_bits(at(element)) },
                        false => filler,
                    };
                    bits = with_first(bits, one, size as u32);
                }
                let [low, high] = bits;
                let raw = [
                    low as u32,
                    (low >> 32) as u32,
                    high as u32,
                    (high >> 32) as u32,
                ];
                // SAFETY: this thread's slot.
                unsafe { slots.write(u as usize, raw) };
            }
            first += self.step;
            u += 1;
        }
    }

    /// Stores from slots to a tile those vectors that are incomplete, or all if the tile is not
    /// aligned to 16 bytes.
    ///
    /// # Safety
    /// The tile is writable; the slots of these vectors have been written.
    #[inline(always)]
    pub(super) unsafe fn store_parts<T: Stored<V>, const V: usize>(
        &self,
        tile: *mut u8,
        slots: &Slots,
    ) {
        let (size, lanes) = (T::bytes(0), V as i32);
        let at = |element: i32| tile.wrapping_offset(element as isize * size as isize);
        let is_aligned = at(self.first).addr().is_multiple_of(16);
        let (mut u, mut first) = (0, self.first);
        let has_parts = !is_aligned || self.has_part(lanes);
        while has_parts && u < opaque(VECTORS as u32) {
            if self.is_any(first, lanes) && !(is_aligned && self.is_whole(first, lanes)) {
                // SAFETY: this thread's slot.
                let [a, b, c, d] = unsafe { slots.read(u as usize) }.map(u64::from);
                let mut bits = [a | b << 32, c | d << 32];
                let mut element = first;
                while element < opaque((first + lanes) as u32) as i32 {
                    if element >= self.begin && element < self.end {
                        // SAFETY: an element of the tile.
                        unsafe { T::write_bits(at(element), bits[0]) };
                    }
                    bits = without_first(bits, size as u32);
                    element += 1;
                }
            }
            first += self.step;
            u += 1;
        }
    }
}

/// Shared memory for a thread's vectors, which would fill its registers while it waits for what
/// comes before the tile.
#[derive(Clone, Copy)]
pub(super) struct Slots(*mut u32);

impl Slots {
    /// Words that a block needs for one tile.
    pub(super) const WORDS: usize = THREADS as usize * VECTORS * 4;

    /// The slots of this thread, in a block's memory at `words`, which is aligned to 16 bytes.
    /// Recomputed at each use, so that they take no registers meanwhile.
    #[inline(always)]
    pub(super) fn own(words: *mut u32) -> Self {
        Self(words.wrapping_add(opaque(thread::thread_idx_x()) as usize * 4))
    }

    /// The slots of the second of a block's two tiles, or the first.
    #[inline(always)]
    pub(super) fn other(&self, is_second: bool) -> Self {
        Self(self.0.wrapping_add(if is_second { Self::WORDS } else { 0 }))
    }

    #[inline(always)]
    fn at(&self, u: usize) -> *mut u32 {
        self.0.wrapping_add(u * THREADS as usize * 4)
    }

    /// # Safety
    /// The slot was written.
    #[inline(always)]
    pub(super) unsafe fn read(&self, u: usize) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_v4_u32(self.at(u)) }
    }

    /// # Safety
    /// The slots are this thread's to write.
    #[inline(always)]
    pub(super) unsafe fn write(&self, u: usize, raw: Raw) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_v4_u32(self.at(u), raw) }
    }
}
