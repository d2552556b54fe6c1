//! Functions of a caller's own of scores, and masks.

use crate::fuse::{Fragment, FuseError, Scalar};
use crate::ops::gemm::Memory;
use crate::{BinaryOp, Element, Error, Result, Tensor, UnaryOp};

/// Most steps of a function.
pub(super) const MOST_STEPS: usize = 6;

/// Most values of all steps of a call's functions.
pub(super) const MOST_VALUES: usize = 16;

/// Parameters of a fragment of scores before the caller's own: score, batch, head, query, key.
pub(super) const PLACE: [Scalar; 5] = [
    Scalar::F32,
    Scalar::U32,
    Scalar::U32,
    Scalar::U32,
    Scalar::U32,
];

/// A function of scores for [`Attention::score`](crate::Attention::score), or a mask for
/// [`Attention::mask`](crate::Attention::mask): steps that follow each other, on the device and in
/// registers.
///
/// | step | score becomes |
/// |---|---|
/// | [`apply`](Self::apply) | `fragment(score, batch, head, q_idx, k_idx, values..)` |
/// | [`unary`](Self::unary) | `op(score)` |
/// | [`scalar`](Self::scalar) | `op(score, scalar)` |
///
/// Fragments are compiled in advance (`#[cuda_std::fragment]`), and put into the kernel when it is
/// loaded. `score` is f32, in natural units and scaled; the indices are u32. `batch` and `head` are
/// those of the query, and `q_idx` and `k_idx` count within the sequence, from 0. If any fragment
/// takes a tensor, all are in range, so that it may read tensors at them. Otherwise results for
/// places beyond the sequence are dropped. A result of -inf hides the key. A fragment that is a mask
/// takes no score and returns a u32: `fragment(batch, head, q_idx, k_idx, values..)`, where 0 hides
/// the key.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Attention, BinaryOp, Device, ScoreFunction, Tensor, UnaryOp};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::full(&stream, &[1, 3, 2, 8], 0.25_f32)?;
/// // 20 tanh(score / 20)
/// let capped = ScoreFunction::new()
///     .scalar(BinaryOp::Div, 20.0)
///     .unary(UnaryOp::Tanh)
///     .scalar(BinaryOp::Mul, 20.0);
/// let o = Attention::new(&x, &x, &x).score(&capped).run(&stream)?;
/// assert!(o.to_vec()?.iter().all(|x| (x - 0.25).abs() < 1e-6));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScoreFunction {
    pub(super) steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Apply {
        fragment: Fragment,
        /// Takes what `fragment` takes.
        derivative: Option<Fragment>,
        values: Vec<ScoreValue>,
    },
    Unary(UnaryOp),
    Scalar(BinaryOp, f32),
}

/// A value that a fragment gets behind the indices.
#[derive(Clone)]
#[non_exhaustive]
pub enum ScoreValue {
    /// For a parameter of type f32.
    F32(f32),
    /// For one of type i32.
    I32(i32),
    /// For one of type u32.
    U32(u32),
    /// For one of type i64.
    I64(i64),
    /// For one of type u64: the address of a tensor's first element, which the fragment reads with
    /// `cuda_std::mem::ld_global_nc_u32` and the like. The attention keeps the tensor.
    Tensor(ScoreTensor),
}

/// A tensor of a [`ScoreValue`].
#[derive(Clone)]
pub struct ScoreTensor(pub(super) Memory);

impl std::fmt::Debug for ScoreValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::F32(x) => x.fmt(f),
            Self::I32(x) => x.fmt(f),
            Self::U32(x) => x.fmt(f),
            Self::I64(x) => x.fmt(f),
            Self::Tensor(tensor) => write!(f, "tensor at {:#x}", tensor.0.address()),
        }
    }
}

