//! The kernels in which bugs are planted, and how each is launched.

use std::path::{Path, PathBuf};

use warpsmith_tests::values::Values;

use super::backward;
use super::backward_sink;
use super::backward_sm80;
use super::backward_sm90;
use super::hopper::{self, Product};
use super::paged;
use super::portable;
use super::problem::Problem;
use super::put;
use super::scatter;

/// A kernel and a launch of it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Path of its module from the root of the repository.
    pub(crate) file: &'static str,
    /// Name of the kernel in the module.
    kernel: &'static str,
    problem: fn() -> Problem,
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

pub(crate) const SUBJECTS: [Subject; 26] = [
    Subject {
        name: "gemm_plain",
        file: "tests/spike/gemm_plain.ptx",
        kernel: "gemm",
        problem: || PRODUCT.problem(),
    },
    Subject {
        name: "gemm_tma_store",
        file: "tests/spike/gemm_tma_store.ptx",
        kernel: "gemm",
        problem: || PRODUCT.problem(),
    },
    Subject {
        name: "gemm_cluster",
        file: "tests/spike/gemm_cluster.ptx",
        kernel: "gemm",
        problem: || {
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
        problem: || hopper::attend(384, 1),
    },
    Subject {
        name: "reduce",
        file: "tests/spike/reduce.ptx",
        kernel: "sum",
        problem: hopper::sum,
    },
    Subject {
        name: "gemm_simt_f32",
        file: "tests/mutations/gemm_simt_f32.ptx",
        kernel: "gemm_simt_f32_nn_64x64x16",
        problem: portable::product,
    },
    Subject {
        name: "softmax_f32",
        file: "tests/mutations/softmax_f32.ptx",
        kernel: "softmax_f32",
        problem: portable::softmax_rows,
    },
    Subject {
        name: "reduce_value_f32",
        file: "ptx/sm_75/reduce.ptx",
        kernel: "reduce_value_f32",
        problem: portable::sum_rows,
    },
    Subject {
        name: "copy_b32",
        file: "ptx/sm_75/elementwise.ptx",
        kernel: "copy_b32",
        problem: portable::copy,
    },
    Subject {
        name: "transpose_b32",
        file: "ptx/sm_75/elementwise.ptx",
        kernel: "transpose_b32",
        problem: portable::transposition,
    },
    Subject {
        name: "topk_f32",
        file: "ptx/sm_75/topk.ptx",
        kernel: "topk_f32",
        problem: portable::first_elements,
    },
    Subject {
        name: "take_b128",
        file: "ptx/sm_75/gather.ptx",
        kernel: "take_b128",
        problem: portable::selection,
    },
    Subject {
        name: "put_few_b128",
        file: "ptx/sm_75/gather.ptx",
        kernel: "put_few_b128",
        problem: put::few,
    },
    Subject {
        name: "put_b128",
        file: "ptx/sm_75/gather.ptx",
        kernel: "put_b128",
        problem: put::many,
    },
    Subject {
        name: "scatter_add_f32",
        file: "ptx/sm_75/scatter.ptx",
        kernel: "scatter_add_f32",
        problem: scatter::addition,
    },
    Subject {
        name: "scatter_few",
        file: "ptx/sm_75/scatter.ptx",
        kernel: "scatter_few",
        problem: scatter::few,
    },
    Subject {
        name: "scatter_sort",
        file: "ptx/sm_75/scatter.ptx",
        kernel: "scatter_sort",
        problem: scatter::sort,
    },
    Subject {
        name: "rotary_f32_f32_halves",
        file: "ptx/sm_75/rotary.ptx",
        kernel: "rotary_f32_f32_halves",
        problem: portable::rotation,
    },
    Subject {
        name: "attention_paged",
        file: "ptx/sm_75/attention.ptx",
        kernel: "flash_fwd_simt_d64",
        problem: paged::portable,
    },
    Subject {
        name: "attention_paged_decode",
        file: "ptx/sm_80/attention.ptx",
        kernel: "flash_decode_bf16_d64_m16",
        problem: paged::decoding,
    },
    Subject {
        name: "attention_backward",
        file: "ptx/sm_75/attention_backward.ptx",
        kernel: "attention_backward_simt_d64",
        problem: backward::of_keys,
    },
    Subject {
        name: "attention_backward_sink",
        file: "ptx/sm_75/attention_backward.ptx",
        kernel: "attention_backward_sink_simt",
        problem: backward_sink::of_heads,
    },
    Subject {
        name: "attention_backward_sm80",
        file: "ptx/sm_80/attention_backward.ptx",
        kernel: "attention_backward_sm80_bf16_d64_dkdv",
        problem: backward_sm80::of_keys,
    },
    Subject {
        name: "attention_backward_sm90",
        file: "ptx/sm_90a/attention_backward.ptx",
        kernel: "attention_backward_sm90_bf16_d64_128x128",
        problem: backward_sm90::of_queries_and_keys,
    },
    Subject {
        name: "grouped_gemm_f32",
        file: "ptx/sm_75/gemm.ptx",
        kernel: "grouped_gemm_simt_f32_64x64x16",
        problem: || portable::grouped_product(&[-5, 20, 90, 85, 130, 130]),
    },
    Subject {
        name: "grouped_gemm_f32_beyond",
        file: "ptx/sm_75/gemm.ptx",
        kernel: "grouped_gemm_simt_f32_64x64x16",
        problem: || portable::grouped_product(&[70, 70, i32::MAX]),
    },
];

impl Subject {
    pub(crate) fn named(name: &str) -> &'static Self {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name);
        subject.unwrap_or_else(|| panic!("no kernel is called `{name}`"))
    }

    pub(crate) fn problem(&self) -> Problem {
        (self.problem)()
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
        depth += i32::from(line == "{") - i32::from(line == "}");
        if line == "}" && depth == 0 {
            is_other = false;
        }
    }
    out
}
