//! Grouped GEMMs: rows in groups whose ends may be anything.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::gemm::ragged::{GROUPS_MAX, RaggedEntry, RaggedLaunch, TILE, smem_bytes};
use spec::gemm::sm90::{SPAN_BYTES, STORE_ROWS, THREADS};
use spec::gemm::{
    GROUPED_ENTRY, GROUPED_TILE, GemmParams, GroupedParams, Transpose, grouped_grid,
    grouped_row_tiles,
};
use warpsmith::{DType, LaunchConfig};

use super::products::{mapped, matrix};
use super::trial::{Arg, Trial};

fn ends(trial: &mut Trial, groups: u32, rng: &mut ChaCha8Rng) -> Arg {
    let mut ends: Vec<i32> = (0..groups).map(|_| rng.random_range(-9..=310)).collect();
    if rng.random_bool(0.7) {
        ends.sort_unstable();
    }
    trial.buffer(ends.iter().flat_map(|end| end.to_le_bytes()).collect())
}

/// The portable kernel.
pub(crate) fn portable(rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let [m, n, k] = [300, 150, 70].map(|largest| rng.random_range(1..=largest));
    let groups = [rng.random_range(0..=5), rng.random_range(6..=600)][rng.random_range(0..2)];
    let [a_by_k, b_by_k] = [0; 2].map(|_| rng.random_range(0..=1));
    let by = |is_by_rows, [rows, columns]: [u32; 2]| match is_by_rows {
        true => [rows, columns],
        false => [columns, rows],
    };
    let [rows, columns] = by(a_by_k == 1, [m, k]);
    let (a, lda, _) = matrix(&mut trial, DType::F32, [1, rows, columns], rng);
    let [rows, columns] = by(b_by_k == 0, [k, n]);
    let (b, ldb, group_stride_b) =
        matrix(&mut trial, DType::F32, [groups.max(1), rows, columns], rng);
    let ends = ends(&mut trial, groups, rng);
    let (d, ldd, _) = matrix(&mut trial, DType::F32, [1, m, n], rng);
    let params = GroupedParams {
        m,
        n,
        k,
        groups,
        row_tiles: grouped_row_tiles(m, groups, GROUPED_TILE.tile_m),
        a_by_k,
        b_by_k,
        alpha: [1.0, -0.75][rng.random_range(0..2)],
        lda,
        ldb,
        group_stride_b,
        ldd,
    };
    let config = LaunchConfig {
        grid: grouped_grid(m, n, groups).expect("a small product"),
        block: [GROUPED_TILE.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    trial.launch(GROUPED_ENTRY, config, [a, b, ends, d, Arg::params(params)]);
    trial
}

/// Hopper's kernel.
pub(crate) fn hopper(entry: RaggedEntry, rng: &mut ChaCha8Rng) -> Trial {
    /// So few that each takes several tiles.
    const BLOCKS: u32 = 2;
    let mut trial = Trial::default();
    let [m, k] = [300, 140].map(|largest| rng.random_range(1..=largest));
    let n = 8 * rng.random_range(1..=40); // tensor copies store no less than 16 bytes
    let groups =
        [rng.random_range(1..=5), rng.random_range(6..=GROUPS_MAX)][rng.random_range(0..2)];
    let launch = RaggedLaunch::new(m, n, groups);
    let dtype = entry.dtype;
    let a_box = (launch.box_rows, SPAN_BYTES);
    let (a, lda, _) = mapped(&mut trial, dtype, [1, m, k], a_box, rng);
    let (shape, rows) = match entry.trans_b {
        Transpose::T => ([groups, n, k], TILE.tile_n),
        Transpose::N => ([groups, k, n], SPAN_BYTES / 2),
    };
    let (b, ldb, _) = mapped(&mut trial, dtype, shape, (rows, SPAN_BYTES), rng);
    let (map_d, ldd, _) = mapped(&mut trial, dtype, [1, m, n], (STORE_ROWS, SPAN_BYTES), rng);
    let Arg::MapValue(d, _) = map_d else {
        unreachable!("a map is a map")
    };
    let ends = ends(&mut trial, groups, rng);
    let params = GemmParams {
        m,
        n,
        k,
        batch: groups,
        lda,
        ldb,
        ldc: 0,
        ldd,
        batch_stride_a: 0,
        batch_stride_b: 1,
        batch_stride_c: 0,
        batch_stride_d: 0,
        alpha: [1.0, -0.75][rng.random_range(0..2)],
        beta: 0.0,
    };
    let config = LaunchConfig {
        grid: [BLOCKS, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: smem_bytes(),
        cluster: None,
    };
    let d = Arg::Buffer(d);
    let args = [
        a,
        b,
        map_d,
        d,
        ends,
        Arg::params(params),
        Arg::params(launch),
    ];
    trial.launch(entry, config, args);
    trial
}
