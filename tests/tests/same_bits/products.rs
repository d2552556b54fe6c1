//! Cases of the GEMM kernels.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::OutputDType;
use spec::gemm::decode::sm90::{CLUSTER_MAX, DecodeTiling, Sm90DecodeEntry, TILES_M};
use spec::gemm::decode::{
    DECODE_CONFIGS, DECODE_DTYPES, DECODE_THREADS, DecodeEntry, output_dtypes,
};
use spec::gemm::integer::I32_RESULTS;
use spec::gemm::sm90::{self, Sm90Entry, Sm90Launch};
use spec::gemm::stream_k::{self, Cut};
use spec::gemm::{
    EpilogueParams, FINISH_THREADS, FinishEntry, GemmParams, MmaEntry, SimtEntry, Transpose,
    finish_blocks,
};
use warpsmith::{DType, LaunchConfig, TensorMapDesc, TensorMapSwizzle, TensorMapType};

use crate::integer::INTEGER_OUTPUTS;
use crate::trial::{Arg, Trial};

/// Adds a matrix with gaps to the trial: its buffer, and the elements between rows and between
/// matrices.
pub(crate) fn matrix(
    trial: &mut Trial,
    dtype: DType,
    [batch, rows, columns]: [u32; 3],
    rng: &mut ChaCha8Rng,
) -> (Arg, i64, i64) {
    let ld = u64::from(columns) + rng.random_range(0..4);
    let stride = ld * u64::from(rows) + rng.random_range(0..4);
    let buffer = trial.floats(dtype, stride * u64::from(batch), rng);
    (buffer, ld as i64, stride as i64)
}

/// Parameters of an epilogue, with biases that lie one after the other. Activations are left out:
/// they use approximations whose bits differ between devices.
pub(crate) fn epilogue(
    [m, n]: [u32; 2],
    (ld_residual, batch_stride_residual): (i64, i64),
    d_dtype: u32,
    rng: &mut ChaCha8Rng,
) -> EpilogueParams {
    let is_by_rows = rng.random_bool(0.5);
    EpilogueParams {
        ld_residual,
        batch_stride_residual,
        bias_stride_m: i64::from(is_by_rows),
        bias_stride_n: i64::from(!is_by_rows),
        batch_stride_bias: i64::from(if is_by_rows { m } else { n }),
        row_scale_stride: rng.random_range(0..=1),
        column_scale_stride: rng.random_range(0..=1),
        activation: rng.random_range(0..=1), // identity or relu
        d_dtype,
    }
}

/// The arguments at the end of every fused entry.
pub(crate) fn tail(
    trial: &mut Trial,
    dtype: DType,
    mut params: GemmParams,
    rng: &mut ChaCha8Rng,
) -> Vec<Arg> {
    let GemmParams { m, n, batch, .. } = params;
    let (c, ldc, batch_stride_c) = matrix(trial, dtype, [batch, m, n], rng);
    let (d, ldd, batch_stride_d) = matrix(trial, dtype, [batch, m, n], rng);
    let (residual, ld_residual, batch_stride_residual) = matrix(trial, dtype, [batch, m, n], rng);
    params.alpha = [1.0, -0.75][rng.random_range(0..2)];
    params.beta = [0.0, 1.0, 0.3][rng.random_range(0..3)];
    (params.ldc, params.batch_stride_c) = (ldc, batch_stride_c);
    (params.ldd, params.batch_stride_d) = (ldd, batch_stride_d);
    let d_dtype = match dtype {
        DType::I32 => I32_RESULTS,
        _ => OutputDType::new(dtype).expect("a float").code(),
    };
    let strides = (ld_residual, batch_stride_residual);
    let epilogue = epilogue([m, n], strides, d_dtype, rng);
    let biases = epilogue.batch_stride_bias as u64 * u64::from(batch);
    let bias = trial.floats(dtype, biases, rng);
    let factors = [m, n, 1, 1].map(|len| trial.floats(DType::F32, len.into(), rng));
    let optional = [bias, residual].into_iter().chain(factors);
    let optional = optional.map(|arg| if rng.random_bool(0.5) { arg } else { Arg::Null });
    let mut tail = vec![c, d];
    tail.extend(optional);
    tail.extend([Arg::params(params), Arg::params(epilogue)]);
    tail
}

