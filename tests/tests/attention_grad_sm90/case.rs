//! What is computed, its inputs, and its gradients in f64.

use abi::attention::{Mask, UNLIMITED};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith_tests::Checked;
use warpsmith_tests::element::TestElement;
use warpsmith_tests::property::extent;

use super::launch::{Grads, Inputs};

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) batch: u32,
    pub(crate) seqlen_q: u32,
    pub(crate) seqlen_k: u32,
    pub(crate) heads_kv: u32,
    pub(crate) group: u32,
    /// Of a group, how many a thread block has.
    pub(crate) heads_together: u32,
    pub(crate) head_dim: u32,
    pub(crate) head_dim_v: u32,
    pub(crate) window: (i32, i32),
    pub(crate) top_left: bool,
    pub(crate) softcap: Option<f32>,
    pub(crate) padding: u32,
    pub(crate) seed: u64,
}

impl Case {
    pub(crate) const PLAIN: Self = Self {
        batch: 1,
        seqlen_q: 64,
        seqlen_k: 128,
        heads_kv: 1,
        group: 1,
        heads_together: 1,
        head_dim: 128,
        head_dim_v: 128,
        window: (UNLIMITED, UNLIMITED),
        top_left: false,
        softcap: None,
        padding: 0,
        seed: 1,
    };

    pub(crate) fn softmax_scale(&self) -> f32 {
        1.5 / (self.head_dim as f32).sqrt()
    }
}

/// Cases with sequences up to `largest`.
pub(crate) fn any(largest: usize) -> impl Strategy<Value = Case> {
    let window = || prop_oneof![2 => Just(UNLIMITED), 1 => Just(0), 1 => 0..200_i32];
    let lengths = (1..3_u32, extent(largest), extent(largest));
    let groups = prop_oneof![
        Just((1, 1)),
        Just((2, 1)),
        Just((2, 2)),
        Just((3, 1)),
        Just((4, 2))
    ];
    let heads = (1..3_u32, groups);
    let head_dims = prop_oneof![
        Just((128_u32, 128_u32)),
        Just((64, 64)),
        (1..=16_u32, 1..=16_u32).prop_map(|(qk, v)| (8 * qk, 8 * v)),
    ];
    let softcap = prop_oneof![3 => Just(None), 1 => Just(Some(2.0_f32))];
    let rest = (
        any_bool(),
        softcap,
        prop_oneof![Just(0_u32), Just(8)],
        any_seed(),
    );
    (lengths, heads, head_dims, (window(), window()), rest).prop_map(
        |(lengths, heads, head_dims, window, (top_left, softcap, padding, seed))| Case {
            batch: lengths.0,
            seqlen_q: (lengths.1 as u32).max(1),
            seqlen_k: (lengths.2 as u32).max(1),
            heads_kv: heads.0,
            group: heads.1.0,
            heads_together: heads.1.1,
            head_dim: head_dims.0,
            head_dim_v: head_dims.1,
            window,
            top_left,
            softcap,
            padding,
            seed,
        },
    )
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::arbitrary::any::<bool>()
}

fn any_seed() -> impl Strategy<Value = u64> {
    0..1000_u64
}

/// A tensor's values in f64, `[batch, position, head, column]` contiguous.
struct Values {
    values: Vec<f64>,
    dims: [usize; 4],
}

impl Values {
    fn zeros(dims: [u32; 4]) -> Self {
        let dims = dims.map(|dim| dim as usize);
        Self {
            values: vec![0.0; dims.iter().product()],
            dims,
        }
    }

    fn drawn<T: TestElement>(dims: [u32; 4], rng: &mut ChaCha8Rng) -> Self {
        let mut drawn = Self::zeros(dims);
        for value in &mut drawn.values {
            *value = T::nearest(rng.random_range(-2.0..2.0)).wide();
        }
        drawn
    }

    fn row(&self, [batch, position, head]: [usize; 3]) -> &[f64] {
        let at = self.at([batch, position, head]);
        &self.values[at..at + self.dims[3]]
    }

    fn at(&self, [batch, position, head]: [usize; 3]) -> usize {
        let [_, positions, heads, columns] = self.dims;
        ((batch * positions + position) * heads + head) * columns
    }

    fn add(&mut self, row: [usize; 3], factor: f64, other: &[f64]) {
        let at = self.at(row);
        for (sum, x) in self.values[at..].iter_mut().zip(other) {
            *sum += factor * x;
        }
    }

    /// The same with the absolute values of what is added.
    fn add_size(&mut self, row: [usize; 3], factor: f64, other: &[f64]) {
        let at = self.at(row);
        for (sum, x) in self.values[at..].iter_mut().zip(other) {
            *sum += (factor * x).abs();
        }
    }

    /// In memory, with poison between the rows.
    fn lay_out<T: TestElement>(&self, padding: u32) -> Vec<T> {
        let [_, _, _, columns] = self.dims;
        let mut laid = Vec::new();
        for row in self.values.chunks(columns.max(1)) {
            laid.extend(row.iter().map(|&x| T::nearest(x)));
            laid.extend((0..padding).map(|_| T::POISON));
        }
        laid
    }
}

/// A gradient and the bound of its error.
pub(crate) struct Want {
    value: Values,
    bound: Values,
}

