//! The cases of GEMMs: extents, types, layouts and targets.
//!
//! Layouts are named for row-major matrices, as in the host library: `nt` is A stored `[m, k]` and
//! B `[n, k]`, both K-major. BLAS libraries, which are column-major, call it TN.

use std::fmt;

use clap::ValueEnum;
use warpsmith::DType;

use crate::cublaslt::{Arithmetic, Epilogue, Problem};
use crate::results::Target;

/// Which operands are stored transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// A m × k, B k × n.
    Nn,
    /// A m × k, B n × k.
    Nt,
    /// A k × m, B k × n.
    Tn,
    /// A k × m, B n × k.
    Tt,
}

impl Layout {
    /// A is stored transposed.
    pub fn trans_a(self) -> bool {
        matches!(self, Self::Tn | Self::Tt)
    }

    /// B is stored transposed.
    pub fn trans_b(self) -> bool {
        matches!(self, Self::Nt | Self::Tt)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
            Self::Tt => "tt",
        }
    }
}

/// Types of the operands and what is computed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// bf16 in and out, sums in f32.
    Bf16,
    /// bf16 in, f32 out.
    Bf16F32,
    /// f16 in and out, sums in f32.
    F16,
    /// f32 throughout.
    F32,
    /// f32 of which tensor cores multiply 11 bits.
    Tf32,
    /// e4m3 with a scale a tensor, bf16 out, sums completed in f32.
    E4m3,
    /// e4m3 with sums left in the tensor cores.
    E4m3Fast,
    /// f64 throughout.
    F64,
    /// i8 in, i32 out.
    Int8,
}

impl Precision {
    /// Of A and B.
    pub fn input(self) -> DType {
        match self {
            Self::Bf16 | Self::Bf16F32 => DType::Bf16,
            Self::F16 => DType::F16,
            Self::F32 | Self::Tf32 => DType::F32,
            Self::E4m3 | Self::E4m3Fast => DType::E4m3,
            Self::F64 => DType::F64,
            Self::Int8 => DType::I8,
        }
    }

    /// Of D.
    pub fn output(self) -> DType {
        match self {
            Self::E4m3 | Self::E4m3Fast => DType::Bf16,
            Self::Bf16F32 => DType::F32,
            Self::Int8 => DType::I32,
            _ => self.input(),
        }
    }

    /// The arithmetic that the peer is asked for.
    pub fn arithmetic(self) -> Arithmetic {
        match self {
            Self::Bf16 | Self::Bf16F32 | Self::F16 | Self::F32 => Arithmetic::F32,
            Self::Tf32 => Arithmetic::Tf32,
            Self::E4m3 => Arithmetic::Fp8 { fast: false },
            Self::E4m3Fast => Arithmetic::Fp8 { fast: true },
            Self::F64 => Arithmetic::F64,
            Self::Int8 => Arithmetic::I32,
        }
    }

    /// The difference between two correct results that is allowed, relative to the largest result.
    /// It comes from one rounding of the output, the order of summation, or the precision of
    /// operands and accumulator.
    pub fn difference_allowed(self) -> f64 {
        match self {
            Self::Bf16 => 2.0_f64.powi(-7),
            Self::F16 => 2.0_f64.powi(-10),
            Self::F32 => 1e-5,
            Self::Bf16F32 => 1e-4,
            Self::Tf32 => 1e-3,
            Self::E4m3 => 2.0_f64.powi(-7),
            Self::E4m3Fast => 2.0_f64.powi(-5),
            Self::F64 => 1e-13,
            Self::Int8 => 0.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Bf16F32 => "bf16_f32",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::E4m3Fast => "e4m3_fast",
            Self::F64 => "f64",
            Self::Int8 => "int8",
        }
    }
}

/// What a case is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// cuBLASLt, computing the same.
    Library,
    /// Other projects' kernels for Ampere: Triton's and CUTLASS's.
    Ampere,
    /// Ours without the epilogue.
    PlainOfOurs,
}

/// One GEMM to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The set that it belongs to.
    pub set: &'static str,
    /// Types.
    pub precision: Precision,
    /// Transposes.
    pub layout: Layout,
    /// Number of matrices.
    pub batch: usize,
    /// Rows of d.
    pub m: usize,
    /// Columns of d.
    pub n: usize,
    /// Extent of the reduction.
    pub k: usize,
    /// The epilogue.
    pub epilogue: Epilogue,
    /// What it is compared with.
    pub beside: Beside,
    /// Prefix of the names of those of our kernels that the case is about; `None` for all.
    pub kernel: Option<&'static str>,
    /// Its target.
    pub target: Target,
}

impl Case {
    /// A single GEMM in layout `nt`, without a target.
    pub fn new(set: &'static str, precision: Precision, [m, n, k]: [usize; 3]) -> Self {
        Self {
            set,
            precision,
            layout: Layout::Nt,
            batch: 1,
            m,
            n,
            k,
            epilogue: Epilogue::None,
            beside: Beside::Library,
            kernel: None,
            target: Target::default(),
        }
    }

