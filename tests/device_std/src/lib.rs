//! Kernels that exercise cuda_std. Each writes what it saw, one u32 or f32 a thread and question;
//! the test beside this crate knows the answers.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod ampere;
pub mod atomics;
pub mod barriers;
pub mod core_atomics;
pub mod floats;
pub mod hopper;
pub mod instructions;
pub mod memory;
pub mod output;
pub mod roles;
pub mod warps;
