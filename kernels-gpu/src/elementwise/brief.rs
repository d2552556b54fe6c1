//! The same as [`super::chain`] for programs of common functions over dense tensors: what most
//! launches are, at the memory's speed.
//!
//! **Roles**: a thread takes 16 elements, in two chunks of 8 neighbours or four of 4; in the last block,
//! and where a tensor is not aligned, one by one. **Timeline**: load both inputs, all in flight; widen;
//! for each step one jump, then the function 16 times; round; store.
//!
//! Between the functions is nothing but the jump, and all threads jump alike: the compiler keeps the
//! program, its counter and its scalars in uniform registers. So nothing here may make the loop's
//! counter a thread's own: no loop of a thread's own length, no `hint::opaque`.

use core::array;

use cuda_std::param::ByValue;
use cuda_std::{kernel, math, mem, thread};
use spec::elementwise::{BRIEF_LEN, BriefParams, THREADS, brief_code as code};

use super::chain::convert;

/// Elements of a thread.
const LEN: usize = BRIEF_LEN as usize;

type Values = [f32; LEN];
/// Four groups of four elements, each in up to four words.
type Words = [u32; LEN];

/// Bytes of an element of the dtype of that number.
#[inline(always)]
fn size_of_code(dtype: u32) -> u32 {
    1 << ((0b01_01_10 >> (2 * dtype)) & 3)
}

/// Raw words of a tile's elements from `first` on.
///
/// # Safety
/// They lie inside of the tensor, aligned.
#[inline(always)]
unsafe fn load(from: *const u8, first: u32, chunk: u32, size: u32) -> Words {
    let at = |element: u32| from.wrapping_add(element as usize * size as usize).cast();
    // SAFETY: passed on to the caller.
    unsafe {
        if chunk == 8 {
            let (near, far) = (at(first), at(first + THREADS * 8));
            if size == 2 {
                let ([a, b, c, d], [e, f, g, h]) =
                    (mem::ld_global_v4_u32(near), mem::ld_global_v4_u32(far));
                return [a, b, 0, 0, c, d, 0, 0, e, f, 0, 0, g, h, 0, 0];
            }
            let ([a, b], [c, d]) = (mem::ld_global_v2_u32(near), mem::ld_global_v2_u32(far));
            return [a, 0, 0, 0, b, 0, 0, 0, c, 0, 0, 0, d, 0, 0, 0];
        }
        let at = [0, 1, 2, 3].map(|k: u32| at(first + k * THREADS * 4));
        if size == 4 {
            let chunks = at.map(|at| mem::ld_global_v4_u32(at));
            return array::from_fn(|i| chunks[i / 4][i % 4]);
        }
        if size == 2 {
            let [a, b, c, d] = at.map(|at| mem::ld_global_v2_u32(at));
            return [
                a[0], a[1], 0, 0, b[0], b[1], 0, 0, c[0], c[1], 0, 0, d[0], d[1], 0, 0,
            ];
        }
        let [a, b, c, d] = at.map(|at: *const u32| at.read());
        [a, 0, 0, 0, b, 0, 0, 0, c, 0, 0, 0, d, 0, 0, 0]
    }
}

/// As [`load`], element by element, as many as there are.
///
/// # Safety
/// The tensor has `len` elements.
#[inline(always)]
unsafe fn gather(from: *const u8, first: u32, len: u32, size: u32) -> Words {
    let elements: Words = array::from_fn(|j| {
        let index = first + j as u32 * THREADS;
        let at = from.wrapping_add(index as usize * size as usize);
        if index >= len {
            return 0;
        }
        // SAFETY: an element of the tensor.
        unsafe {
            match size {
                4 => at.cast::<u32>().read(),
                2 => u32::from(at.cast::<u16>().read()),
                _ => u32::from(at.read()),
            }
        }
    });
    let group = |i: usize| {
        [
            elements[i],
            elements[i + 1],
            elements[i + 2],
            elements[i + 3],
        ]
    };
    let groups = [group(0), group(4), group(8), group(12)];
    let packed = groups.map(|[a, b, c, d]| match size {
        4 => [a, b, c, d],
        2 => [a | b << 16, c | d << 16, 0, 0],
        _ => [a | b << 8 | c << 16 | d << 24, 0, 0, 0],
    });
    array::from_fn(|i| packed[i / 4][i % 4])
}

