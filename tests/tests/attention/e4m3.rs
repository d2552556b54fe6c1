//! Keys and values in e4m3, with factors: against the reference of the values that they stand for.

use half::{bf16, f16};
use ndarray::{Array2, Array3, Array4, ArrayD, Axis, s};
use warpsmith::reference::attention::{
    AttentionOptions, Band, SequencePositions, packed as attention_of,
};
use warpsmith::{Attention, Device, E4m3, Float, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::same_bits;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, refused, say};

/// Some attentions: the keys of each sequence are the first of a table's, or of `room` places.
#[derive(Clone)]
struct Case {
    head_dims: [usize; 2],
    heads_kv: usize,
    group: usize,
    seqlen_q: usize,
    lengths: Vec<usize>,
    /// Positions of a page; dense keys if there is none.
    page_size: Option<usize>,
    causal: bool,
    softcap: Option<f32>,
    /// Factors of k and of v: one each, or for each sequence and head.
    of_heads: bool,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            head_dims: [128, 128],
            heads_kv: 2,
            group: 4,
            seqlen_q: 1,
            lengths: vec![70, 0, 130],
            page_size: None,
            causal: true,
            softcap: None,
            of_heads: true,
        }
    }
}

/// Keys or values on the device, and the values that they stand for, `[total, heads, x]`.
struct Keys {
    tensor: Tensor<E4m3>,
    scale: Tensor<f32>,
    values: Array3<f64>,
}

impl Case {
    fn keys(&self, x: usize, seed: u64, device: &Device) -> Result<Keys, String> {
        let (batch, room) = (self.lengths.len(), self.room());
        let scale = match self.of_heads {
            true => {
                Array2::from_shape_fn([batch, self.heads_kv], |(b, h)| 0.37 + (b + 2 * h) as f32)
            }
            false => Array2::from_elem([1, 1], 0.01),
        };
        let drawn = Values::Uniform.draw(&[batch, room, self.heads_kv, x], seed);
        let mut dense = Array4::from_elem([batch, room, self.heads_kv, x], E4m3::POISON);
        let mut values = Vec::new();
        for (b, &length) in self.lengths.iter().enumerate() {
            for j in 0..length {
                for h in 0..self.heads_kv {
                    let scale = scale[[b % scale.nrows(), h % scale.ncols()]];
                    for c in 0..x {
                        // Small ones too, so that some are subnormal.
                        let element = E4m3::nearest(drawn[[b, j, h, c]] * [4.0, 0.02][c % 2]);
                        dense[[b, j, h, c]] = element;
                        values.push(element.wide() * f64::from(scale));
                    }
                }
            }
        }
        let tensor = match self.page_size {
            None => Tensor::from_ndarray(device, &dense),
            Some(page_size) => {
                let columns = room / page_size;
                let mut pool =
                    Array4::from_elem([batch * columns, page_size, self.heads_kv, x], E4m3::POISON);
                for b in 0..batch {
                    for column in 0..columns {
                        let page = self.page(b, column);
                        let from = column * page_size;
                        pool.index_axis_mut(Axis(0), page).assign(&dense.slice(s![
                            b,
                            from..from + page_size,
                            ..,
                            ..
                        ]));
                    }
                }
                Tensor::from_ndarray(device, &pool)
            }
        };
        let total = self.lengths.iter().sum();
        let scale = match self.of_heads {
            true => Tensor::from_ndarray(device, &scale),
            false => Tensor::from_slice(device, &[1], &[scale[[0, 0]]]),
        };
        Ok(Keys {
            tensor: tensor.map_err(say)?,
            scale: scale.map_err(say)?,
            values: Array3::from_shape_vec([total, self.heads_kv, x], values).map_err(say)?,
        })
    }

    /// Places of each sequence.
    fn room(&self) -> usize {
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        longest.next_multiple_of(self.page_size.unwrap_or(1))
    }

