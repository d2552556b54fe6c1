//! A product of small integers, whose operands and result lie in any way, and its run by every kernel
//! of a family. Gaps are uninitialised, so the emulator refuses to read them, and each allocation ends
//! with its last element.

use std::fmt::Debug;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::{Device, Gemm, GemmInput, GemmOutput, Precision, Stream, Tensor};
use warpsmith_tests::element::TestElement;

/// Gaps between the rows of a matrix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    /// Elements before the first one.
    pub(crate) before: usize,
    /// Extra elements between rows.
    pub(crate) pad: usize,
    /// Rows begin at multiples of this many elements; 0 is as 1.
    pub(crate) align: usize,
    /// Whether one matrix is used for the whole batch.
    pub(crate) broadcast: bool,
}

impl Gaps {
    pub(crate) const fn new(before: usize, pad: usize) -> Self {
        Self {
            before,
            pad,
            align: 1,
            broadcast: false,
        }
    }

    /// Rows that tensor maps can describe.
    pub(crate) const fn aligned(pad: usize) -> Self {
        Self {
            align: 16,
            ..Self::new(0, pad)
        }
    }
}

/// A product `[batch, m, k] @ [batch, k, n]` of small integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) batch: usize,
    /// Whether `a` is stored with contiguous m, and `b` with contiguous k.
    pub(crate) trans: [bool; 2],
    pub(crate) a: Gaps,
    pub(crate) b: Gaps,
    pub(crate) d: Gaps,
    pub(crate) seed: u64,
}

/// The layouts nn, nt, tn and tt.
pub(crate) const LAYOUTS: [[bool; 2]; 4] =
    [[false, false], [false, true], [true, false], [true, true]];
/// `a` and `b` with contiguous k.
pub(crate) const NT: [bool; 2] = [false, true];

/// What the result and its surroundings hold before a launch.
const POISON: f64 = 1.5;

impl Product {
    pub(crate) fn new(m: usize, n: usize, k: usize, trans: [bool; 2]) -> Self {
        Self {
            m,
            n,
            k,
            batch: 1,
            trans,
            a: Gaps::default(),
            b: Gaps::default(),
            d: Gaps::default(),
            seed: 0,
        }
    }

    /// With operands whose rows are aligned, as the kernels for few rows need them.
    pub(crate) fn aligned(self) -> Self {
        Self {
            a: Gaps::aligned(0),
            b: Gaps::aligned(0),
            ..self
        }
    }

    /// `[batch, m, k]` and `[batch, k, n]`, in this order.
    pub(crate) fn operands(&self) -> [Vec<f64>; 2] {
        let count = |gaps: Gaps| if gaps.broadcast { 1 } else { self.batch };
        [
            integers(1 + 2 * self.seed, count(self.a) * self.m * self.k),
            integers(2 + 2 * self.seed, count(self.b) * self.k * self.n),
        ]
    }

    /// `a @ b`, exactly.
    pub(crate) fn exact(&self, [a, b]: &[Vec<f64>; 2]) -> Vec<f64> {
        let matrix = |values: &[f64], gaps: Gaps, at: usize, [rows, columns]: [usize; 2]| {
            let first = if gaps.broadcast {
                0
            } else {
                at * rows * columns
            };
            let values = values[first..][..rows * columns].to_vec();
            Array2::from_shape_vec([rows, columns], values).expect("so many elements")
        };
        let of_batch = |at: usize| {
            let a = matrix(a, self.a, at, [self.m, self.k]);
            let b = matrix(b, self.b, at, [self.k, self.n]);
            a.dot(&b).into_iter().collect::<Vec<f64>>()
        };
        (0..self.batch).flat_map(of_batch).collect()
    }

