//! One launch of a decode entry, as `abi` says.

use abi::OutputDType;
use abi::gemm::decode::sm90::{CLUSTER_MAX, DecodeTiling, Sm90DecodeEntry};
use abi::gemm::decode::{DECODE_THREADS, DecodeConfig, DecodeEntry};
use abi::gemm::{EpilogueParams, GemmParams, Transpose};
use half::{bf16, f16};
use warpsmith::{
    DType, Device, DeviceBuffer, DevicePtr, Element, KernelArg, LaunchConfig, TensorMap,
    TensorMapDesc, TensorMapSwizzle,
};

/// An element type of these kernels.
pub(crate) trait Value: Element + PartialEq + std::fmt::Debug {
    fn new(x: f64) -> Self;
}

macro_rules! values {
    ($($ty:ty, |$x:ident| $new:expr;)*) => {$(
        impl Value for $ty {
            fn new($x: f64) -> Self {
                $new
            }
        }
    )*};
}

values! {
    f32, |x| x as f32;
    f16, |x| f16::from_f64(x);
    bf16, |x| bf16::from_f64(x);
}

/// The kernel, and its tile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Sm80(DecodeConfig),
    /// `splits` comes from the case.
    Sm90(DecodeTiling),
}

impl Way {
    /// Most rows of A that it can process.
    pub(crate) fn tile_m(&self) -> u32 {
        match self {
            Self::Sm80(config) => config.tile_m,
            Self::Sm90(tiling) => tiling.tile_m,
        }
    }

    pub(crate) fn tile_n(&self) -> u32 {
        match self {
            Self::Sm80(config) => config.tile_n,
            Self::Sm90(tiling) => tiling.tile_n,
        }
    }
}

/// The extents and layouts of a GEMM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) way: Way,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
    pub(crate) trans_b: Transpose,
    pub(crate) splits: u32,
    /// Extra elements in each row of A, B and D.
    pub(crate) padding: [u32; 3],
    /// Elements of D's memory ahead of D.
    pub(crate) before: u32,
}

impl Case {
    pub(crate) fn new(way: Way, [m, n, k]: [u32; 3], trans_b: Transpose) -> Self {
        Self {
            way,
            m,
            n,
            k,
            batch: 1,
            trans_b,
            splits: 1,
            padding: [0; 3],
            before: 0,
        }
    }

    /// The name of the kernel, if there is one.
    fn entry(&self, input: DType) -> Option<String> {
        let trans_b = self.trans_b;
        match self.way {
            Way::Sm80(config) => DecodeEntry::find(|entry| {
                (entry.input, entry.trans_b, entry.config) == (input, trans_b, config)
            })
            .map(|entry| entry.to_string()),
            Way::Sm90(DecodeTiling { tile_m, .. }) => Sm90DecodeEntry::find(|entry| {
                (entry.input, entry.trans_b, entry.tile_m) == (input, trans_b, tile_m)
            })
            .map(|entry| entry.to_string()),
        }
    }

    /// Whether there is such a kernel.
    pub(crate) fn exists(&self) -> bool {
        self.entry(DType::Bf16).is_some()
    }

    fn launch_config(&self) -> LaunchConfig {
        match self.way {
            Way::Sm80(config) => LaunchConfig {
                grid: config
                    .grid(self.n, self.batch, self.splits)
                    .expect("something to launch"),
                block: [DECODE_THREADS, 1, 1],
                shared_bytes: config.smem_bytes(self.trans_b),
                cluster: None,
            },
            Way::Sm90(tiling) => LaunchConfig {
                grid: tiling
                    .grid(self.n, self.batch)
                    .expect("something to launch"),
                block: [tiling.threads(), 1, 1],
                shared_bytes: tiling.smem_bytes(self.k),
                cluster: Some(tiling.cluster()),
            },
        }
    }

    /// The case with k split over this many blocks, as far as a cluster has them.
    pub(crate) fn split(self, splits: u32) -> Self {
        match self.way {
            Way::Sm80(_) => Self { splits, ..self },
            Way::Sm90(tiling) => {
                let splits = splits.min(CLUSTER_MAX / tiling.sharers);
                Self {
                    way: Way::Sm90(DecodeTiling { splits, ..tiling }),
                    splits,
                    ..self
                }
            }
        }
    }

    /// Rows and columns of B as it is stored.
    fn stored_b(&self) -> (u32, u32) {
        match self.trans_b {
            Transpose::N => (self.k, self.n),
            Transpose::T => (self.n, self.k),
        }
    }

