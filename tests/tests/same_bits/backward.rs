//! Cases of the gradients of attention.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::attention::backward::{
    BackwardEntry, BackwardLaunch, DELTA_ENTRY, DELTA_TILE, FlashBwdParams,
};
use spec::attention::{FlashFwdParams, SIMT_WIDE_TILE};
use warpsmith::{DType, LaunchConfig};

use crate::attending::{Kernel, drawn};
use crate::catalogue::FLOATS;
use crate::trial::{Arg, Trial};

/// Operands and the launch of delta.
struct Drawn {
    trial: Trial,
    params: FlashBwdParams,
    /// q, k, v, d_o, lse and delta.
    inputs: Vec<Arg>,
    dtype: DType,
}

/// delta alone.
pub(crate) fn delta(rng: &mut ChaCha8Rng) -> Trial {
    draw(64, rng).trial
}

/// All three launches.
pub(crate) fn simt(entry: BackwardEntry, rng: &mut ChaCha8Rng) -> Trial {
    let Drawn {
        mut trial,
        params,
        inputs,
        dtype,
    } = draw(entry.head_dim_cap, rng);
    let fwd = &params.fwd;
    let mut gradient = |batch_stride: i64, rng: &mut ChaCha8Rng| {
        let elements = batch_stride as u64 * u64::from(fwd.batch);
        trial.noise(elements * dtype.size_bytes() as u64, rng)
    };
    let dq = gradient(params.dq.batch, rng);
    let dk = gradient(params.dk.batch, rng);
    let dv = gradient(params.dv.batch, rng);
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

fn draw(head_dim_cap: u32, rng: &mut ChaCha8Rng) -> Drawn {
    let at = rng.random_range(0..FLOATS.len());
    let dtype = FLOATS[at];
    let kernel = Kernel {
        dtype,
        o_dtypes: &FLOATS[at..=at],
        head_dim_cap,
        unit: 1,
        tile_m: SIMT_WIDE_TILE.tile_m,
        threads: SIMT_WIDE_TILE.threads,
        shared_bytes: 0,
    };
    let (mut trial, args, fwd) = drawn(&kernel, rng);
    let params = FlashBwdParams {
        fwd,
        d_o: fwd.o,
        dq: fwd.q,
        dk: fwd.k,
        dv: fwd.v,
        softmax_scale: (1.0 / f64::from(fwd.head_dim).sqrt()) as f32,
        reserved: 0,
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
        dtype,
    }
}

fn config(grid: Option<[u32; 3]>, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid: grid.expect("a small attention"),
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}
