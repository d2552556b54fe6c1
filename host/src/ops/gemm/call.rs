//! One call of a GEMM: the description and the memory that a candidate is launched with.

use super::desc::{BiasAxis, GemmDesc, MatrixDesc, ScaleExtent, Side};
use crate::launch::{KernelArg, KernelArgs, Then};
use crate::load;
use crate::ops::maps::{MapKey, MapValue};
use crate::storage::Storage;
use crate::tensor::Address;
use crate::{DType, Element, Error, L2Promotion, LaunchConfig, Result, ShapeError, Stream, Tensor};
use abi::OutputDType;
use abi::entry::Entry;
use abi::gemm::integer::{I32_RESULTS, integer_factor};
use abi::gemm::{DoubleEntry, DoubleParams, EpilogueParams, GemmParams};
use std::ffi::c_void;
use std::sync::Arc;

/// An address in an allocation, without an element type; as a kernel argument, a pointer.
#[derive(Clone)]
pub(in crate::ops) struct Memory {
    storage: Arc<Storage>,
    address: u64,
}

impl Memory {
    /// The address of `tensor`.
    pub(in crate::ops) fn of<T: Element>(tensor: &Tensor<T>) -> Self {
        Self {
            storage: tensor.shared_storage(),
            address: tensor.device_ptr().as_raw(),
        }
    }

    /// The address.
    pub(in crate::ops) fn address(&self) -> u64 {
        self.address
    }

    /// `address`, which lies in this allocation, as an argument of a copy.
    pub(super) fn argument(&self, address: u64) -> Address<'_> {
        Address::new(&self.storage, address)
    }

    /// The address `bytes` further on, in the same allocation.
    pub(super) fn offset(&self, bytes: i64) -> Self {
        Self {
            storage: self.storage.clone(),
            address: self.address.wrapping_add_signed(bytes),
        }
    }
}

// SAFETY: the address is a field that the argument borrows.
unsafe impl KernelArg for &Memory {
    fn size_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(&self.address).cast()
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        self.storage.use_on("argument", stream)
    }
}

static NULL: u64 = 0;

// SAFETY: as above, or a static.
unsafe impl KernelArg for Option<&Memory> {
    fn size_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(self.map_or(&NULL, |memory| &memory.address)).cast()
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        self.map_or(Ok(()), |memory| memory.storage.use_on("argument", stream))
    }
}

/// A description and its memory. All matrices have the layouts of the [`GemmDesc`] and lie inside
/// of their allocations. D is injective and overlaps nothing that is read, unless `c` or `residual`
/// is D itself.
#[derive(Clone)]
pub(super) struct Call<'a> {
    pub(super) stream: &'a Stream,
    pub(super) desc: GemmDesc,
    pub(super) a: Memory,
    pub(super) b: Memory,
    pub(super) d: Memory,
    pub(super) c: Option<Memory>,
    pub(super) residual: Option<Memory>,
    /// `[batch or 1, m or n]`
    pub(super) bias: Option<Memory>,
    /// Elements between the biases of the batch; 0 broadcasts.
    pub(super) batch_stride_bias: i64,
    pub(super) row_scale: Option<Memory>,
    pub(super) column_scale: Option<Memory>,
    /// One element each, of the type of the factors; they override `alpha` and `beta` below.
    pub(super) device_alpha: Option<Memory>,
    pub(super) device_beta: Option<Memory>,
    /// Rounded to the type that the kernel takes.
    pub(super) alpha: f64,
    /// 0 if there is no C.
    pub(super) beta: f64,
}