macro_rules! values {
    ($($ty:ty: $variant:ident;)*) => {$(
        impl From<$ty> for ScoreValue {
            fn from(value: $ty) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

values! { f32: F32; i32: I32; u32: U32; i64: I64; }

impl<T: Element> From<&Tensor<T>> for ScoreValue {
    fn from(tensor: &Tensor<T>) -> Self {
        Self::Tensor(ScoreTensor(Memory::of(tensor)))
    }
}

impl ScoreValue {
    pub(super) fn scalar(&self) -> Scalar {
        match self {
            Self::F32(_) => Scalar::F32,
            Self::I32(_) => Scalar::I32,
            Self::U32(_) => Scalar::U32,
            Self::I64(_) => Scalar::I64,
            Self::Tensor(_) => Scalar::U64,
        }
    }

    /// Its bits, in a word of 64.
    pub(super) fn bits(&self) -> u64 {
        match self {
            Self::F32(x) => x.to_bits().into(),
            Self::I32(x) => x.cast_unsigned().into(),
            Self::U32(x) => (*x).into(),
            Self::I64(x) => x.cast_unsigned(),
            Self::Tensor(tensor) => tensor.0.address(),
        }
    }
}

impl ScoreFunction {
    /// The function without steps, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fragment of your own. The backward pass needs its
    /// [derivative](Self::apply_with_derivative), unless it is a mask.
    pub fn apply(
        mut self,
        fragment: &Fragment,
        values: impl IntoIterator<Item = ScoreValue>,
    ) -> Self {
        self.steps.push(Step::Apply {
            fragment: fragment.clone(),
            derivative: None,
            values: values.into_iter().collect(),
        });
        self
    }

    /// The same, with the fragment of the derivative of its result with respect to the score, which
    /// takes the same arguments. Where the result is -inf, the derivative has no effect.
    pub fn apply_with_derivative(
        mut self,
        fragment: &Fragment,
        derivative: &Fragment,
        values: impl IntoIterator<Item = ScoreValue>,
    ) -> Self {
        self.steps.push(Step::Apply {
            fragment: fragment.clone(),
            derivative: Some(derivative.clone()),
            values: values.into_iter().collect(),
        });
        self
    }

    /// Adds a function of the library that takes no scalar. The backward pass knows the derivatives
    /// of those that [`GradOp`](crate::GradOp) lists, of `Neg` and of `Square`.
    pub fn unary(mut self, op: UnaryOp) -> Self {
        self.steps.push(Step::Unary(op));
        self
    }

    /// Adds `op(score, scalar)`. The backward pass knows the derivatives of `Add`, `Sub`, `Mul` and
    /// `Div`.
    pub fn scalar(mut self, op: BinaryOp, scalar: f32) -> Self {
        self.steps.push(Step::Scalar(op, scalar));
        self
    }

    /// All values of fragments and scalars, in order.
    pub(super) fn values(&self) -> impl Iterator<Item = ScoreValue> + '_ {
        self.steps.iter().flat_map(|step| match step {
            Step::Apply { values, .. } => values.clone(),
            Step::Scalar(_, scalar) => vec![ScoreValue::F32(*scalar)],
            Step::Unary(_) => Vec::new(),
        })
    }

    /// Memory of its tensors.
    pub(super) fn memory(&self) -> impl Iterator<Item = Memory> + '_ {
        self.values().filter_map(|value| match value {
            ScoreValue::Tensor(tensor) => Some(tensor.0),
            _ => None,
        })
    }

    /// A number for each step, which is unique among all steps of this process.
    pub(super) fn key(&self) -> [u64; 2 * MOST_STEPS] {
        let mut key = [0; 2 * MOST_STEPS];
        for (words, step) in key.chunks_exact_mut(2).zip(&self.steps) {
            let pair = match step {
                Step::Apply {
                    fragment,
                    derivative,
                    ..
                } => {
                    let derivative = derivative.as_ref().map_or(0, |of| of.id() + 1);
                    [fragment.id() << 2 | 1, derivative]
                }
                Step::Unary(op) => [2, *op as u64],
                Step::Scalar(op, _) => [3, *op as u64],
            };
            words.copy_from_slice(&pair);
        }
        key
    }

    /// Whether all steps have a derivative.
    pub(super) fn check_derivatives(&self) -> Result<()> {
        for step in &self.steps {
            let (what, supported) = match step {
                Step::Apply {
                    fragment,
                    derivative: None,
                    ..
                } => (
                    format!("the gradient of fragment `{}`", fragment.name()),
                    "fragments with `apply_with_derivative`".to_owned(),
                ),
                Step::Unary(op) if derivative_of(*op).is_none() => (
                    format!("the gradient of {}", op.name()),
                    "neg, square, and the functions of GradOp".to_owned(),
                ),
                Step::Scalar(op, _) if !is_linear(*op) => (
                    format!("the gradient of {} with a scalar", op.name()),
                    "add, sub, mul and div".to_owned(),
                ),
                _ => continue,
            };
            return Err(Error::unsupported(what, supported));
        }
        Ok(())
    }

    /// Checks numbers and types. A mask is one fragment.
    pub(in crate::ops::attention) fn check(
        &self,
        operand: &'static str,
        is_mask: bool,
    ) -> Result<()> {
        let steps = self.steps.len();
        if steps > MOST_STEPS || (is_mask && steps != 1) {
            let want = if is_mask {
                "one fragment".to_owned()
            } else {
                format!("at most {MOST_STEPS} steps")
            };
            return Err(Error::value(operand, format!("{steps} steps"), want));
        }
        for step in &self.steps {
            match step {
                Step::Apply {
                    fragment,
                    derivative,
                    values,
                } => {
                    check_fragment(operand, fragment, values, is_mask)?;
                    if let Some(derivative) = derivative {
                        check_fragment(operand, derivative, values, is_mask)?;
                    }
                }
                Step::Unary(op) if op.takes_scalar() || is_mask || !is_of_f32(*op) => {
                    let want = "a function of f32 without a scalar, and no mask";
                    return Err(Error::value(operand, op.name(), want));
                }
                Step::Scalar(op, _) if is_mask || !is_binary_of_f32(*op) => {
                    return Err(Error::value(
                        operand,
                        op.name(),
                        "a function of f32, and no mask",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_of_f32(op: UnaryOp) -> bool {
    op.is_defined(abi::elementwise::Arithmetic::F32)
}

fn is_binary_of_f32(op: BinaryOp) -> bool {
    op.is_defined(abi::elementwise::Arithmetic::F32)
}

/// Whether the derivative of the function with a scalar is known.
pub(super) fn is_linear(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div
    )
}

/// The fragment of `derivative(score) * slope`.
pub(super) fn derivative_of(op: UnaryOp) -> Option<&'static str> {
    Some(match op {
        UnaryOp::Relu => "f32_relu_grad",
        UnaryOp::Gelu => "f32_gelu_grad",
        UnaryOp::GeluTanh => "f32_gelu_tanh_grad",
        UnaryOp::Silu => "f32_silu_grad",
        UnaryOp::Sigmoid => "f32_sigmoid_grad",
        UnaryOp::Tanh => "f32_tanh_grad",
        UnaryOp::Neg => "score_neg_grad",
        UnaryOp::Square => "score_square_grad",
        _ => return None,
    })
}

fn check_fragment(
    operand: &'static str,
    fragment: &Fragment,
    values: &[ScoreValue],
    is_mask: bool,
) -> Result<()> {
    let (place, result) = if is_mask {
        (&PLACE[1..], Scalar::U32)
    } else {
        (&PLACE[..], Scalar::F32)
    };
    let of_values = values.iter().map(ScoreValue::scalar);
    let want: Vec<Scalar> = place.iter().copied().chain(of_values).collect();
    let params = fragment.params();
    if params.len() != want.len() {
        return Err(Error::from(FuseError::ArgumentCount {
            fragment: fragment.name().into(),
            got: want.len(),
            want: params.len(),
        }));
    }
    for (index, (&got, &want)) in want.iter().zip(params).enumerate() {
        if got != want {
            return Err(Error::from(FuseError::ArgumentType {
                fragment: fragment.name().into(),
                index,
                got,
                want,
            }));
        }
    }
    if fragment.result() != result {
        let got = format!(
            "fragment `{}`, which returns {}",
            fragment.name(),
            fragment.result()
        );
        return Err(Error::value(
            operand,
            got,
            format!("one that returns {result}"),
        ));
    }
    Ok(())
}
