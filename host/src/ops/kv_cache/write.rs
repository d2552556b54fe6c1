//! The launch that writes keys and values into pages.

use super::{KvAppend, NAME};
use crate::error::named;
use crate::load;
use crate::ops::check;
use crate::ops::rows::ParamElement;
use crate::tensor::Address;
use crate::{Element, Error, Float, LaunchConfig, Result, ShapeError, Stream, Tensor};
use abi::division::Division;
use abi::kv_append::{KvAppendEntry, KvAppendParams, MAX_THREADS, THREADS};

/// Keys and values on their way into a layer of a [`KvCache`](crate::KvCache): see
/// [`KvAppend::write`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is written until `run`"]
pub struct KvWrite<'a, T: Float, C: ParamElement<T> = f32, S: Element = T> {
    step: &'a KvAppend<'a, T, S>,
    layer: usize,
    k: &'a Tensor<T>,
    v: &'a Tensor<T>,
    tables: Option<[&'a Tensor<C>; 2]>,
    is_interleaved: bool,
}

impl<'a, T: Float, S: Element> KvWrite<'a, T, f32, S> {
    pub(super) fn new(
        step: &'a KvAppend<'a, T, S>,
        layer: usize,
        k: &'a Tensor<T>,
        v: &'a Tensor<T>,
    ) -> Self {
        Self {
            step,
            layer,
            k,
            v,
            tables: None,
            is_interleaved: false,
        }
    }

    /// Turns keys by their positions, in the same launch: with the bits of
    /// [`Rotary`](crate::Rotary). The tables are `[seqlen_max, rotary_dim / 2]`, with any strides;
    /// pairs of positions beyond them are NaN.
    pub fn rotary<C: ParamElement<T>>(
        self,
        cos: &'a Tensor<C>,
        sin: &'a Tensor<C>,
    ) -> KvWrite<'a, T, C, S> {
        KvWrite {
            step: self.step,
            layer: self.layer,
            k: self.k,
            v: self.v,
            tables: Some([cos, sin]),
            is_interleaved: self.is_interleaved,
        }
    }
}

impl<T: Float, C: ParamElement<T>, S: Element> KvWrite<'_, T, C, S> {
    /// Pairs are neighbours, not elements of two halves.
    pub fn interleaved(mut self) -> Self {
        self.is_interleaved = true;
        self
    }

    /// Enqueues the launch. It may run again, with other keys and values for the same positions.
    ///
    /// # Errors
    /// See [`KvCache`](crate::KvCache).
    pub fn run(&self, stream: &Stream) -> Result<()> {
        let [pool_k, pool_v] = self.step.pools(self.layer)?;
        named(NAME, || {
            let shape = self.step.cache.shape;
            check::device("cache", pool_k, stream)?;
            let k = self.tokens("k", self.k, shape.head_dim, stream)?;
            let v = self.tokens("v", self.v, shape.head_dim_v, stream)?;
            let half = self.check_tables(stream)?;
            let slots = (shape.head_dim - half + shape.head_dim_v) as u64;
            let threads = (slots * shape.heads_kv as u64).saturating_mul(k.shape()[0] as u64);
            if threads == 0 {
                return Ok(());
            }
            if threads > MAX_THREADS {
                return Err(Error::out_of_bounds(
                    "elements of keys and values of a step",
                    threads,
                    MAX_THREADS + 1,
                ));
            }
            let strides = |x: &Tensor<T>| [x.strides()[0], x.strides()[1], x.strides()[2]];
            let of_table = |x: &Tensor<C>| [x.strides()[0], x.strides()[1]];
            let [cos_strides, sin_strides] =
                self.tables.map_or([[0; 2]; 2], |all| all.map(of_table));
            let params = KvAppendParams {
                k_strides: strides(&k),
                v_strides: strides(&v),
                cos_strides,
                sin_strides,
                table_rows: self.tables.map_or(0, |[cos, _]| cos.shape()[0] as u64),
                pool_rows: (shape.pages * shape.page_size) as u64,
                slots: Division::new(slots as u32),
                heads: Division::new(shape.heads_kv as u32),
                tokens: k.shape()[0] as u32,
                half: half as u32,
                head_dim: shape.head_dim as u32,
                is_interleaved: u32::from(self.is_interleaved),
            };
            let entry = KvAppendEntry::of(T::DTYPE, C::DTYPE, S::DTYPE);
            let kernel = load::kernel(stream, check::entry(entry)?)?;
            let config = LaunchConfig::for_elements(threads, THREADS);
            let scales = self.step.cache.append_scales(self.layer, stream)?;
            let table = |idx: usize| match self.tables {
                Some(all) => all[idx].erased().argument(all[idx].device_ptr().as_raw()),
                None => Address::NULL,
            };
            let (positions, rows) = (&self.step.positions, &self.step.rows);
            let memory = (&k, &v, table(0), table(1), positions, rows, pool_k, pool_v);
            // SAFETY: strides are those of k and v, which have these tokens, heads and elements, and of
            // the tables, which have `table_rows` rows and `half` columns. Positions and rows have an
            // element for each token. The pools have `pool_rows` rows without gaps; rows of the step
            // are apart, and reserved for it. There is a factor for each head of a pool in e4m3.
            unsafe { kernel.launch(stream, config, memory, &(params, scales)) }
        })
    }

    /// A tensor of the new tokens as `[tokens, heads_kv, head_dim]`, without a copy if its layout allows
    /// it.
    fn tokens(
        &self,
        operand: &'static str,
        x: &Tensor<T>,
        head_dim: usize,
        stream: &Stream,
    ) -> Result<Tensor<T>> {
        check::device(operand, x, stream)?;
        self.step.check_tokens(operand, x)?;
        let heads = self.step.cache.shape.heads_kv;
        let of_head = &x.shape()[x.rank() - 2..];
        if *of_head != [heads, head_dim] {
            let want = format!("[.., {heads}, {head_dim}], as the cache has them");
            return Err(check::shape_mismatch(operand, x, want));
        }
        let shape = [self.step.tokens(), heads, head_dim];
        match x.reshape(&shape) {
            Err(Error::Shape(ShapeError::ReshapeNeedsCopy { .. })) => {
                x.contiguous(stream)?.reshape(&shape)
            }
            view => view,
        }
    }

    /// Checks the tables, if there are any; pairs of a key that are turned.
    fn check_tables(&self, stream: &Stream) -> Result<usize> {
        let Some([cos, sin]) = self.tables else {
            return Ok(0);
        };
        check::device("cos", cos, stream)?;
        check::device("sin", sin, stream)?;
        let most = self.step.cache.shape.head_dim / 2;
        let &[_, half] = cos.shape() else {
            let want = "[seqlen_max, rotary_dim / 2], two dimensions";
            return Err(check::shape_mismatch("cos", cos, want));
        };
        if half > most {
            let want = format!("[.., n] with n at most {most}, half of head_dim");
            return Err(check::shape_mismatch("cos", cos, want));
        }
        check::shape("sin", sin.shape(), cos.shape())?;
        Ok(half)
    }
}
