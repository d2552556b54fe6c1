//! The kernel for Hopper, of f16 and bf16: [`abi::gemm::ragged`]. Operands that tensor maps cannot
//! describe are copied to rows that begin at multiples of 16 bytes.

use super::choice::{Candidate, GroupedDesc, Kernel};
use super::simt::Operand;
use super::{GroupedGemm, MatrixLayout};
use crate::launch::KernelArg as _;
use crate::load;
use crate::ops::copy::strided_copy;
use crate::ops::maps::{MapKey, MapValue};
use crate::ops::plan::{Machine, Work};
use crate::{Element, Error, Float, L2Promotion, LaunchConfig, Result, Stream, Tensor};
use abi::gemm::ragged::{GROUPS_MAX, RaggedEntry, RaggedLaunch, TILE, smem_bytes};
use abi::gemm::sm90::{SPAN_BYTES, STORE_ROWS, THREADS};
use abi::gemm::{GemmParams, Transpose};

/// The only architecture that runs code for sm_90a.
const ARCH: (u32, u32) = (9, 0);
/// What addresses and strides of a tensor map are multiples of.
const ALIGN_BYTES: u64 = 16;
/// Coordinates of tensor copies have 32 bits and a sign.
const REACH: u32 = 1 << 31;

/// A launch of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hopper {
    pub(super) entry: RaggedEntry,
    launch: RaggedLaunch,
    blocks: u32,
}

impl Hopper {
    /// The launch for a validated product that has results; `None` if the kernel does not compute it.
    pub(super) fn candidate(desc: &GroupedDesc, machine: &Machine) -> Option<Candidate> {
        let &GroupedDesc {
            m, n, k, groups, ..
        } = desc;
        let suits = machine.arch == ARCH
            && (1..=GROUPS_MAX).contains(&groups)
            && k > 0
            // The rows of no group are 0 times this.
            && desc.alpha_is_finite
            && [m, n, k].iter().all(|&extent| extent < REACH);
        let launch = suits.then(|| RaggedLaunch::new(m, n, groups))?;
        let tiles = launch.tiles_max(m, groups)?;
        let is_of =
            |entry: &RaggedEntry| entry.dtype == desc.dtype && entry.trans_b == desc.trans_b;
        let hopper = Self {
            entry: RaggedEntry::find(is_of)?,
            launch,
            blocks: tiles.min(machine.multiprocessors),
        };
        let (costs, tile) = (
            &machine.model.gemm.sm90,
            [TILE.tile_m, TILE.tile_n, SPAN_BYTES / 2],
        );
        let work = Work {
            flops_per_cycle: costs.flops,
            overhead_ns: costs.turn_ns,
            ..Work::of_tiles(f64::from(tiles), tile, k, desc.bytes())
        };
        Some(Candidate {
            kernel: Kernel::Hopper(hopper),
            tile,
            config: hopper.config(),
            estimated_ns: machine.estimate_ns(&work),
        })
    }