impl<'a> Call<'a> {
    /// `a @ b`, without an epilogue.
    pub(super) fn plain(stream: &'a Stream, desc: GemmDesc, [a, b, d]: [Memory; 3]) -> Self {
        Self {
            stream,
            desc,
            a,
            b,
            d,
            c: None,
            residual: None,
            bias: None,
            batch_stride_bias: 0,
            row_scale: None,
            column_scale: None,
            device_alpha: None,
            device_beta: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// The memory of A or B.
    pub(super) fn operand(&self, side: Side) -> &Memory {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// Extents, strides and scalars, as every entry takes them.
    pub(super) fn params(&self) -> GemmParams {
        let desc = &self.desc;
        let c = desc.c.as_ref().unwrap_or(&desc.d);
        let factor = |factor: f64| match desc.d.dtype {
            DType::I32 => integer_factor(factor as i32),
            _ => factor as f32,
        };
        GemmParams {
            m: desc.m,
            n: desc.n,
            k: desc.k,
            batch: desc.batch,
            lda: desc.a.ld,
            ldb: desc.b.ld,
            ldc: c.ld,
            ldd: desc.d.ld,
            batch_stride_a: desc.a.batch_stride,
            batch_stride_b: desc.b.batch_stride,
            batch_stride_c: c.batch_stride,
            batch_stride_d: desc.d.batch_stride,
            alpha: factor(self.alpha),
            beta: factor(self.beta),
        }
    }

    /// Strides of the operands of the fused epilogue, its activation, and the type of results.
    fn epilogue(&self) -> Result<EpilogueParams> {
        let desc = &self.desc;
        let d_dtype = match desc.d.dtype {
            DType::F64 => 0, // not read: its entries have no other type
            DType::I32 => I32_RESULTS,
            dtype => OutputDType::new(dtype)
                .ok_or(Error::Bug(
                    "an element type that results of GEMM do not have",
                ))?
                .code(),
        };
        let (ld_residual, batch_stride_residual) = desc
            .residual
            .map_or((0, 0), |residual| (residual.ld, residual.batch_stride));
        let is_each = |scale| u32::from(scale == Some(ScaleExtent::Each));
        Ok(EpilogueParams {
            ld_residual,
            batch_stride_residual,
            bias_stride_m: i64::from(desc.bias == Some(BiasAxis::Row)),
            bias_stride_n: i64::from(desc.bias == Some(BiasAxis::Column)),
            batch_stride_bias: self.batch_stride_bias,
            row_scale_stride: is_each(desc.row_scale),
            column_scale_stride: is_each(desc.column_scale),
            activation: desc.activation.code(),
            d_dtype,
        })
    }

    /// Enqueues `entry` with this memory and these parameter blocks.
    ///
    /// # Safety
    /// As [`Kernel::launch`](crate::Kernel::launch): `memory` and `params`, made from this call, are
    /// what the entry expects.
    pub(super) unsafe fn launch<E: Entry>(
        &self,
        entry: E,
        config: LaunchConfig,
        memory: impl KernelArgs,
        params: &E::Params,
    ) -> Result<()> {
        let kernel = load::kernel(self.stream, entry)?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(self.stream, config, memory, params) }
    }

    /// Enqueues an entry that takes `operands`, the memory of every fused epilogue (see
    /// [`abi::gemm::epilogue`]), and the parameter blocks that `params` makes of those of the epilogue.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    pub(super) unsafe fn launch_fused<E: Entry>(
        &self,
        entry: E,
        config: LaunchConfig,
        operands: impl KernelArgs,
        params: impl FnOnce(GemmParams, EpilogueParams) -> E::Params,
    ) -> Result<()> {
        let params = params(self.params(), self.epilogue()?);
        let of_epilogue = (
            self.c.as_ref(),
            &self.d,
            self.bias.as_ref(),
            self.residual.as_ref(),
            self.row_scale.as_ref(),
            self.column_scale.as_ref(),
            self.device_alpha.as_ref(),
            self.device_beta.as_ref(),
        );
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch(entry, config, Then(operands, of_epilogue), &params) }
    }

