//! Cases of the gradients of attention.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::attention::backward::sink::{SINK_ENTRY, SINK_THREADS};
use spec::attention::backward::sm80::{self, Part, Sm80Bwd};
use spec::attention::backward::sm90::{BwdEntry, Heads, THREADS};
use spec::attention::backward::sums::ROUND_ENTRY;
use spec::attention::backward::{
    BackwardEntry, BackwardLaunch, DELTA_ENTRY, DELTA_TILE, FlashBwdParams,
};
use spec::attention::{FlashFwdParams, SIMT_WIDE_TILE};
use spec::gemm::sm90::{SPAN_BYTES, WARPGROUP};
use warpsmith::{DType, LaunchConfig, TensorMapDesc, TensorMapSwizzle, TensorMapType};

use super::attending::{Forward, Kernel, drawn};
use super::catalogue::FLOATS;
use super::trial::{Arg, Trial};

/// Operands and the launch of delta.
struct Drawn {
    trial: Trial,
    params: FlashBwdParams,
    /// q, k, v, d_o, lse and delta.
    inputs: Vec<Arg>,
    /// Index in [`FLOATS`].
    float: usize,
}

/// delta alone.
pub(crate) fn delta(rng: &mut ChaCha8Rng) -> Trial {
    draw(any_float(rng), [64, 1], rng).trial
}

/// The sinks' gradients, after delta.
pub(crate) fn sink(rng: &mut ChaCha8Rng) -> Trial {
    let Drawn {
        mut trial,
        params,
        inputs,
        ..
    } = draw(any_float(rng), [64, 1], rng);
    let heads_q = params.fwd.heads_q;
    let sink = trial.floats(DType::F32, u64::from(heads_q), rng);
    let d_sink = trial.noise(4 * u64::from(heads_q), rng);
    let args = [
        sink,
        inputs[4].again(),
        inputs[5].again(),
        d_sink,
        Arg::params([0_u64; 5]),
        Arg::params(params.fwd),
    ];
    let grid = Some([heads_q, 1, 1]);
    trial.launch(SINK_ENTRY, config(grid, SINK_THREADS), args);
    trial
}

/// All three launches.
pub(crate) fn simt(entry: BackwardEntry, rng: &mut ChaCha8Rng) -> Trial {
    let Drawn {
        mut trial,
        params,
        inputs,
        float,
    } = draw(any_float(rng), [entry.head_dim_cap, 1], rng);
    let fwd = &params.fwd;
    let [dq, dk, dv] = gradients(&mut trial, &params, FLOATS[float].size_bytes(), rng);
    let of_queries =
        FlashFwdParams::grid(fwd.batch, fwd.seqlen_q, fwd.heads_q, SIMT_WIDE_TILE.tile_m);
    let of_keys =
        FlashBwdParams::grid_of_keys(fwd.batch, fwd.seqlen_k, fwd.heads_kv, SIMT_WIDE_TILE.tile_n);
    let launches = [
        (of_queries, [&dq, &dq], params.dq, 0),
        (of_keys, [&dk, &dv], params.dk, 1),
    ];
    for (grid, outputs, strides, owns_keys) in launches {
        let mut args: Vec<Arg> = inputs.iter().chain(outputs).map(Arg::again).collect();
        args.push(Arg::params([0_u64; 5]));
        args.push(Arg::params(params));
        args.push(Arg::params(BackwardLaunch {
            strides,
            owns_keys,
            reserved: 0,
        }));
        trial.launch(entry, config(grid, SIMT_WIDE_TILE.threads), args);
    }
    trial
}

/// By `mma.sync`: delta and every part.
pub(crate) fn sm80(kernels: Sm80Bwd, rng: &mut ChaCha8Rng) -> Trial {
    let is_of = |dtype: &DType| *dtype == kernels.dtype;
    let float = FLOATS.iter().position(is_of).expect("a float");
    let Drawn {
        mut trial,
        params,
        inputs,
        ..
    } = draw(float, [kernels.head_dim_cap, 8], rng);
    let fwd = &params.fwd;
    let [dq, dk, dv] = gradients(&mut trial, &params, 2, rng);
    for part in [Part::Dq].iter().chain(kernels.parts_of_keys()) {
        let tile = kernels.tile(*part);
        let (grid, of_ds) = match part.owns_keys() {
            true => {
                let (seqlen_k, heads_kv) = (fwd.seqlen_k, fwd.heads_kv);
                let grid = FlashBwdParams::grid_of_keys(fwd.batch, seqlen_k, heads_kv, tile.rows);
                (grid, &dk)
            }
            false => {
                let (seqlen_q, heads_q) = (fwd.seqlen_q, fwd.heads_q);
                let grid = FlashFwdParams::grid(fwd.batch, seqlen_q, heads_q, tile.rows);
                (grid, &dq)
            }
        };
        let mut args: Vec<Arg> = inputs.iter().chain([of_ds, &dv]).map(Arg::again).collect();
        args.push(Arg::params([0_u64; 5]));
        args.push(Arg::params(params));
        let launch = LaunchConfig {
            shared_bytes: tile.smem_bytes(),
            ..config(grid, sm80::THREADS)
        };
        trial.launch(kernels.entry(*part), launch, args);
    }
    trial
}