pub(crate) fn extents(rng: &mut ChaCha8Rng) -> GemmParams {
    let [m, n, k] = [150, 150, 70].map(|largest| rng.random_range(1..=largest));
    GemmParams {
        m,
        n,
        k,
        batch: rng.random_range(1..=2),
        lda: 0,
        ldb: 0,
        ldc: 0,
        ldd: 0,
        batch_stride_a: 0,
        batch_stride_b: 0,
        batch_stride_c: 0,
        batch_stride_d: 0,
        alpha: 1.0,
        beta: 0.0,
    }
}

/// What the GEMM kernels of all families have in common.
struct Kernel<G: Fn(u32, u32, u32) -> LaunchConfig> {
    name: String,
    operands: [DType; 2],
    output: DType,
    transposes: [Transpose; 2],
    /// The launch, by m, n and batch.
    config: G,
}

impl<G: Fn(u32, u32, u32) -> LaunchConfig> Kernel<G> {
    fn trial(&self, rng: &mut ChaCha8Rng) -> Trial {
        let mut trial = Trial::default();
        let mut params = extents(rng);
        let GemmParams { m, n, k, batch, .. } = params;
        let mut operand = |idx: usize, rows, columns| {
            let shape = match self.transposes[idx] {
                Transpose::N => [batch, rows, columns],
                Transpose::T => [batch, columns, rows],
            };
            matrix(&mut trial, self.operands[idx], shape, rng)
        };
        let (a, lda, batch_stride_a) = operand(0, m, k);
        let (b, ldb, batch_stride_b) = operand(1, k, n);
        (params.lda, params.batch_stride_a) = (lda, batch_stride_a);
        (params.ldb, params.batch_stride_b) = (ldb, batch_stride_b);
        let mut args = vec![a, b];
        args.extend(tail(&mut trial, self.output, params, rng));
        trial.launch(&self.name, (self.config)(m, n, batch), args);
        trial
    }
}

