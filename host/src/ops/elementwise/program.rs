//! Elementwise programs: steps over tensors, their checks and their launch.

use super::compose::inputs_of;
use super::launch::Fused;
use super::plan::{Steps, Walk};
use super::steps::{Operand, Step};
use crate::error::named;
use crate::ops::by_index::dense_steps;
use crate::ops::check;
use crate::ops::plan::{Candidate, Plan};
use crate::tensor::{Address, Erased};
use crate::{E4m3, E5m2, Element, Error, Result, Stream, Tensor};
use abi::DType;
use abi::elementwise::{Arithmetic, MAX_INPUTS, MAX_KEPT, MAX_RANK, MAX_STEPS, UnaryOp};
use half::{bf16, f16};

/// A type that elementwise functions read and write.
///
/// The dtype of the first tensor determines the arithmetic, and which dtypes can be combined with
/// it:
///
/// | first tensor | arithmetic | other tensors and the result |
/// |---|---|---|
/// | f32, f16, bf16, e4m3, e5m2, u8, i8 | f32 | any of these |
/// | f64 | f64 | f64; u8 as a condition, and as the result |
/// | i32, i64 | itself, wrapping | the same; u8 as a condition, and as the result |
///
/// Any other combination is an error: convert with [`Tensor::cast`].
pub trait ChainElement: Element + sealed::Sealed {}

mod sealed {
    /// Restricts [`ChainElement`](super::ChainElement) to the types that kernels exist for.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl ChainElement for $ty {}
    )*};
}

elements! { f32 f16 bf16 E4m3 E5m2 u8 i8 f64 i32 i64 }

/// Default names of a program's inputs in errors.
const NAMES: [&str; MAX_INPUTS] = ["a", "b", "c", "d"];

/// Name of tensors that a step writes, in errors.
const STORED: &str = "stored tensor";

/// Most steps after the first, which loads.
const MORE_STEPS: usize = MAX_STEPS - 1;

