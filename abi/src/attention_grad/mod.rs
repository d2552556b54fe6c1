//! Gradients of [`attention`](crate::attention): `dq`, `dk` and `dv` from q, k, v, o, lse and d_o.
//!
//! With S the scaled scores, P = exp(S - lse) and delta the sums of `o * d_o` along head_dim_v:
//!
//! ```text
//! dV = P^T dO      dP = dO V^T      dS = P * (dP - delta)
//! dQ = softmax_scale * dS K         dK = softmax_scale * dS^T Q
//! ```
//!
//! A softcap c multiplies dS by `1 - (S / c)^2`. The dk and dv of a key head are sums over the
//! query heads that share it. A query whose lse is -inf (it saw no key) contributes nothing, and
//! its dq is
//! 0. The gradient of a sink is that of a key without a value, whose dP is 0: `-sum exp(sink - lse)
//! * delta` over all queries of its head.
//!
//! | file | what |
//! |---|---|
//! | `params` | extents, strides and scalars of a launch; grids |
//! | `simt` | the portable kernels |
//! | [`sink`] | the kernel of the sinks' gradients |
//! | [`sm80`] | kernels by `mma.sync` |
//! | [`sm90`] | kernels by TMA and `wgmma` |
//! | [`order`] | of these, which tiles of queries a block of keys visits, and when it adds to dq |
//! | [`sums`] | of these, sums of gradients in device memory |
//!
//! Nothing here panics, for any values.

pub mod order;
mod params;
mod simt;
pub mod sink;
pub mod sm80;
pub mod sm90;
pub mod sums;

pub use params::AttentionGradParams;
pub use simt::{DELTA_ENTRY, DELTA_TILE, SimtGradEntry, SimtGradLaunch};
