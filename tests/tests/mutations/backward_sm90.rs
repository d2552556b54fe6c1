//! A launch of Hopper's kernel of attention's gradients.

use half::bf16;
use spec::DType;
use spec::attention::backward::sm90::{CHUNK, CHUNKS, Heads, THREADS, tile_for};
use warpsmith_emulator::{Fill, LaunchConfig, Swizzle, TensorMapDesc, TensorMapType};
use warpsmith_reference::Expected;

use super::backward::{Causal, by_tensor_cores, hold_named};
use super::portable::Fields;
use super::problem::{Arg, Problem};
use super::values::poison;

/// Two query heads on one, causal; two tiles of queries and three blocks of keys, the last of which end
/// early.
const QUERIES: usize = 200;
const KEYS: usize = 300;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const HEADS_OF: Heads = Heads {
    batch: 1,
    heads_q: HEADS as u32,
    heads_kv: 1,
    seqlen_k: KEYS as u32,
    is_masked: true,
};
/// So few that both heads are not side by side.
const MULTIPROCESSORS: u32 = 1;

/// dq, dk and dv, of their sums.
pub(crate) fn of_queries_and_keys() -> Problem {
    let shape = [QUERIES, KEYS, HEADS, HEAD_DIM];
    let ([q, k, v, d_o], causal) = by_tensor_cores(shape, 3);
    let Causal {
        expected,
        lse,
        delta,
    } = causal;
    let tile = tile_for(HEAD_DIM as u32, HEAD_DIM as u32).expect("there is a tile");
    let tiles = QUERIES.div_ceil(tile.tile_m as usize) * HEADS;
    let key_blocks = tile.key_blocks(KEYS as u32) as usize;
    let of_tile = (CHUNKS * CHUNK) as usize;
    let (tile_m, tile_n) = (tile.tile_m as usize, tile.tile_n() as usize);
    let mut args = vec![
        Arg::MapValue(0, map(QUERIES, HEADS, tile.tile_m)),
        Arg::MapValue(1, map(KEYS, 1, tile.tile_n())),
        Arg::MapValue(2, map(KEYS, 1, tile.tile_n())),
        Arg::MapValue(3, map(QUERIES, HEADS, tile.tile_m)),
    ];
    args.extend((4..11).map(Arg::Buffer));
    args.push(params(shape));
    Problem {
        shape: LaunchConfig {
            grid: tile.grid(&HEADS_OF, 1, MULTIPROCESSORS).expect("two heads"),
            block: [THREADS, 1, 1],
            shared_bytes: tile.smem_bytes(),
            cluster: None,
        },
        buffers: vec![
            q.bytes,
            k.bytes,
            v.bytes,
            d_o.bytes,
            lse,
            delta,
            poison(DType::F32, tiles * of_tile),
            poison(DType::F32, 2 * key_blocks * of_tile),
            vec![0; 4 * (tiles + 2 * key_blocks)],
            Vec::new(),
            Vec::new(),
        ],
        args,
        judge: Box::new(move |after| {
            let of = |name: &str, sums: &[u8], shape: [usize; 3], scale, want: &Expected| {
                hold_named(name, &rounded(sums, shape, scale), want)
            };
            let scale = 1.0 / (HEAD_DIM as f64).sqrt();
            let (of_dk, of_dv) = after[7].split_at(after[7].len() / 2);
            of("dk", of_dk, [KEYS, 1, tile_n], scale, &expected.dk)?;
            of("dv", of_dv, [KEYS, 1, tile_n], 1.0, &expected.dv)?;
            if after[8].iter().any(|&byte| byte != 0) {
                return Err("a counter is not 0 again".to_owned());
            }
            of(
                "dq",
                &after[6],
                [QUERIES, HEADS, tile_m],
                scale,
                &expected.dq,
            )
        }),
    }
}

/// A gradient of its sums, which lie tile by tile as the accumulators of both consumers do.
fn rounded(sums: &[u8], [positions, heads, tile]: [usize; 3], scale: f64) -> Vec<u8> {
    let mut gradient = Vec::new();
    for position in 0..positions {
        for head in 0..heads {
            for column in 0..HEAD_DIM {
                let idx = head * positions.div_ceil(tile) + position / tile;
                let (consumer, row) = (position % tile / 64, position % 64);
                let thread = row / 16 * 32 + row % 8 * 4 + column / 2 % 4;
                let register = column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
                let of_thread = register / 4 * 512 + 4 * thread + register % 4;
                let at = 4 * ((idx * 2 + consumer) * CHUNK as usize + of_thread);
                let sum = f32::from_le_bytes(sums[at..at + 4].try_into().expect("four bytes"));
                gradient.extend(bf16::from_f64(f64::from(sum) * scale).to_le_bytes());
            }
        }
    }
    gradient
}

/// A map of `[1, positions, heads, HEAD_DIM]`, in boxes of `rows` positions of a head.
fn map(positions: usize, heads: usize, rows: u32) -> TensorMapDesc {
    let row = (2 * heads * HEAD_DIM) as u64;
    TensorMapDesc {
        data_type: TensorMapType::Bf16,
        address: 0,
        dims: [HEAD_DIM, positions, heads, 1].map(|x| x as u64).to_vec(),
        strides_bytes: vec![row, 2 * HEAD_DIM as u64, row * positions as u64],
        box_dims: vec![64, rows, 1, 1],
        element_strides: vec![1; 4],
        swizzle: Swizzle::B128,
        fill: Fill::Zeros,
    }
}

/// Parameters of one sequence of `heads` query heads on one, causal, aligned to the bottom right.
pub(crate) fn params([queries, keys, heads, head_dim]: [usize; 4]) -> Arg {
    let (of_q, of_k) = ([0, heads * head_dim, head_dim], [0, head_dim, head_dim]);
    let scale = 1.0 / (head_dim as f64).sqrt();
    Fields::default()
        .u64(&[of_q, of_k, of_k, of_q].concat())
        .u32(&[1, queries as u32, keys as u32, 0, 0, heads as u32, 1])
        .u32(&[head_dim as u32; 2])
        // No window to the left, causal to the right.
        .u32(&[i32::MAX as u32, 0, 0])
        .f32(&[(scale * std::f64::consts::LOG2_E) as f32, 0.0])
        .u32(&[0, 0])
        .u64(&[of_q, of_q, of_k, of_k].concat())
        .f32(&[scale as f32])
        .u32(&[1])
        .arg()
}
