//! The built-in epilogue, whose steps are chosen at run time: see [`abi::gemm::epilogue`].

use abi::gemm::{Activation, EpilogueParams, GemmParams};
use cuda_std::element::Element;
use cuda_std::epilogue::{
    Activate, AddMatrix, AddVector, Coord, Epilogue, Gelu, GeluTanh, Logistic, Relu, SIGMOID, SILU,
    Scale, ScaleByVector, TANH,
};
use cuda_std::hint::opaque;
use cuda_std::math::fma;

/// Scales, C, bias, activation and residual; each is applied if the launch has it. `M` reads C and
/// the residual, `V` the bias.
#[derive(Clone, Copy)]
pub(crate) struct Steps<M, V> {
    alpha: f32,
    /// Bit mask of the steps that this launch has, of the constants below.
    inputs: u32,
    row_scale: ScaleByVector,
    column_scale: ScaleByVector,
    c: M,
    bias: V,
    activation: u32,
    residual: M,
}

/// The steps where the type of the operands is a constant of the kernel.
pub(crate) type Fused<Out> = Steps<AddMatrix<Out>, AddVector<Out>>;

const ROW_SCALE: u32 = 1;
const COLUMN_SCALE: u32 = 2;
const C: u32 = 4;
const BIAS: u32 = 8;
const RESIDUAL: u32 = 16;
/// Not a step: set if the bias' elements can be read in pairs.
const PAIRS_OF_BIAS: u32 = 32;

/// The pointers among an entry's arguments that an epilogue reads.
#[derive(Clone, Copy)]
pub(crate) struct Pointers<Out> {
    pub(crate) c: *const Out,
    pub(crate) bias: *const Out,
    pub(crate) residual: *const Out,
    pub(crate) row_scale: *const f32,
    pub(crate) column_scale: *const f32,
    pub(crate) alpha: *const f32,
    pub(crate) beta: *const f32,
}

/// An epilogue as an entry's arguments describe it, where a launch says of which type operands are:
/// nothing in global memory has been read yet.
#[derive(Clone, Copy)]
pub(crate) struct Unread<'a> {
    pub(crate) pointers: Pointers<u8>,
    pub(crate) params: &'a GemmParams,
    pub(crate) epilogue: &'a EpilogueParams,
}

impl Unread<'_> {
    /// What results are multiplied by, if that is all that this epilogue does, and known without
    /// reading memory.
    #[inline(always)]
    pub(crate) fn factor_alone(&self) -> Option<f32> {
        let Pointers {
            c: _, // not read if beta is 0
            bias,
            residual,
            row_scale,
            column_scale,
            alpha,
            beta,
        } = self.pointers;
        let is_alone = bias.is_null()
            && residual.is_null()
            && [row_scale, column_scale, alpha, beta]
                .iter()
                .all(|pointer| pointer.is_null())
            && self.params.beta == 0.0
            && self.epilogue.activation == Activation::Identity.code();
        is_alone.then_some(self.params.alpha)
    }
}

impl<Out: Element> Fused<Out> {
    /// The epilogue that an entry's arguments describe.
    ///
    /// # Safety
    /// The pointers are null, or point to what [`abi::gemm::epilogue`] says of them.
    #[inline(always)]
    pub(crate) unsafe fn new(
        pointers: Pointers<Out>,
        params: &GemmParams,
        epilogue: &EpilogueParams,
    ) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            Self::of(
                pointers,
                (params, epilogue),
                |matrix, ld, stride, factor| AddMatrix::new(matrix, ld, stride, factor),
                |vector, of_row, stride| AddVector::new(vector, of_row, stride),
                |bias| bias.has_pairs(params.n),
            )
        }
    }
}

impl<M, V> Steps<M, V> {
    /// The epilogue that an entry's arguments describe. `matrix` makes the step that adds a matrix.
    /// It takes a pointer, elements from row to row and from matrix to matrix, and a factor.
    /// `vector` makes the step of a bias. It takes a pointer, whether it is one for each row, and
    /// elements from bias to bias.
    ///
    /// # Safety
    /// As for [`Fused::new`].
    #[inline(always)]
    pub(crate) unsafe fn of<Out>(
        pointers: Pointers<Out>,
        (params, epilogue): (&GemmParams, &EpilogueParams),
        matrix: impl Fn(*const Out, i64, i64, f32) -> M,
        vector: impl Fn(*const Out, bool, i64) -> V,
        has_pairs: impl Fn(&V) -> bool,
    ) -> Self {
        // SAFETY: the caller's pointers; those that are null are not used.
        unsafe {
            let scalar = |pointer: *const f32, value| {
                if pointer.is_null() {
                    value
                } else {
                    pointer.read()
                }
            };
            let alpha = scalar(pointers.alpha, params.alpha);
            let beta = scalar(pointers.beta, params.beta);
            let Pointers {
                c,
                bias,
                residual,
                row_scale,
                column_scale,
                ..
            } = pointers;
            let input = |is_there: bool, input: u32| if is_there { input } else { 0 };
            let (ld, stride) = (epilogue.ld_residual, epilogue.batch_stride_residual);
            let has_bias = !bias.is_null();
            let bias = vector(
                bias,
                epilogue.bias_stride_m != 0,
                epilogue.batch_stride_bias,
            );
            Self {
                alpha,
                inputs: input(!row_scale.is_null(), ROW_SCALE)
                    | input(!column_scale.is_null(), COLUMN_SCALE)
                    | input(beta != 0.0, C)
                    | input(has_bias, BIAS)
                    | input(has_bias && has_pairs(&bias), PAIRS_OF_BIAS)
                    | input(!residual.is_null(), RESIDUAL),
                row_scale: ScaleByVector::new(row_scale, epilogue.row_scale_stride, 0),
                column_scale: ScaleByVector::new(column_scale, 0, epilogue.column_scale_stride),
                c: matrix(c, params.ldc, params.batch_stride_c, beta),
                bias,
                activation: epilogue.activation,
                residual: matrix(residual, ld, stride, 1.0),
            }
        }
    }

