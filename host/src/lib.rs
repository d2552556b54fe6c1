//! GPU kernels in Rust: GEMM, attention, reductions; on a GPU or on an emulator.
#![warn(missing_docs)]

mod backend;
mod buffer;
mod builtin;
#[cfg(feature = "cust")]
mod cust_interop;
mod device;
mod element;
mod error;
mod event;
mod launch;
mod module;
mod ops;
mod pinned;
mod signature;
mod storage;
mod stream;
mod tensor;
#[doc(hidden)]
pub mod testing;

pub use buffer::{DeviceBuffer, DevicePtr};
pub use builtin::builtin_manifest;
pub use device::{Device, DeviceInfo, DeviceKind, MemoryInfo, devices};
pub use element::{E4m3, E5m2, Element};
pub use error::{Error, Result};
pub use event::Event;
pub use launch::{KernelArg, KernelArgs, KernelParam, LaunchConfig};
pub use module::{Kernel, Module};
pub use ops::{Attention, Binary, Float, Gemm, Reduce, Softmax, Unary};
pub use pinned::PinnedBuffer;
pub use signature::ParamInfo;
pub use spec::DType;
pub use spec::elementwise::{BinaryOp, UnaryOp};
pub use spec::reduce::ReduceOp;
pub use stream::Stream;
pub use tensor::{MAX_RANK, Tensor};

pub use warpsmith_reference as reference;