    fn config(&self) -> LaunchConfig {
        LaunchConfig {
            grid: [self.blocks, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: smem_bytes(),
            cluster: None,
        }
    }

    /// Enqueues the product into `d`, which has elements.
    pub(super) fn launch<T: Float>(
        &self,
        product: &GroupedGemm<'_, T>,
        desc: &GroupedDesc,
        d: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let own = mapped(d).filter(|own| {
            // Tensor copies store nothing smaller than 16 bytes.
            let row_bytes = u64::from(desc.n) * size_of::<T>() as u64;
            own.transpose == Transpose::N && row_bytes.is_multiple_of(ALIGN_BYTES)
        });
        if let Some(own) = own {
            return self.write_rows(product, desc, &Operand::of(d, own), stream);
        }
        let (rows, whole) = aligned(d.shape(), stream)?;
        let padded = GroupedDesc {
            n: whole.shape()[1] as u32,
            ..*desc
        };
        let to = Operand::of(&whole, MatrixLayout::contiguous(whole.shape()));
        self.write_rows(product, &padded, &to, stream)?;
        strided_copy(&rows, d, stream)
    }

    /// Enqueues the product into rows that a tensor map describes. `desc.n` may be more than `b` has:
    /// beyond it there are zeros.
    fn write_rows<T: Float>(
        &self,
        product: &GroupedGemm<'_, T>,
        desc: &GroupedDesc,
        d: &Operand,
        stream: &Stream,
    ) -> Result<()> {
        let a = read(product.a, Some(Transpose::N), stream)?;
        let b = read(product.b, None, stream)?;
        let ends = product.ends.to_i32(stream)?.contiguous(stream)?;
        let &GroupedDesc {
            m, n, k, groups, ..
        } = desc;
        let of_b = [groups, k, product.b.shape()[2] as u32];
        let map_a = map::<T>(
            &a,
            [1, m, k],
            self.launch.box_rows,
            L2Promotion::B128,
            stream,
        )?;
        let lines_of_b = match b.layout.transpose {
            Transpose::T => TILE.tile_n,
            Transpose::N => SPAN_BYTES / 2, // of k
        };
        let map_b = map::<T>(&b, of_b, lines_of_b, L2Promotion::B128, stream)?;
        let map_d = map::<T>(d, [1, m, n], STORE_ROWS, L2Promotion::B256, stream)?;
        let params = GemmParams {
            m,
            n,
            k,
            batch: groups,
            lda: a.layout.ld,
            ldb: b.layout.ld,
            ldc: 0,
            ldd: d.layout.ld,
            batch_stride_a: 0,
            // Not 0, which would stand for one matrix that all groups share.
            batch_stride_b: b.layout.batch_stride.max(1),
            batch_stride_c: 0,
            batch_stride_d: 0,
            alpha: product.alpha,
            beta: 0.0,
        };
        let kernel = load::kernel(stream, self.entry)?;
        for memory in [&a.memory, &b.memory] {
            memory.use_on(stream)?;
        }
        let memory = (&map_a, &map_b, &map_d, &d.memory, &ends);
        // SAFETY: the maps are of the operands, which lie inside of their storage, with the boxes
        // of the tile. d is injective and overlaps nothing that is read. `ends` has an element for
        // each group.
        unsafe { kernel.launch(stream, self.config(), memory, &(params, self.launch)) }
    }
}

/// How a tensor map describes `tensor`, if it can.
pub(super) fn mapped<T: Element>(tensor: &Tensor<T>) -> Option<MatrixLayout> {
    let layout = MatrixLayout::of(tensor.shape(), tensor.strides())?;
    let size_bytes = size_of::<T>() as u64;
    let is_aligned = |stride: i64| {
        (stride as u64)
            .wrapping_mul(size_bytes)
            .is_multiple_of(ALIGN_BYTES)
    };
    let MatrixLayout {
        ld, batch_stride, ..
    } = layout;
    // A map cannot describe a matrix that repeats as a batch.
    let has_batch = matches!(tensor.shape(), &[batch, _, _] if batch > 1);
    let suits = tensor.alignment_bytes() >= ALIGN_BYTES
        && ld > 0
        && is_aligned(ld)
        && if has_batch {
            batch_stride > 0 && is_aligned(batch_stride)
        } else {
            true
        };
    suits.then_some(layout)
}

/// `tensor` itself, if a tensor map describes it and it lies as is wanted; or a copy.
fn read<T: Float>(tensor: &Tensor<T>, want: Option<Transpose>, stream: &Stream) -> Result<Operand> {
    match mapped(tensor) {
        Some(own) if want.is_none_or(|want| own.transpose == want) => Ok(Operand::of(tensor, own)),
        _ => {
            let (copy, whole) = aligned(tensor.shape(), stream)?;
            strided_copy(tensor, &copy, stream)?;
            Ok(Operand::of(&whole, MatrixLayout::contiguous(whole.shape())))
        }
    }
}

/// A new tensor of this shape whose rows begin at multiples of 16 bytes, and the one with the elements
/// between its rows.
fn aligned<T: Element>(shape: &[usize], stream: &Stream) -> Result<(Tensor<T>, Tensor<T>)> {
    let (columns, outer) = shape
        .split_last()
        .ok_or(Error::Bug("a matrix without rows"))?;
    let whole = columns.next_multiple_of(ALIGN_BYTES as usize / size_of::<T>());
    let whole = Tensor::empty(stream, &[outer, &[whole]].concat())?;
    Ok((whole.slice(-1, ..*columns)?, whole))
}

/// The tensor map of `[batch, rows, columns]`, whose boxes have so many contiguous `lines`.
fn map<T: Float>(
    operand: &Operand,
    [batch, rows, columns]: [u32; 3],
    lines: u32,
    l2_promotion: L2Promotion,
    stream: &Stream,
) -> Result<MapValue> {
    let MatrixLayout {
        transpose,
        ld,
        batch_stride,
    } = operand.layout;
    let span = SPAN_BYTES / size_of::<T>() as u32;
    let [inner, outer] = match transpose {
        Transpose::N => [columns, rows],
        Transpose::T => [rows, columns],
    };
    let size_bytes = size_of::<T>() as u64;
    let batch_stride = if batch > 1 { batch_stride } else { ld };
    let key = MapKey::new(
        (operand.memory.address(), T::DTYPE.into()),
        [inner, outer, batch].map(u64::from),
        [ld, batch_stride].map(|stride| stride.unsigned_abs() * size_bytes),
        [span, lines, 1],
        l2_promotion,
    );
    let device = stream.device();
    device.maps().get(&key, device)
}
