//! Launches of the addition by indices, as the library's host code does them.

use spec::DType;
use spec::elementwise::MAX_RANK;
use spec::scatter::{self, ADD_THREADS, CHUNK, PAD, PART, THREADS};
use warpsmith_tests::values::Values;

use super::portable::{Fields, linear};
use super::problem::{Arg, Problem};
use super::values::Operand;

/// Rows that an index names, from 0 to [`EXTENT`], which is out of range. One has two parts.
pub(crate) const EXTENT: u32 = 12;
pub(crate) const LEN: u32 = 340;

fn index(position: u32) -> u32 {
    match position % 5 {
        0..3 => 3,
        _ => position * 7 % (EXTENT + 1),
    }
}

/// The pairs in order.
fn sorted() -> Vec<u64> {
    let pair = |j| u64::from(index(j)) << 32 | u64::from(j);
    let mut pairs: Vec<u64> = (0..LEN).map(pair).collect();
    pairs.sort_unstable();
    pairs
}

/// The first ranks of parts, and the ranks behind their last ones.
fn parts(pairs: &[u64]) -> Vec<(usize, usize)> {
    let segments = pairs.chunk_by(|a, b| a >> 32 == b >> 32);
    let mut begin = 0;
    let of_segment = |segment: &[u64]| {
        let first = begin;
        begin += segment.len();
        let begins = (first..begin).step_by(PART as usize);
        let end = begin;
        begins.map(move |at| (at, end.min(at + PART as usize)))
    };
    segments.flat_map(of_segment).collect()
}

/// A bit for each pair that begins a part.
fn begins(pairs: &[u64]) -> Vec<u32> {
    let mut words = vec![0; pairs.len().div_ceil(CHUNK as usize)];
    for (begin, _) in parts(pairs) {
        words[begin / CHUNK as usize] |= 1 << (begin % CHUNK as usize);
    }
    words
}

/// A walk of one dimension, with strides in bytes.
pub(crate) fn walk(fields: Fields, len: u32, strides: [usize; 3]) -> Fields {
    let mut all = [[0; MAX_RANK]; 5];
    for (to, stride) in all.iter_mut().zip(strides) {
        to[0] = stride;
    }
    fields
        .u32(&[len, 1, 1, 0])
        .divisions(&[len, 1, 1, 1, 1, 1, 1, 1])
        .u64(&all.concat())
}

pub(crate) fn bytes<T: Copy, const N: usize>(
    values: &[T],
    to_bytes: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    values.iter().flat_map(|&x| to_bytes(x)).collect()
}

/// Rows of integers, added to those that sorted indices name; some name none, and some are left in
/// parts.
pub(crate) fn addition() -> Problem {
    let columns = 20_usize;
    let src = Operand::draw(DType::F32, Values::Integers, &[LEN as usize, columns], 1);
    let y = Operand::draw(DType::F32, Values::Integers, &[EXTENT as usize, columns], 2);
    let mut pairs = sorted();
    let first_bits = begins(&pairs);
    let mut want = y.exact.mapv(|x| x as f32);
    let mut want_parts = vec![-1_f32; scatter::parts(LEN) as usize * columns];
    for (begin, end) in parts(&pairs) {
        let own = (pairs[begin] >> 32) as usize;
        let is_first = begin == 0 || (pairs[begin - 1] >> 32) as usize != own;
        let is_whole = is_first
            && pairs
                .get(end)
                .is_none_or(|pair| (pair >> 32) as usize != own);
        for column in 0..columns {
            let row = |rank: &u64| src.exact[[*rank as u32 as usize, column]] as f32;
            let sum: f32 = pairs[begin..end].iter().map(row).sum();
            if own < EXTENT as usize && is_whole {
                want[[own, column]] += sum;
            } else if own < EXTENT as usize {
                let place = 2 * (begin / PART as usize) + usize::from(!is_first);
                want_parts[place * columns + column] = sum;
            }
        }
    }
    pairs.extend([u64::MAX; PAD as usize]);
    let (row, wide) = (4 * columns, columns / 4);
    let params = walk(Fields::default(), wide as u32, [16, 16, 0]);
    let params = walk(params, LEN, [8, row, 4])
        .u64(&[row, columns])
        .u32(&[EXTENT, 2, 2, scatter::codes::F32, CHUNK])
        .divisions(&[1])
        .u64(&[scatter::nothing(DType::F32) as usize]);
    let warps = LEN.div_ceil(CHUNK);
    let want_y: Vec<f32> = want.iter().copied().collect();
    let [want_y, want_parts] = [want_y, want_parts].map(|xs| bytes(&xs, f32::to_le_bytes));
    let unwritten = bytes(&vec![-1.0; want_parts.len() / 4], f32::to_le_bytes);
    Problem {
        shape: linear(warps.div_ceil(ADD_THREADS / 32), ADD_THREADS),
        buffers: vec![
            bytes(&pairs, u64::to_le_bytes),
            bytes(&first_bits, u32::to_le_bytes),
            src.bytes,
            y.bytes,
            unwritten,
        ],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Buffer(3),
            Arg::Buffer(4),
            params.arg(),
        ],
        judge: Box::new(move |after| {
            // Zeros have any sign.
            let same = |got: &[u8], want: &[u8]| {
                let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                let pairs = got.chunks_exact(4).zip(want.chunks_exact(4));
                pairs.into_iter().all(|(a, b)| number(a) == number(b))
            };
            match (same(&after[3], &want_y), same(&after[4], &want_parts)) {
                (true, true) => Ok(()),
                (false, _) => Err("y is wrong".into()),
                _ => Err("a part is wrong".into()),
            }
        }),
    }
}

