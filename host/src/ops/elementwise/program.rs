//! A program over tensors, checked and launched.

use super::plan::{Piece, Steps, Walk};
use crate::ops::{check, kernels};
use crate::tensor::{Address, Erased};
use crate::{E4m3, E5m2, Element, Error, LaunchConfig, Result, Stream, Tensor};
use half::{bf16, f16};
use spec::DType;
use spec::elementwise::{
    BRIEF_LEN, BriefEntry, BriefParams, ChainEntry, ChainParams, GROUP, MAX_INPUTS, MAX_KEPT,
    MAX_RANK, MAX_STEPS, Operand, Step, THREADS, brief_program, code, grid_blocks,
};

/// A type that elementwise functions read and write: f32, f16, bf16, the floats of 8 bits, and the
/// integers of 8 bits, of which u8 also holds what comparisons say.
pub trait ChainElement: Element + sealed::Sealed {}

mod sealed {
    /// Keeps [`ChainElement`](super::ChainElement) to the types that kernels exist for.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl ChainElement for $ty {}
    )*};
}

elements! { f32 f16 bf16 E4m3 E5m2 u8 i8 }

/// Names of a program's inputs in errors.
const NAMES: [&str; MAX_INPUTS] = ["a", "b", "c", "d"];

/// Steps over inputs. What does not fit is said when it is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'a> {
    inputs: [Option<Erased<'a>>; MAX_INPUTS],
    names: [&'static str; MAX_INPUTS],
    inputs_len: usize,
    steps: [Step; MAX_STEPS],
    steps_len: usize,
    /// Bit n: value n is kept.
    kept: u32,
    fault: Option<Fault>,
}

/// What makes a program one that no kernel runs.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Inputs,
    Steps,
    Kept(u8),
    NotKept(u8),
}

impl<'a> Program<'a> {
    /// value = x.
    pub(crate) fn load(name: &'static str, x: Erased<'a>) -> Self {
        let mut program = Self {
            inputs: [None; MAX_INPUTS],
            names: NAMES,
            inputs_len: 0,
            steps: [Step::default(); MAX_STEPS],
            steps_len: 0,
            kept: 0,
            fault: None,
        };
        let x = program.input(name, x);
        program.push(Step::load(x));
        program
    }

    /// The operand that is a tensor: the one that is already there, or a new one.
    pub(crate) fn input(&mut self, name: &'static str, x: Erased<'a>) -> Operand {
        let known = self.inputs[..self.inputs_len].iter().flatten();
        let number = match known.clone().position(|input| input.is_same(&x)) {
            Some(number) => number,
            None if self.inputs_len == MAX_INPUTS => {
                self.fault.get_or_insert(Fault::Inputs);
                return Operand::None;
            }
            None => {
                self.inputs[self.inputs_len] = Some(x);
                self.names[self.inputs_len] = name;
                self.inputs_len += 1;
                self.inputs_len - 1
            }
        };
        Operand::Input(number as u8, x.dtype())
    }

    pub(crate) fn push(&mut self, step: Step) {
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

    /// Keeps the value under a number.
    pub(crate) fn keep(&mut self, number: u8) {
        if usize::from(number) < MAX_KEPT {
            self.kept |= 1 << number;
            self.push(Step::keep(number));
        } else {
            self.fault.get_or_insert(Fault::Kept(number));
        }
    }

    /// The operand that was kept.
    pub(crate) fn kept(&mut self, number: u8) -> Operand {
        if u32::from(number) < u32::BITS && (self.kept >> number) & 1 == 1 {
            return Operand::Kept(number);
        }
        self.fault.get_or_insert(Fault::NotKept(number));
        Operand::None
    }

    /// The shape that all inputs broadcast to, which are on the stream's device.
    pub(crate) fn validate(&self, stream: &Stream) -> Result<Vec<usize>> {
        if let Some(fault) = self.fault {
            return Err(fault.error());
        }
        let mut shape = Vec::new();
        for (input, name) in self.inputs().zip(self.names) {
            stream.device().check_same(name, input.device())?;
            shape = broadcast_shape(&shape, input.shape()).ok_or_else(|| Error::ShapeMismatch {
                operand: name,
                got: input.shape().into(),
                want: format!("one that broadcasts with {shape:?}").into(),
            })?;
        }
        Ok(shape)
    }

    /// The result in a new, contiguous tensor.
    pub(crate) fn run<U: ChainElement>(&self, stream: &Stream) -> Result<Tensor<U>> {
        let shape = self.validate(stream)?;
        let y = Tensor::empty(stream, &shape)?;
        self.launch(&y.erased(), stream)?;
        Ok(y)
    }

    /// The result into `y`, which may be an input itself.
    pub(crate) fn run_into<U: ChainElement>(&self, y: &Tensor<U>, stream: &Stream) -> Result<()> {
        let shape = self.validate(stream)?;
        check::output("y", y, &shape, stream)?;
        for (input, name) in self.inputs().zip(self.names) {
            check::no_partial_overlap_of("y", &y.erased(), name, &input)?;
        }
        self.launch(&y.erased(), stream)
    }

    fn inputs(&self) -> impl Iterator<Item = Erased<'a>> {
        self.inputs.into_iter().flatten()
    }

