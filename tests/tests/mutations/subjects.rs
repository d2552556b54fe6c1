//! The kernels in which bugs are planted, and how each is launched.

use std::path::{Path, PathBuf};

use warpsmith_tests::values::Values;

use super::hopper::{self, Product};
use super::library;
use super::problem::Problem;

/// A kernel and a launch of it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Path of its module from the root of the repository.
    pub(crate) file: &'static str,
    /// Name of the kernel in the module.
    kernel: &'static str,
    problem: fn(&'static str) -> Problem,
}

/// With these extents one block computes two tiles, and goes through the ring of stages three
/// times.
const PRODUCT: Product = Product {
    m: 256,
    n: 256,
    k: 384,
    blocks: 1,
    cluster: 1,
    values: Values::Integers,
};

pub(crate) const SUBJECTS: [Subject; 27] = [
    Subject {
        name: "gemm_plain",
        file: "tests/spike/gemm_plain.ptx",
        kernel: "gemm",
        problem: |_| PRODUCT.problem(),
    },
    Subject {
        name: "gemm_tma_store",
        file: "tests/spike/gemm_tma_store.ptx",
        kernel: "gemm",
        problem: |_| PRODUCT.problem(),
    },
    Subject {
        name: "gemm_cluster",
        file: "tests/spike/gemm_cluster.ptx",
        kernel: "gemm",
        problem: |_| {
            let product = Product {
                m: 512,
                blocks: 2,
                cluster: 2,
                ..PRODUCT
            };
            product.problem()
        },
    },
    Subject {
        name: "attention",
        file: "tests/spike/attention.ptx",
        kernel: "fa",
        problem: |_| hopper::attend(384, 1),
    },
    Subject {
        name: "reduce",
        file: "tests/spike/reduce.ptx",
        kernel: "sum",
        problem: |_| hopper::sum(),
    },
    Subject {
        name: "gemm_simt_f32",
        file: "tests/mutations/gemm_simt_f32.ptx",
        kernel: "gemm_simt_f32_nn_64x64x16",
        problem: |_| hopper::portable(),
    },
    Subject {
        name: "softmax_f32",
        file: "tests/mutations/softmax_f32.ptx",
        kernel: "softmax_f32",
        problem: |_| hopper::softmax(),
    },
    Subject {
        name: "reduce_value_f32",
        file: "ptx/sm_75/reduce.ptx",
        kernel: "reduce_value_f32",
        problem: |entry| Problem::of(entry, (7, 5), library::sums).in_one_block(),
    },
    Subject {
        name: "copy_b32",
        file: "ptx/sm_75/elementwise.ptx",
        kernel: "copy_b32",
        problem: |entry| Problem::of(entry, (7, 5), library::copy),
    },
    Subject {
        name: "transpose_b32",
        file: "ptx/sm_75/elementwise.ptx",
        kernel: "transpose_b32",
        problem: |entry| Problem::of(entry, (7, 5), library::transposition),
    },
    Subject {
        name: "sort_u32_pass",
        file: "ptx/sm_75/sort.ptx",
        kernel: "sort_u32_pass",
        problem: |entry| Problem::of(entry, (7, 5), library::sorted),
    },
    Subject {
        name: "topk_f32",
        file: "ptx/sm_75/topk.ptx",
        kernel: "topk_f32",
        problem: |entry| Problem::of(entry, (7, 5), library::first),
    },
    Subject {
        name: "take_b128",
        file: "ptx/sm_75/gather.ptx",
        kernel: "take_b128",
        problem: |entry| Problem::of(entry, (7, 5), library::selection),
    },
    Subject {
        name: "scatter_few_b128",
        file: "ptx/sm_75/gather.ptx",
        kernel: "scatter_few_b128",
        problem: |entry| Problem::of(entry, (7, 5), library::scatter_few),
    },
    Subject {
        name: "scatter_b128",
        file: "ptx/sm_75/gather.ptx",
        kernel: "scatter_b128",
        problem: |entry| Problem::of(entry, (7, 5), library::put_many),
    },
    Subject {
        name: "scatter_add_f32",
        file: "ptx/sm_75/scatter_add.ptx",
        kernel: "scatter_add_f32",
        problem: |entry| Problem::of(entry, (7, 5), library::addition),
    },
    Subject {
        name: "scatter_add_few",
        file: "ptx/sm_75/scatter_add.ptx",
        kernel: "scatter_add_few",
        problem: |entry| Problem::of(entry, (7, 5), library::addition_of_few),
    },
    Subject {
        name: "scatter_add_sort",
        file: "ptx/sm_75/scatter_add.ptx",
        kernel: "scatter_add_sort",
        problem: |entry| Problem::of(entry, (7, 5), library::sort),
    },
    Subject {
        name: "rotary_f32_f32_halves",
        file: "ptx/sm_75/rotary.ptx",
        kernel: "rotary_f32_f32_halves",
        problem: |entry| Problem::of(entry, (7, 5), library::rotation),
    },
    Subject {
        name: "attention_paged",
        file: "ptx/sm_75/attention.ptx",
        kernel: "flash_fwd_simt_d64",
        problem: |entry| Problem::of(entry, (7, 5), library::paged_f32),
    },
    Subject {
        name: "attention_paged_decode",
        file: "ptx/sm_80/attention.ptx",
        kernel: "flash_decode_sm80_bf16_d64_m16",
        problem: |entry| Problem::of(entry, (8, 0), library::paged_decode),
    },
    Subject {
        name: "attention_grad",
        file: "ptx/sm_75/attention_grad.ptx",
        kernel: "attention_grad_simt_d64",
        problem: |entry| Problem::of(entry, (7, 5), library::gradients_f32),
    },
    Subject {
        name: "attention_grad_sink",
        file: "ptx/sm_75/attention_grad.ptx",
        kernel: "attention_grad_simt_sink",
        problem: |entry| Problem::of(entry, (7, 5), library::sinks),
    },
    Subject {
        name: "attention_grad_sm80",
        file: "ptx/sm_80/attention_grad.ptx",
        kernel: "attention_grad_sm80_bf16_d64_dkdv",
        problem: |entry| Problem::of(entry, (8, 0), library::gradients_sm80),
    },
    Subject {
        name: "attention_grad_sm90",
        file: "ptx/sm_90a/attention_grad.ptx",
        kernel: "attention_grad_sm90_bf16_d64_128x128",
        problem: |entry| Problem::of(entry, (9, 0), library::gradients_sm90),
    },
    Subject {
        name: "grouped_gemm_f32",
        file: "ptx/sm_75/gemm.ptx",
        kernel: "gemm_grouped_simt_f32_64x64x16",
        problem: |entry| Problem::of(entry, (7, 5), library::grouped_product),
    },
    Subject {
        name: "grouped_gemm_f32_beyond",
        file: "ptx/sm_75/gemm.ptx",
        kernel: "gemm_grouped_simt_f32_64x64x16",
        problem: |entry| Problem::of(entry, (7, 5), library::grouped_beyond),
    },
];

impl Subject {
    pub(crate) fn named(name: &str) -> &'static Self {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name);
        subject.unwrap_or_else(|| panic!("no kernel is called `{name}`"))
    }

    pub(crate) fn problem(&self) -> Problem {
        (self.problem)(self.kernel)
    }

    /// The module's text with this kernel only. The lines of other kernels are blank, so that line
    /// numbers stay the same.
    pub(crate) fn text(&self) -> String {
        let path = root().join(self.file);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        only_entry(&text, self.kernel)
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn only_entry(text: &str, kernel: &str) -> String {
    let wanted = format!(".visible .entry {kernel}(");
    // Instructions of inline assembly are in braces of their own.
    let (mut is_other, mut depth) = (false, 0);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if line.starts_with(".visible .entry ") {
            is_other = !line.starts_with(&wanted);
        }
        if !is_other {
            out += line;
        }
        out.push('\n');
        let brace = line.trim();
        depth += i32::from(brace == "{") - i32::from(brace == "}");
        if line == "}" && depth == 0 {
            is_other = false;
        }
    }
    out
}