    /// Enqueues a fused entry whose operands are pointers to A and B, on the grid of `config`.
    pub(super) fn launch_by_pointers<E: Entry>(
        &self,
        entry: E,
        config: Option<LaunchConfig>,
        params: impl FnOnce(GemmParams, EpilogueParams) -> E::Params,
    ) -> Result<()> {
        let config = config.ok_or(Error::Bug("a product was offered that fits no grid"))?;
        // SAFETY: extents and strides describe the call's memory, whose layouts lie inside of their
        // storage. d is injective, overlaps neither a nor b, and overlaps c and residual only if it
        // is the same matrix. Absent operands are null.
        unsafe { self.launch_fused(entry, config, (&self.a, &self.b), params) }
    }

    /// Enqueues an entry of products in f64, whose tensors are all in f64.
    pub(super) fn launch_double(&self, entry: DoubleEntry, config: LaunchConfig) -> Result<()> {
        let [a_is_k_major, b_is_k_major] =
            DoubleParams::k_major(self.desc.a.transpose, self.desc.b.transpose);
        self.launch_by_pointers(entry, Some(config), |params, epilogue| {
            let params = DoubleParams {
                m: params.m,
                n: params.n,
                k: params.k,
                batch: params.batch,
                lda: params.lda,
                ldb: params.ldb,
                ldc: params.ldc,
                ldd: params.ldd,
                batch_stride_a: params.batch_stride_a,
                batch_stride_b: params.batch_stride_b,
                batch_stride_c: params.batch_stride_c,
                batch_stride_d: params.batch_stride_d,
                alpha: self.alpha,
                beta: self.beta,
                a_is_k_major,
                b_is_k_major,
            };
            (params, epilogue)
        })
    }

    /// Scratch memory for a contiguous tensor of these extents: see [`workspace`](Self::workspace).
    ///
    /// # Errors
    /// [`ShapeError::Overflow`] if 64 bits with a sign do not count its bytes. Operands that repeat
    /// elements may be of any size, so their copies may be too large for any memory.
    pub(super) fn scratch(&self, extents: &[u32], size_bytes: usize) -> Result<Memory> {
        let bytes = extents
            .iter()
            .try_fold(size_bytes as u64, |bytes, &extent| {
                bytes.checked_mul(extent.into())
            })
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or_else(|| {
                Error::Shape(ShapeError::Overflow {
                    shape: extents.iter().map(|&extent| extent as usize).collect(),
                })
            })?;
        self.workspace(bytes)
    }

    /// `bytes` of scratch memory, which the launches of this call use in stream order.
    pub(super) fn workspace(&self, bytes: u64) -> Result<Memory> {
        let storage = Storage::alloc(self.stream, bytes)?;
        let address = storage.address();
        Ok(Memory {
            storage: Arc::new(storage),
            address,
        })
    }

    /// The tensor map of a matrix with these rows and columns as stored, to be passed by value. It
    /// does not register the use of the memory on the stream: see [`uses`](Self::uses).
    pub(super) fn tensor_map(
        &self,
        (memory, matrix): (&Memory, &MatrixDesc),
        [rows, columns]: [u32; 2],
        box_dims: [u32; 3],
        l2_promotion: L2Promotion,
    ) -> Result<MapValue> {
        // A broadcast matrix is a batch of one, whose batch stride is not used.
        let (batch, batch_stride) = match (self.desc.batch, matrix.batch_stride) {
            (1, _) | (_, 0) => (1, matrix.ld),
            (batch, stride) => (batch, stride),
        };
        let size_bytes = matrix.dtype.size_bytes() as u64;
        let key = MapKey::new(
            (memory.address(), matrix.dtype.into()),
            [columns, rows, batch].map(u64::from),
            [matrix.ld, batch_stride].map(|stride| stride.unsigned_abs() * size_bytes),
            box_dims,
            l2_promotion,
        );
        let device = self.stream.device();
        device.maps().get(&key, device)
    }

    /// Registers the use of A, B and D on the stream, for launches that get them as tensor maps
    /// only.
    pub(super) fn uses(&self) -> Result<()> {
        let memory = [&self.a, &self.b, &self.d];
        memory
            .into_iter()
            .try_for_each(|memory| memory.use_on(self.stream))
    }
}
