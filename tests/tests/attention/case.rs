//! One attention, as tables and strategies have it.

use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::DType;
use warpsmith::reference::attention::{Band, SequencePositions};
use warpsmith_tests::operand::View;
use warpsmith_tests::operation;
use warpsmith_tests::property::extent;
use warpsmith_tests::values::Values;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Where no lengths say it.
    #[serde(default = "one")]
    pub(crate) batch: usize,
    #[serde(default)]
    pub(crate) seqlen_q: usize,
    #[serde(default)]
    pub(crate) seqlen_k: usize,
    #[serde(default = "one")]
    pub(crate) heads_kv: usize,
    /// Query heads a key head.
    #[serde(default = "one")]
    pub(crate) group: usize,
    pub(crate) head_dim: usize,
    pub(crate) head_dim_v: usize,
    #[serde(default)]
    pub(crate) causal: bool,
    #[serde(default)]
    pub(crate) top_left: bool,
    #[serde(default)]
    pub(crate) left: Option<u32>,
    #[serde(default)]
    pub(crate) right: Option<u32>,
    #[serde(default)]
    pub(crate) scale: Option<f32>,
    #[serde(default)]
    pub(crate) softcap: Option<f32>,
    #[serde(default)]
    pub(crate) sink: bool,
    /// Lengths of packed queries: they take the place of batch and seqlen_q.
    #[serde(default)]
    pub(crate) packed_q: Option<Vec<usize>>,
    #[serde(default)]
    pub(crate) packed_k: Option<Vec<usize>>,
    #[serde(default)]
    pub(crate) used_q: Option<Vec<usize>>,
    #[serde(default)]
    pub(crate) used_k: Option<Vec<usize>>,
    #[serde(default)]
    pub(crate) leftpad_k: Option<Vec<usize>>,
    /// Lengths are given as tensors.
    #[serde(default)]
    pub(crate) on_device: bool,
    /// Parts of keys, for kernels that take any; as they choose if not said.
    #[serde(default)]
    pub(crate) splits: Option<u32>,
    /// Heads before positions.
    #[serde(default)]
    pub(crate) bhsd: bool,
    #[serde(deserialize_with = "operation::dtype")]
    pub(crate) dtype: DType,
    /// Of o; as `dtype` if not said.
    #[serde(default, deserialize_with = "out_dtype")]
    pub(crate) out: Option<DType>,
    /// Of q, k, v and o.
    #[serde(default)]
    pub(crate) views: [View; 4],
    /// Of q and k.
    #[serde(default)]
    pub(crate) values: Values,
    /// Of v.
    #[serde(default)]
    pub(crate) values_v: Values,
    #[serde(default)]
    pub(crate) seed: u64,
}

fn one() -> usize {
    1
}

fn out_dtype<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<DType>, D::Error> {
    operation::dtype(deserializer).map(Some)
}

/// Positions of a packed tensor after the last sequence.
const SLACK: usize = 3;

impl Case {
    /// One head of one sequence, nothing masked.
    pub(crate) fn plain(dtype: DType, [seqlen_q, seqlen_k]: [usize; 2], head_dim: usize) -> Self {
        Self {
            batch: 1,
            seqlen_q,
            seqlen_k,
            heads_kv: 1,
            group: 1,
            head_dim,
            head_dim_v: head_dim,
            causal: false,
            top_left: false,
            left: None,
            right: None,
            scale: None,
            softcap: None,
            sink: false,
            packed_q: None,
            packed_k: None,
            used_q: None,
            used_k: None,
            leftpad_k: None,
            on_device: false,
            splits: None,
            bhsd: false,
            dtype,
            out: None,
            views: [View::Contiguous; 4],
            values: Values::Uniform,
            values_v: Values::Uniform,
            seed: 0,
        }
    }

    pub(crate) fn heads_q(&self) -> usize {
        self.heads_kv * self.group
    }

    pub(crate) fn batch(&self) -> usize {
        let packed = self.packed_q.as_ref().or(self.packed_k.as_ref());
        packed.map_or(self.batch, Vec::len)
    }

    /// Positions of all queries; where lengths are on the device, of more than there are.
    pub(crate) fn total_q(&self) -> usize {
        self.total(self.packed_q.as_ref(), self.seqlen_q)
    }

