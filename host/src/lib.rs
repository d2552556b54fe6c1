//! GPU kernels in Rust: GEMM, attention, reductions, scans, softmax, norms and elementwise
//! operations, on an NVIDIA GPU or on an emulator of one. The same program and the same kernels run
//! on both.
//!
//! ```
//! # fn main() -> warpsmith::Result<()> {
//! use ndarray::array;
//! use warpsmith::{Device, Gemm, Softmax, Tensor};
//!
//! let device = Device::auto()?; // a GPU where there is one, else the emulator
//! let stream = device.stream()?;
//! let a = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
//! let b = Tensor::from_ndarray(&device, &array![[1.0_f32, 0.0, 2.0], [0.0, 1.0, 2.0]])?;
//!
//! let d = Gemm::new(&a, &b).alpha(0.5).run(&stream)?; // d = 0.5 * a @ b
//! assert_eq!(d.index_axis(0, 2)?.to_vec()?, [2.5, 3.0, 11.0]); // its last row
//!
//! let p = Softmax::new(&d.t()).run(&stream)?; // over the columns of d: a view, no copy
//! assert_eq!(p.shape(), [3, 3]);
//! # Ok(())
//! # }
//! ```
//!
//! # What you get
//!
//! - **No toolkit.** The kernels are PTX inside this crate. A GPU needs NVIDIA's driver, which is
//!   loaded at run time. Without a driver, the same binary runs on the emulator.
//! - **A debugger in your tests.** The emulator checks every memory access of every thread. It
//!   reports accesses that are out of bounds, misaligned or to freed memory, reads of uninitialised
//!   memory, data races and deadlocks. A report names the kernel, PTX line, block and thread.
//! - **Errors, not surprises.** Shapes, strides, devices and arguments are checked before anything
//!   is launched. An [`Error`] carries the value that was found and the values that are allowed.
//!   Nothing falls back silently: [`Device::gpu`] returns that GPU or an error.
//! - **References.** [`reference`](mod@reference) computes each operation in f64, and bounds the
//!   error that a correct kernel may make.
//!
//! # Where things happen
//!
//! A [`Device`] has [`Stream`]s. Work on one stream runs in order. On a GPU, the call that enqueues
//! work returns before the work is done. Reading back ([`Tensor::to_ndarray`],
//! [`DeviceBuffer::to_vec`]) waits for all work that uses the data. Memory is freed after its last
//! use on any stream, so a tensor may be dropped while kernels still use it. Two streams that share
//! data have to be ordered with [`Stream::wait`].
//!
//! | | |
//! |---|---|
//! | data | [`Tensor`] (shape and strides), [`DeviceBuffer`], [`PinnedBuffer`] |
//! | operations | [`Gemm`], [`GroupedGemm`], [`Attention`], [`AttentionGrad`], [`Reduce`], [`Scan`]; [`Softmax`], [`LogSoftmax`], [`LayerNorm`], [`RmsNorm`], [`CrossEntropy`] and their gradients; [`Sort`], [`Argsort`], [`TopK`]; [`Unary`], [`Binary`], [`Select`], [`Gradient`], [`Chain`], [`Map`]; [`Take`], [`Scatter`], [`ScatterAdd`], [`ScatterReduce`]; [`Rotary`] |
//! | functions for the common cases | [`ops`]: [`ops::matmul`], [`ops::softmax`], [`ops::sum`], .. |
//! | your own kernels | [`Device::load_ptx`], [`Device::load_built`], [`Module`], [`Kernel::launch`], [`TensorMapDesc`] |
//! | timing, ordering | [`Event`], [`Stream::record`] |
//! | work that is launched as a whole | [`Graph`], [`Stream::capture`] |
//!
//! # Features
//!
//! All are on by default.
//!
//! - `emulator`: the emulator as a device.
//! - `families`: the built-in kernels. Each family is a feature, too: `attention`,
//!   `attention_grad`, `elementwise`, `gather`, `gemm`, `norm`, `reduce`, `rotary`, `scan`,
//!   `scatter_add`, `softmax`, `sort`, `topk`. All others need `elementwise`. [`Scatter`] is in `gather`,
//!   [`GroupedGemm`] in `gemm`, [`CrossEntropy`] in `softmax`.
//! - `architectures`: the kernels for `sm_80`, `sm_89` and `sm_90`, each also a feature. The
//!   kernels for sm_75 need none of these.
//!
//! An operation whose kernel is left out returns [`KernelError::LeftOut`] with the features to turn
//! on. A crate that launches only its own kernels does not need the built-in ones. In a debug
//! build, optimise the emulator, which is more than ten times slower otherwise:
//!
//! ```toml
//! [dependencies]
//! warpsmith = { version = "0.1", default-features = false, features = ["emulator"] }
//!
//! [profile.dev.package.warpsmith-emulator]
//! opt-level = 3
//! ```
mod argument;
mod backend;
mod buffer;
mod capture;
mod device;
mod element;
mod error;
mod event;
#[doc(hidden)]
pub mod fitting;
mod float8;
pub mod fuse;
mod graph;
mod kernel;
mod launch;
mod load;
pub mod ops;
#[cfg(test)]
mod ordering_tests;
mod pinned;
mod sharing;
mod storage;
mod stream;
mod tensor;
mod tensor_map;
pub mod testing;
mod vectors;

