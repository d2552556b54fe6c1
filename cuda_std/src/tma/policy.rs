//! L2 cache policies, the operands of `.L2::cache_hint`.

/// An opaque 64-bit cache policy: the eviction priority in L2 of the lines that an access touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CachePolicy(u64);

impl CachePolicy {
    /// The policy with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

macro_rules! fractional {
    ($($name:ident = $priority:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`createpolicy.fractional.", $priority, ".b64 policy, fraction`: ", $doc)]
        /// The rest is kept as usual.
        ///
        /// *Scope*: thread. *Since*: PTX 7.4, sm_80.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name(fraction: f32) -> CachePolicy {
            on_device!("tma::createpolicy_fractional", (fraction), {
                let policy: u64;
                // SAFETY: computes a value.
                unsafe {
                    core::arch::asm!(
                        concat!("createpolicy.fractional.", $priority, ".b64 {}, {};"),
                        out(reg64) policy, in(reg32) fraction, options(pure, nomem, nostack));
                }
                CachePolicy(policy)
            })
        }
    )*};
}

fractional! {
    createpolicy_fractional_l2_evict_last = "L2::evict_last",
        "a fraction (above 0, at most 1) of the accesses is evicted last.";
    createpolicy_fractional_l2_evict_normal = "L2::evict_normal",
        "a fraction (above 0, at most 1) of the accesses is evicted as usual.";
    createpolicy_fractional_l2_evict_first = "L2::evict_first",
        "a fraction (above 0, at most 1) of the accesses is evicted first.";
    createpolicy_fractional_l2_evict_unchanged = "L2::evict_unchanged",
        "a fraction (above 0, at most 1) of the accesses leaves the order as it is.";
}

macro_rules! range {
    ($($name:ident = $priorities:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`createpolicy.range.global.", $priorities, ".b64`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 7.4, sm_80.
        ///
        /// # Safety
        /// `base` is an address in global memory; `primary_bytes <= total_bytes`.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<T>(base: *const T, primary_bytes: u32, total_bytes: u32) -> CachePolicy {
            on_device!("tma::createpolicy_range", (base, primary_bytes, total_bytes), {
                let policy: u64;
                // SAFETY: computes a value of an address.
                unsafe {
                    core::arch::asm!(
                        concat!("createpolicy.range.global.", $priorities, ".b64 {}, [{}], {}, {};"),
                        out(reg64) policy, in(reg64) base, in(reg32) primary_bytes,
                        in(reg32) total_bytes, options(pure, nomem, nostack));
                }
                CachePolicy(policy)
            })
        }
    )*};
}

range! {
    createpolicy_range_l2_evict_last_l2_evict_first = "L2::evict_last.L2::evict_first",
        "the first `primary_bytes` at `base` are evicted last, the rest of `total_bytes` first.";
    createpolicy_range_l2_evict_last = "L2::evict_last",
        "the first `primary_bytes` at `base` are evicted last.";
}