/// Steps over inputs. Faults are recorded while it is built, and returned when it is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'a> {
    /// Name of the operation in errors and plans.
    operation: &'static str,
    arithmetic: Arithmetic,
    inputs: [Option<Erased<'a>>; MAX_INPUTS],
    names: [&'static str; MAX_INPUTS],
    /// Name of the result in errors.
    pub(super) output: &'static str,
    inputs_len: usize,
    steps: [Step<'a>; MORE_STEPS],
    steps_len: usize,
    /// Bit n is set if a value is kept in slot n.
    kept: u32,
    fault: Option<Fault>,
}

/// Why a program cannot be launched.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Inputs,
    Steps,
    Kept(u8),
    NotKept(u8),
    Twice,
    NoScalar(UnaryOp),
    Dtype(&'static str, DType),
    NoArithmetic(&'static str, DType),
}

impl<'a> Program<'a> {
    /// The program of an operation whose value is `x`, in the arithmetic of its dtype.
    pub(crate) fn load(operation: &'static str, name: &'static str, x: Erased<'a>) -> Self {
        let arithmetic = Arithmetic::of(x.dtype());
        let arithmetic_or_f32 = arithmetic.unwrap_or(Arithmetic::F32);
        let mut program = Self::load_in(operation, name, x, arithmetic_or_f32);
        if arithmetic.is_none() {
            program.fault = Some(Fault::NoArithmetic(name, x.dtype()));
        }
        program
    }

    /// A program whose value is `x`, converted to the given arithmetic: a cast.
    pub(crate) fn load_in(
        operation: &'static str,
        name: &'static str,
        x: Erased<'a>,
        arithmetic: Arithmetic,
    ) -> Self {
        let mut program = Self {
            operation,
            arithmetic,
            inputs: [None; MAX_INPUTS],
            names: NAMES,
            output: "y",
            inputs_len: 1,
            steps: [Step::Keep(0); MORE_STEPS],
            steps_len: 0,
            kept: 0,
            fault: None,
        };
        (program.inputs[0], program.names[0]) = (Some(x), name);
        program
    }

    /// A tensor as an operand. A tensor that is an input already is not added again.
    pub(crate) fn input(&mut self, name: &'static str, x: Erased<'a>) -> Operand {
        if Arithmetic::of(x.dtype()) != Some(self.arithmetic) {
            self.fault.get_or_insert(Fault::Dtype(name, x.dtype()));
        }
        self.any_input(name, x)
    }

    /// As [`input`](Self::input), for a condition, which may be u8 in every arithmetic.
    pub(crate) fn condition(&mut self, name: &'static str, x: Erased<'a>) -> Operand {
        match x.dtype() {
            DType::U8 => self.any_input(name, x),
            _ => self.input(name, x),
        }
    }

    fn any_input(&mut self, name: &'static str, x: Erased<'a>) -> Operand {
        let known = self.inputs[..self.inputs_len].iter().flatten();
        let number = match known.clone().position(|input| input.is_same(&x)) {
            Some(number) => number,
            None if self.inputs_len == MAX_INPUTS => {
                self.fault.get_or_insert(Fault::Inputs);
                return Operand::Input(0);
            }
            None => {
                self.inputs[self.inputs_len] = Some(x);
                self.names[self.inputs_len] = name;
                self.inputs_len += 1;
                self.inputs_len - 1
            }
        };
        Operand::Input(number as u8)
    }

    pub(crate) fn push(&mut self, step: Step<'a>) {
        match self.steps.get_mut(self.steps_len) {
            Some(place) => {
                *place = step;
                self.steps_len += 1;
            }
            None => {
                self.fault.get_or_insert(Fault::Steps);
            }
        }
    }

    /// A function of the value alone.
    pub(crate) fn unary(&mut self, op: UnaryOp) {
        if op.takes_scalar() {
            self.fault.get_or_insert(Fault::NoScalar(op));
        }
        self.push(Step::Unary(op));
    }

    /// Keeps the value in a slot.
    pub(crate) fn keep(&mut self, number: u8) {
        if usize::from(number) < MAX_KEPT {
            self.kept |= 1 << number;
            self.push(Step::Keep(number));
        } else {
            self.fault.get_or_insert(Fault::Kept(number));
        }
    }

    /// The value kept in a slot, as an operand.
    pub(crate) fn kept(&mut self, number: u8) -> Operand {
        if u32::from(number) >= u32::BITS || (self.kept >> number) & 1 == 0 {
            self.fault.get_or_insert(Fault::NotKept(number));
        }
        Operand::Kept(number)
    }

    /// Writes the value to a tensor, which takes the place of an input.
    pub(crate) fn store(&mut self, x: Erased<'a>) {
        if let Operand::Input(input) = self.any_input(STORED, x) {
            if (self.written() >> input) & 1 == 1 {
                self.fault.get_or_insert(Fault::Twice);
            }
            self.push(Step::Store(input));
        }
    }

    /// The inputs that are written to, a bit for each.
    fn written(&self) -> u32 {
        inputs_of(self.steps(), true)
    }

    /// Checks that no fault was recorded, and that all functions are defined in the arithmetic.
    fn check(&self) -> Result<()> {
        if let Some(fault) = self.fault {
            return Err(fault.error(self.arithmetic));
        }
        for step in self.steps() {
            step.check_defined_in(self.arithmetic)?;
        }
        Ok(())
    }

    /// Checks the program and the devices of its inputs; the shape that the inputs broadcast to.
    pub(crate) fn validate(&self, stream: &Stream) -> Result<Vec<usize>> {
        self.check()?;
        let mut shape = Vec::new();
        for (input, name) in self.inputs().zip(self.names) {
            stream.device().check_same(name, input.device())?;
            shape = broadcast_shape(&shape, input.shape()).ok_or_else(|| {
                Error::shape(
                    name,
                    input.shape(),
                    format!("one that broadcasts with {shape:?}"),
                )
            })?;
        }
        self.check_written(&shape)?;
        Ok(shape)
    }

    /// Checks the tensors of inputs that are written to. Elements are read ahead of all writes, so
    /// other inputs may be the same elements in the same places.
    fn check_written(&self, shape: &[usize]) -> Result<()> {
        let is_written = |i: usize| (self.written() >> i) & 1 == 1;
        for (i, written) in self.inputs().enumerate().filter(|&(i, _)| is_written(i)) {
            check::output_of(STORED, &written, shape)?;
            self.check_result(STORED, written.dtype())?;
            for (j, (other, name)) in self.inputs().zip(self.names).enumerate() {
                if is_written(j) && j > i && written.overlaps(&other) {
                    return Err(Error::overlap(STORED, STORED));
                }
                check::no_partial_overlap_of(STORED, &written, name, &other)?;
            }
        }
        Ok(())
    }

    /// The result in a new, contiguous tensor.
    pub(crate) fn run<U: ChainElement>(&self, stream: &Stream) -> Result<Tensor<U>> {
        named(self.operation, || {
            let shape = self.validate(stream)?;
            self.check_result(self.output, U::DTYPE)?;
            let y = Tensor::empty(stream, &shape)?;
            self.launch(&y.erased(), stream)?;
            Ok(y)
        })
    }

    /// The result into `y`, which may be an input itself.
    pub(crate) fn run_into<U: ChainElement>(&self, y: &Tensor<U>, stream: &Stream) -> Result<()> {
        named(self.operation, || {
            let shape = self.validate(stream)?;
            self.check_result(self.output, U::DTYPE)?;
            check::output(self.output, y, &shape, stream)?;
            for (i, (input, name)) in self.inputs().zip(self.names).enumerate() {
                check::no_partial_overlap_of(self.output, &y.erased(), name, &input)?;
                if (self.written() >> i) & 1 == 1 && y.erased().overlaps(&input) {
                    return Err(Error::overlap(self.output, STORED));
                }
            }
            self.launch(&y.erased(), stream)
        })
    }

    /// The plan of [`run`](Self::run): the kernel's skeleton.
    pub(crate) fn plan<U: ChainElement>(&self, stream: &Stream) -> Result<Plan> {
        named(self.operation, || {
            let shape = self.validate(stream)?;
            self.check_result(self.output, U::DTYPE)?;
            let (walk, fused) = (
                self.walk(&shape, dense_steps::<U>(&shape)),
                self.fused(U::DTYPE)?,
            );
            let (operation, len) = (self.operation, walk.len());
            if len == 0 {
                return Ok(Plan::empty());
            }
            let first = fused.first(&walk, stream.device());
            let (entry, config) = first.ok_or(Error::Bug("elements without a launch"))?;
            let bytes = len as f64 * fused.bytes_each() as f64;
            let candidate = Candidate::only(entry.name(), config, bytes, stream.device().info());
            let (inputs, steps) = (self.inputs_len, self.steps_len);
            Ok(Plan::only(
                format!(
                    "{operation} {} elements{len} inputs{inputs} steps{steps}",
                    U::DTYPE
                ),
                candidate,
            ))
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

    fn check_result(&self, name: &'static str, dtype: DType) -> Result<()> {
        if Arithmetic::of(dtype) == Some(self.arithmetic) || dtype == DType::U8 {
            return Ok(());
        }
        Err(Fault::Dtype(name, dtype).error(self.arithmetic))
    }

    fn inputs(&self) -> impl Iterator<Item = Erased<'a>> {
        self.inputs.into_iter().flatten()
    }

    fn steps(&self) -> &[Step<'a>] {
        &self.steps[..self.steps_len]
    }

    /// Launches into `y`, of the shape that the inputs broadcast to.
    pub(crate) fn launch(&self, y: &Erased<'_>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let walk = self.walk(y.shape(), steps_of(y, y.shape()));
        self.fused(y.dtype())?
            .launches(&walk, stream.device(), |launch| {
                let mut inputs = [Address::NULL; MAX_INPUTS];
                for (t, (to, input)) in inputs.iter_mut().zip(self.inputs()).enumerate() {
                    *to = input.argument(launch.piece.addresses[1 + t]);
                }
                let [a, b, c, d] = &inputs;
                let y = y.argument(launch.piece.addresses[0]);
                // SAFETY: the tensors have the walk's strides over its shape, so every element that
                // the kernel accesses lies inside of their storage. y is injective, and is an input
                // or overlaps none. The kernel was composed for these dtypes and vector accesses.
                unsafe { launch.enqueue((y, *a, *b, *c, *d), stream) }
            })
    }

    /// The PTX of the kernel that devices of `arch` run over large contiguous tensors.
    pub(crate) fn ptx(&self, output: DType, arch: (u32, u32)) -> Result<String> {
        named(self.operation, || {
            self.check()?;
            self.check_result(self.output, output)?;
            self.fused(output)?.ptx(arch)
        })
    }

    fn fused(&self, output: DType) -> Result<Fused<'_>> {
        // Unused entries may have any dtype.
        let mut dtypes = [output; 1 + MAX_INPUTS];
        for (to, input) in dtypes[1..].iter_mut().zip(self.inputs()) {
            *to = input.dtype();
        }
        Fused::new(self.arithmetic, dtypes, self.inputs_len, self.steps())
    }
}

impl Fault {
    fn error(self, arithmetic: Arithmetic) -> Error {
        let (what, got, limit) = match self {
            Self::Inputs => (
                "number of inputs of a chain",
                MAX_INPUTS + 1,
                MAX_INPUTS + 1,
            ),
            Self::Steps => ("number of steps of a chain", MORE_STEPS + 1, MORE_STEPS + 1),
            Self::Kept(number) => ("number of a kept value", usize::from(number), MAX_KEPT),
            Self::NotKept(number) => {
                return Error::value(
                    "number of a kept value",
                    number.to_string(),
                    "one that a step before has kept",
                );
            }
            Self::Twice => return Error::overlap(STORED, STORED),
            Self::NoScalar(op) => {
                let with = match op {
                    UnaryOp::Scale => "Mul",
                    _ => "Add",
                };
                return Error::value(
                    "scalar",
                    "missing",
                    format!(
                        "a number: {} takes one, in a chain as scalar(BinaryOp::{with}, number)",
                        op.name()
                    ),
                );
            }
            Self::Dtype(name, dtype) => {
                return Error::unsupported(
                    format!("`{name}` of {dtype} in a chain of {}", arithmetic.name()),
                    format!("{}; casts are explicit", arithmetic.dtypes()),
                );
            }
            Self::NoArithmetic(name, dtype) => {
                return Error::unsupported(
                    format!("functions of `{name}`, which is of {dtype}"),
                    "f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i8, u8",
                );
            }
        };
        Error::out_of_bounds(what, got as u64, limit as u64)
    }
}

/// A tensor's strides over a shape that it broadcasts to.
pub(crate) fn steps_of(tensor: &Erased<'_>, shape: &[usize]) -> Steps {
    let mut strides = [0; MAX_RANK];
    let added = shape.len() - tensor.shape().len();
    let own = tensor.shape().iter().zip(tensor.strides());
    for (to, (&extent, &stride)) in strides[added..].iter_mut().zip(own) {
        *to = if extent == 1 { 0 } else { stride };
    }
    Steps {
        strides,
        address: tensor.address(),
        size_bytes: tensor.dtype().size_bytes(),
    }
}

/// The shape that two shapes broadcast to.
pub(super) fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut shape = longer.to_vec();
    let added = longer.len() - shorter.len();
    for (to, &extent) in shape[added..].iter_mut().zip(shorter) {
        match (*to, extent) {
            (x, y) if x == y || y == 1 => {}
            (1, y) => *to = y,
            _ => return None,
        }
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::broadcast_shape;

    #[test]
    fn shapes_broadcast_from_the_last_dimension() {
        let some = |shape: &[usize]| Some(shape.to_vec());
        assert_eq!(broadcast_shape(&[2, 3], &[3]), some(&[2, 3]));
        assert_eq!(broadcast_shape(&[1], &[4, 1, 5]), some(&[4, 1, 5]));
        assert_eq!(broadcast_shape(&[2, 1], &[1, 7]), some(&[2, 7]));
        assert_eq!(broadcast_shape(&[0], &[1]), some(&[0]));
        assert_eq!(broadcast_shape(&[], &[3]), some(&[3]));
        assert_eq!(broadcast_shape(&[2], &[3]), None);
        assert_eq!(broadcast_shape(&[0], &[3]), None);
    }
}
