//! Kernels with variables that the host reads and writes.

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::Global;
use cuda_std::prelude::*;

/// How many elements [`polynomial`] has computed.
#[unsafe(no_mangle)]
pub static COMPUTED: AtomicU32 = AtomicU32::new(0);

/// What is added to each element.
#[unsafe(no_mangle)]
pub static OFFSET: Global<f32> = Global::new(0.5);

/// Coefficients of the polynomial, that of the highest power first.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "nvptx64", unsafe(link_section = ".constant"))]
pub static COEFFICIENTS: Global<[f32; 4]> = Global::new([0.0, 0.0, 1.0, 0.0]);

/// `y = c0 x^3 + c1 x^2 + c2 x + c3 + offset`.
#[kernel(requires = "x.len() == y.len()", grid = "y")]
pub fn polynomial(x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
    let i = Index1::here();
    if let Some(y) = y.get_mut(&i) {
        let mut sum = 0.0;
        for k in 0..4 {
            sum = math::fma(sum, x[i.get()], COEFFICIENTS.at(k));
        }
        *y = sum + OFFSET.get();
        COMPUTED.fetch_add(1, Ordering::Relaxed);
    }
}