/// Writes what [`load`] would read.
///
/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn store(to: *mut u8, first: u32, chunk: u32, size: u32, w: Words) {
    let at = |element: u32| to.wrapping_add(element as usize * size as usize).cast();
    // SAFETY: passed on to the caller.
    unsafe {
        if chunk == 8 {
            let (near, far) = (at(first), at(first + THREADS * 8));
            if size == 2 {
                mem::st_global_v4_u32(near, [w[0], w[1], w[4], w[5]]);
                mem::st_global_v4_u32(far, [w[8], w[9], w[12], w[13]]);
            } else {
                mem::st_global_v2_u32(near, [w[0], w[4]]);
                mem::st_global_v2_u32(far, [w[8], w[12]]);
            }
            return;
        }
        let at = [0, 1, 2, 3].map(|k: u32| at(first + k * THREADS * 4));
        let mut k = 0;
        while k < 4 {
            let i = 4 * k;
            match size {
                4 => mem::st_global_v4_u32(at[k], [w[i], w[i + 1], w[i + 2], w[i + 3]]),
                2 => mem::st_global_v2_u32(at[k], [w[i], w[i + 1]]),
                _ => at[k].write(w[i]),
            }
            k += 1;
        }
    }
}

/// Writes what [`gather`] would read.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn scatter(to: *mut u8, first: u32, len: u32, size: u32, w: Words) {
    for j in 0..LEN {
        let index = first + j as u32 * THREADS;
        let at = to.wrapping_add(index as usize * size as usize);
        let (group, k) = (j / 4 * 4, j % 4);
        if index < len {
            // SAFETY: an element of the tensor.
            unsafe {
                match size {
                    4 => at.cast::<u32>().write(w[j]),
                    2 => at
                        .cast::<u16>()
                        .write((w[group + k / 2] >> (16 * (k % 2))) as u16),
                    _ => at.write((w[group] >> (8 * k)) as u8),
                }
            }
        }
    }
}

/// Eight words of sixteen.
#[inline(always)]
fn half(words: Words, from: usize) -> [u32; 8] {
    array::from_fn(|i| words[from + i])
}

/// Sixteen values of twice eight.
#[inline(always)]
fn both<T: Copy>(low: [T; 8], high: [T; 8]) -> [T; LEN] {
    array::from_fn(|i| if i < 8 { low[i] } else { high[i - 8] })
}

/// One step.
#[inline(always)]
fn apply(instruction: u32, value: Values, operand: Values, scalar: f32, quarters: u32) -> Values {
    macro_rules! each {
        (|$x:ident| $body:expr) => {
            value.map(|$x| $body)
        };
        (|$x:ident, $y:ident| $body:expr) => {
            array::from_fn(|i| {
                let ($x, $y) = (value[i], operand[i]);
                $body
            })
        };
    }
    // Longer functions, four at a time: values move round.
    macro_rules! by_fours {
        ($function:path) => {{
            let mut v = value;
            let mut round = 0;
            while round < quarters {
                v = [
                    v[4],
                    v[5],
                    v[6],
                    v[7],
                    v[8],
                    v[9],
                    v[10],
                    v[11],
                    v[12],
                    v[13],
                    v[14],
                    v[15],
                    $function(v[0]),
                    $function(v[1]),
                    $function(v[2]),
                    $function(v[3]),
                ];
                round += 1;
            }
            v
        }};
    }
    match instruction {
        code::NEG => each!(|x| math::neg(x)),
        code::ABS => each!(|x| math::abs(x)),
        code::RELU => each!(|x| if x < 0.0 { 0.0 } else { x }),
        code::SQUARE => each!(|x| x * x),
        code::SQRT => by_fours!(math::sqrt),
        code::RCP => by_fours!(math::rcp),
        code::EXP => by_fours!(math::exp),
        code::LOG => by_fours!(math::log),
        code::SILU => by_fours!(math::silu),
        code::SIGMOID => by_fours!(math::sigmoid),
        code::TANH => by_fours!(math::tanh),
        code::GELU => by_fours!(math::gelu),
        code::GELU_TANH => by_fours!(math::gelu_tanh),
        code::ADD => each!(|x, y| x + y),
        code::SUB => each!(|x, y| x - y),
        code::SUB_FROM => each!(|x, y| y - x),
        code::MUL => each!(|x, y| x * y),
        code::DIV => each!(|x, y| x / y),
        code::MAX => each!(|x, y| math::max_nan(x, y)),
        code::MIN => each!(|x, y| math::min_nan(x, y)),
        code::ADD_SCALAR => each!(|x| x + scalar),
        code::MUL_SCALAR => each!(|x| x * scalar),
        code::MAX_SCALAR => each!(|x| math::max_nan(x, scalar)),
        code::MIN_SCALAR => each!(|x| math::min_nan(x, scalar)),
        code::SUB_SCALAR => each!(|x| x - scalar),
        code::SUB_FROM_SCALAR => each!(|x| scalar - x),
        _ => value,
    }
}

