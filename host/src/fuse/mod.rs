//! Composes kernels at run time, as PTX text: the holes of a skeleton are filled with fragments.
//!
//! A chain of elementwise functions is known only when it is launched. An interpreter on the device
//! would cost instructions, and there are too many chains to build a kernel for each in advance. So
//! kernels are assembled here from parts that were compiled in advance:
//!
//! 1. A **fragment** is a Rust function that works on registers only, marked
//!    `#[cuda_std::fragment]` and compiled to a PTX `.func`: `f32_exp` is `cuda_std::math::exp`.
//!    [`Fragment`] extracts its instructions.
//! 2. A **skeleton** is a Rust kernel with **holes**: `cuda_std::hole!` compiles to a PTX line that
//!    ends in `// hole name outputs <- inputs`. [`Skeleton`] finds them.
//! 3. The caller decides what goes into each hole: a [`Filling`], mostly a [`Body`] of fragments
//!    applied to each other's results. [`Skeleton::compose`] writes the text. Each fragment is
//!    inlined as a scope `{ .. }` with its own registers and labels. Arguments and results are
//!    passed with `mov`s, which ptxas removes.
//! 4. [`Device::load_ptx`](crate::Device::load_ptx) loads the text. Operations load it as they load
//!    embedded kernels, with the same edits, and cache the kernel under a key that describes the
//!    composition. Numbers that may change from launch to launch are
//!    [`Body::param`]s: they are read from the kernel's parameters and are not part of the key.
//!
//! The composed text contains only one skeleton and the fragments and constants that it uses, so
//! the driver compiles a few kilobytes. A GPU and the emulator load the same text.
//!
//! ```text
//! mov.b32 %r2, 0; // hole value %r2 <- %r1       { // value
//!                                                .reg .b32 $w<2>;
//!                                                mov.b32 $w0,%r1;
//!                                                { // f32_relu
//!                                         ->     .reg .b32 %r<3>; ..
//!                                                mov.b32 %r1,$w0;
//!                                                max.f32 %r2, %r1, 0f00000000;
//!                                                mov.b32 $w1,%r2;
//!                                                }
//!                                                mov.b32 %r2,$w1;
//!                                                }
//! ```

mod body;
mod error;
mod fragment;
mod library;
mod skeleton;
mod text;

pub use body::{Body, Filling, Value};
pub use error::FuseError;
pub use fragment::{Fragment, Scalar};
pub(crate) use library::{builtin_fragment, builtin_skeleton};
pub use skeleton::Skeleton;

#[cfg(test)]
mod tests;