    fn ratio(mut self, ratio: f64) -> Self {
        self.target.ratio = Some(ratio);
        self
    }

    /// Floating-point operations, a multiply-add counted as two.
    pub fn flops(&self) -> f64 {
        2.0 * [self.batch, self.m, self.n, self.k]
            .map(|extent| extent as f64)
            .iter()
            .product::<f64>()
    }

    /// Elements of one A, B and D.
    pub fn elements(&self) -> [usize; 3] {
        let Self { batch, m, n, k, .. } = *self;
        [batch * m * k, batch * n * k, batch * m * n]
    }

    /// The least number of bytes that have to be moved: A and B are read once, D is written once.
    pub fn bytes(&self) -> u64 {
        let [a, b, d] = self.elements().map(|elements| elements as u64);
        let bytes = |dtype: DType| dtype.size_bytes() as u64;
        (a + b) * bytes(self.precision.input()) + d * bytes(self.precision.output())
    }

    /// Bytes of B, the weights of a layer.
    pub fn weight_bytes(&self) -> u64 {
        (self.elements()[1] * self.precision.input().size_bytes()) as u64
    }

    /// The GEMM in the form in which the peer gets it.
    pub fn problem(&self) -> Problem {
        Problem {
            m: self.m,
            n: self.n,
            k: self.k,
            batch: self.batch,
            trans_a: self.layout.trans_a(),
            trans_b: self.layout.trans_b(),
            input: self.precision.input(),
            output: self.precision.output(),
            arithmetic: self.precision.arithmetic(),
            epilogue: self.epilogue,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, m, n, k, .. } = *self;
        write!(f, "gemm/{}/{}/", self.precision.name(), self.layout.name())?;
        if self.epilogue == Epilogue::BiasGelu {
            f.write_str("bias_gelu/")?;
        }
        if self.beside == Beside::PlainOfOurs {
            f.write_str("over_plain/")?;
        }
        if batch > 1 {
            write!(f, "b{batch}_")?;
        }
        write!(f, "m{m}_n{n}_k{k}")
    }
}

/// Cases that are measured and judged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// bf16 and f16 squares, both operands with k innermost.
    Squares,
    /// The projections of an 8B and a 70B transformer, bf16, m from 128 to 16384.
    Llm,
    /// The same with m from 1 to 64: reading the weights is the bound.
    Decode,
    /// The other layouts, bf16.
    Transposes,
    /// e4m3 squares, with sums completed in f32 and without.
    Fp8,
    /// tf32 squares.
    Tf32,
    /// f32 in full precision.
    F32,
    /// f64: squares, a long k, and rows of odd lengths.
    F64,
    /// i8 with results in i32: squares, and layers with few rows and many.
    Int8,
    /// Bias and gelu, beside the library's and beside the plain product.
    Fused,
    /// Kernels without Hopper's instructions, beside Triton's and CUTLASS's (--triton, --cutlass).
    Ampere,
    /// 64 products of 512 × 512 × 512, bf16.
    Batch,
    /// Products of any extents: --seed, --products, --multiple-of, --precision, --layout.
    Random,
    /// Small ones of every type and layout, which the emulator gets through too.
    Tiny,
}

/// n and k of a transformer's projections: qkv, out, up (or gate), down.
const LAYERS: [[usize; 2]; 8] = [
    [6144, 4096],
    [4096, 4096],
    [14336, 4096],
    [4096, 14336],
    [10240, 8192],
    [8192, 8192],
    [28672, 8192],
    [8192, 28672],
];

/// Squares and transformer layers that show where the kernels for Ampere stand.
const AMPERE: [[usize; 3]; 5] = [
    [4096; 3],
    [8192; 3],
    [4096, 6144, 4096],
    [4096, 4096, 14336],
    [4096, 28672, 8192],
];

