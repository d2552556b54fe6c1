//! A launch of a kernel of attention's gradients by `mma.sync`.

use spec::DType;
use spec::attention::backward::sm80::{Part, Sm80BwdTile, THREADS};
use warpsmith_emulator::LaunchConfig;
use warpsmith_reference::Expected;
use warpsmith_reference::attention::{AttentionGradModel, AttentionGradOptions};
use warpsmith_reference::gemm::Arithmetic;
use warpsmith_tests::values::Values;

use crate::backward::Causal;
use crate::backward_sm90::params;
use crate::portable::Fields;
use crate::problem::{Arg, Problem};
use crate::values::{Operand, hold, poison};

/// Two query heads on one, causal; blocks and tiles that end early in both directions, and more tiles
/// than there are stages.
const QUERIES: usize = 150;
const KEYS: usize = 140;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;

/// dk and dv.
pub(crate) fn of_keys() -> Problem {
    let draw = |shape: [usize; 3], seed| Operand::draw(DType::Bf16, Values::Uniform, &shape, seed);
    let [q, d_o] = [1, 4].map(|seed| draw([QUERIES, HEADS, HEAD_DIM], seed));
    let [k, v] = [2, 3].map(|seed| draw([KEYS, 1, HEAD_DIM], seed));
    let model = AttentionGradModel {
        scores: Arithmetic::TensorCore,
        products: Arithmetic::TensorCore,
        p_roundoff: 2.0_f64.powi(-8),
        ..AttentionGradModel::in_f32(4.0)
    };
    let options = AttentionGradOptions::new(DType::Bf16, model);
    let Causal {
        expected,
        lse,
        delta,
    } = Causal::new([&q, &k, &v, &d_o], options);
    let tile = Sm80BwdTile::of(HEAD_DIM as u32, Part::DkDv);
    let mut args: Vec<Arg> = (0..8).map(Arg::Buffer).collect();
    args.push(Fields::default().u64(&[0; 5]).arg());
    args.push(params([QUERIES, KEYS, HEADS, HEAD_DIM]));
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
            let of = |name: &str, bytes: &[u8], want: &Expected| {
                hold(bytes, want).map_err(|error| format!("{name}: {error}"))
            };
            of("dk", &after[6], &expected.dk)?;
            of("dv", &after[7], &expected.dv)
        }),
    }
}