pub(crate) fn product(entry: SimtEntry, rng: &mut ChaCha8Rng) -> Trial {
    let kernel = Kernel {
        name: entry.to_string(),
        operands: [DType::F32; 2],
        output: DType::F32,
        transposes: [entry.trans_a, entry.trans_b],
        config: |m, n, batch| LaunchConfig {
            grid: entry.tile.grid(m, n, batch).expect("a small product"),
            block: [entry.tile.threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        },
    };
    kernel.trial(rng)
}

pub(crate) fn mma(entry: MmaEntry, rng: &mut ChaCha8Rng) -> Trial {
    let output = match entry.a {
        DType::I8 => INTEGER_OUTPUTS[rng.random_range(0..4)],
        a if entry.is_told() && rng.random_bool(0.5) => a,
        _ => entry.output,
    };
    let kernel = Kernel {
        name: entry.to_string(),
        operands: [entry.a, entry.b],
        output,
        transposes: [entry.trans_a, entry.trans_b],
        config: |m, n, batch| LaunchConfig {
            grid: entry.tile.grid(m, n, batch).expect("a small product"),
            block: [entry.tile.threads(), 1, 1],
            shared_bytes: entry.tile.smem_bytes(),
            cluster: None,
        },
    };
    kernel.trial(rng)
}

/// A matrix that a tensor map can describe, and its map. Boxes have `box_rows` rows (for B, rows as
/// stored).
pub(crate) fn mapped(
    trial: &mut Trial,
    dtype: DType,
    [batch, rows, columns]: [u32; 3],
    (box_rows, span_bytes): (u32, u32),
    rng: &mut ChaCha8Rng,
) -> (Arg, i64, i64) {
    let size = dtype.size_bytes() as u32;
    let step = 16 / size;
    let ld = columns.next_multiple_of(step) + step * rng.random_range(0..3);
    let stride = ld * rows;
    let Arg::Buffer(number) = trial.floats(dtype, u64::from(stride * batch), rng) else {
        unreachable!("floats are a buffer")
    };
    let dims = [columns, rows, batch].map(u64::from);
    let strides = [ld, stride].map(|elements| u64::from(elements * size));
    let boxes = [span_bytes / size, box_rows, 1];
    let map = TensorMapDesc::new(TensorMapType::from(dtype), &dims, &strides, &boxes).swizzle(
        match span_bytes {
            32 => TensorMapSwizzle::B32,
            64 => TensorMapSwizzle::B64,
            _ => TensorMapSwizzle::B128,
        },
    );
    (
        Arg::MapValue(number, map),
        ld.into(),
        if batch > 1 { stride.into() } else { 0 },
    )
}

pub(crate) fn hopper(entry: Sm90Entry, rng: &mut ChaCha8Rng) -> Trial {
    /// So few blocks that each takes several tiles.
    const BLOCKS: u32 = 2;
    let mut trial = Trial::default();
    let mut params = extents(rng);
    let GemmParams { m, n, k, batch, .. } = params;
    let tile = entry.tile;
    let mut operand = |dtype: DType, extent, tile_rows, is_k_major| {
        let span = sm90::SPAN_BYTES / dtype.size_bytes() as u32;
        let (shape, box_rows) = if is_k_major {
            ([batch, extent, k], tile_rows)
        } else {
            ([batch, k, extent], span)
        };
        mapped(&mut trial, dtype, shape, (box_rows, sm90::SPAN_BYTES), rng)
    };
    let a_is_k_major = entry.trans_a == Transpose::N;
    let b_is_k_major = entry.trans_b == Transpose::T;
    let (a, lda, stride_a) = operand(entry.a, m, tile.tile_m, a_is_k_major);
    let (b, ldb, stride_b) = operand(entry.b, n, tile.tile_n, b_is_k_major);
    (params.lda, params.batch_stride_a) = (lda, stride_a);
    (params.ldb, params.batch_stride_b) = (ldb, stride_b);
    let shape = [batch, m, n];
    let span_bytes = tile.store_span_bytes(entry.output.size_bytes() as u32);
    let boxes = (sm90::STORE_ROWS, span_bytes);
    let (d, ldd, stride_d) = mapped(&mut trial, entry.output, shape, boxes, rng);
    let blocks = BLOCKS;
    let grid = tile.grid(m, n, batch, blocks).expect("a small product");
    let (rows, columns) = tile.grid_tiles(m, n);
    // In half of the cases, tiles are split among the blocks (stream-K).
    let cut = if tile.takes_stream_k() && rng.random_bool(0.5) {
        let blocks = 1 + BLOCKS;
        Some(Cut {
            shared: rng.random_range(1..=rows * columns * batch),
            sharers: rng.random_range(2..=blocks),
            blocks,
        })
    } else {
        None
    };
    let grid = cut.map_or(grid, |cut| cut.blocks);
    let workspace = match cut {
        Some(_) => {
            let bytes = stream_k::workspace_bytes(grid, tile.tile_m * tile.tile_n);
            trial.buffer(vec![0; bytes as usize])
        }
        None => Arg::Null,
    };
    let launch = |flags| {
        Arg::params(Sm90Launch {
            order: tile.order(params.m, params.n, params.batch, 1),
            flags,
            shared_tiles: cut.map_or(0, |cut| cut.shared),
            sharers: cut.map_or(0, |cut| cut.sharers),
        })
    };
    let args = if entry.epilogue.is_fused() {
        // The fused variant has its own D, which no tensor map describes; it is stored by threads
        // if the entry supports that.
        let by_thread = Sm90Launch::NO_MAP_OF_D * u32::from(tile.stores_by_thread());
        let mut args = vec![a, b, d, launch(by_thread), workspace];
        args.extend(tail(&mut trial, entry.output, params, rng));
        args
    } else {
        params.alpha = [1.0, -0.75][rng.random_range(0..2)];
        (params.ldd, params.batch_stride_d) = (ldd, stride_d);
        let scales = [(); 3].map(|()| {
            let one = trial.floats(DType::F32, 1, rng);
            if rng.random_bool(0.5) { one } else { Arg::Null }
        });
        let mut args = vec![a, b, d];
        args.extend(scales);
        args.extend([Arg::params(params), launch(0), workspace]);
        args
    };
    let config = LaunchConfig {
        grid: [grid, 1, 1],
        block: [sm90::THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    };
    trial.launch(entry, config, args);
    trial
}

/// A GEMM with few rows, B's extents as stored, and the gaps.
fn few_rows(tile_m: u32, trans_b: Transpose, rng: &mut ChaCha8Rng) -> (GemmParams, [u32; 3]) {
    let mut params = extents(rng);
    params.m = rng.random_range(1..=tile_m);
    let GemmParams { n, k, batch, .. } = params;
    let stored_b = match trans_b {
        Transpose::N => [batch, k, n],
        Transpose::T => [batch, n, k],
    };
    (params, stored_b)
}

/// Decode GEMMs (few rows), with k split among a few blocks.
pub(crate) fn decode(entry: DecodeEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let (config, splits) = (entry.config, rng.random_range(1..=3));
    let output = output_dtypes(entry.input)[rng.random_range(0..2)];
    let (mut params, stored_b) = few_rows(config.tile_m, entry.trans_b, rng);
    let GemmParams { m, n, k, batch, .. } = params;
    // Rows are aligned to 16 bytes, as tensor maps require too.
    let mut operand =
        |shape| match mapped(&mut trial, entry.input, shape, (1, sm90::SPAN_BYTES), rng) {
            (Arg::MapValue(number, _), ld, stride) => (Arg::Buffer(number), ld, stride),
            other => other,
        };
    let (a, lda, stride_a) = operand([batch, m, k]);
    let (b, ldb, stride_b) = operand(stored_b);
    (params.lda, params.batch_stride_a) = (lda, stride_a);
    (params.ldb, params.batch_stride_b) = (ldb, stride_b);
    let grid = config.grid(n, batch, splits).expect("a small product");
    let partials = trial.floats(DType::F32, config.partials(n, batch, splits), rng);
    let tickets = trial.buffer(vec![0; 4 * (grid[0] * grid[2]) as usize]);
    let mut args = vec![a, b, partials, tickets];
    args.extend(tail(&mut trial, output, params, rng));
    let launch = LaunchConfig {
        grid,
        block: [DECODE_THREADS, 1, 1],
        shared_bytes: config.smem_bytes(entry.trans_b),
        cluster: None,
    };
    trial.launch(entry, launch, args);
    trial
}

/// The same for Hopper, with any tiling.
pub(crate) fn decode_hopper(entry: Sm90DecodeEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let output = output_dtypes(entry.input)[rng.random_range(0..2)];
    let (mut params, stored_b) = few_rows(entry.tile_m, entry.trans_b, rng);
    let GemmParams { m, n, k, batch, .. } = params;
    let tiling = loop {
        let tiling = DecodeTiling {
            tile_m: entry.tile_m,
            tile_n: 8 * rng.random_range(8..=32),
            splits: rng.random_range(1..=CLUSTER_MAX),
            sharers: [1, 2, 4][rng.random_range(0..3)],
        };
        if tiling.is_valid(entry.trans_b) {
            break tiling;
        }
    };
    let [_, rows_a, _] = tiling.box_a();
    let [_, rows_b, _] = tiling.box_b(entry.trans_b);
    let (a, lda, stride_a) = mapped(
        &mut trial,
        entry.input,
        [batch, m, k],
        (rows_a, sm90::SPAN_BYTES),
        rng,
    );
    let (b, ldb, stride_b) = mapped(
        &mut trial,
        entry.input,
        stored_b,
        (rows_b, sm90::SPAN_BYTES),
        rng,
    );
    (params.lda, params.batch_stride_a) = (lda, stride_a);
    (params.ldb, params.batch_stride_b) = (ldb, stride_b);
    let mut args = vec![a, b, Arg::params(tiling.launch(k))];
    args.extend(tail(&mut trial, output, params, rng));
    let launch = LaunchConfig {
        grid: tiling.grid(n, batch).expect("a small product"),
        block: [tiling.threads(), 1, 1],
        shared_bytes: tiling.smem_bytes(k),
        cluster: Some(tiling.cluster()),
    };
    trial.launch(entry, launch, args);
    trial
}

/// All decode entries (few rows).
pub(crate) fn decodes() -> Vec<DecodeEntry> {
    let mut all = Vec::new();
    for input in DECODE_DTYPES {
        for trans_b in Transpose::ALL {
            all.extend(DECODE_CONFIGS.map(|config| DecodeEntry {
                input,
                trans_b,
                config,
            }));
        }
    }
    all
}

/// The same for Hopper.
pub(crate) fn hopper_decodes() -> Vec<Sm90DecodeEntry> {
    let mut all = Vec::new();
    for input in DECODE_DTYPES {
        for trans_b in Transpose::ALL {
            let entries = TILES_M.map(|tile_m| Sm90DecodeEntry {
                input,
                trans_b,
                tile_m,
            });
            all.extend(entries.into_iter().filter(Sm90DecodeEntry::exists));
        }
    }
    all
}

pub(crate) fn finish(entry: FinishEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let params = extents(rng);
    let results = [params.m, params.n, params.batch].map(u64::from);
    let results = results.iter().product::<u64>();
    let parts = rng.random_range(1..=4_u32);
    let partials = trial.floats(DType::F32, results * u64::from(parts), rng);
    let mut args = vec![partials, Arg::params(parts)];
    args.extend(tail(&mut trial, entry.output, params, rng));
    // Sometimes fewer blocks than needed, so that each block loops.
    let blocks = finish_blocks(results).min([3, u32::MAX][rng.random_range(0..2)]);
    trial.launch(entry, LaunchConfig::linear(blocks, FINISH_THREADS), args);
    trial
}
