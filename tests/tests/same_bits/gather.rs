//! Cases of the selection by indices, and of its opposite.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::division::Division;
use spec::elementwise::{MAX_RANK, WalkParams, grid_blocks};
use spec::gather::{FEW, PutEntry, PutFewParams, PutParams, THREADS, TakeEntry, TakeParams};
use warpsmith::LaunchConfig;

use super::trial::{Arg, Trial};

/// Rows of a table, side by side or not, by indices that may be out of range.
pub(crate) fn take(entry: TakeEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let [count, rows, columns] = [50, 90, 70].map(|largest| rng.random_range(1..=largest));
    let (step, gap) = (rng.random_range(1..=2), rng.random_range(0..=3));
    let stride = i64::from(columns) * step + gap;
    let index_bytes = [4, 8][rng.random_range(0..2)];
    let size = entry.size_bytes as u64;
    let table = (i64::from(count) * stride) as u64;
    let x = trial.noise(table * size, rng);
    let indices = indices(&mut trial, (rows, count), index_bytes, rng);
    let y = trial.noise(u64::from(rows * columns) * size, rng);
    let mut walk = walk_of(rows, columns);
    walk.strides[0][..2].copy_from_slice(&[1, columns.into()]);
    walk.strides[1][0] = step;
    walk.strides[2][1] = 1;
    let params = TakeParams {
        walk,
        count: count as u64,
        stride,
        fill: 0x7fff_7fff_7fff_7fff,
        index_bytes: index_bytes as u64,
    };
    let blocks = grid_blocks(walk.len.into(), entry.per_thread());
    let config = LaunchConfig::linear(blocks, THREADS);
    trial.launch(entry, config, [x, indices, y, Arg::params(params)]);
    trial
}

/// Indices of up to `count`, and some that are out of range.
fn indices(
    trial: &mut Trial,
    (rows, count): (u32, u32),
    index_bytes: usize,
    rng: &mut ChaCha8Rng,
) -> Arg {
    let indices = (0..rows).flat_map(|_| {
        let index: i64 = rng.random_range(-1..=i64::from(count));
        index.to_le_bytes().into_iter().take(index_bytes)
    });
    trial.buffer(indices.collect())
}

/// A walk over rows of columns, of tensors without strides yet.
fn walk_of(rows: u32, columns: u32) -> WalkParams {
    let mut walk = WalkParams {
        len: rows * columns,
        rank: 2,
        chunk: 1,
        splat: 0,
        extents: [Division::ONE; MAX_RANK],
        strides: [[0; MAX_RANK]; 5],
    };
    walk.extents[..2].copy_from_slice(&[Division::new(columns), Division::new(rows)]);
    walk
}

/// Rows that are put where indices say, several to one place; by few indices, or by a table, which the
/// launch before wrote.
pub(crate) fn put(entry: PutEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let size = match entry {
        PutEntry::Few(size) | PutEntry::Rows(size) => size as i64,
        PutEntry::Last => 4,
    };
    let most = [70, FEW][rng.random_range(0..2)];
    let [count, rows, columns] = [50, most, 40].map(|largest| rng.random_range(1..=largest));
    let (step, gap) = (rng.random_range(1..=2), rng.random_range(0..=3));
    let stride = (i64::from(columns) * step + gap) * size;
    let row = i64::from(columns) * size;
    let index_bytes = [4, 8][rng.random_range(0..2)];
    let src = trial.noise(u64::from(rows) * row as u64, rng);
    let indices = indices(&mut trial, (rows, count), index_bytes, rng);
    let y = trial.noise(u64::from(count) * stride as u64, rng);
    let mut positions = walk_of(1, rows);
    for (to, of_position) in positions
        .strides
        .iter_mut()
        .zip([8, row, index_bytes as i64])
    {
        to[0] = of_position;
    }
    if let PutEntry::Few(_) = entry {
        let mut of_columns = walk_of(1, columns);
        (of_columns.strides[0][0], of_columns.strides[1][0]) = (step * size, size);
        let blocks = columns.div_ceil(THREADS * entry.per_thread());
        let params = PutFewParams {
            columns: of_columns,
            positions,
            count: count.into(),
            stride,
            index_bytes: index_bytes as u32,
            blocks: Division::new(blocks),
        };
        let config = LaunchConfig::linear(rows * blocks, THREADS);
        trial.launch(entry, config, [src, indices, y, Arg::params(params)]);
        return trial;
    }
    let params = PutParams {
        walk: positions,
        first: 0,
        count: count.into(),
        stride,
        index_bytes: index_bytes as u64,
    };
    let last = trial.buffer(vec![0; 4 * count as usize]);
    let config = LaunchConfig::linear(rows.div_ceil(THREADS), THREADS);
    let args = [indices.again(), last.again(), Arg::params(params)];
    trial.launch(PutEntry::Last, config, args);
    if let PutEntry::Rows(_) = entry {
        let mut walk = walk_of(rows, columns);
        walk.strides[0][..2].copy_from_slice(&[size, row]);
        walk.strides[1][0] = step * size;
        (walk.strides[2][1], walk.strides[3][1]) = (index_bytes as i64, 1);
        let blocks = grid_blocks(walk.len.into(), entry.per_thread());
        let config = LaunchConfig::linear(blocks, THREADS);
        let params = Arg::params(PutParams { walk, ..params });
        trial.launch(entry, config, [src, indices, y, last, params]);
    }
    trial
}
