//! C, D, bias and residual in the type that a launch says: a type of 16 bits, or f32. One entry
//! serves both, for the price of a branch where elements are read and where they are stored.

use core::marker::PhantomData;

use abi::OutputDType;
use abi::gemm::EpilogueParams;
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::hint::opaque;
use cuda_std::math::fma;
use cuda_std::mem::st_v2_u32;
use half::{bf16, f16};

use super::fused::{Steps, Unread};

/// An element type of 16 bits.
pub(crate) trait Half: Element {
    /// Rounds two f32, the first one to the lower half, by the conversion instruction of GPUs that
    /// have `mma` of bf16.
    fn pair(x: f32, y: f32) -> u32;
}

macro_rules! halves {
    ($($ty:ty: $pair:path;)*) => {$(
        impl Half for $ty {
            #[inline(always)]
            fn pair(x: f32, y: f32) -> u32 {
                $pair(x, y)
            }
        }
    )*};
}

halves! {
    f16: f32x2_to_f16x2_cvt;
    bf16: f32x2_to_bf16x2_cvt;
}

/// An element type of D.
pub(crate) trait Output: Element {
    /// As [`Element::store4`], by [`Half::pair`].
    ///
    /// # Safety
    /// As for [`Element::store4`].
    unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]);

    /// Stores the first `count` of `x`, element by element.
    ///
    /// # Safety
    /// So many elements are writable at `to`.
    unsafe fn store_first(to: *mut Self, x: [f32; 4], count: u32);
}

impl Output for f32 {
    #[inline(always)]
    unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]) {
        // SAFETY: passed on to the caller.
        unsafe { Self::store4(to, x) }
    }

    #[inline(always)]
    unsafe fn store_first(to: *mut Self, x: [f32; 4], count: u32) {
        for i in 0..4 {
            if (i as u32) < count {
                // SAFETY: passed on to the caller.
                unsafe { to.add(i).write(x[i]) };
            }
        }
    }
}

impl<T: Half> Output for T {
    #[inline(always)]
    unsafe fn store4_cvt(to: *mut Self, [x, y, z, w]: [f32; 4]) {
        // SAFETY: passed on to the caller.
        unsafe { st_v2_u32(to.cast(), [T::pair(x, y), T::pair(z, w)]) }
    }

    #[inline(always)]
    unsafe fn store_first(to: *mut Self, [x, y, z, w]: [f32; 4], count: u32) {
        let pairs = [T::pair(x, y), T::pair(z, w)];
        for i in 0..4 {
            if (i as u32) < count {
                let bits = (pairs[i / 2] >> (16 * (i % 2))) as u16;
                // SAFETY: passed on to the caller.
                unsafe { to.cast::<u16>().add(i).write(bits) };
            }
        }
    }
}

/// The type of C, D, bias and residual: f32, or else `T`.
#[derive(Clone, Copy)]
pub(crate) struct Stored<T> {
    /// [`EpilogueParams::d_dtype`].
    dtype: u32,
    otherwise: PhantomData<T>,
}

impl<T: Half> Stored<T> {
    #[inline(always)]
    pub(crate) fn new(epilogue: &EpilogueParams) -> Self {
        Self {
            dtype: epilogue.d_dtype,
            otherwise: PhantomData,
        }
    }