    /// Pages backwards, the sequences interleaved.
    fn page(&self, b: usize, column: usize) -> usize {
        let batch = self.lengths.len();
        let columns = self.room() / self.page_size.unwrap_or(1);
        batch * columns - 1 - (column * batch + b)
    }

    fn table(&self, device: &Device) -> Result<Option<Tensor<i32>>, String> {
        let Some(page_size) = self.page_size else {
            return Ok(None);
        };
        let columns = self.room() / page_size;
        let table =
            Array2::from_shape_fn([self.lengths.len(), columns], |(b, column)| {
                match column * page_size < self.lengths[b] {
                    true => self.page(b, column) as i32,
                    false => -1,
                }
            });
        Tensor::from_ndarray(device, &table).map(Some).map_err(say)
    }
}

fn check<T: Float + TestElement>(case: &Case, device: &Device, stream: &Stream) -> Checked {
    let [d, d_v] = case.head_dims;
    let (batch, heads_q) = (case.lengths.len(), case.heads_kv * case.group);
    let shape = [batch, case.seqlen_q, heads_q, d];
    let q = Values::Uniform.draw(&shape, 1).mapv(T::nearest);
    let [k, v] = [(d, 2), (d_v, 3)].map(|(x, seed)| case.keys(x, seed, device));
    let (k, v) = (k?, v?);
    let table = case.table(device)?;
    let lengths: Vec<i32> = case.lengths.iter().map(|&len| len as i32).collect();
    let q_tensor = Tensor::from_ndarray(device, &q).map_err(say)?;
    let mut attention = Attention::of_e4m3(&q_tensor, &k.tensor, &v.tensor)
        .k_scale(&k.scale)
        .v_scale(&v.scale)
        .seqused_k(&lengths);
    if let Some(table) = &table {
        attention = attention.pages(table);
    }
    if case.causal {
        attention = attention.causal();
    }
    if let Some(softcap) = case.softcap {
        attention = attention.softcap(softcap);
    }
    let plan = match attention.plan(stream) {
        Err(error) if device.arch() < (8, 0) && error.is_unsupported() => return Ok(()),
        plan => plan.map_err(say)?,
    };
    let mut first = 0;
    let sequences: Vec<_> = (0..batch)
        .map(|b| {
            first += case.lengths[b];
            SequencePositions {
                q: b * case.seqlen_q..(b + 1) * case.seqlen_q,
                k: first - case.lengths[b]..first,
            }
        })
        .collect();
    let flat = |x: &ArrayD<T>| -> Result<Array3<f64>, String> {
        let rows = [batch * case.seqlen_q, heads_q, x.shape()[3]];
        let x = x.mapv(TestElement::wide).into_shape_with_order(rows);
        x.map_err(say)
    };
    let options = AttentionOptions {
        mask: if case.causal {
            Band::CAUSAL
        } else {
            Band::default()
        },
        softcap: case.softcap,
        ..AttentionOptions::new(T::DTYPE, attention.model(stream).map_err(say)?)
    };
    let (q, k, v) = (flat(&q)?, k.values, v.values);
    let want = attention_of(&q.view(), &k.view(), &v.view(), &sequences, &options);
    let want = want.map_err(say)?;
    for candidate in plan.candidates() {
        for splits in [1, 3] {
            let attention = attention
                .clone()
                .with_kernel(&candidate.entry)
                .key_splits(splits);
            let run = || -> Result<ArrayD<T>, String> {
                let o = attention.clone().lse().run(stream).map_err(say)?;
                o.o.to_ndarray().map_err(say)
            };
            let (o, again) = (run()?, run()?);
            same_bits(&o, &again)?;
            let shape = want.o.values.shape().to_vec();
            let o = o.into_shape_with_order(shape).map_err(say)?;
            agrees(&o, &want.o)
                .map_err(|error| format!("{}, {splits} splits: {error}", candidate.name))?;
        }
    }
    Ok(())
}

