//! Constants of the cost model that were fitted to measurements.

use crate::ops::plan::costs;

costs! {
    /// Gradients of attention.
    AttentionGradCosts {
        /// Speed of the portable kernels: half the peak of 128 lanes, of which two in seven go to
        /// products that are computed twice.
        simt_flops: f64 = 90.0,
        /// Speed by `mma.sync`: half of the tensor cores' peak on sm_80, of which two in seven go to
        /// products that are computed twice.
        sm80_flops: f64 = 700.0,
        /// Speed by `wgmma`.
        sm90_flops: f64 = 2000.0,
    }
}
