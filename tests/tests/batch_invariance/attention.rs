//! Attention: a query with its keys among other sequences and other queries, by every candidate.

use half::{bf16, f16};
use ndarray::{Array4, ArrayD, s};
use rand::RngExt;
use warpsmith::{Attention, AttentionOutput, Device, Float, Plan, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::refused;
use warpsmith_tests::values::Values;

use super::{Seen, generations, random};

const HEADS: [usize; 2] = [4, 2];
const PAGE: usize = 16;

/// What is computed of one sequence of `keys` keys and as many queries.
#[derive(Clone, Copy, Debug)]
struct Case {
    keys: usize,
    head_dim: usize,
    is_paged: bool,
    window: Option<u32>,
    has_sink: bool,
}

/// The sequence whose rows are compared: q, k and v, `[keys, heads, head_dim]`.
struct Sequence {
    q: ArrayD<f64>,
    k: ArrayD<f64>,
    v: ArrayD<f64>,
}

/// A batch in which the last `queries` queries of the first `keys` keys are sequence `at`.
struct Batch<T: TestElement> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    lengths: [Tensor<i32>; 2],
    pages: Option<Tensor<i32>>,
}

impl<T: Float + TestElement> Batch<T> {
    /// Of `batch` sequences with room for `room` keys.
    fn new(
        device: &Device,
        case: &Case,
        sequence: &Sequence,
        [batch, at, room]: [usize; 3],
        [queries, keys]: [usize; 2],
    ) -> Self {
        let d = case.head_dim;
        let mut rng = random((batch * 1000 + queries) as u64);
        let longest = queries + rng.random_range(0..3);
        let mut draw = |shape: [usize; 4]| {
            let drawn = Values::Normal.draw(&shape, rng.random_range(0..1000));
            drawn
                .into_dimensionality::<ndarray::Ix4>()
                .expect("4 dimensions")
        };
        let mut q: Array4<f64> = draw([batch, longest, HEADS[0], d]);
        let mut k: Array4<f64> = draw([batch, room, HEADS[1], d]);
        let mut v: Array4<f64> = draw([batch, room, HEADS[1], d]);
        // Other sequences are NaN, every second one.
        for other in (0..batch).filter(|&other| other != at && other % 2 == 1) {
            q.slice_mut(s![other, .., .., ..]).fill(f64::NAN);
            k.slice_mut(s![other, .., .., ..]).fill(f64::NAN);
            v.slice_mut(s![other, .., .., ..]).fill(f64::NAN);
        }
        let first = keys - queries;
        let of_q = sequence.q.slice(s![first..keys, .., ..]).to_owned();
        q.slice_mut(s![at, ..queries, .., ..]).assign(&of_q);
        for (to, from) in [(&mut k, &sequence.k), (&mut v, &sequence.v)] {
            to.slice_mut(s![at, keys.., .., ..]).fill(f64::NAN);
            let from = from.slice(s![..keys, .., ..]).to_owned();
            to.slice_mut(s![at, ..keys, .., ..]).assign(&from);
        }
        let mut used = [vec![longest as i32; batch], vec![room as i32; batch]];
        (used[0][at], used[1][at]) = (queries as i32, keys as i32);
        let lengths =
            used.map(|used| Tensor::from_slice(device, &[batch], &used).expect("lengths"));
        let columns = room / PAGE;
        let pool = |x: Array4<f64>| {
            let pages = (batch * columns, PAGE, HEADS[1], d);
            // Sequences backwards, so that a page's place is not its position.
            let x = x
                .slice(s![..;-1, .., .., ..])
                .as_standard_layout()
                .into_owned();
            x.into_shape_with_order(pages).expect("whole pages")
        };
        let (k, v, pages) = match case.is_paged {
            true => {
                let page = |(b, column)| ((batch - 1 - b) * columns + column) as i32;
                let table = ndarray::Array2::from_shape_fn((batch, columns), page);
                let table = Tensor::from_ndarray(device, &table).expect("a table");
                (pool(k), pool(v), Some(table))
            }
            false => (k, v, None),
        };
        let lay_out = |x: Array4<f64>| {
            let laid_out = Operand::<T>::lay_out(device, x.into_dyn(), View::Contiguous);
            laid_out.expect("an operand").tensor
        };
        Self {
            q: lay_out(q),
            k: lay_out(k),
            v: lay_out(v),
            lengths,
            pages,
        }
    }

    fn attention<'a>(&'a self, case: &Case, sink: &'a Tensor<f32>) -> Attention<'a, T> {
        let [used_q, used_k] = &self.lengths;
        let mut attention = Attention::new(&self.q, &self.k, &self.v)
            .causal()
            .seqused_q(used_q)
            .seqused_k(used_k)
            .batch_invariant(true);
        if let Some(pages) = &self.pages {
            attention = attention.pages(pages);
        }
        if let Some(left) = case.window {
            attention = attention.window(left, 0);
        }
        if case.has_sink {
            attention = attention.sink(sink);
        }
        attention
    }
}

/// The bits of o and lse of each query and head of sequence `at`.
fn rows<T: Float + TestElement>(
    out: &AttentionOutput<T>,
    at: usize,
    queries: usize,
) -> Vec<Vec<u64>> {
    let o = out.o.to_ndarray().expect("o");
    let lse = out.lse.to_ndarray().expect("lse");
    let mut all = Vec::new();
    for query in 0..queries {
        for head in 0..HEADS[0] {
            let of_o = o.slice(s![at, query, head, ..]);
            let mut bits: Vec<u64> = of_o.iter().map(|&x| x.bits()).collect();
            bits.push(lse[[at, head, query]].to_bits().into());
            all.push(bits);
        }
    }
    all
}

