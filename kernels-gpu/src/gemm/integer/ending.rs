//! What becomes of sums in i32: the epilogue, in f32 or in i32, and the stores, of a type that the
//! launch says.

use abi::OutputDType;
use abi::gemm::integer::I32_RESULTS;
use abi::gemm::{Activation, EpilogueParams, GemmParams};
use cuda_std::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::hint::opaque;
use cuda_std::math::fma;
use cuda_std::mem::{st_v2_u32, st_v4_u32};

use crate::gemm::fused::{Pointers, Steps};

/// Neighbours that a thread has together.
pub(crate) const WIDTH: usize = 4;

/// [`EpilogueParams::d_dtype`]: the type of C, D, bias and residual.
#[derive(Clone, Copy)]
struct Dtype(u32);

impl Dtype {
    #[inline(always)]
    fn is_i32(self) -> bool {
        opaque(self.0) == I32_RESULTS
    }

    #[inline(always)]
    fn is_f32(self) -> bool {
        opaque(self.0) == OutputDType::F32.code()
    }

    #[inline(always)]
    fn is_f16(self) -> bool {
        opaque(self.0) == OutputDType::F16.code()
    }

    #[inline(always)]
    fn is_of_16_bits(self) -> bool {
        !self.is_f32() && !self.is_i32()
    }

    /// Element `offset` of `base`.
    #[inline(always)]
    fn at(self, base: *const u8, offset: i64) -> *const u8 {
        let shift = if self.is_of_16_bits() { 1 } else { 2 };
        base.wrapping_offset((offset << shift) as isize)
    }

    /// That element, a float.
    ///
    /// # Safety
    /// It can be read.
    #[inline(always)]
    unsafe fn load(self, base: *const u8, offset: i64) -> f32 {
        let at = self.at(base, offset);
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_f32() {
                return at.cast::<f32>().read();
            }
            let bits = at.cast::<u16>().read();
            if self.is_f16() {
                f16_to_f32(bits)
            } else {
                bf16_to_f32(bits)
            }
        }
    }

    /// A float, rounded, as bits.
    #[inline(always)]
    fn round(self, x: f32) -> u32 {
        if self.is_f32() {
            x.to_bits()
        } else if self.is_f16() {
            f32_to_f16(x).into()
        } else {
            f32_to_bf16(x).into()
        }
    }
}

/// Adds a matrix of floats times a factor.
#[derive(Clone, Copy)]
struct AddMatrix {
    start: *const u8,
    ld: i64,
    batch_stride: i64,
    factor: f32,
    dtype: Dtype,
}

impl Epilogue for AddMatrix {
    #[inline(always)]
    fn apply(&self, Coord { batch, row, column }: Coord, x: f32) -> f32 {
        let offset = batch as i64 * self.batch_stride + i64::from(row) * self.ld;
        // SAFETY: the caller of `Ending::new` says that there is an element for each of D's.
        let element = unsafe { self.dtype.load(self.start, offset + i64::from(column)) };
        fma(self.factor, element, x)
    }
}

/// Adds a vector of floats, which has an element for each row or for each column.
#[derive(Clone, Copy)]
struct AddVector {
    start: *const u8,
    of_row: bool,
    batch_stride: i64,
    dtype: Dtype,
}

impl Epilogue for AddVector {
    #[inline(always)]
    fn apply(&self, Coord { batch, row, column }: Coord, x: f32) -> f32 {
        let index = if self.of_row { row } else { column };
        let offset = batch as i64 * self.batch_stride + i64::from(index);
        // SAFETY: the caller of `Ending::new` says that there is one for each row, or column.
        x + unsafe { self.dtype.load(self.start, offset) }
    }
}

/// The epilogue, and how results are stored.
pub(crate) struct Ending<'a> {
    dtype: Dtype,
    floats: Steps<AddMatrix, AddVector>,
    /// Of results in i32.
    alpha: i32,
    beta: i32,
    pointers: Pointers<u8>,
    params: &'a GemmParams,
    epilogue: &'a EpilogueParams,
}