    pub(crate) fn total_k(&self) -> usize {
        self.total(self.packed_k.as_ref(), self.seqlen_k)
    }

    fn total(&self, packed: Option<&Vec<usize>>, seqlen: usize) -> usize {
        match packed {
            Some(lengths) => lengths.iter().sum::<usize>() + if self.on_device { SLACK } else { 0 },
            None => self.batch() * seqlen,
        }
    }

    /// Where each sequence lies among all positions.
    pub(crate) fn sequences(&self) -> Vec<SequencePositions> {
        let positions = |packed: Option<&Vec<usize>>, seqlen: usize, idx: usize| match packed {
            Some(lengths) => {
                let first: usize = lengths[..idx].iter().sum();
                (first, lengths[idx])
            }
            None => (idx * seqlen, seqlen),
        };
        let of = |lengths: &Option<Vec<usize>>, idx: usize| lengths.as_ref().map(|x| x[idx]);
        (0..self.batch())
            .map(|idx| {
                let (first_q, len_q) = positions(self.packed_q.as_ref(), self.seqlen_q, idx);
                let (first_k, len_k) = positions(self.packed_k.as_ref(), self.seqlen_k, idx);
                let end_k = first_k + of(&self.used_k, idx).unwrap_or(len_k);
                SequencePositions {
                    q: first_q..first_q + of(&self.used_q, idx).unwrap_or(len_q),
                    k: first_k + of(&self.leftpad_k, idx).unwrap_or(0)..end_k,
                }
            })
            .collect()
    }

    pub(crate) fn mask(&self) -> Band {
        Band {
            left: self.left.map(u64::from),
            right: if self.causal {
                Some(0)
            } else {
                self.right.map(u64::from)
            },
            top_left: self.top_left,
        }
    }

    /// Whether any query sees only some of its keys.
    pub(crate) fn is_masked(&self) -> bool {
        self.mask().left.is_some() || self.mask().right.is_some()
    }

    /// The view of an operand: rows of no sequence are poison, so none may repeat another.
    pub(crate) fn view(&self, idx: usize) -> View {
        let lengths = [
            &self.packed_q,
            &self.packed_k,
            &self.used_q,
            &self.used_k,
            &self.leftpad_k,
        ];
        match lengths.iter().any(|lengths| lengths.is_some()) {
            true => self.views[idx].writable_or_contiguous(),
            false => self.views[idx],
        }
    }
}

/// Dense attention with each option, and none, and all.
pub(crate) fn dense(largest: usize) -> impl Strategy<Value = Case> {
    let head_dim = || {
        let edges = vec![1, 2, 7, 8, 16, 33, 40, 64, 65, 96, 128, 129, 192, 200, 256];
        prop::sample::select(edges)
    };
    let float = || prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let shape = (
        1..3_usize,
        extent(largest),
        extent(largest),
        1..3_usize,
        prop::sample::select(vec![1_usize, 1, 2, 3, 5, 8]),
    );
    let splits = prop::option::of(1..5_u32);
    let window = || prop::option::weighted(0.3, prop::sample::select(vec![0_u32, 1, 5, 40, 100]));
    let mask = (any::<bool>(), any::<bool>(), window(), window());
    let scale = prop::option::of(prop::sample::select(vec![0.125_f32, 1.0, -0.5, 0.0]));
    let softcap = prop::option::weighted(0.3, prop::sample::select(vec![0.5_f32, 15.0, 50.0]));
    let types = (
        float(),
        prop::option::weighted(0.3, float()),
        head_dim(),
        head_dim(),
    );
    let views = (View::any(), View::any(), View::any(), View::writable());
    let values = prop::sample::select(vec![Values::Uniform, Values::Integers, Values::Tiny]);
    let values_v = prop::sample::select(vec![Values::Uniform, Values::Wide, Values::Special]);
    let options = (scale, softcap, any::<bool>(), any::<bool>(), mask);
    (
        shape,
        types,
        options,
        views,
        (values, values_v, any::<u32>(), splits),
    )
        .prop_map(
            |(shape, types, options, views, (values, values_v, seed, splits))| {
                let (batch, seqlen_q, seqlen_k, heads_kv, group) = shape;
                let (dtype, out, head_dim, head_dim_v) = types;
                let (scale, softcap, sink, bhsd, (causal, top_left, left, right)) = options;
                // Peaked scores let probabilities underflow, and 0 times infinity is not 0: special
                // values of v go with mild scores.
                let is_special = values_v == Values::Special;
                Case {
                    batch,
                    seqlen_q,
                    seqlen_k,
                    heads_kv,
                    group,
                    head_dim,
                    head_dim_v,
                    causal,
                    top_left,
                    left,
                    right,
                    scale,
                    softcap,
                    sink,
                    packed_q: None,
                    packed_k: None,
                    used_q: None,
                    used_k: None,
                    leftpad_k: None,
                    on_device: false,
                    splits,
                    bhsd,
                    dtype,
                    out,
                    views: [views.0, views.1, views.2, views.3],
                    values: if is_special { Values::Uniform } else { values },
                    values_v,
                    seed: u64::from(seed),
                }
            },
        )
}