/// Both entries.
///
/// # Safety
/// As [`chain_brief`].
#[inline(always)]
unsafe fn run<const CVT: bool>(y: *mut u8, [a, b]: [*const u8; 2], params: &BriefParams) {
    const TILE: u32 = THREADS * BRIEF_LEN;
    let start = thread::block_idx_x() * TILE;
    let is_full = params.chunk != 1 && start + TILE <= params.len;
    let chunk = if is_full { params.chunk } else { 1 };
    let first = start + thread::thread_idx_x() * chunk;
    let read = |from: *const u8, dtype: u32| {
        let size = size_of_code(dtype);
        // SAFETY: a full tile lies inside of the tensor, aligned; else each element is checked.
        unsafe {
            if is_full {
                load(from, first, chunk, size)
            } else {
                gather(from, first, params.len, size)
            }
        }
    };
    let words = read(a, params.dtypes[0]);
    let second = if params.inputs == 2 {
        read(b, params.dtypes[1])
    } else {
        [0; LEN]
    };
    let widen = |words: Words, dtype: u32| {
        both(
            convert::widen::<CVT>(half(words, 0), dtype),
            convert::widen::<CVT>(half(words, 8), dtype),
        )
    };
    let mut value = widen(words, params.dtypes[0]);
    let mut operand = [0.0; LEN];
    if params.inputs == 2 {
        operand = widen(second, params.dtypes[1]);
    }
    let mut at = 0;
    while at < params.steps {
        let step = params.program[at as usize];
        value = apply(step.word, value, operand, step.scalar, params.quarters);
        at += 1;
    }
    let dtype = params.dtypes[2];
    let size = size_of_code(dtype);
    let low = convert::narrow::<CVT>(array::from_fn(|i| value[i]), dtype);
    let high = convert::narrow::<CVT>(array::from_fn(|i| value[i + 8]), dtype);
    let words = both(low, high);
    // SAFETY: as above, of the output.
    unsafe {
        if is_full {
            store(y, first, chunk, size, words);
        } else {
            scatter(y, first, params.len, size, words);
        }
    }
}

macro_rules! briefs {
    ($($(#[$attribute:meta])* $name:ident: $cvt:literal;)*) => {$(
        /// A brief program over one or two dense inputs.
        ///
        /// # Safety
        /// Launched as `spec::elementwise` says, with dense tensors of these dtypes.
        $(#[$attribute])*
        pub unsafe fn $name(
            y: *mut u8,
            a: *const u8,
            b: *const u8,
            params: ByValue<BriefParams, 288>,
        ) {
            // SAFETY: the launch's promise.
            unsafe { run::<$cvt>(y, [a, b], &params) }
        }
    )*};
}

briefs! {
    #[kernel(max_threads = THREADS, min_blocks = 7)]
    chain_brief: false;
    #[kernel(max_threads = THREADS, min_blocks = 7, arch = "sm_89")]
    chain_brief_sm89: true;
}
