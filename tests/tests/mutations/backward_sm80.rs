//! A launch of a kernel of attention's gradients by `mma.sync`.

use spec::DType;
use spec::attention::backward::sm80::{Part, Sm80BwdTile, THREADS};
use warpsmith_emulator::LaunchConfig;

use super::backward::{Causal, by_tensor_cores, hold_named};
use super::backward_sm90::params;
use super::portable::Fields;
use super::problem::{Arg, Problem};
use super::values::poison;

/// Two query heads on one, causal; blocks and tiles that end early in both directions, and more tiles
/// than there are stages.
const QUERIES: usize = 150;
const KEYS: usize = 140;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;

/// dk and dv.
pub(crate) fn of_keys() -> Problem {
    let shape = [QUERIES, KEYS, HEADS, HEAD_DIM];
    let ([q, k, v, d_o], causal) = by_tensor_cores(shape, 0);
    let Causal {
        expected,
        lse,
        delta,
    } = causal;
    let tile = Sm80BwdTile::of(HEAD_DIM as u32, Part::DkDv);
    let mut args: Vec<Arg> = (0..8).map(Arg::Buffer).collect();
    args.push(Fields::default().u64(&[0; 5]).arg());
    args.push(params(shape));
    Problem {
        shape: LaunchConfig {
            grid: [KEYS.div_ceil(tile.rows as usize) as u32, 1, 1],
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
            poison(DType::Bf16, KEYS * HEAD_DIM),
            poison(DType::Bf16, KEYS * HEAD_DIM),
        ],
        args,
        judge: Box::new(move |after| {
            hold_named("dk", &after[6], &expected.dk)?;
            hold_named("dv", &after[7], &expected.dv)
        }),
    }
}