fn check<T: Float + TestElement>(device: &Device, case: Case) -> Vec<Plan> {
    let stream: Stream = device.stream().expect("a stream");
    let draw = |heads, seed| Values::Normal.draw(&[case.keys, heads, case.head_dim], seed);
    let sequence = Sequence {
        q: draw(HEADS[0], 1),
        k: draw(HEADS[1], 2),
        v: draw(HEADS[1], 3),
    };
    let sink = Tensor::from_slice(device, &[HEADS[0]], &[0.5_f32, -1.0, 2.0, 0.0]);
    let sink = sink.expect("a sink");
    let mut seen = Seen::default();
    let mut plans = Vec::new();
    let rooms = [
        case.keys.next_multiple_of(PAGE),
        (case.keys + 1100).next_multiple_of(PAGE),
    ];
    let all = case.keys;
    for (batch, queries, keys) in [
        (1, all.min(40), all),
        (3, 1, all),
        (64, 1, all),
        (2, 1, all - 3),
        (2, 7, all - 2),
        (5, 30, all - 9),
    ] {
        // Many sequences, and room for more keys, cost time on emulators.
        if batch > 5 && case.keys > SHORT.keys {
            continue;
        }
        let room = if batch > 5 {
            rooms[0]
        } else {
            rooms[batch % 2]
        };
        let at = batch / 2;
        let tensors = Batch::<T>::new(device, &case, &sequence, [batch, at, room], [queries, keys]);
        let attention = tensors.attention(&case, &sink);
        let plan = attention.plan(&stream).expect("a plan");
        for candidate in plan.candidates() {
            let of = format!(
                "{} of {queries} queries in {batch}, {case:?} of {}, room {room}",
                candidate.name,
                T::DTYPE
            );
            let run = attention
                .clone()
                .with_kernel(&candidate.name)
                .lse()
                .run(&stream);
            let out = run.unwrap_or_else(|error| panic!("{of}: {error}"));
            for (idx, bits) in rows(&out, at, queries).iter().enumerate() {
                let query = keys - queries + idx / HEADS[0];
                seen.check(query * HEADS[0] + idx % HEADS[0], bits, &of);
            }
        }
        plans.push(plan);
    }
    plans
}

const PLAIN: Case = Case {
    keys: 150,
    head_dim: 64,
    is_paged: false,
    window: None,
    has_sink: false,
};

/// In batches of up to 64, too.
const SHORT: Case = Case { keys: 50, ..PLAIN };

#[test]
fn queries_have_the_same_bits_in_every_batch() {
    for device in generations() {
        check::<bf16>(&device, SHORT);
        check::<bf16>(&device, PLAIN);
        check::<f16>(
            &device,
            Case {
                head_dim: 128,
                has_sink: true,
                ..PLAIN
            },
        );
        check::<f32>(&device, Case { keys: 45, ..PLAIN });
        // Other head dimensions have other tiles.
        for head_dim in [192, 256] {
            let keys = 70;
            check::<bf16>(
                &device,
                Case {
                    head_dim,
                    keys,
                    ..PLAIN
                },
            );
        }
        check::<bf16>(
            &device,
            Case {
                keys: 60,
                window: Some(20),
                ..PLAIN
            },
        );
    }
}

#[test]
fn queries_of_paged_keys_have_the_same_bits_in_every_batch() {
    for device in generations() {
        let paged = Case {
            is_paged: true,
            ..PLAIN
        };
        check::<bf16>(&device, paged);
        check::<bf16>(
            &device,
            Case {
                is_paged: true,
                ..SHORT
            },
        );
        check::<f16>(
            &device,
            Case {
                head_dim: 128,
                window: Some(77),
                ..paged
            },
        );
        check::<bf16>(
            &device,
            Case {
                has_sink: true,
                ..paged
            },
        );
        check::<f32>(&device, Case { keys: 40, ..paged });
    }
}

#[test]
fn long_paged_keys_are_in_parts_that_do_not_depend_on_the_batch() {
    for device in generations() {
        let case = Case {
            keys: 1100,
            is_paged: true,
            ..PLAIN
        };
        if device.arch() < (8, 0) {
            continue;
        }
        let plans = check::<bf16>(&device, case);
        let split = |plan: &Plan| plan.chosen().map(|it| it.split);
        assert!(plans.iter().all(|plan| split(plan) >= Some(2)));
    }
}

#[test]
fn parts_of_keys_cannot_be_requested() {
    for device in generations() {
        let stream = device.stream().expect("a stream");
        let q = Tensor::<bf16>::zeros(&stream, &[1, 1, 2, 64]).expect("q");
        let k = Tensor::<bf16>::zeros(&stream, &[1, 64, 2, 64]).expect("k");
        let attention = Attention::new(&q, &k, &k).batch_invariant(true);
        refused!(
            attention.clone().key_splits(2).run(&stream)
            => Argument::Unsupported, "batch_invariant", "key_splits of 1"
        );
        attention.key_splits(1).run(&stream).expect("one part");
    }
}
