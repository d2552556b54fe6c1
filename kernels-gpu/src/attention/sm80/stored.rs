//! How keys and values of a decoding lie in memory, and how fragments of `mma` come of them: 16-bit
//! elements as they are, and e4m3, which become f16.
//!
//! # e4m3
//! Fragments come by the same `ldmatrix` as those of 16-bit elements, of which two bytes are one.
//! - Keys: a lane gets four neighbouring bytes of a key. An `mma` may have its k in any order, so a
//!   lane's queries are the same four elements.
//! - Values, transposed: a lane gets, of two keys, two neighbouring bytes each. The first of all lanes
//!   are a block of eight columns, the second another. So a lane has four neighbouring columns of o
//!   in two blocks.
//!
//! By integers, the bits of a magnitude move to those of an f16 whose exponent has a bias of 15, not
//! 7: 2^-8 times the value, also of subnormal ones.

use abi::OutputDType;
use abi::attention::decode::WARP_KEYS;
use cuda_std::bits::prmt;
use cuda_std::convert::{e4m3x2_to_f16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::mem::{st_shared_v2_f32, st_shared_v4_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, shfl_bfly};
use half::f16;

use super::decode::Decode;
use super::element::Half;
use super::fragments::{Reader, joined};
use super::softmax::Accumulator;

/// Blocks of 8 keys that a warp has at a time.
pub(super) const N: usize = WARP_KEYS as usize / 8;
const _: () = assert!(N == 2, "one fragment of A");

/// A lane's elements of q: fragments of A.
pub(super) type Queries<const M: usize, const STEPS: usize> = [[[u32; 4]; M]; STEPS];

/// Keys and values in memory. Rows in shared memory have `W` × 2 bytes.
pub(crate) trait Stored: Sized {
    /// The type of products.
    type Product: Half;
    /// Bytes of an element.
    const BYTES: u32;
    /// By what scores and o are smaller than those of the elements; 0 if nothing is to be multiplied.
    const FACTOR: f32;

    /// This lane's elements of q, and the powers of two by which the scores of its rows are to be
    /// multiplied, a byte of exponent each; idle rows are 0.
    ///
    /// # Safety
    /// The launch's; all lanes of the warp call it together.
    unsafe fn queries<const W: usize, const M: usize, const STEPS: usize>(
        decode: &Decode<'_, Self, W, M>,
    ) -> (Queries<M, STEPS>, u32);

    /// Scores of a warp's keys.
    ///
    /// # Safety
    /// All lanes call it together; the keys have landed.
    unsafe fn scores<const W: usize, const M: usize, const STEPS: usize>(
        q: &Queries<M, STEPS>,
        smem_k: SharedAddr,
    ) -> Accumulator<M, N>;

    /// `o += p @ v` of a warp's values.
    ///
    /// # Safety
    /// All lanes call it together; the values have landed.
    unsafe fn accumulate<const W: usize, const M: usize, const D: usize>(
        o: &mut Accumulator<M, D>,
        p: &Accumulator<M, N>,
        smem_v: SharedAddr,
    );

    /// Writes a lane's columns of a row of o; its first row is at `row`.
    ///
    /// # Safety
    /// There is room for the row.
    unsafe fn post<const D: usize>(row: SharedAddr, o: &[[f32; 4]; D], half: usize);
}

impl<E: Half> Stored for E {
    type Product = E;
    const BYTES: u32 = 2;
    const FACTOR: f32 = 0.0;

    #[inline(always)]
    unsafe fn queries<const W: usize, const M: usize, const STEPS: usize>(
        decode: &Decode<'_, Self, W, M>,
    ) -> (Queries<M, STEPS>, u32) {
        let column = thread::thread_idx_x() % 4 * 2;
        let mut q = [[[0; 4]; M]; STEPS];
        for i in 0..M {
            for half in 0..2 {
                let (from, head_dim) = decode.row_of_q(i, half);
                for step in 0..STEPS {
                    for right in 0..2 {
                        let first = (16 * step + 8 * right) as u32;
                        if first < head_dim {
                            let at = from.wrapping_add(2 * (first + column) as usize);
                            // SAFETY: the caller's promise: the row has 8 elements from `first` on.
                            q[step][i][2 * right + half] = unsafe { at.cast::<u32>().read() };
                        }
                    }
                }
            }
        }
        (q, ONES)
    }

    #[inline(always)]
    unsafe fn scores<const W: usize, const M: usize, const STEPS: usize>(
        q: &Queries<M, STEPS>,
        smem_k: SharedAddr,
    ) -> Accumulator<M, N> {
        let k = Reader::<W>::right(smem_k);
        let mut s = [[[0.0; 4]; N]; M];
        for step in 0..STEPS {
            // SAFETY: the caller's promise.
            unsafe {
                let b = k.load(0, step as u32);
                for i in 0..M {
                    E::multiply(&mut s[i][0], q[step][i], [b[0], b[1]]);
                    E::multiply(&mut s[i][1], q[step][i], [b[2], b[3]]);
                }
            }
        }
        s
    }

    #[inline(always)]
    unsafe fn accumulate<const W: usize, const M: usize, const D: usize>(
        o: &mut Accumulator<M, D>,
        p: &Accumulator<M, N>,
        smem_v: SharedAddr,
    ) {
        let v = Reader::<W>::down(smem_v, 0);
        let mut a = [[0; 4]; M];
        for i in 0..M {
            a[i] = joined::<E>(&p[i][0], &p[i][1]);
        }
        for j in 0..D / 2 {
            // SAFETY: the caller's promise.
            unsafe {
                let b = v.load_transposed(0, j as u32);
                for i in 0..M {
                    E::multiply(&mut o[i][2 * j], a[i], [b[0], b[1]]);
                    E::multiply(&mut o[i][2 * j + 1], a[i], [b[2], b[3]]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn post<const D: usize>(row: SharedAddr, o: &[[f32; 4]; D], half: usize) {
        let to = row.add_bytes(thread::thread_idx_x() % 4 * 8);
        for j in 0..D {
            let pair = [o[j][2 * half], o[j][2 * half + 1]];
            // SAFETY: the caller's promise.
            unsafe { st_shared_v2_f32(to.add_bytes(32 * j as u32), pair) };
        }
    }
}

/// How e4m3 become f16: four bytes become two pairs.
pub(super) trait Widen {
    /// By what the values are to be multiplied afterwards.
    const FACTOR: f32;
    /// Which of four neighbouring elements are the pairs of [`keys`](Self::keys).
    const PAIRS: [[usize; 2]; 2];

    /// The pairs of four neighbouring elements of a key.
    fn keys(word: u32) -> [u32; 2];

    /// The first and the third of four, and the second and the fourth.
    fn values(word: u32) -> [u32; 2];
}

/// By `cvt`, from sm_89 on.
pub(super) struct ByInstruction;

impl Widen for ByInstruction {
    const FACTOR: f32 = 1.0;
    const PAIRS: [[usize; 2]; 2] = [[0, 1], [2, 3]];

    #[inline(always)]
    fn keys(word: u32) -> [u32; 2] {
        [word, word >> 16].map(|pair| e4m3x2_to_f16x2_cvt(pair as u16))
    }

    #[inline(always)]
    fn values(word: u32) -> [u32; 2] {
        Self::keys(prmt(word, 0, 0x3120))
    }
}

/// By integer operations.
pub(super) struct ByIntegers;

impl Widen for ByIntegers {
    const FACTOR: f32 = 256.0;
    const PAIRS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

    #[inline(always)]
    fn keys(word: u32) -> [u32; 2] {
        // The bytes of a pair are the upper ones of its halves.
        [word << 8, word].map(|pair| {
            let magnitude = (pair >> 1) & 0x3f80_3f80;
            // Of the largest magnitude alone, a NaN, the sum has bit 14, which makes it one of f16.
            let nan = (magnitude + 0x0080_0080) & 0x4000_4000;
            (pair & 0x8000_8000) | magnitude | nan
        })
    }

    #[inline(always)]
    fn values(word: u32) -> [u32; 2] {
        Self::keys(word)
    }
}

/// e4m3, which become f16 as `C` says.
pub(super) struct Narrow<C>(C);

impl<C: Widen> Stored for Narrow<C> {
    type Product = f16;
    const BYTES: u32 = 1;
    const FACTOR: f32 = C::FACTOR;

    #[inline(always)]
    unsafe fn queries<const W: usize, const M: usize, const STEPS: usize>(
        decode: &Decode<'_, Self, W, M>,
    ) -> (Queries<M, STEPS>, u32) {
        let column = thread::thread_idx_x() % 4 * 4;
        let is_f16 = decode.scales.q_dtype == OutputDType::F16.code();
        let mut q = [[[0; 4]; M]; STEPS];
        let mut exponents = ONES;
        for i in 0..M {
            for half in 0..2 {
                let (from, head_dim) = decode.row_of_q(i, half);
                let mut words = [[0; 2]; STEPS];
                for step in 0..STEPS {
                    if 16 * (step as u32) < head_dim {
                        let at = from.wrapping_add(2 * (16 * step as u32 + column) as usize);
                        // SAFETY: the caller's promise: the row has 16 elements from there on, and is
                        // aligned to 16 bytes.
                        words[step] = unsafe { at.cast::<Pair>().read().0 };
                    }
                }
                if !is_f16 {
                    // SAFETY: passed on to the caller.
                    let exponent = unsafe { narrowed(&mut words) };
                    exponents ^= (exponent ^ ONE) << (8 * (2 * i + half));
                }
                for step in 0..STEPS {
                    let [low, high] = words[step];
                    let pairs = match C::PAIRS[0] {
                        [0, 1] => [low, high],
                        _ => [prmt(low, high, 0x5410), prmt(low, high, 0x7632)],
                    };
                    q[step][i][half] = pairs[0];
                    q[step][i][2 + half] = pairs[1];
                }
            }
        }
        (q, exponents)
    }

    #[inline(always)]
    unsafe fn scores<const W: usize, const M: usize, const STEPS: usize>(
        q: &Queries<M, STEPS>,
        smem_k: SharedAddr,
    ) -> Accumulator<M, N> {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let k = match W {
            32 => Reader::of_four(smem_k, lane % 8 + lane / 16 * 8, lane / 8 % 2),
            _ => Reader::<W>::right(smem_k),
        };
        let mut s = [[[0.0; 4]; N]; M];
        for pair in 0..STEPS / 2 {
            // SAFETY: the caller's promise.
            unsafe {
                let b = k.load(0, pair as u32);
                for part in 0..2 {
                    let (first, second) = (C::keys(b[part]), C::keys(b[2 + part]));
                    for i in 0..M {
                        f16::multiply(&mut s[i][0], q[2 * pair + part][i], first);
                        f16::multiply(&mut s[i][1], q[2 * pair + part][i], second);
                    }
                }
            }
        }
        s
    }

    #[inline(always)]
    unsafe fn accumulate<const W: usize, const M: usize, const D: usize>(
        o: &mut Accumulator<M, D>,
        p: &Accumulator<M, N>,
        smem_v: SharedAddr,
    ) {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let v = match W {
            32 => Reader::of_four(smem_v, lane % 16, lane / 16),
            _ => Reader::<W>::down(smem_v, 0),
        };
        let mut a = [[0; 4]; M];
        for i in 0..M {
            a[i] = joined::<f16>(&p[i][0], &p[i][1]);
        }
        for j in 0..D / 2 {
            // SAFETY: the caller's promise.
            unsafe {
                if j % 2 == 0 {
                    let b = v.load_transposed(0, j as u32 / 2);
                    for part in 0..2 {
                        let (upper, lower) = (C::values(b[2 * part]), C::values(b[2 * part + 1]));
                        for i in 0..M {
                            for odd in 0..2 {
                                let to = &mut o[i][2 * (j + part) + odd];
                                f16::multiply(to, a[i], [upper[odd], lower[odd]]);
                            }
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn post<const D: usize>(row: SharedAddr, o: &[[f32; 4]; D], half: usize) {
        let to = row.add_bytes(thread::thread_idx_x() % 4 * 16);
        for j in 0..D / 2 {
            let (even, odd) = (&o[2 * j], &o[2 * j + 1]);
            let four = [
                even[2 * half],
                odd[2 * half],
                even[2 * half + 1],
                odd[2 * half + 1],
            ];
            // SAFETY: the caller's promise.
            unsafe { st_shared_v4_u32(to.add_bytes(64 * j as u32), four.map(f32::to_bits)) };
        }
    }
}

/// Two words, loaded at once.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Pair([u32; 2]);

/// The exponent of 1, and of four rows.
const ONE: u32 = 127;
const ONES: u32 = 0x0101_0101 * ONE;

/// Makes f16 of a lane's pairs of bf16 of a row, times a power of two: the exponent of its reciprocal.
///
/// # Safety
/// All lanes of the warp call it together; four lanes have a row.
#[inline(always)]
unsafe fn narrowed<const STEPS: usize>(words: &mut [[u32; 2]; STEPS]) -> u32 {
    const MAGNITUDE: u32 = 0x7fff_0000;
    let mut largest = 0;
    for step in 0..STEPS {
        for part in 0..2 {
            let word = words[step][part];
            largest = u32::max(largest, word & MAGNITUDE);
            largest = u32::max(largest, (word << 16) & MAGNITUDE);
        }
    }
    // SAFETY: passed on to the caller.
    unsafe {
        largest = u32::max(largest, shfl_bfly(FULL_MASK, largest, 1));
        largest = u32::max(largest, shfl_bfly(FULL_MASK, largest, 2));
    }
    // 2^(14 - e) for a largest magnitude from 2^e on; normal, and its reciprocal too.
    let exponent = u32::min(127 + 14 + 127 - (largest >> 23), 253);
    let factor = f32::from_bits(exponent << 23);
    for step in 0..STEPS {
        for part in 0..2 {
            let word = words[step][part];
            let (low, high) = (f32::from_bits(word << 16), f32::from_bits(word & !0xffff));
            words[step][part] = f32x2_to_f16x2_cvt(low * factor, high * factor);
        }
    }
    2 * ONE - exponent
}
