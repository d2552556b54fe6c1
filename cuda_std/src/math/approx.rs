//! The hardware's approximate instructions: fast, one PTX instruction each. Different GPUs may give
//! different last bits.
//!
//! Subnormals are kept, except by the functions named `_ftz` and where the instruction itself
//! flushes them. Errors are those that the PTX manual states. *Scope*: thread. *Since*: PTX 1.4,
//! sm_10, unless the function says otherwise.

macro_rules! approximations {
    ($($name:ident = $instruction:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name(x: f32) -> f32 {
            on_device!("math::approx", (x), {
                let y: f32;
                // SAFETY: one arithmetic instruction on registers.
                unsafe {
                    core::arch::asm!(concat!($instruction, " {}, {};"), out(reg32) y,
                        in(reg32) x, options(pure, nomem, nostack));
                }
                y
            })
        }
    )*};
}

approximations! {
    ex2_approx = "ex2.approx.f32", "2^x, relative error 2^-22.";
    lg2_approx = "lg2.approx.f32", "log2 x, relative error 2^-22.";
    rcp_approx = "rcp.approx.f32", "1 / x, 1 ulp.";
    rsqrt_approx = "rsqrt.approx.f32", "1 / √x, relative error 2^-22.9.";
    sqrt_approx = "sqrt.approx.f32", "√x, relative error 2^-23.";
    sin_approx = "sin.approx.f32", "sin x, absolute error 2^-20.5 for |x| ≤ 2π.";
    cos_approx = "cos.approx.f32", "cos x, absolute error 2^-20.5 for |x| ≤ 2π.";
    ex2_approx_ftz = "ex2.approx.ftz.f32", "2^x, relative error 2^-22. Subnormals are 0, which spares \
        the three instructions around it that scale them.";
    rcp_approx_ftz = "rcp.approx.ftz.f32", "1 / x, 1 ulp. Subnormals are 0, which spares the six \
        instructions around it that scale them.";
    lg2_approx_ftz = "lg2.approx.ftz.f32", "log2 x, relative error 2^-22. Subnormals are 0, which spares \
        the three instructions around it that scale them.";
    tanh_approx = "tanh.approx.f32", "tanh x, relative error 2^-11. *Since*: PTX 7.0, sm_75.";
}

/// e^x by [`ex2_approx`].
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn exp_approx(x: f32) -> f32 {
    ex2_approx(x * core::f32::consts::LOG2_E)
}

/// ln x by [`lg2_approx`].
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn log_approx(x: f32) -> f32 {
    lg2_approx(x) * core::f32::consts::LN_2
}