#[doc(hidden)]
pub use abi as __abi;
pub use abi::DType;
pub use abi::elementwise::{Arithmetic, BinaryOp, GradOp, UnaryOp};
pub use abi::reduce::ReduceOp;
pub use abi::scan::ScanOp;
pub use abi::scatter_add::ScatterOp;
pub use argument::{ArgumentType, ConstPointer, Elements, MutPointer, Strided};
pub use buffer::{DeviceBuffer, DevicePtr};
pub use device::{Device, DeviceInfo, DeviceKind, MemoryInfo, devices};
pub use element::Element;
#[cfg(feature = "emulator")]
pub use error::EmulatorError;
pub use error::{ArgumentError, DeviceError, Error, KernelError, Result, ShapeError};
pub use event::{Event, Reached};
pub use float8::{E4m3, E5m2};
pub use graph::Graph;
pub use kernel::Kernel;
pub use launch::{ByValue, KernelArg, KernelArgs, KernelParam, LaunchConfig};
pub use load::{Built, Global, Module, ParamInfo, builtin_manifest};
pub use ops::{
    Activation, Attention, AttentionBias, AttentionGrad, AttentionGrads, AttentionLse,
    AttentionMask, AttentionMerge, AttentionOutput, Binary, BlockMask, BlockMaskShape, Candidate,
    CastElement, Chain, ChainElement, Countable, Float, Gemm, GemmInput, GemmOutput, Gradient,
    GroupedGemm, IndexElement, Indices, KvAppend, KvCache, KvCacheShape, KvWrite, Layout, Lengths,
    Map, Measured, Moments, Number, Plan, PlanSource, Precision, Reduce, Reducible, Rotary,
    RunningExtremes, Scan, ScanWithIndices, Scatter, ScatterAdd, ScatterReduce, ScoreFunction,
    ScoreTensor, ScoreValue, Select, SequenceId, Take, Tuning, Unary, WithMean,
};
pub use ops::{
    Argsort, CrossEntropy, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad, LossAndGradient,
    NormGradients, Normalized, ParamElement, Reduction, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad,
    Sort, SortedElements, Targets, TopElements, TopK, WithGradient, WithIndices, WithStats,
};
pub use pinned::PinnedBuffer;
pub use stream::Stream;
pub use tensor::{MAX_RANK, Tensor};
pub use tensor_map::{
    Im2col, L2Promotion, TensorMap, TensorMapDesc, TensorMapFill, TensorMapSwizzle, TensorMapType,
};

/// The emulator itself: its settings for [`Device::emulator_with`], and its reports.
#[cfg(feature = "emulator")]
pub use warpsmith_emulator as emulator;
/// CPU references in f64, and bounds on the error of each operation.
pub use warpsmith_reference as reference;
/// Re-exported, because their types appear in this crate's interface.
pub use {half, ndarray};