    /// The operands on the device.
    pub(crate) fn place<A: TestElement, B: TestElement>(
        &self,
        stream: &Stream,
        [a, b]: &[Vec<f64>; 2],
    ) -> (Placed<A>, Placed<B>) {
        (
            Placed::of(
                stream,
                [self.batch, self.m, self.k],
                self.trans[0],
                self.a,
                a,
            ),
            Placed::of(
                stream,
                [self.batch, self.k, self.n],
                self.trans[1],
                self.b,
                b,
            ),
        )
    }

    /// The place of the result, full of poison.
    pub(crate) fn poisoned<Out: TestElement>(&self, stream: &Stream) -> Placed<Out> {
        let d = Placed::empty(stream, [self.batch, self.m, self.n], false, self.d);
        if !d.whole.is_empty() {
            let poison = Out::nearest(POISON);
            d.whole.fill(poison, stream).expect("it is filled");
        }
        d
    }

    /// Checks every element of the result, by batch, row and column, and that nothing else in its
    /// allocation was written.
    pub(crate) fn expect<Out: TestElement + PartialEq>(
        &self,
        name: &str,
        d: &Placed<Out>,
        want: impl Fn([usize; 3]) -> f64,
    ) {
        let got = d.whole.to_vec().expect("the result can be read");
        let mut expected = vec![Out::nearest(POISON); got.len()];
        let [of_batch, of_row] = d.strides;
        for batch in 0..self.batch {
            for row in 0..self.m {
                for column in 0..self.n {
                    let at = self.d.before + batch * of_batch + row * of_row + column;
                    expected[at] = Out::nearest(want([batch, row, column]));
                }
            }
        }
        for (at, (got, want)) in got.iter().zip(&expected).enumerate() {
            let same = got == want || got.wide().is_nan() && want.wide().is_nan();
            assert!(
                same,
                "{name}: element {at} of the result's memory is {got:?}, want {want:?}: {self:?}"
            );
        }
    }

    /// Runs `gemm`, this product with an epilogue, by every kernel whose name begins with one of
    /// `families`, and checks its results; returns the entries.
    pub(crate) fn by_each<A, B, Out>(
        &self,
        gemm: &Gemm<'_, A, B, Out>,
        families: &[&str],
        stream: &Stream,
        want: impl Fn([usize; 3]) -> f64,
    ) -> Vec<String>
    where
        A: GemmInput<B> + TestElement,
        B: TestElement,
        Out: GemmOutput + TestElement + PartialEq,
    {
        let d = self.poisoned::<Out>(stream);
        let plan = gemm.plan_into(&d.view, stream).expect("a plan");
        let is_of_family = |name: &str| families.iter().any(|family| name.starts_with(family));
        let candidates = plan.candidates().iter();
        let candidates: Vec<_> = candidates.filter(|way| is_of_family(&way.name)).collect();
        for candidate in &candidates {
            let d = self.poisoned::<Out>(stream);
            let gemm = gemm.with_kernel(&candidate.name);
            gemm.run_into(&d.view, stream)
                .unwrap_or_else(|error| panic!("{}: {error}: {self:?}", candidate.name));
            self.expect(&candidate.name, &d, &want);
        }
        candidates
            .into_iter()
            .map(|way| way.entry.clone())
            .collect()
    }

    /// Runs the product alone by every kernel of the families.
    pub(crate) fn check<A, B, Out>(&self, device: &Device, families: &[&str]) -> Vec<String>
    where
        A: GemmInput<B> + TestElement,
        B: TestElement,
        Out: GemmOutput + TestElement + PartialEq,
    {
        let stream = device.stream().expect("a stream");
        let operands = self.operands();
        let (a, b) = self.place::<A, B>(&stream, &operands);
        let product = self.exact(&operands);
        let gemm = Gemm::new(&a.view, &b.view)
            .output::<Out>()
            .precision(Precision::Tf32)
            .fast_accumulation(true);
        self.by_each(&gemm, families, &stream, |at| product[self.index(at)])
    }

    /// Position of an element of the result in row-major order.
    pub(crate) fn index(&self, [batch, row, column]: [usize; 3]) -> usize {
        (batch * self.m + row) * self.n + column
    }
}