    pub(crate) fn params(&self) -> GemmParams {
        let aligned = |columns: u32, padding| i64::from(columns.next_multiple_of(8) + padding);
        let lda = aligned(self.k, self.padding[0]);
        let (rows_b, columns_b) = self.stored_b();
        let ldb = aligned(columns_b, self.padding[1]);
        let ldd = i64::from(self.n + self.padding[2]);
        GemmParams {
            m: self.m,
            n: self.n,
            k: self.k,
            batch: self.batch,
            lda,
            ldb,
            ldc: ldd,
            ldd,
            batch_stride_a: i64::from(self.m) * lda,
            batch_stride_b: i64::from(rows_b) * ldb,
            batch_stride_c: i64::from(self.m) * ldd,
            batch_stride_d: i64::from(self.m) * ldd,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// A in memory; NaN in the padding.
    pub(crate) fn a<T: Value>(&self, value: impl Fn([u32; 3]) -> f64) -> Vec<T> {
        let params = self.params();
        lay_out([self.batch, self.m, self.k], params.lda, value)
    }

    /// B in memory, from its values at `[batch, k, n]`.
    pub(crate) fn b<T: Value>(&self, value: impl Fn([u32; 3]) -> f64) -> Vec<T> {
        let params = self.params();
        let (rows, columns) = self.stored_b();
        lay_out(
            [self.batch, rows, columns],
            params.ldb,
            |[i, row, column]| match self.trans_b {
                Transpose::N => value([i, row, column]),
                Transpose::T => value([i, column, row]),
            },
        )
    }

    /// The tensor maps of A and B.
    fn maps<T: Value>(
        &self,
        params: &GemmParams,
        a: &DeviceBuffer<T>,
        b: &DeviceBuffer<T>,
        tiling: &DecodeTiling,
    ) -> warpsmith::Result<[TensorMap; 2]> {
        let (rows_b, columns_b) = self.stored_b();
        let map = |buffer: &DeviceBuffer<T>,
                   extents: [u32; 2],
                   ld: i64,
                   stride: i64,
                   box_dims: [u32; 3]| {
            let dims = [extents[1], extents[0], self.batch].map(u64::from);
            let strides = [2 * ld as u64, 2 * stride as u64];
            let desc = TensorMapDesc::new(T::DTYPE.into(), &dims, &strides, &box_dims)
                .swizzle(TensorMapSwizzle::B128);
            desc.encode(buffer)
        };
        Ok([
            map(
                a,
                [self.m, self.k],
                params.lda,
                params.batch_stride_a,
                tiling.box_a(),
            )?,
            map(
                b,
                [rows_b, columns_b],
                params.ldb,
                params.batch_stride_b,
                tiling.box_b(self.trans_b),
            )?,
        ])
    }

    /// Number of elements in D's memory.
    pub(crate) fn len_d(&self) -> usize {
        (i64::from(self.before) + self.batch as i64 * self.params().batch_stride_d) as usize
    }
}

/// A batch of matrices with row stride `ld`, and NaN between the rows.
fn lay_out<T: Value>(
    [batch, rows, columns]: [u32; 3],
    ld: i64,
    value: impl Fn([u32; 3]) -> f64,
) -> Vec<T> {
    let mut elements = Vec::new();
    for i in 0..batch {
        for row in 0..rows {
            elements.extend((0..columns).map(|column| T::new(value([i, row, column]))));
            elements.extend((i64::from(columns)..ld).map(|_| T::new(f64::NAN)));
        }
    }
    elements
}

/// The further operands of an epilogue.
#[derive(Default)]
pub(crate) struct Extras<'a, Out: Element> {
    pub(crate) c: Option<&'a DeviceBuffer<Out>>,
    pub(crate) bias: Option<&'a DeviceBuffer<Out>>,
    pub(crate) residual: Option<&'a DeviceBuffer<Out>>,
    pub(crate) row_scale: Option<&'a DeviceBuffer<f32>>,
    pub(crate) column_scale: Option<&'a DeviceBuffer<f32>>,
    pub(crate) alpha: Option<&'a DeviceBuffer<f32>>,
    pub(crate) beta: Option<&'a DeviceBuffer<f32>>,
    pub(crate) epilogue: EpilogueParams,
}

/// Launches the case; the result is in `d`.
pub(crate) fn launch<In: Value, Out: Value>(
    device: &Device,
    case: &Case,
    params: GemmParams,
    (a, b): (&DeviceBuffer<In>, &DeviceBuffer<In>),
    d: &mut DeviceBuffer<Out>,
    extras: &Extras<'_, Out>,
) -> warpsmith::Result<()> {
    let kernel = device.builtin_kernel(&case.entry(In::DTYPE).expect("an entry"))?;
    let stream = device.stream()?;
    let config = case.launch_config();
    let [tiles, _, products] = config.grid;
    let partials = match case.way {
        Way::Sm80(config) => config.partials(case.n, case.batch, case.splits) as usize,
        Way::Sm90(_) => 0,
    };
    let partials = DeviceBuffer::<f32>::from_slice(device, &vec![f32::NAN; partials])?;
    let tickets = DeviceBuffer::<u32>::from_slice(device, &vec![0; (tiles * products) as usize])?;
    let d = d.device_ptr().wrapping_offset(case.before.into());
    let Extras {
        c,
        bias,
        residual,
        row_scale,
        column_scale,
        alpha,
        beta,
        epilogue,
    } = extras;
    let epilogue = EpilogueParams {
        d_dtype: OutputDType::new(Out::DTYPE).expect("a float").code(),
        ..*epilogue
    };
    let (partials_arg, tickets_arg) = if case.splits == 1 {
        (DevicePtr::NULL, DevicePtr::NULL)
    } else {
        (partials.device_ptr(), tickets.device_ptr())
    };
    let memory: [&dyn KernelArg; 2] = [&partials_arg, &tickets_arg];
    let tail: [&dyn KernelArg; 10] = [
        c,
        &d,
        bias,
        residual,
        row_scale,
        column_scale,
        alpha,
        beta,
        &params,
        &epilogue,
    ];
    let (maps, map_args);
    let launch;
    let mut arguments: Vec<&dyn KernelArg> = Vec::new();
    match &case.way {
        Way::Sm80(_) => arguments.extend([&a as &dyn KernelArg, &b, memory[0], memory[1]]),
        Way::Sm90(tiling) => {
            maps = case.maps(&params, a, b, tiling)?;
            map_args = maps.each_ref();
            launch = tiling.launch(case.k);
            arguments.extend([&map_args[0] as &dyn KernelArg, &map_args[1], &launch]);
        }
    }
    arguments.extend(tail);
    // SAFETY: buffers are as long as the parameters say, and live until after the synchronisation.
    unsafe { kernel.launch(&stream, config, &arguments[..])? };
    stream.synchronize()?;
    assert!(
        tickets.to_vec()?.iter().all(|&ticket| ticket == 0),
        "tickets are put back"
    );
    Ok(())
}