/// The same with lengths of all kinds.
pub(crate) fn ragged(largest: usize) -> impl Strategy<Value = Case> {
    // Fractions of what a length may be, so that lengths of 0 and of all come up.
    let fraction = || prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64];
    let one = (fraction(), fraction(), fraction(), fraction(), fraction());
    let sequences = prop::collection::vec(one, 1..4);
    let which = prop::array::uniform5(any::<bool>());
    (dense(largest), sequences, which, any::<bool>()).prop_map(
        move |(dense, sequences, which, on_device)| {
            let [packs_q, packs_k, uses_q, uses_k, pads] = which;
            let part = |most: usize, fraction: f64| (most as f64 * fraction).round() as usize;
            let positions = |packs: bool, seqlen: usize, fraction: f64| match packs {
                true => part(largest, fraction),
                false => seqlen,
            };
            let mut lengths = [(); 5].map(|()| Vec::new());
            for &(q, k, used_q, used_k, padding) in &sequences {
                let q = positions(packs_q, dense.seqlen_q, q);
                let k = positions(packs_k, dense.seqlen_k, k);
                let keys = if uses_k { part(k, used_k) } else { k };
                let of_this = [q, k, part(q, used_q), keys, part(keys, padding)];
                for (lengths, length) in lengths.iter_mut().zip(of_this) {
                    lengths.push(length);
                }
            }
            let [packed_q, packed_k, used_q, used_k, leftpad_k] = lengths;
            Case {
                batch: sequences.len(),
                packed_q: packs_q.then_some(packed_q),
                packed_k: packs_k.then_some(packed_k),
                used_q: uses_q.then_some(used_q),
                used_k: uses_k.then_some(used_k),
                leftpad_k: pads.then_some(leftpad_k),
                on_device,
                ..dense
            }
        },
    )
}

/// The same as tensor cores take it, with few queries and many heads on a key head.
pub(crate) fn grouped(largest: usize) -> impl Strategy<Value = Case> {
    let head_dim = || prop::sample::select(vec![8_usize, 40, 64, 120, 128]);
    let group = prop::sample::select(vec![2_usize, 3, 6, 8, 11, 33]);
    let shape = (head_dim(), head_dim(), group, 1..3_u32);
    (ragged(largest), shape).prop_map(|(ragged, (head_dim, head_dim_v, group, splits))| {
        let few = |seqlen: usize| seqlen.div_ceil(4);
        Case {
            dtype: DType::Bf16,
            out: ragged.out.filter(|&out| out == DType::F32),
            head_dim,
            head_dim_v,
            group,
            seqlen_q: few(ragged.seqlen_q),
            packed_q: ragged
                .packed_q
                .map(|lengths| lengths.into_iter().map(few).collect()),
            used_q: ragged
                .used_q
                .map(|lengths| lengths.into_iter().map(|used| used / 4).collect()),
            splits: ragged.splits.map(|_| splits + 1),
            scale: ragged.scale.filter(|&scale| scale > 0.0),
            views: ragged.views.map(|view| match view {
                View::Aligned => View::Aligned,
                _ => View::Contiguous,
            }),
            ..ragged
        }
    })
}