/// A batch of matrices in its own allocation, `gaps.before` elements before the first, and a gap after
/// each stored row but the last of all.
pub(crate) struct Placed<T: TestElement> {
    pub(crate) whole: Tensor<T>,
    /// `[batch, rows, columns]`, or without a batch where one matrix is used for all.
    pub(crate) view: Tensor<T>,
    /// Strides of the batch and of stored rows.
    strides: [usize; 2],
}

impl<T: TestElement> Placed<T> {
    pub(crate) fn empty(
        stream: &Stream,
        [batch, rows, columns]: [usize; 3],
        transposed: bool,
        gaps: Gaps,
    ) -> Self {
        let [stored, contiguous] = if transposed {
            [columns, rows]
        } else {
            [rows, columns]
        };
        let of_row = (contiguous + gaps.pad).next_multiple_of(gaps.align.max(1));
        let of_batch = stored * of_row;
        let count = if gaps.broadcast { 1 } else { batch };
        let len = match count * rows * columns {
            0 => 0,
            _ => (count - 1) * of_batch + (stored - 1) * of_row + contiguous,
        };
        let whole = Tensor::empty(stream, &[gaps.before + len]).expect("there is memory");
        let [row, column] = if transposed { [1, of_row] } else { [of_row, 1] };
        let (shape, strides) = ([count, rows, columns], [of_batch, row, column]);
        let strides = strides.map(|stride| stride as i64);
        let first = usize::from(gaps.broadcast);
        let view = whole.as_strided(&shape[first..], &strides[first..], gaps.before);
        Self {
            view: view.expect("the view is inside"),
            whole,
            strides: [of_batch, of_row],
        }
    }

    /// With these elements, row by row.
    pub(crate) fn of(
        stream: &Stream,
        shape: [usize; 3],
        transposed: bool,
        gaps: Gaps,
        values: &[f64],
    ) -> Self {
        let placed = Self::empty(stream, shape, transposed, gaps);
        if !placed.view.is_empty() {
            let values: Vec<T> = values.iter().map(|&x| T::nearest(x)).collect();
            let from = Tensor::from_slice(stream.device(), placed.view.shape(), &values);
            let from = from.expect("there is memory");
            placed.view.assign(&from, stream).expect("it is copied");
        }
        placed
    }
}

/// Small integers.
pub(crate) fn integers(seed: u64, len: usize) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..len)
        .map(|_| f64::from(random.random_range(-3..=3)))
        .collect()
}

/// Calls `$run::<A, B, Out>($($argument),*)` for all dtypes that kernels of tensor cores multiply, with
/// results in floats; gives the sum of the lists of entries.
macro_rules! with_all_dtypes {
    ($run:ident($($argument:expr),* $(,)?)) => {{
        use half::{bf16, f16};
        use warpsmith::{E4m3, E5m2};
        let mut entries: Vec<String> = Vec::new();
        entries.extend($run::<bf16, bf16, bf16>($($argument),*));
        entries.extend($run::<bf16, bf16, f32>($($argument),*));
        entries.extend($run::<f16, f16, f16>($($argument),*));
        entries.extend($run::<f16, f16, f32>($($argument),*));
        entries.extend($run::<f32, f32, f32>($($argument),*));
        entries.extend($run::<i8, i8, f32>($($argument),*));
        entries.extend($run::<i8, i8, f16>($($argument),*));
        entries.extend($run::<i8, i8, bf16>($($argument),*));
        entries.extend($run::<E4m3, E4m3, bf16>($($argument),*));
        entries.extend($run::<E4m3, E5m2, bf16>($($argument),*));
        entries.extend($run::<E5m2, E4m3, bf16>($($argument),*));
        entries.extend($run::<E5m2, E5m2, bf16>($($argument),*));
        entries
    }};
}
pub(crate) use with_all_dtypes;