impl<'a> Ending<'a> {
    /// What an entry's arguments describe.
    ///
    /// # Safety
    /// The pointers are null, or point to what [`abi::gemm::integer`] says of them.
    #[inline(always)]
    pub(crate) unsafe fn new(
        pointers: Pointers<u8>,
        params: &'a GemmParams,
        epilogue: &'a EpilogueParams,
    ) -> Self {
        let dtype = Dtype(epilogue.d_dtype);
        let matrix = |start, ld, batch_stride, factor| AddMatrix {
            start,
            ld,
            batch_stride,
            factor,
            dtype,
        };
        let vector = |start, of_row, batch_stride| AddVector {
            start,
            of_row,
            batch_stride,
            dtype,
        };
        let integer = |pointer: *const f32, value: f32| {
            if pointer.is_null() {
                value.to_bits() as i32
            } else {
                // SAFETY: the caller's promise: one factor.
                unsafe { pointer.cast::<i32>().read() }
            }
        };
        Self {
            dtype,
            // SAFETY: passed on to the caller.
            floats: unsafe { Steps::of(pointers, (params, epilogue), matrix, vector, |_| false) },
            alpha: integer(pointers.alpha, params.alpha),
            beta: integer(pointers.beta, params.beta),
            pointers,
            params,
            epilogue,
        }
    }

    /// `d`, so many elements further on.
    #[inline(always)]
    pub(crate) fn offset(&self, d: *mut u8, elements: i64) -> *mut u8 {
        self.dtype.at(d, elements).cast_mut()
    }

    /// Makes results of the sums of `count` neighbours from `coord` on, and stores them in `d`,
    /// which is D in this matrix of the batch.
    ///
    /// # Safety
    /// They are inside D, and no other thread's.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, d: *mut u8, coord: Coord, sums: [i32; WIDTH], count: u32) {
        let mut x = sums.map(|sum| sum as u32);
        let mut i = 0;
        while i < opaque(WIDTH as u32) {
            // A loop, as the epilogue is long. `x` goes all the way round.
            let column = coord.column + i.min(count - 1);
            let coord = Coord { column, ..coord };
            // SAFETY: inside D.
            x = [x[1], x[2], x[3], unsafe { self.result(coord, x[0] as i32) }];
            i += 1;
        }
        let in_matrix = i64::from(coord.row) * self.params.ldd + i64::from(coord.column);
        let d = self.offset(d, in_matrix);
        let is_narrow = self.dtype.is_of_16_bits();
        let align = if is_narrow { 8 } else { 16 };
        // SAFETY: the caller's promise.
        unsafe {
            if count == WIDTH as u32 && d.addr().is_multiple_of(align) {
                if is_narrow {
                    st_v2_u32(d.cast(), [x[0] | x[1] << 16, x[2] | x[3] << 16]);
                } else {
                    st_v4_u32(d.cast(), x);
                }
                return;
            }
            for i in 0..WIDTH {
                if (i as u32) < count {
                    if is_narrow {
                        d.cast::<u16>().wrapping_add(i).write(x[i] as u16);
                    } else {
                        d.cast::<u32>().wrapping_add(i).write(x[i]);
                    }
                }
            }
        }
    }

    /// The bits of one result.
    ///
    /// # Safety
    /// The place is inside D.
    #[inline(always)]
    unsafe fn result(&self, coord: Coord, sum: i32) -> u32 {
        if self.dtype.is_i32() {
            // SAFETY: passed on to the caller.
            return unsafe { self.integer(coord, sum) } as u32;
        }
        let mut x = [sum as f32];
        self.floats.all(|_| coord, &mut x);
        self.dtype.round(x[0])
    }

    /// The epilogue in i32.
    ///
    /// # Safety
    /// The place is inside D.
    #[inline(always)]
    unsafe fn integer(&self, Coord { batch, row, column }: Coord, sum: i32) -> i32 {
        let (pointers, params, epilogue) = (&self.pointers, self.params, self.epilogue);
        let (batch, row, column) = (batch as i64, i64::from(row), i64::from(column));
        let at = |base: *const u8, offset: i64| {
            // SAFETY: the caller of `new` says that there is an element for each of D's.
            unsafe { base.cast::<i32>().wrapping_offset(offset as isize).read() }
        };
        let mut x = self.alpha.wrapping_mul(sum);
        if self.beta != 0 {
            let offset = batch * params.batch_stride_c + row * params.ldc + column;
            x = x.wrapping_add(self.beta.wrapping_mul(at(pointers.c, offset)));
        }
        if !pointers.bias.is_null() {
            let index = row * epilogue.bias_stride_m + column * epilogue.bias_stride_n;
            x = x.wrapping_add(at(
                pointers.bias,
                batch * epilogue.batch_stride_bias + index,
            ));
        }
        if epilogue.activation == Activation::Relu.code() {
            x = x.max(0);
        }
        if !pointers.residual.is_null() {
            let offset = batch * epilogue.batch_stride_residual + row * epilogue.ld_residual;
            x = x.wrapping_add(at(pointers.residual, offset + column));
        }
        x
    }
}
