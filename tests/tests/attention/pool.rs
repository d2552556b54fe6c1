//! Keys and values of a case in pages.

use ndarray::{Array2, Array4, ArrayD, Axis, Ix4};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::reference::attention::gathered;
use warpsmith::{Device, Float, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::Operand;
use warpsmith_tests::output::same_bits;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::case::Case;
use super::check::{Inputs, describe};

/// What an entry may hold that is never read.
const UNREAD: [i32; 5] = [i32::MIN, -1, 0, 1, i32::MAX];

/// The pages of a case: drawn at random, so that sequences share some, and some are of none.
pub(crate) struct Paged {
    page_size: usize,
    pages: usize,
    /// Keys of each sequence.
    lengths: Vec<usize>,
    values: Array2<i32>,
    pub(crate) tensor: Tensor<i32>,
}

impl Paged {
    /// The table of `case`, if its keys are paged; every other one a part of a wider tensor.
    pub(crate) fn draw(case: &Case, device: &Device) -> Result<Option<Self>, String> {
        let Some(page_size) = case.page_size else {
            return Ok(None);
        };
        let mut rng = ChaCha8Rng::seed_from_u64(case.seed);
        let columns = case.seqlen_k.checked_div(page_size).unwrap_or(0);
        let lengths: Vec<usize> = case.sequences().iter().map(|s| s.k.len()).collect();
        let pages = rng.random_range(1..=case.batch() * columns + 2);
        let gap = rng.random_range(0..2) * 3;
        let wide = Array2::from_shape_fn((case.batch(), columns + gap), |(b, column)| {
            match column < lengths[b].div_ceil(page_size) {
                true => rng.random_range(0..pages) as i32,
                false => UNREAD[rng.random_range(0..UNREAD.len())],
            }
        });
        let tensor = Tensor::from_ndarray(device, &wide).map_err(say)?;
        Ok(Some(Self {
            page_size,
            pages,
            lengths,
            values: wide.slice_axis(Axis(1), (..columns).into()).to_owned(),
            tensor: tensor.slice(1, ..columns).map_err(say)?,
        }))
    }

    /// Keys (`idx` 1) or values (2) of the case: `[total, heads, x]`, and their pool. Places that
    /// no sequence has are NaN.
    pub(crate) fn operand<T: TestElement>(
        &self,
        case: &Case,
        (idx, values): (usize, Values),
        x: usize,
        device: &Device,
    ) -> Result<(ArrayD<f64>, Operand<T>), String> {
        let shape = [self.pages, self.page_size, case.heads_kv, x];
        let drawn = values.draw(&shape, case.seed + idx as u64);
        let drawn: Array4<f64> = drawn.into_dimensionality::<Ix4>().map_err(say)?;
        let mut pool = Array4::from_elem(drawn.raw_dim(), f64::NAN);
        for (&length, row) in self.lengths.iter().zip(self.values.rows()) {
            for j in 0..length {
                let (page, position) = (row[j / self.page_size] as usize, j % self.page_size);
                let of = drawn.index_axis(Axis(0), page);
                let of = of.index_axis(Axis(0), position);
                let mut to = pool.index_axis_mut(Axis(0), page);
                let rounded = of.mapv(|x| T::nearest(x).wide());
                to.index_axis_mut(Axis(0), position).assign(&rounded);
            }
        }
        let got = gathered(&pool.view(), &self.values.view(), &self.lengths).map_err(say)?;
        let mut all = ArrayD::from_elem(vec![case.total_k(), case.heads_kv, x], f64::NAN);
        let sequences = case.sequences();
        let positions = sequences.iter().flat_map(|s| s.k.clone());
        for (position, row) in positions.zip(got.axis_iter(Axis(0))) {
            all.index_axis_mut(Axis(0), position).assign(&row);
        }
        let laid_out = match case.bhsd {
            true => pool.permuted_axes([0, 2, 1, 3]),
            false => pool,
        };
        let laid_out = laid_out.as_standard_layout().into_owned().into_dyn();
        Ok((all, Operand::lay_out(device, laid_out, case.view(idx))?))
    }
}

/// Checks that `kernel` gives the same bits for pages as for the same keys without pages.
pub(crate) fn has_the_bits_of_dense_keys<T: Float + TestElement, Out: Float + TestElement>(
    case: &Case,
    inputs: &Inputs<T>,
    (kernel, splits): (&str, Option<u32>),
    stream: &Stream,
) -> Checked {
    let Some(dense) = inputs.without_pages(case, stream.device())? else {
        return Ok(());
    };
    let mut paged = describe::<T, Out>(case, inputs).with_kernel(kernel);
    if let Some(splits) = splits {
        paged = paged.key_splits(splits);
    }
    let plan = paged.plan(stream).map_err(say)?;
    let Some(chosen) = plan.chosen() else {
        return Ok(());
    };
    let lengths = vec![case.seqlen_k as i32; case.batch];
    let mut dense = describe::<T, Out>(case, &dense)
        .with_kernel(&chosen.entry)
        .key_splits(chosen.split);
    if (case.left.is_some() || case.top_left) && case.used_k.is_none() {
        // Without lengths, dense keys are counted from the first that some query sees.
        dense = dense.seqused_k(&lengths);
    }
    let want = match dense.lse().run(stream) {
        // Decoding of more queries than a tile has rows is for paged keys alone.
        Err(error) if error.is_unsupported() && kernel.starts_with("flash_decode") => {
            return Ok(());
        }
        results => results.map_err(say)?,
    };
    let got = paged.lse().run(stream).map_err(say)?;
    let array = |x: Tensor<Out>| x.to_ndarray().map_err(say);
    same_bits(&array(got.o)?, &array(want.o)?).map_err(|error| format!("beside dense: {error}"))?;
    let (got, want) = (got.lse.to_ndarray(), want.lse.to_ndarray());
    same_bits(&got.map_err(say)?, &want.map_err(say)?)
        .map_err(|error| format!("lse beside dense: {error}"))
}
