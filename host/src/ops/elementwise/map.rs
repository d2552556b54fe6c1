//! Elementwise kernels of the user's own.

use super::plan::{Steps, Walk};
use super::program::{broadcast_shape, steps_of};
use crate::error::named;
use crate::kernel::Kernel;
use crate::ops::by_index::dense_steps;
use crate::ops::check;
use crate::ops::plan::{Candidate, Plan};
use crate::tensor::{Address, Erased};
use crate::{ByValue, Element, Error, KernelArg, LaunchConfig, Result, Stream, Tensor};
use abi::elementwise::{GROUP, MAX_INPUTS, MAX_RANK, THREADS, grid_blocks};
use std::marker::PhantomData;

/// The operation's name in errors and plans.
const NAME: &str = "map";

/// Launches a kernel of your own over the elements of up to four tensors, with broadcasting and any
/// strides. The kernel's body is a call of `cuda_std::map::map` with a function written in Rust.
///
/// The kernel's parameters are the inputs, the output and `ByValue<WalkParams, 432>`, in this
/// order:
///
/// ```ignore
/// #[kernel(max_threads = THREADS)]
/// pub unsafe fn square_plus(x: *const f32, a: *const f32, y: *mut f32, walk: ByValue<WalkParams, 432>) {
///     unsafe { map([x, a], y, &walk, |[x, a]| x * x + a) }
/// }
/// ```
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | inputs | broadcast to one shape | as the kernel declares | any |
/// | `y` (written) | that shape | as the kernel declares | any where no two indices refer to one element; may be an input itself, and must not overlap one otherwise |
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (more than four inputs),
/// [`KernelError::ArgumentCount`](crate::KernelError::ArgumentCount) (the kernel has another number
/// of parameters), [`KernelError::ArgumentSize`](crate::KernelError::ArgumentSize),
/// [`Error::Shape`], [`Error::Device`]. No launch happens on error.
///
/// # Examples
/// `examples/07_your_function` has the kernel of this example.
///
/// ```
/// # const PTX: &str = include_str!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"), "/../examples/kernels/ptx/sm_75/swish_gate.ptx"
/// # ));
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, Map, Tensor, half::bf16};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let full = |value| Tensor::full(&stream, &[3], bf16::from_f32(value));
/// let (x, beta, gate) = (full(4.0)?, full(0.0)?, full(3.0)?);
///
/// let kernel = device.load_ptx(PTX)?.kernel("swish_gate")?; // x · sigmoid(beta x) · gate
/// let map = Map::new(&kernel).input(&x).input(&beta).input(&gate);
/// // SAFETY: the kernel maps three inputs of bf16 to one output of bf16.
/// let y = unsafe { map.output::<bf16>().run(&stream) }?;
/// assert_eq!(y.to_vec()?, [bf16::from_f32(6.0); 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Map<'a, O: Element = f32> {
    kernel: &'a Kernel,
    inputs: [Option<Erased<'a>>; MAX_INPUTS],
    inputs_len: usize,
    output: PhantomData<O>,
}

impl<'a> Map<'a> {
    /// A map with this kernel, without inputs yet. Its result is f32, unless
    /// [`output`](Self::output) sets another dtype.
    pub fn new(kernel: &'a Kernel) -> Self {
        Self {
            kernel,
            inputs: [None; MAX_INPUTS],
            inputs_len: 0,
            output: PhantomData,
        }
    }
}

