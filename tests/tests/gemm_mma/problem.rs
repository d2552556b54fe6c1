//! One GEMM for one kernel: operands in views, the launch, and the expected result.

use abi::gemm::{GemmParams, MmaEntry, Transpose};
use half::{bf16, f16};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::{Device, E4m3, E5m2, Element, LaunchConfig, Stream, Tensor};

/// An element type of an operand or of D.
pub(crate) trait Value: Element + PartialEq + std::fmt::Debug {
    /// The nearest value.
    fn new(x: f32) -> Self;
    fn get(self) -> f32;
}

macro_rules! values {
    ($($ty:ty: |$x:ident| $new:expr, |$value:ident| $get:expr;)*) => {$(
        impl Value for $ty {
            fn new($x: f32) -> Self {
                $new
            }
            fn get(self) -> f32 {
                let $value = self;
                $get
            }
        }
    )*};
}

values! {
    f32: |x| x, |x| x;
    i8: |x| x as i8, |x| x.into();
    f16: |x| f16::from_f32(x), |x| x.to_f32();
    bf16: |x| bf16::from_f32(x), |x| x.to_f32();
    E4m3: |x| E4m3(cuda_std::convert::f32_to_e4m3_satfinite(x)), |x| cuda_std::convert::e4m3_to_f32(x.0);
    E5m2: |x| E5m2(cuda_std::convert::f32_to_e5m2_satfinite(x)), |x| cuda_std::convert::e5m2_to_f32(x.0);
}

/// Layout of a matrix; gaps beside its elements must be neither read nor written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lie {
    /// Elements before the first one.
    pub(crate) before: usize,
    /// Extra elements between rows.
    pub(crate) pad: usize,
    /// Whether one matrix is used for the whole batch.
    pub(crate) broadcast: bool,
}

/// A GEMM of small integers, and the layouts of its matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) batch: usize,
    pub(crate) a: Lie,
    pub(crate) b: Lie,
    pub(crate) d: Lie,
    pub(crate) seed: u64,
}

impl Problem {
    pub(crate) fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            m,
            n,
            k,
            batch: 1,
            a: Lie::default(),
            b: Lie::default(),
            d: Lie::default(),
            seed: 0,
        }
    }
}

/// A batch of matrices of `rows`×`columns` in its own allocation, with `lie.before` elements before
/// the first, and `lie.pad` elements after each row but the last of all.
pub(crate) struct Placed<T: Element> {
    pub(crate) whole: Tensor<T>,
    pub(crate) view: Tensor<T>,
    pub(crate) ld: i64,
    pub(crate) batch_stride: i64,
}

impl<T: Value> Placed<T> {
    /// Not initialised; the tests only ever write the elements of the view.
    pub(crate) fn empty(stream: &Stream, [batch, rows, columns]: [usize; 3], lie: Lie) -> Self {
        let ld = columns + lie.pad;
        let batches = if lie.broadcast { 1 } else { batch };
        let stride = rows * ld;
        let last = if rows * columns * batches == 0 {
            0
        } else {
            (batches - 1) * stride + (rows - 1) * ld + columns
        };
        let whole = Tensor::empty(stream, &[lie.before + last]).expect("there is memory");
        let batch_stride = if lie.broadcast { 0 } else { stride as i64 };
        let view = whole
            .as_strided(
                &[batches, rows, columns],
                &[stride as i64, ld as i64, 1],
                lie.before,
            )
            .expect("the view is inside");
        Self {
            whole,
            view,
            ld: ld as i64,
            batch_stride,
        }
    }

    /// With these elements, `[batch, row, column]` (of one matrix if it is broadcast).
    pub(crate) fn of(stream: &Stream, shape: [usize; 3], lie: Lie, values: &[T]) -> Self {
        let placed = Self::empty(stream, shape, lie);
        if !placed.view.is_empty() {
            let from = Tensor::from_slice(stream.device(), placed.view.shape(), values)
                .expect("there is memory");
            placed.view.assign(&from, stream).expect("it is copied");
        }
        placed
    }
}

/// Small integers.
pub(crate) fn integers(seed: u64, len: usize) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..len)
        .map(|_| random.random_range(-3..=3) as f32)
        .collect()
}

/// Operands as the operation reads them: A `[batch, m, k]` and B `[batch, k, n]`.
pub(crate) struct Operands {
    pub(crate) a: Vec<f32>,
    pub(crate) b: Vec<f32>,
}

impl Problem {
    pub(crate) fn operands(&self) -> Operands {
        let batch = |lie: Lie| if lie.broadcast { 1 } else { self.batch };
        Operands {
            a: integers(2 * self.seed, batch(self.a) * self.m * self.k),
            b: integers(2 * self.seed + 1, batch(self.b) * self.k * self.n),
        }
    }