#[test]
fn attention_to_e4m3_matches_its_reference() {
    let paged = Case {
        page_size: Some(16),
        ..Case::default()
    };
    let cases = [
        Case::default(),
        paged.clone(),
        Case {
            head_dims: [64, 48],
            group: 3,
            seqlen_q: 2,
            ..paged.clone()
        },
        Case {
            head_dims: [112, 128],
            heads_kv: 1,
            group: 24,
            seqlen_q: 3,
            of_heads: false,
            page_size: Some(48),
            ..Case::default()
        },
        Case {
            group: 1,
            seqlen_q: 40,
            causal: false,
            softcap: Some(2.0),
            ..paged
        },
        Case {
            head_dims: [64, 64],
            group: 7,
            seqlen_q: 5,
            lengths: vec![33],
            ..Case::default()
        },
    ];
    on_every_device(|device, stream| {
        for (idx, case) in cases.iter().enumerate() {
            check::<bf16>(case, device, stream).unwrap_or_else(|e| panic!("case {idx}: {e}"));
            check::<f16>(case, device, stream).unwrap_or_else(|e| panic!("case {idx}, f16: {e}"));
        }
    });
}

/// Every value of e4m3 is a value of o, where each query sees one key alone.
#[test]
fn every_value_of_e4m3_reaches_o() {
    on_every_device(|device, stream| {
        if device.arch() < (8, 0) {
            return;
        }
        let all: Vec<E4m3> = (0..=255).map(E4m3).collect();
        let v = Tensor::from_slice(device, &[2, 1, 1, 128], &all).expect("values");
        let k = Tensor::from_slice(device, &[2, 1, 1, 128], &[E4m3(0); 256]).expect("keys");
        let q = Tensor::full(stream, &[2, 1, 1, 128], bf16::ONE).expect("queries");
        let scale = Tensor::from_slice(device, &[1], &[2.0_f32]).expect("a factor");
        let attention = Attention::of_e4m3(&q, &k, &v).v_scale(&scale);
        let plan = attention.plan(stream).expect("a plan");
        for candidate in plan.candidates() {
            let o = attention.clone().with_kernel(&candidate.name).run(stream);
            let o = o.expect("attention").to_vec().expect("o");
            for (o, e) in o.iter().zip(&all) {
                let want = 2.0 * e.to_f32();
                let is_same = o.to_f32() == want || (o.is_nan() && want.is_nan());
                assert!(is_same, "{e:?} became {o} by {}", candidate.name);
            }
        }
    });
}

#[test]
fn what_kernels_for_e4m3_lack_is_refused() {
    on_every_device(|_, stream| {
        let q = Tensor::<bf16>::zeros(stream, &[2, 1, 4, 64]).expect("q");
        let k = Tensor::<E4m3>::zeros(stream, &[2, 8, 2, 64]).expect("k");
        let scale = Tensor::full(stream, &[3], 1.0_f32).expect("a factor");
        refused!(
            Attention::of_e4m3(&q, &k, &k).k_scale(&scale).run(stream)
            => Shape::Mismatch, "k_scale", "[2, 2]"
        );
        let q = Tensor::<bf16>::zeros(stream, &[2, 1, 4, 72]).expect("q");
        let k = Tensor::<E4m3>::zeros(stream, &[2, 8, 2, 72]).expect("k");
        refused!(
            Attention::of_e4m3(&q, &k, &k).run(stream)
            => Argument::Unsupported, "kv=e4m3", "multiples of 16 up to 128"
        );
        let q = Tensor::<f32>::zeros(stream, &[2, 1, 4, 64]).expect("q");
        let k = Tensor::<E4m3>::zeros(stream, &[2, 8, 2, 64]).expect("k");
        refused!(
            Attention::of_e4m3(&q, &k, &k).run(stream)
            => Argument::Unsupported, "q in f16 or bf16"
        );
    });
}