pub(crate) struct Wanted {
    dq: Want,
    dk: Want,
    dv: Want,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn size(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum()
}

impl Case {
    /// Inputs of type `T`, and the gradients.
    pub(crate) fn problem<T: TestElement + Rounds>(&self) -> (Inputs<T>, Wanted) {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let heads_q = self.heads_kv * self.group;
        let of_q = |head_dim| [self.batch, self.seqlen_q, heads_q, head_dim];
        let of_k = |head_dim| [self.batch, self.seqlen_k, self.heads_kv, head_dim];
        let q = Values::drawn::<T>(of_q(self.head_dim), &mut rng);
        let k = Values::drawn::<T>(of_k(self.head_dim), &mut rng);
        let v = Values::drawn::<T>(of_k(self.head_dim_v), &mut rng);
        let d_o = Values::drawn::<T>(of_q(self.head_dim_v), &mut rng);
        let want = |dims| Want {
            value: Values::zeros(dims),
            bound: Values::zeros(dims),
        };
        let mut wanted = Wanted {
            dq: want(of_q(self.head_dim)),
            dk: want(of_k(self.head_dim)),
            dv: want(of_k(self.head_dim_v)),
        };
        let (mut lse, mut delta) = (Vec::new(), Vec::new());
        for batch in 0..self.batch as usize {
            for head in 0..heads_q as usize {
                for query in 0..self.seqlen_q as usize {
                    let row = [batch, query, head];
                    let (of_row, of_delta) = self.row::<T>([&q, &k, &v, &d_o], row, &mut wanted);
                    lse.push(of_row);
                    delta.push(of_delta);
                }
            }
        }
        let inputs = Inputs {
            q: q.lay_out(self.padding),
            k: k.lay_out(self.padding),
            v: v.lay_out(self.padding),
            d_o: d_o.lay_out(self.padding),
            lse,
            delta,
        };
        (inputs, wanted)
    }

    /// Adds what a query contributes; its lse and delta.
    fn row<T: TestElement + Rounds>(
        &self,
        [q, k, v, d_o]: [&Values; 4],
        row: [usize; 3],
        wanted: &mut Wanted,
    ) -> (f32, f32) {
        let [batch, query, head] = row;
        let mask = Mask::new(self.seqlen_q, self.seqlen_k, self.window, self.top_left);
        let seen = mask.visible_keys(query as u32);
        let keys: Vec<[usize; 3]> = (seen.first..seen.end)
            .map(|key| [batch, key as usize, head / self.group as usize])
            .collect();
        if keys.is_empty() {
            return (f32::NEG_INFINITY, 0.0);
        }
        let scale = f64::from(self.softmax_scale());
        let scores: Vec<(f64, f64)> = keys
            .iter()
            .map(|&key| {
                let s = scale * dot(q.row(row), k.row(key));
                match self.softcap.map(f64::from) {
                    None => (s, 1.0),
                    Some(cap) => {
                        let tanh = (s / cap).tanh();
                        (cap * tanh, 1.0 - tanh * tanh)
                    }
                }
            })
            .collect();
        let sum: f64 = scores.iter().map(|(s, _)| s.exp()).sum();
        let lse = sum.ln();
        let of_keys: Vec<(f64, f64)> = keys
            .iter()
            .zip(&scores)
            .map(|(&key, (s, _))| ((s - lse).exp(), dot(d_o.row(row), v.row(key))))
            .collect();
        let delta: f64 = of_keys.iter().map(|(p, dp)| p * dp).sum();
        // What rounds: P and dS to the type; S, exponentials, dP and delta in f32.
        let (unit, fine) = (T::ROUNDOFF, 3e-6);
        for ((&key, (_, slope)), (p, dp)) in keys.iter().zip(&scores).zip(of_keys) {
            let ds = scale * slope * p * (dp - delta);
            let dp_size = size(d_o.row(row), v.row(key)) + delta.abs();
            let of_ds = unit * ds.abs() + fine * scale * p * (dp_size + 16.0 * (dp - delta).abs());
            let of_p = p * (unit + 16.0 * fine);
            wanted.dv.value.add(key, p, d_o.row(row));
            wanted.dv.bound.add_size(key, of_p, d_o.row(row));
            wanted.dk.value.add(key, ds, q.row(row));
            wanted.dk.bound.add_size(key, of_ds, q.row(row));
            wanted.dq.value.add(row, ds, k.row(key));
            wanted.dq.bound.add_size(row, of_ds, k.row(key));
        }
        (lse as f32, delta as f32)
    }
}

/// An element type's unit roundoff.
pub(crate) trait Rounds {
    const ROUNDOFF: f64;
}

impl Rounds for half::bf16 {
    const ROUNDOFF: f64 = 1.0 / 256.0;
}

impl Rounds for half::f16 {
    const ROUNDOFF: f64 = 1.0 / 2048.0;
}

impl Wanted {
    /// Whether gradients are within their bounds, and padding is as it was.
    pub(crate) fn check<T: TestElement + Rounds>(&self, got: &Grads<T>, padding: u32) -> Checked {
        self.dv.check("dv", &got.dv, padding)?;
        self.dk.check("dk", &got.dk, padding)?;
        self.dq.check("dq", &got.dq, padding)
    }
}

impl Want {
    fn check<T: TestElement + Rounds>(&self, name: &str, got: &[T], padding: u32) -> Checked {
        let [_, positions, heads, columns] = self.value.dims;
        let row = columns + padding as usize;
        for (i, got) in got.iter().enumerate() {
            let (at, column) = (i / row, i % row);
            let place = || {
                let (position, head) = (at / heads % positions, at % heads);
                format!(
                    "{name}[{}, {position}, {head}, {column}]",
                    at / heads / positions
                )
            };
            if column >= columns {
                if got.bits() != T::POISON.bits() {
                    return Err(format!("{} is written", place()));
                }
                continue;
            }
            let want = self.value.values[at * columns + column];
            let bound = self.bound.values[at * columns + column] + T::ROUNDOFF * want.abs() + 1e-6;
            let error = (got.wide() - want).abs();
            if error > bound || error.is_nan() {
                return Err(format!(
                    "{} is {}, want {want} within {bound}",
                    place(),
                    got.wide()
                ));
            }
        }
        Ok(())
    }
}