    /// `A @ B`, in f64.
    pub(crate) fn product(&self, operands: &Operands) -> Vec<f64> {
        let Self { m, n, k, batch, .. } = *self;
        let mut product = vec![0.0; batch * m * n];
        for index in 0..batch {
            let a = if self.a.broadcast { 0 } else { index * m * k };
            let b = if self.b.broadcast { 0 } else { index * k * n };
            for i in 0..m {
                for l in 0..k {
                    let x = f64::from(operands.a[a + i * k + l]);
                    let row = &operands.b[b + l * n..][..n];
                    let out = &mut product[(index * m + i) * n..][..n];
                    for (out, y) in out.iter_mut().zip(row) {
                        *out += x * f64::from(*y);
                    }
                }
            }
        }
        product
    }

    /// A and B on the device, laid out as `entry` requires.
    pub(crate) fn place<A: Value, B: Value>(
        &self,
        stream: &Stream,
        entry: &MmaEntry,
        operands: &Operands,
    ) -> (Placed<A>, Placed<B>) {
        let a = place(
            stream,
            [self.batch, self.m, self.k],
            entry.trans_a,
            self.a,
            &operands.a,
        );
        let b = place(
            stream,
            [self.batch, self.k, self.n],
            entry.trans_b,
            self.b,
            &operands.b,
        );
        (a, b)
    }

    pub(crate) fn params<A: Element, B: Element, D: Element>(
        &self,
        a: &Placed<A>,
        b: &Placed<B>,
        d: &Placed<D>,
    ) -> GemmParams {
        GemmParams {
            m: self.m as u32,
            n: self.n as u32,
            k: self.k as u32,
            batch: self.batch as u32,
            lda: a.ld,
            ldb: b.ld,
            ldc: 0,
            ldd: d.ld,
            batch_stride_a: a.batch_stride,
            batch_stride_b: b.batch_stride,
            batch_stride_c: 0,
            batch_stride_d: d.batch_stride,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}

fn place<T: Value>(
    stream: &Stream,
    [batch, rows, columns]: [usize; 3],
    transpose: Transpose,
    lie: Lie,
    values: &[f32],
) -> Placed<T> {
    let batches = if lie.broadcast { 1 } else { batch };
    let values = values.iter().map(|x| T::new(*x));
    match transpose {
        Transpose::N => {
            let values: Vec<T> = values.collect();
            Placed::of(stream, [batch, rows, columns], lie, &values)
        }
        Transpose::T => {
            let mut transposed = vec![T::default(); batches * rows * columns];
            for (i, value) in values.enumerate() {
                let (index, row, column) = (i / (rows * columns), i / columns % rows, i % columns);
                transposed[(index * columns + column) * rows + row] = value;
            }
            Placed::of(stream, [batch, columns, rows], lie, &transposed)
        }
    }
}

/// The launch of `entry` for `problem`.
pub(crate) fn launch_config(entry: &MmaEntry, problem: &Problem) -> Option<LaunchConfig> {
    let grid = entry
        .tile
        .grid(problem.m as u32, problem.n as u32, problem.batch as u32)?;
    Some(LaunchConfig {
        grid,
        block: [entry.tile.threads(), 1, 1],
        shared_bytes: entry.tile.smem_bytes(),
        cluster: None,
    })
}

/// D, filled with poison like the elements around it.
pub(crate) fn poisoned<T: Value>(stream: &Stream, problem: &Problem) -> Placed<T> {
    let shape = [problem.batch, problem.m, problem.n];
    let d = Placed::<T>::empty(stream, shape, problem.d);
    if !d.whole.is_empty() {
        d.whole.fill(T::new(POISON), stream).expect("it is filled");
    }
    d
}

/// What D and its surroundings hold before a launch.
pub(crate) const POISON: f32 = 1.5;

/// Checks every element of D, and that nothing else in its allocation was written.
pub(crate) fn check<T: Value>(
    what: &dyn std::fmt::Display,
    problem: &Problem,
    d: &Placed<T>,
    want: impl Fn(usize, usize, usize) -> f32,
) {
    let got = d.whole.to_vec().expect("D can be read");
    let mut expected = vec![T::new(POISON); got.len()];
    for batch in 0..problem.batch {
        for row in 0..problem.m {
            for column in 0..problem.n {
                let at = problem.d.before
                    + batch * d.batch_stride as usize
                    + row * d.ld as usize
                    + column;
                expected[at] = T::new(want(batch, row, column));
            }
        }
    }
    for (i, (got, want)) in got.iter().zip(&expected).enumerate() {
        let same = got == want || got.get().is_nan() && want.get().is_nan();
        if !same {
            let at = i.wrapping_sub(problem.d.before);
            let (row, column) = (at / d.ld as usize, at % d.ld as usize);
            panic!(
                "{what}: element {i} of D's memory (row {row}, column {column}) is {got:?}, \
                 want {want:?}: {problem:?}"
            );
        }
    }
}

/// A stream of the device.
pub(crate) fn stream(device: &Device) -> Stream {
    device.stream().expect("a stream")
}
