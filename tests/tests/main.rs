//! The tests of several crates together, a module for each subject. They are one program: it is
//! linked once, and its tests share all cores until the last one ends.
//! `cargo test -p warpsmith-tests softmax::` runs one module.
//!
//! `large` is a program of its own, because its tests take most of a GPU's memory.

mod attention;
mod attention_grad;
mod batch_invariance;
mod cross_entropy;
mod device_instructions;
mod device_std;
mod device_tensor_cores;
mod device_warps;
mod differential;
mod elementwise;
mod gemm;
mod gemm_kernels;
mod gemm_tuning;
mod grouped;
mod grouped_sm90;
mod import_table;
mod indices;
mod kernels_page;
mod kv_cache;
mod library;
mod lines_of_code;
mod mutations;
mod norm_ring;
mod norms;
mod reduce;
mod refusals;
mod rotary;
mod row_plans;
mod rows_counters;
mod same_bits;
mod scan;
mod scatter;
mod scatter_add;
mod soft_labels;
mod softmax;
mod sort;
mod streaming;
mod take;
mod threads;
mod topk;
mod tuning;