/// Hopper's: delta, the entry and what makes gradients of its sums.
pub(crate) fn sm90(entry: BwdEntry, rng: &mut ChaCha8Rng) -> Trial {
    let tile = entry.tile;
    let is_entry = |dtype: &DType| *dtype == entry.dtype;
    let float = FLOATS.iter().position(is_entry).expect("a float");
    let Drawn {
        mut trial,
        params,
        inputs,
        ..
    } = draw(float, [tile.head_dim, 8], rng);
    let fwd = &params.fwd;
    let [dq, dk, dv] = gradients(&mut trial, &params, 2, rng);
    let sums = trial.noise(4 * tile.sums(&params), rng);
    let key_sums = trial.noise(4 * tile.key_sums(&params), rng);
    let counters = trial.buffer(vec![0; 4 * tile.counters(&params) as usize]);
    let of_q = [fwd.seqlen_q, fwd.heads_q, tile.tile_m];
    let of_k = [fwd.seqlen_k, fwd.heads_kv, tile.tile_n()];
    let read = [
        (fwd.q, of_q, fwd.head_dim),
        (fwd.k, of_k, fwd.head_dim),
        (fwd.v, of_k, fwd.head_dim_v),
        (params.d_o, of_q, fwd.head_dim_v),
    ];
    let mut args: Vec<Arg> = Vec::new();
    for (input, (strides, [seqlen, heads, rows], head_dim)) in inputs.iter().zip(read) {
        let Arg::Buffer(number) = *input else {
            panic!("no buffer");
        };
        let dims = [head_dim, seqlen, heads, fwd.batch].map(u64::from);
        let bytes = [strides.seq, strides.head, strides.batch].map(|stride| 2 * stride as u64);
        let boxes = [SPAN_BYTES / 2, rows, 1, 1];
        let map = TensorMapDesc::new(TensorMapType::from(entry.dtype), &dims, &bytes, &boxes);
        args.push(Arg::MapValue(number, map.swizzle(TensorMapSwizzle::B128)));
    }
    args.extend(inputs[4..].iter().map(Arg::again));
    args.extend([&sums, &key_sums, &counters, &dk, &dv].map(Arg::again));
    args.push(Arg::params(params));
    let grid = tile.grid(&Heads::of(fwd), params.heads_together, 8);
    let launch = LaunchConfig {
        shared_bytes: tile.smem_bytes(),
        ..config(grid, THREADS)
    };
    trial.launch(entry, launch, args);
    let [of_dk, of_dv] = tile.roundings_of_keys(&params);
    let roundings = [
        (&sums, &dq, tile.rounding_of_dq(&params)),
        (&key_sums, &dk, of_dk),
        (&key_sums, &dv, of_dv),
    ];
    for (sums, gradient, rounding) in
        roundings
            .into_iter()
            .take(if params.turns() > 1 { 3 } else { 1 })
    {
        let args = vec![
            sums.again(),
            gradient.again(),
            Arg::params(params),
            Arg::params(rounding),
        ];
        let grid = rounding.grid(fwd.batch);
        trial.launch(ROUND_ENTRY, config(Some(grid), WARPGROUP), args);
    }
    trial
}

/// The index in [`FLOATS`] of any of these.
fn any_float(rng: &mut ChaCha8Rng) -> usize {
    rng.random_range(0..FLOATS.len())
}

/// Operands whose extents and strides are multiples of `unit`.
fn draw(float: usize, [head_dim_cap, unit]: [u32; 2], rng: &mut ChaCha8Rng) -> Drawn {
    let dtype = FLOATS[float];
    let kernel = Kernel {
        dtype,
        o_dtypes: &FLOATS[float..=float],
        head_dim_cap,
        unit,
        tile_m: SIMT_WIDE_TILE.tile_m,
        threads: SIMT_WIDE_TILE.threads,
        shared_bytes: 0,
        page_unit: None,
    };
    let Forward {
        mut trial,
        args,
        params: fwd,
        ..
    } = drawn(&kernel, rng);
    let params = FlashBwdParams {
        fwd,
        d_o: fwd.o,
        dq: fwd.q,
        dk: fwd.k,
        dv: fwd.v,
        softmax_scale: (1.0 / f64::from(fwd.head_dim).sqrt()) as f32,
        heads_together: 1,
    };
    let queries = u64::from(fwd.batch * fwd.heads_q * fwd.seqlen_q);
    let d_o = trial.floats(dtype, fwd.o.batch as u64 * u64::from(fwd.batch), rng);
    let lse = trial.floats(DType::F32, queries, rng);
    let delta = trial.noise(4 * queries, rng);
    let grid = FlashFwdParams::grid(fwd.batch, fwd.seqlen_q, fwd.heads_q, DELTA_TILE.tile_m);
    let of_delta = [
        args[3].again(),
        d_o.again(),
        delta.again(),
        Arg::params([0_u64; 5]),
        Arg::params(params),
    ];
    trial.launch(DELTA_ENTRY, config(grid, DELTA_TILE.threads), of_delta);
    let mut inputs: Vec<Arg> = args[..3].iter().map(Arg::again).collect();
    inputs.extend([d_o, lse, delta]);
    Drawn {
        trial,
        params,
        inputs,
        float,
    }
}

/// dq, dk and dv with any contents, of elements of `size_bytes`.
fn gradients(
    trial: &mut Trial,
    params: &FlashBwdParams,
    size_bytes: usize,
    rng: &mut ChaCha8Rng,
) -> [Arg; 3] {
    [params.dq, params.dk, params.dv].map(|strides| {
        let elements = strides.batch as u64 * u64::from(params.fwd.batch);
        trial.noise(elements * size_bytes as u64, rng)
    })
}

fn config(grid: Option<[u32; 3]>, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid: grid.expect("a small attention"),
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}
