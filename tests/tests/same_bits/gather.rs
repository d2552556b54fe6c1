//! Cases of the selection by indices.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::division::Division;
use spec::elementwise::{MAX_RANK, WalkParams, grid_blocks};
use spec::gather::{THREADS, TakeEntry, TakeParams};
use warpsmith::LaunchConfig;

use crate::trial::{Arg, Trial};

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
    let indices = (0..rows).flat_map(|_| {
        let index: i64 = rng.random_range(-1..=i64::from(count));
        index.to_le_bytes().into_iter().take(index_bytes)
    });
    let indices = trial.buffer(indices.collect());
    let y = trial.noise(u64::from(rows * columns) * size, rng);
    let mut walk = WalkParams {
        len: rows * columns,
        rank: 2,
        chunk: 1,
        splat: 0,
        extents: [Division::ONE; MAX_RANK],
        strides: [[0; MAX_RANK]; 5],
    };
    walk.extents[..2].copy_from_slice(&[Division::new(columns), Division::new(rows)]);
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
