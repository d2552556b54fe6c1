//! Launches that put rows to where indices say, as the library's host code does them.

use spec::DType;
use spec::elementwise::MAX_RANK;
use spec::gather::{PutEntry, THREADS};
use warpsmith_tests::values::Values;

use super::portable::{Fields, linear};
use super::problem::{Arg, Problem};
use super::scatter::{EXTENT, LEN, bytes, walk};
use super::values::Operand;

/// Columns of f32: five vectors of 16 bytes.
const COLUMNS: usize = 20;
const WIDE: usize = COLUMNS / 4;
const ROW: usize = 4 * COLUMNS;

/// Most indices are one, and some are none of an axis whose end is that of its allocation. The first and
/// the last are the same, with more positions between them than a block compares at a time.
fn index(position: u32) -> u32 {
    const ENDS: u32 = EXTENT - 1;
    match (position % 5, position * 7 % EXTENT) {
        _ if position == 0 || position == LEN - 1 => ENDS,
        (0..3, _) => 3,
        (_, ENDS) => EXTENT,
        (_, other) => other,
    }
}

/// Rows, what they are put to, and what that is then.
struct Rows {
    src: Vec<u8>,
    y: Vec<u8>,
    want: Vec<u8>,
    /// The last position of each place, and one more.
    last: Vec<u32>,
    indices: Vec<u8>,
}

fn rows() -> Rows {
    let draw = |rows: u32, seed| {
        Operand::draw(DType::F32, Values::Uniform, &[rows as usize, COLUMNS], seed).bytes
    };
    let (src, y) = (draw(LEN, 1), draw(EXTENT, 2));
    let (mut want, mut last) = (y.clone(), vec![0; EXTENT as usize]);
    let indices: Vec<i32> = (0..LEN).map(|j| index(j) as i32).collect();
    for (j, &own) in indices.iter().enumerate() {
        let own = own as usize;
        if let Some(last) = last.get_mut(own) {
            *last = j as u32 + 1;
            want[ROW * own..][..ROW].copy_from_slice(&src[ROW * j..][..ROW]);
        }
    }
    Rows {
        src,
        y,
        want,
        last,
        indices: bytes(&indices, i32::to_le_bytes),
    }
}

fn judge(want: Vec<u8>) -> impl Fn(&[Vec<u8>]) -> Result<(), String> {
    move |after| match after[2] == want {
        true => Ok(()),
        false => Err("y is wrong".into()),
    }
}

/// By few indices.
pub(crate) fn few() -> Problem {
    let rows = rows();
    let params = walk(Fields::default(), WIDE as u32, [16, 16, 0]);
    let params = walk(params, LEN, [8, ROW, 4])
        .u64(&[EXTENT as usize, ROW])
        .u32(&[4])
        .divisions(&[1]);
    Problem {
        shape: linear(LEN, THREADS),
        buffers: vec![rows.src, rows.indices, rows.y],
        args: vec![Arg::Buffer(0), Arg::Buffer(1), Arg::Buffer(2), params.arg()],
        judge: Box::new(judge(rows.want)),
    }
}

/// By a table of last positions.
pub(crate) fn many() -> Problem {
    let rows = rows();
    let len = LEN * WIDE as u32;
    let mut strides = [[0; MAX_RANK]; 5];
    (strides[0][0], strides[0][1]) = (16, ROW);
    (strides[1][0], strides[2][1], strides[3][1]) = (16, 4, 1);
    let params = Fields::default()
        .u32(&[len, 2, 1, 0])
        .divisions(&[WIDE as u32, LEN, 1, 1, 1, 1, 1, 1])
        .u64(&strides.concat())
        .u64(&[0, EXTENT as usize, ROW, 4]);
    let per_block = THREADS * PutEntry::Rows(16).per_thread();
    let last = bytes(&rows.last, u32::to_le_bytes);
    Problem {
        shape: linear(len.div_ceil(per_block), THREADS),
        buffers: vec![rows.src, rows.indices, rows.y, last],
        args: vec![
            Arg::Buffer(0),
            Arg::Buffer(1),
            Arg::Buffer(2),
            Arg::Buffer(3),
            params.arg(),
        ],
        judge: Box::new(judge(rows.want)),
    }
}