    /// The same of the product times `scale`.
    #[inline(always)]
    pub(crate) fn times(self, scale: f32) -> Self {
        Self {
            alpha: self.alpha * scale,
            ..self
        }
    }
}

impl<Out: Element> Epilogue for Fused<Out> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let mut x = [x];
        self.apply_all(|_| coord, &mut x);
        x[0]
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        self.all(coord, x);
    }

    #[inline(always)]
    fn bring_near(&self, coord: Coord, columns: u32) {
        if opaque(self.inputs) & BIAS != 0 {
            self.bias.bring_near(coord, columns);
        }
    }

    /// Has a path for a bias alone, as most layers have it: half of the instructions.
    #[inline(always)]
    fn apply_pairs<const N: usize, const PAIRS: usize>(
        &self,
        coord: impl Fn(usize) -> Coord,
        x: impl FnOnce() -> [f32; N],
    ) -> [f32; N] {
        let inputs = opaque(self.inputs);
        let is_bias_alone = inputs == BIAS | PAIRS_OF_BIAS;
        const { assert!(N == 2 * PAIRS) };
        let mut bias = [Out::Pair::default(); PAIRS];
        if is_bias_alone {
            // The bias is loaded while the results are moved to where they are wanted.
            // SAFETY: `PAIRS_OF_BIAS` is set: the bias can be read in pairs.
            bias = unsafe { self.bias.pairs(&coord) };
        }
        let mut x = x();
        if is_bias_alone {
            for (i, bias) in bias.iter().enumerate() {
                for (j, bias) in Out::widen_pair(*bias).iter().enumerate() {
                    x[2 * i + j] = fma(self.alpha, x[2 * i + j], *bias);
                }
            }
        } else {
            self.before_activation(inputs, &coord, &mut x);
        }
        self.activate(&coord, &mut x);
        if inputs & RESIDUAL != 0 {
            self.residual.apply_all(anew(&coord), &mut x);
        }
        x
    }
}

impl<M: Epilogue, V: Epilogue> Steps<M, V> {
    /// Applies the steps to all `N` results of a thread; it tests once for all of them which steps
    /// there are, not once for each.
    #[inline(always)]
    pub(crate) fn all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        // Opaque at each use: otherwise LLVM specialises the code for each combination of steps.
        let inputs = opaque(self.inputs);
        self.before_activation(inputs, &coord, x);
        self.activate(&coord, x);
        if inputs & RESIDUAL != 0 {
            self.residual.apply_all(anew(&coord), x);
        }
    }

    /// The steps before the activation: scales, C and bias.
    #[inline(always)]
    fn before_activation<const N: usize>(
        &self,
        inputs: u32,
        coord: &impl Fn(usize) -> Coord,
        x: &mut [f32; N],
    ) {
        Scale(self.alpha).apply_all(coord, x);
        if inputs & ROW_SCALE != 0 {
            self.row_scale.apply_all(coord, x);
        }
        if inputs & COLUMN_SCALE != 0 {
            self.column_scale.apply_all(coord, x);
        }
        if inputs & C != 0 {
            self.c.apply_all(anew(coord), x);
        }
        if inputs & BIAS != 0 {
            self.bias.apply_all(coord, x);
        }
    }

    #[inline(always)]
    fn activate<const N: usize>(&self, coord: &impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        const IDENTITY: u32 = Activation::Identity.code();
        const RELU: u32 = Activation::Relu.code();
        const GELU: u32 = Activation::Gelu.code();
        const GELU_TANH: u32 = Activation::GeluTanh.code();
        // A chain of tests, each on an opaque copy of the code: the branch table that a `match`
        // becomes costs more than a few tests.
        let is = |code| opaque(self.activation) == code;
        if is(GELU_TANH) {
            Activate(GeluTanh).apply_all(coord, x);
        } else if is(GELU) {
            Activate(Gelu).apply_all(coord, x);
        } else if is(IDENTITY) {
        } else if is(RELU) {
            Activate(Relu).apply_all(coord, x);
        } else {
            Activate(logistic(opaque(self.activation))).apply_all(coord, x);
        }
    }
}

/// `coord` with an opaque batch index. Otherwise the compiler computes each matrix's start once and
/// keeps it in registers, of which wide tiles have none to spare.
#[inline(always)]
fn anew(coord: &impl Fn(usize) -> Coord) -> impl Fn(usize) -> Coord {
    let batch = u64::from(opaque(coord(0).batch as u32));
    move |i| Coord { batch, ..coord(i) }
}

/// The activation of that code, among those that are one formula with different constants.
#[inline(always)]
fn logistic(code: u32) -> Logistic {
    const SILU_CODE: u32 = Activation::Silu.code();
    const SIGMOID_CODE: u32 = Activation::Sigmoid.code();
    if code == SILU_CODE {
        SILU
    } else if code == SIGMOID_CODE {
        SIGMOID
    } else {
        TANH
    }
}