    /// Words of any other type, which are stored as f32 are.
    #[inline(always)]
    pub(crate) fn of_words() -> Self {
        Self {
            dtype: OutputDType::F32.code(),
            otherwise: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn is_f32(self) -> bool {
        self.dtype == OutputDType::F32.code()
    }

    /// The same, of which the compiler does not know that each call has the same answer: otherwise
    /// it makes two loops of one that asks.
    #[inline(always)]
    pub(crate) fn is_f32_now(self) -> bool {
        opaque(self.dtype) == OutputDType::F32.code()
    }

    /// Whether `d` and all that is a multiple of `step` bytes further on is aligned for stores of
    /// four elements.
    #[inline(always)]
    pub(crate) fn is_vector_aligned(self, d: *const u8, step: isize) -> bool {
        let bytes = if self.is_f32() { 16 } else { 8 };
        (d.addr() as u32 | step as u32) & (bytes - 1) == 0
    }

    /// Whether `d` and all that is a multiple of `step` elements further on is aligned to 16 bytes.
    #[inline(always)]
    pub(crate) fn is_store_aligned(self, d: *const u8, step: i64) -> bool {
        (d.addr() as u32 | self.bytes(step) as u32).is_multiple_of(16)
    }

    /// Bytes from the start to the element at `offset`. One computation for both types, as the code
    /// of an epilogue has many of them.
    #[inline(always)]
    pub(crate) fn bytes(self, offset: i64) -> isize {
        let shift = if self.is_f32() { 2 } else { 1 };
        (offset << shift) as isize
    }

    /// Element `offset` of `to`.
    #[inline(always)]
    pub(crate) fn at(self, to: *mut u8, offset: i64) -> *mut u8 {
        to.wrapping_offset(self.bytes(offset))
    }

    /// Shifts `words`, of a store of 16 bytes, to the front, and puts those of `x`, rounded, at the
    /// end.
    #[inline(always)]
    pub(crate) fn push(self, words: [u32; 4], x: [f32; 4]) -> [u32; 4] {
        if self.is_f32_now() {
            x.map(f32::to_bits)
        } else {
            [words[2], words[3], T::pair(x[0], x[1]), T::pair(x[2], x[3])]
        }
    }

    /// Loads the elements of `from` at `N` offsets.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn load<const N: usize>(
        self,
        from: *const u8,
        offset: impl Fn(usize) -> i64,
    ) -> [f32; N] {
        let mut at = [from; N];
        for i in 0..N {
            at[i] = from.wrapping_offset(self.bytes(offset(i)));
        }
        let mut x = [0.0; N];
        if self.is_f32_now() {
            for i in 0..N {
                // SAFETY: passed on to the caller.
                x[i] = unsafe { f32::load(at[i].cast()) };
            }
        } else {
            for i in 0..N {
                // SAFETY: passed on to the caller.
                x[i] = unsafe { T::load_alike(at[i].cast()) };
            }
        }
        x
    }

    /// Stores four neighbours from element `offset` of `to` on: at once if `is_whole`, else the
    /// first `count` of them.
    ///
    /// # Safety
    /// So many elements are writable; if `is_whole`, they are aligned for a store of four.
    #[inline(always)]
    pub(crate) unsafe fn store(
        self,
        (to, offset): (*mut u8, i64),
        x: [f32; 4],
        (count, is_whole): (u32, bool),
    ) {
        let to = self.at(to, offset);
        // SAFETY: passed on to the caller.
        unsafe {
            if self.is_f32_now() {
                store::<f32>(to.cast(), x, (count, is_whole));
            } else {
                store::<T>(to.cast(), x, (count, is_whole));
            }
        }
    }

    /// The epilogue, whose operands are stored so.
    ///
    /// # Safety
    /// As for [`Fused::new`](super::fused::Fused::new).
    #[inline(always)]
    pub(crate) unsafe fn read(
        self,
        Unread {
            pointers,
            params,
            epilogue,
        }: Unread<'_>,
    ) -> Fused<T> {
        let matrix = |start, ld, batch_stride, factor| AddStoredMatrix {
            start,
            ld,
            batch_stride,
            factor,
            stored: self,
        };
        let vector = |start, of_row, batch_stride| AddStoredVector {
            start,
            of_row,
            batch_stride,
            stored: self,
        };
        // SAFETY: passed on to the caller.
        unsafe { Steps::of(pointers, (params, epilogue), matrix, vector, |_| false) }
    }
}

/// As [`Stored::store`], where the type is known.
///
/// # Safety
/// As for [`Stored::store`].
#[inline(always)]
unsafe fn store<Out: Output>(to: *mut Out, x: [f32; 4], (count, is_whole): (u32, bool)) {
    // SAFETY: passed on to the caller.
    unsafe {
        if is_whole {
            Out::store4_cvt(to, x);
        } else {
            Out::store_first(to, x, count);
        }
    }
}

/// The built-in epilogue, with operands that are [`Stored`].
pub(crate) type Fused<T> = Steps<AddStoredMatrix<T>, AddStoredVector<T>>;

impl<T: Half> Epilogue for Fused<T> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let mut x = [x];
        self.all(|_| coord, &mut x);
        x[0]
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        self.all(coord, x);
    }
}

/// As [`AddMatrix`](cuda_std::epilogue::AddMatrix).
#[derive(Clone, Copy)]
pub(crate) struct AddStoredMatrix<T> {
    start: *const u8,
    ld: i64,
    batch_stride: i64,
    factor: f32,
    stored: Stored<T>,
}

impl<T: Half> Epilogue for AddStoredMatrix<T> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let mut x = [x];
        self.apply_all(|_| coord, &mut x);
        x[0]
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        let offset = |i| {
            let Coord { batch, row, column } = coord(i);
            batch as i64 * self.batch_stride + i64::from(row) * self.ld + i64::from(column)
        };
        // SAFETY: the caller of `Stored::read` says that there is an element for each of D's.
        let elements = unsafe { self.stored.load::<N>(self.start, offset) };
        for i in 0..N {
            x[i] = fma(self.factor, elements[i], x[i]);
        }
    }
}

/// As [`AddVector`](cuda_std::epilogue::AddVector).
#[derive(Clone, Copy)]
pub(crate) struct AddStoredVector<T> {
    start: *const u8,
    of_row: bool,
    batch_stride: i64,
    stored: Stored<T>,
}

impl<T: Half> Epilogue for AddStoredVector<T> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let mut x = [x];
        self.apply_all(|_| coord, &mut x);
        x[0]
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        let offset = |i| {
            let Coord { batch, row, column } = coord(i);
            batch as i64 * self.batch_stride + i64::from(if self.of_row { row } else { column })
        };
        // SAFETY: the caller of `Stored::read` says that there is one for each row, or column.
        let elements = unsafe { self.stored.load::<N>(self.start, offset) };
        for i in 0..N {
            x[i] += elements[i];
        }
    }
}