impl Set {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Squares => "squares",
            Self::Llm => "llm",
            Self::Decode => "decode",
            Self::Transposes => "transposes",
            Self::Fp8 => "fp8",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Int8 => "int8",
            Self::Fused => "fused",
            Self::Ampere => "ampere",
            Self::Batch => "batch",
            Self::Random => "random",
            Self::Tiny => "tiny",
        }
    }

    /// The target of the geometric mean of its ratios.
    pub fn geometric_mean(self) -> Option<f64> {
        match self {
            Self::Squares => Some(1.02),
            Self::Llm | Self::Fp8 => Some(1.00),
            _ => None,
        }
    }

    /// Its cases. The set `random` has none of its own: `Draw` makes them.
    pub fn cases(self) -> Vec<Case> {
        let case = |precision, extents| Case::new(self.name(), precision, extents);
        let layers = |rows: &[usize]| -> Vec<Case> {
            let of_rows = |&m: &usize| LAYERS.map(|[n, k]| case(Precision::Bf16, [m, n, k]));
            rows.iter().flat_map(of_rows).collect()
        };
        match self {
            Self::Squares => [Precision::Bf16, Precision::F16]
                .into_iter()
                .flat_map(|precision| {
                    [1024, 2048, 4096, 8192, 16384]
                        .map(|size| case(precision, [size; 3]).ratio(0.97))
                })
                .collect(),
            Self::Llm => layers(&[128, 1024, 4096, 16384])
                .into_iter()
                .map(|c| c.ratio(0.93))
                .collect(),
            Self::Decode => layers(&[1, 8, 16, 32, 64])
                .into_iter()
                .map(|mut case| {
                    case.target.or_share_of_copy = Some(0.9);
                    case.ratio(1.0)
                })
                .collect(),
            Self::Transposes => [Layout::Nn, Layout::Tn, Layout::Tt]
                .into_iter()
                .flat_map(|layout| {
                    [4096, 8192].map(|size| Case {
                        layout,
                        ..case(Precision::Bf16, [size; 3]).ratio(0.97)
                    })
                })
                .collect(),
            Self::F32 => vec![case(Precision::F32, [4096; 3]).ratio(0.95)],
            Self::F64 => [
                [1024; 3],
                [4096; 3],
                [8192; 3],
                [2048, 2048, 8192],
                [4095, 4097, 1000],
            ]
            .map(|extents| Case {
                layout: Layout::Nn,
                ..case(Precision::F64, extents)
            })
            .to_vec(),
            Self::Int8 => {
                let squares = [1024, 2048, 4096, 8192, 16384].map(|size| [size; 3]);
                let layers = [16, 128, 1024, 4096]
                    .into_iter()
                    .flat_map(|m| [[m, 4096, 4096], [m, 14_336, 4096]]);
                // The square of 4096 is a layer too.
                let layers = layers.filter(|extents| !squares.contains(extents));
                let all = squares.into_iter().chain(layers);
                all.map(|extents| case(Precision::Int8, extents)).collect()
            }
            Self::Fp8 => [Precision::E4m3, Precision::E4m3Fast]
                .into_iter()
                .flat_map(|precision| [4096, 8192, 16384].map(|size| case(precision, [size; 3])))
                .collect(),
            Self::Tf32 => [4096, 8192]
                .map(|size| case(Precision::Tf32, [size; 3]).ratio(0.97))
                .to_vec(),
            Self::Fused => [Precision::Bf16, Precision::E4m3, Precision::E4m3Fast]
                .into_iter()
                .flat_map(|precision| {
                    let fused = Case {
                        epilogue: Epilogue::BiasGelu,
                        ..case(precision, [8192, 8192, 4096])
                    };
                    let over_plain = Case {
                        beside: Beside::PlainOfOurs,
                        ..fused.ratio(1.0 / 1.03)
                    };
                    [fused.ratio(1.0), over_plain]
                })
                .collect(),
            Self::Ampere => [Precision::Bf16, Precision::F16]
                .into_iter()
                .flat_map(|precision| AMPERE.map(|extents| case(precision, extents)))
                .map(|case| Case {
                    beside: Beside::Ampere,
                    kernel: Some("gemm_mma"),
                    ..case.ratio(0.95)
                })
                .collect(),
            Self::Batch => vec![Case {
                batch: 64,
                ..case(Precision::Bf16, [512; 3]).ratio(1.0)
            }],
            Self::Random => Vec::new(),
            Self::Tiny => Precision::value_variants()
                .iter()
                .flat_map(|&precision| {
                    [Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt].map(|layout| Case {
                        layout,
                        ..case(precision, [96, 64, 80])
                    })
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_a_set_differ() {
        for &set in Set::value_variants() {
            let cases = set.cases();
            let names: BTreeSet<String> = cases.iter().map(ToString::to_string).collect();
            assert_eq!(names.len(), cases.len(), "{set:?}");
        }
    }

    #[test]
    fn sets_have_the_sizes_that_their_targets_are_stated_for() {
        let sizes =
            [Set::Squares, Set::Llm, Set::Decode, Set::Transposes].map(|set| set.cases().len());
        assert_eq!(sizes, [10, 32, 40, 6]);
        for set in [
            Set::Squares,
            Set::Llm,
            Set::Decode,
            Set::Transposes,
            Set::F32,
            Set::Batch,
        ] {
            assert!(
                set.cases().iter().all(|case| case.target.ratio.is_some()),
                "{set:?}"
            );
        }
    }

    #[test]
    fn a_case_counts_its_operations_and_bytes() {
        let case = Case {
            batch: 2,
            ..Case::new("s", Precision::Bf16, [3, 5, 7])
        };
        assert_eq!(case.to_string(), "gemm/bf16/nt/b2_m3_n5_k7");
        assert_eq!(case.flops(), 420.0);
        assert_eq!(case.bytes(), 2 * 2 * (21 + 35 + 15));
        assert_eq!(case.weight_bytes(), 2 * 2 * 35);
    }
}
