//! Numbered examples, one program each:
//!
//! | example | shows |
//! |---|---|
//! | `01_vector_add` | your own kernel, from Rust to the GPU |
//! | `02_gemm` | a GEMM of the library |
//! | `03_attention` | causal attention with grouped heads |
//! | `04_your_reduction` | shared memory and barriers, next to the library's operations |
//! | `05_find_the_bug` | the emulator as a debugger |
//! | `06_your_epilogue` | a GEMM with an epilogue of your own |
//! | `07_your_function` | a function of your own over tensors |
//! | `08_hopper_gemm` | a tensor-core GEMM of your own, from TMA loads to stores, in a page |
//! | `09_your_attention` | attention with masks and scores of your own: the examples of FlexAttention |
//! | `10_hopper_attention` | attention of your own on Hopper's tensor cores, in a page |
//! | `11_generate` | generation with a paged cache, forked prefixes, batch invariance |
//!
//! `cargo run --release --example 01_vector_add` runs the first. The kernels of 01 and 04 to 10 are
//! in the crate `examples/kernels`. Its PTX is committed, so running needs no device toolchain.
//! After a change there, run `cargo run --release -- build examples/kernels --launches`.
#![deny(unsafe_code)]

/// Functions that launch the kernels of `examples/kernels`, as `cuda_builder` writes them.
///
/// ```
/// use warpsmith::{Device, LaunchConfig, Tensor};
/// use warpsmith_examples::kernels;
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::emulator()?;
/// let stream = device.default_stream();
/// let x = Tensor::from_slice(&device, &[2, 2], &[3.0_f32, 4.0, 0.0, 1.0])?;
/// let mut norms = Tensor::<f32>::empty(&stream, &[2])?;
/// let config = LaunchConfig::linear(2, 128);
/// // SAFETY: one block of 128 threads a row, of two elements; an element of `norms` a row.
/// unsafe { kernels::load(&device)?.row_norms(&stream, config, &x, &mut norms, 2)? };
/// assert_eq!(norms.to_vec()?, [5.0, 1.0]);
/// # Ok(())
/// # }
/// ```
///
/// A kernel without `unsafe` has a launch without `unsafe`:
///
/// ```
/// use warpsmith::{Device, LaunchConfig, Tensor};
/// use warpsmith_examples::kernels;
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::emulator()?;
/// let stream = device.default_stream();
/// let x = Tensor::from_slice(&device, &[2], &[3.0_f32, 4.0])?;
/// let mut y = Tensor::from_slice(&device, &[2], &[0.5_f32, 0.0])?;
/// let config = LaunchConfig::linear(1, 32);
/// kernels::load(&device)?.safe_axpy(&stream, config, 2.0, &x, &mut y)?;
/// assert_eq!(y.to_vec()?, [6.5, 8.0]);
/// # Ok(())
/// # }
/// ```
///
/// A kernel that states its grid is launched without dimensions, and a struct that it takes is any with
/// its fields:
///
/// ```
/// use warpsmith::{Device, Tensor};
/// use warpsmith_examples::kernels;
/// warpsmith::kernel_param! {
///     struct Line { slope: f32, offset: f32 }
/// }
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::emulator()?;
/// let stream = device.default_stream();
/// let x = Tensor::from_slice(&device, &[2], &[3.0_f32, 4.0])?;
/// let mut y = Tensor::<f32>::zeros(&stream, &[2])?;
/// let line = Line { slope: 2.0, offset: 1.0 };
/// kernels::load(&device)?.on_line(&stream, &line, &x, &mut y)?;
/// assert_eq!(y.to_vec()?, [7.0, 9.0]);
/// # Ok(())
/// # }
/// ```
///
/// A struct with other fields does not compile:
///
/// ```compile_fail,E0080
/// # use warpsmith::{Device, Tensor};
/// # use warpsmith_examples::kernels;
/// warpsmith::kernel_param! {
///     struct Point { x: f32, y: f32 }
/// }
/// # fn main() -> warpsmith::Result<()> {
/// # let device = Device::emulator()?;
/// # let stream = device.default_stream();
/// # let x = Tensor::from_slice(&device, &[2], &[3.0_f32, 4.0])?;
/// # let mut y = Tensor::<f32>::zeros(&stream, &[2])?;
/// let point = Point { x: 2.0, y: 1.0 };
/// kernels::load(&device)?.on_line(&stream, &point, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
///
/// The launch of an `unsafe fn` needs `unsafe`:
///
/// ```compile_fail,E0133
/// use warpsmith::{LaunchConfig, Result, Stream, Tensor};
/// use warpsmith_examples::kernels::Kernels;
/// fn launch(
///     kernels: &Kernels,
///     stream: &Stream,
///     x: &Tensor<f32>,
///     norms: &mut Tensor<f32>,
/// ) -> Result<()> {
///     kernels.row_norms(stream, LaunchConfig::linear(2, 128), x, norms, 2)
/// }
/// ```
///
/// Elements of another type do not compile:
///
/// ```compile_fail,E0277
/// use warpsmith::{LaunchConfig, Result, Stream, Tensor, half::bf16};
/// use warpsmith_examples::kernels::Kernels;
/// unsafe fn launch(
///     kernels: &Kernels,
///     stream: &Stream,
///     x: &Tensor<f32>,
///     norms: &mut Tensor<bf16>,
/// ) -> Result<()> {
///     kernels.row_norms(stream, LaunchConfig::linear(2, 128), x, norms, 2)
/// }
/// ```
///
/// nor does an output that is borrowed to be read:
///
/// ```compile_fail,E0277
/// use warpsmith::{LaunchConfig, Result, Stream, Tensor};
/// use warpsmith_examples::kernels::Kernels;
/// unsafe fn launch(
///     kernels: &Kernels,
///     stream: &Stream,
///     x: &Tensor<f32>,
///     norms: &Tensor<f32>,
/// ) -> Result<()> {
///     kernels.row_norms(stream, LaunchConfig::linear(2, 128), x, norms, 2)
/// }
/// ```
///
/// nor a number of another type:
///
/// ```compile_fail,E0308
/// use warpsmith::{LaunchConfig, Result, Stream, Tensor};
/// use warpsmith_examples::kernels::Kernels;
/// unsafe fn launch(
///     kernels: &Kernels,
///     stream: &Stream,
///     x: &Tensor<f32>,
///     norms: &mut Tensor<f32>,
/// ) -> Result<()> {
///     kernels.row_norms(stream, LaunchConfig::linear(2, 128), x, norms, 2.0)
/// }
/// ```
///
/// nor a launch without dimensions of a kernel that states none:
///
/// ```compile_fail,E0061
/// use warpsmith::{Result, Stream, Tensor};
/// use warpsmith_examples::kernels::Kernels;
/// fn launch(kernels: &Kernels, stream: &Stream, x: &Tensor<f32>, y: &mut Tensor<f32>) -> Result<()> {
///     kernels.safe_axpy(stream, 2.0, x, y)
/// }
/// ```
///
/// nor too few arguments:
///
/// ```compile_fail,E0061
/// use warpsmith::{LaunchConfig, Result, Stream, Tensor};
/// use warpsmith_examples::kernels::Kernels;
/// unsafe fn launch(
///     kernels: &Kernels,
///     stream: &Stream,
///     x: &Tensor<f32>,
///     norms: &mut Tensor<f32>,
/// ) -> Result<()> {
///     kernels.row_norms(stream, LaunchConfig::linear(2, 128), x, norms)
/// }
/// ```
pub mod kernels {
    include!("../kernels/ptx/kernels.rs");
}
