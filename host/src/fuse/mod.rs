//! Kernels composed at run time: a skeleton's holes, filled with fragments.
//!
//! What a chain of functions is, is known when it is launched. To interpret it costs instructions; a
//! kernel for every chain there may be cannot be built. So kernels are put together here, as text:
//!
//! 1. A **fragment** is a Rust function of registers, `#[cuda_std::fragment]`, compiled to a PTX
//!    `.func`: `f32_exp` is `cuda_std::math::exp`. [`Fragment`] takes its instructions out.
//! 2. A **skeleton** is a Rust kernel with **holes** (`cuda_std::hole!`, lines of PTX that end in
//!    `// hole name outputs <- inputs`), compiled like any other. [`Skeleton`] finds them.
//! 3. Whoever composes says what goes into each hole: a [`Filling`], mostly a [`Body`] of fragments
//!    applied to each other's results. [`Skeleton::compose`] writes the text: each fragment becomes a
//!    scope `{ .. }`, whose registers and labels are its own; arguments and results are `mov`s, which
//!    ptxas removes. Nothing is called.
//! 4. [`Device::load_ptx`](crate::Device::load_ptx) loads the text; operations keep the kernel by a
//!    key that says what was composed. Numbers that change from launch to launch are
//!    [`Body::param`]s, read from the launch's parameters, and no part of the key.
//!
//! The composed text holds the one skeleton, the fragments and the constants that these name, so a
//! driver compiles kilobytes. GPU and emulator load the same text.
//!
//! ```text
//! mov.b32 %r2,0; // hole value %r2 <- %r1        { // value
//!                                                .reg .b32 $w<2>;
//!                                                mov.b32 $w0,%r1;
//!                                                { // f32_relu
//!                                         ->     .reg .b32 %r<3>; ..
//!                                                mov.b32 %r1,$w0;
//!                                                max.f32 %r2,%r1,0f00000000;
//!                                                mov.b32 $w1,%r2;
//!                                                }
//!                                                mov.b32 %r2,$w1;
//!                                                }
//! ```

mod body;
mod cache;
mod error;
mod fragment;
mod library;
mod skeleton;
mod text;

pub use body::{Body, Filling, Value};
pub(crate) use cache::Cache;
pub use error::FuseError;
pub use fragment::{Fragment, Scalar};
pub(crate) use library::{builtin_fragment, builtin_skeleton};
pub use skeleton::Skeleton;

#[cfg(test)]
mod tests;