impl<'a, O: Element> Map<'a, O> {
    /// Sets the dtype of the result: the one that the kernel writes.
    pub fn output<U: Element>(self) -> Map<'a, U> {
        Map {
            kernel: self.kernel,
            inputs: self.inputs,
            inputs_len: self.inputs_len,
            output: PhantomData,
        }
    }

    /// Adds the next input.
    pub fn input<T: Element>(mut self, x: &'a Tensor<T>) -> Self {
        if let Some(place) = self.inputs.get_mut(self.inputs_len) {
            *place = Some(x.erased());
        }
        self.inputs_len += 1;
        self
    }

    /// Enqueues the kernel over all elements of the inputs, and returns its result, a new contiguous
    /// tensor.
    ///
    /// # Errors
    /// See [`Map`].
    ///
    /// # Safety
    /// The kernel's body is `cuda_std::map::map` over as many inputs, with the element types of
    /// these inputs and of the result, and it may be launched in blocks of [`THREADS`] threads.
    pub unsafe fn run(&self, stream: &Stream) -> Result<Tensor<O>> {
        named(NAME, || {
            let y = Tensor::empty(stream, &self.validate(stream)?)?;
            // SAFETY: passed on to the caller; y is new.
            unsafe { self.launch(&y, stream) }?;
            Ok(y)
        })
    }

    /// Enqueues the kernel over all elements of the inputs and `y`.
    ///
    /// # Errors
    /// See [`Map`].
    ///
    /// # Safety
    /// As for [`run`](Self::run), with the element type of `y`.
    pub unsafe fn run_into(&self, y: &Tensor<O>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let shape = self.validate(stream)?;
            check::output("y", y, &shape, stream)?;
            for input in self.inputs() {
                check::no_partial_overlap_of("y", &y.erased(), "input", &input)?;
            }
            // SAFETY: passed on to the caller; y is injective, and is an input or overlaps none.
            unsafe { self.launch(y, stream) }
        })
    }

    /// The launch of [`run`](Self::run). There is one candidate: the kernel.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let shape = self.validate(stream)?;
            let walk = self.walk(&shape, dense_steps::<O>(&shape));
            if walk.len() == 0 {
                return Ok(Plan::empty());
            }
            let first = walk.first_piece(u64::MAX);
            let config = config(first.map_or(0, |piece| piece.params.len));
            let inputs = self.inputs().map(|input| input.dtype().size_bytes());
            let bytes_each: usize = inputs.chain([size_of::<O>()]).sum();
            let bytes = walk.len() as f64 * bytes_each as f64;
            let device = stream.device().info();
            let candidate = Candidate::only(self.kernel.name(), config, bytes, device);
            let description = format!("{NAME} {} elements{}", O::DTYPE, walk.len());
            Ok(Plan::only(description, candidate))
        })
    }

    /// The walk over a result with these steps, and the inputs.
    fn walk(&self, shape: &[usize], of_y: Steps) -> Walk {
        let mut tensors = [of_y; 1 + MAX_INPUTS];
        for (to, input) in tensors[1..].iter_mut().zip(self.inputs()) {
            *to = steps_of(&input, shape);
        }
        Walk::new(shape, &tensors[..1 + self.inputs_len])
    }

    /// # Safety
    /// As for [`run`](Self::run); `y` has the shape that the inputs broadcast to, is injective, and is
    /// an input or overlaps none.
    unsafe fn launch(&self, y: &Tensor<O>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let y = y.erased();
        let walk = self.walk(y.shape(), steps_of(&y, y.shape()));
        walk.pieces(4, |piece| {
            let mut addresses = [Address::NULL; 1 + MAX_INPUTS];
            for (t, (to, input)) in addresses.iter_mut().zip(self.inputs()).enumerate() {
                *to = input.argument(piece.addresses[1 + t]);
            }
            addresses[self.inputs_len] = y.argument(piece.addresses[0]);
            let walk = ByValue::of(&piece.params);
            let mut arguments: [&dyn KernelArg; 2 + MAX_INPUTS] = [&walk; 2 + MAX_INPUTS];
            for (to, address) in arguments.iter_mut().zip(&addresses[..=self.inputs_len]) {
                *to = address;
            }
            let arguments = &arguments[..self.inputs_len + 2];
            // SAFETY: the tensors have the walk's strides over its shape; the caller guarantees
            // that the kernel accesses them as such.
            unsafe {
                self.kernel
                    .launch(stream, config(piece.params.len), arguments)
            }
        })
    }

    fn inputs(&self) -> impl Iterator<Item = Erased<'a>> {
        self.inputs.into_iter().flatten()
    }

    /// Checks the inputs; the shape that they broadcast to.
    fn validate(&self, stream: &Stream) -> Result<Vec<usize>> {
        check::up_to(
            "number of inputs of a map",
            self.inputs_len,
            MAX_INPUTS as u64,
        )?;
        let mut shape = Vec::with_capacity(MAX_RANK);
        for input in self.inputs() {
            stream.device().check_same("input", input.device())?;
            shape = broadcast_shape(&shape, input.shape()).ok_or_else(|| {
                Error::shape(
                    "input",
                    input.shape(),
                    format!("one that broadcasts with {shape:?}"),
                )
            })?;
        }
        Ok(shape)
    }
}

/// A launch over so many elements.
fn config(len: u32) -> LaunchConfig {
    LaunchConfig::linear(grid_blocks(len.into(), GROUP), THREADS)
}