/// Rows of integers, added by indices that are not sorted; of one index by several warps.
pub(crate) fn few() -> Problem {
    let columns = 20_usize;
    let src = Operand::draw(DType::F32, Values::Integers, &[LEN as usize, columns], 1);
    let y = Operand::draw(DType::F32, Values::Integers, &[EXTENT as usize, columns], 2);
    let indices: Vec<i32> = (0..LEN).map(|j| index(j) as i32).collect();
    let mut want = y.exact.mapv(|x| x as f32);
    for (j, &own) in indices.iter().enumerate() {
        for column in 0..columns {
            if own < EXTENT as i32 {
                want[[own as usize, column]] += src.exact[[j, column]] as f32;
            }
        }
    }
    let (row, wide) = (4 * columns, columns / 4);
    let params = walk(Fields::default(), wide as u32, [16, 16, 0]);
    let params = walk(params, LEN, [8, row, 4])
        .u64(&[row, columns])
        .u32(&[EXTENT, 2, 2, scatter::codes::F32, 1])
        .divisions(&[1])
        .u64(&[scatter::nothing(DType::F32) as usize]);
    let warps = scatter::few_warps(LEN);
    let want: Vec<f32> = want.iter().copied().collect();
    Problem {
        shape: linear(LEN.div_ceil(warps), 32 * warps),
        buffers: vec![bytes(&indices, i32::to_le_bytes), src.bytes, y.bytes],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Fields::default().u32(&[4]).arg(),
            params.arg(),
        ],
        judge: Box::new(move |after| {
            let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            let got = after[2].chunks_exact(4).map(number);
            // Zeros have any sign.
            match got.zip(&want).all(|(got, &want)| got == want) {
                true => Ok(()),
                false => Err("y is wrong".into()),
            }
        }),
    }
}

/// Indices of two digits, sorted by one block.
pub(crate) fn sort() -> Problem {
    let extent = EXTENT + 300;
    let own = |j: u32| index(j) + 25 * (j % 12);
    let indices: Vec<i32> = (0..LEN).map(|j| own(j) as i32 - 1).collect();
    let pair = |j| u64::from(own(j).wrapping_sub(1).min(extent)) << 32 | u64::from(j);
    let mut want: Vec<u64> = (0..LEN).map(pair).collect();
    want.sort_unstable();
    let want_begins = begins(&want);
    want.extend([u64::MAX; PAD as usize]);
    let [want_bytes, want_begins] = [
        bytes(&want, u64::to_le_bytes),
        bytes(&want_begins, u32::to_le_bytes),
    ];
    let bits = scatter::digits(extent) * scatter::DIGIT_BITS;
    let params = walk(Fields::default(), LEN, [8, 0, 4]);
    let params = params.u32(&[extent, 4, bits, 0, scatter::TILE, 1]);
    Problem {
        shape: linear(1, THREADS),
        buffers: vec![
            bytes(&indices, i32::to_le_bytes),
            vec![0xff; want_bytes.len()],
            vec![0xff; want_begins.len()],
            vec![0xff; 4 * scatter::longs(LEN) as usize],
        ],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(1),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Buffer(3),
            params.arg(),
        ],
        judge: Box::new(
            move |after| match after[1] == want_bytes && after[2] == want_begins {
                true => Ok(()),
                false => Err("the order is wrong".into()),
            },
        ),
    }
}