    /// Launches into `y`, of the shape that the inputs broadcast to.
    pub(crate) fn launch(&self, y: &Erased<'_>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let mut tensors = [steps_of(y, y.shape()); 1 + MAX_INPUTS];
        let mut widest = y.dtype().size_bytes();
        for (to, input) in tensors[1..].iter_mut().zip(self.inputs()) {
            *to = steps_of(&input, y.shape());
            widest = widest.max(input.dtype().size_bytes());
        }
        let walk = Walk::new(y.shape(), &tensors[..1 + self.inputs_len]);
        let largest_chunk = if widest <= 2 { 8 } else { 4 };
        if let Some(program) = self.brief(&walk) {
            return self.launch_brief(y, &walk, program, largest_chunk, stream);
        }
        let kernel = kernels::kernel(stream, ChainEntry)?;
        let kept = u32::BITS - self.kept.leading_zeros();
        let kept_bytes = kept * THREADS * GROUP * size_of::<f32>() as u32;
        walk.pieces(largest_chunk, |piece| {
            let params = self.params(piece, y.dtype());
            let config = grid(piece).shared_bytes(kept_bytes);
            let mut inputs = [Address::NULL; MAX_INPUTS];
            for (t, (to, input)) in inputs.iter_mut().zip(self.inputs()).enumerate() {
                *to = input.argument(piece.addresses[1 + t]);
            }
            let [a, b, c, d] = inputs;
            let y = y.argument(piece.addresses[0]);
            // SAFETY: the tensors have the walk's strides over its shape, so every element it names
            // lies inside of their storage; y is injective, and is an input or overlaps none; the
            // program reads inputs and kept values that are there.
            unsafe { kernel.launch(stream, config, (y, a, b, c, d, params)) }
        })
    }

    /// The program for the kernel of common functions over dense tensors, where it is one.
    fn brief(&self, walk: &Walk) -> Option<[Step; MAX_STEPS]> {
        let is_dense = walk.rank == 0
            || walk.rank == 1 && walk.strides[..=self.inputs_len].iter().all(|s| s[0] == 1);
        if !is_dense || self.inputs_len > 2 || self.kept != 0 {
            return None;
        }
        brief_program(&self.steps, self.steps_len as u32)
    }

    /// Launches a brief program over a dense walk.
    fn launch_brief(
        &self,
        y: &Erased<'_>,
        walk: &Walk,
        program: [Step; MAX_STEPS],
        largest_chunk: u32,
        stream: &Stream,
    ) -> Result<()> {
        let converts = stream.device().arch() >= (8, 9);
        let kernel = kernels::kernel(stream, BriefEntry { converts })?;
        let dtype = |input: usize| self.inputs[input].map_or(0, |x| code::dtype(x.dtype()));
        let dtypes = [dtype(0), dtype(1), code::dtype(y.dtype())];
        walk.pieces(largest_chunk, |piece| {
            let params = BriefParams {
                len: piece.params.len,
                chunk: piece.params.chunk,
                steps: self.steps_len as u32 - 1,
                inputs: self.inputs_len as u32,
                dtypes,
                quarters: 4,
                program,
            };
            let blocks = grid_blocks(piece.params.len.into(), BRIEF_LEN);
            let mut inputs = [Address::NULL; 2];
            for (t, (to, input)) in inputs.iter_mut().zip(self.inputs()).enumerate() {
                *to = input.argument(piece.addresses[1 + t]);
            }
            let [a, b] = inputs;
            let config = LaunchConfig::linear(blocks, THREADS);
            let y = y.argument(piece.addresses[0]);
            // SAFETY: the tensors have the walk's elements one after the other; y is an input or
            // overlaps none; the program reads inputs that are there.
            unsafe { kernel.launch(stream, config, (y, a, b, params)) }
        })
    }

    fn params(&self, piece: &Piece, output: DType) -> ChainParams {
        let early = self.inputs().take(2).enumerate();
        ChainParams {
            walk: piece.params,
            steps: self.steps_len as u32,
            output: code::dtype(output),
            inputs: self.inputs_len as u32,
            dtypes: early.fold(0, |all, (i, x)| all | code::dtype(x.dtype()) << (8 * i)),
            program: self.steps,
        }
    }
}

impl Fault {
    fn error(self) -> Error {
        let (what, got, limit) = match self {
            Self::Inputs => (
                "number of inputs of a chain",
                MAX_INPUTS + 1,
                MAX_INPUTS + 1,
            ),
            Self::Steps => ("number of steps of a chain", MAX_STEPS + 1, MAX_STEPS + 1),
            Self::Kept(number) => ("number of a kept value", usize::from(number), MAX_KEPT),
            Self::NotKept(number) => {
                return Error::InvalidValue {
                    what: "number of a kept value",
                    got: number.to_string().into(),
                    want: "one that a step before has kept".into(),
                };
            }
        };
        Error::OutOfBounds {
            what,
            got: got as u64,
            limit: limit as u64,
        }
    }
}

/// Launches that cast what a walk's second tensor holds to its first; of at least one element.
pub(crate) fn cast_pieces(
    walk: &Walk,
    from: DType,
    to: DType,
    mut launch: impl FnMut(&Piece, LaunchConfig, ChainParams) -> Result<()>,
) -> Result<()> {
    let is_short = from.size_bytes().max(to.size_bytes()) <= 2;
    walk.pieces(if is_short { 8 } else { 4 }, |piece| {
        let mut program = [Step::default(); MAX_STEPS];
        program[0] = Step::load(Operand::Input(0, from));
        let params = ChainParams {
            walk: piece.params,
            steps: 1,
            output: code::dtype(to),
            inputs: 1,
            dtypes: code::dtype(from),
            program,
        };
        launch(piece, grid(piece), params)
    })
}

/// Blocks and threads of a piece.
fn grid(piece: &Piece) -> LaunchConfig {
    let per_thread = if piece.params.chunk == 8 {
        2 * GROUP
    } else {
        GROUP
    };
    LaunchConfig::linear(grid_blocks(piece.params.len.into(), per_thread), THREADS)
}

/// A tensor's steps over a shape that it broadcasts to.
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
