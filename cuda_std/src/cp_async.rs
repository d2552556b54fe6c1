//! Ampere's asynchronous copies from global to shared memory (`cp.async`), 4 to 16 bytes per
//! thread.
//!
//! A thread waits for its own copies, either by groups, which complete oldest first, or through an
//! mbarrier. The wait for a group makes them visible to the thread that issued them; other threads
//! see them after that wait and a barrier. The copies are of the generic proxy.

use crate::mbarrier::Mbarrier;
use crate::shared::SharedAddr;
use crate::tma::CachePolicy;

macro_rules! copies {
    ($($name:ident($($extra:ident: $ty:ty = $reg:ident $value:expr),*) = $instruction:literal,
        $bytes:literal, $tail:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, " [dst], [src], ", $bytes, $tail, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 7.4, sm_80.
        ///
        /// # Safety
        #[doc = concat!("Both addresses are multiples of ", $bytes, ".")]
        /// The bytes to be read are in global memory, and nobody writes them nor uses those at
        /// `dst` before the copy has been waited for. `src_size` is at most the size.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<T>(dst: SharedAddr, src: *const T $(, $extra: $ty)*) {
            on_device!("cp_async", (dst, src $(, $extra)*), {
                // SAFETY: the caller's memory is there, and free for it.
                unsafe {
                    core::arch::asm!(
                        concat!($instruction, " [{dst}], [{src}], ", $bytes, $tail, ";"),
                        dst = in(reg32) dst.bits(), src = in(reg64) src,
                        $($extra = in($reg) $value,)* options(nostack));
                }
            })
        }
    )*};
}

copies! {
    cp_async_ca_4() = "cp.async.ca.shared.global", "4", "", "through L1.";
    cp_async_ca_8() = "cp.async.ca.shared.global", "8", "", "through L1.";
    cp_async_ca_16() = "cp.async.ca.shared.global", "16", "", "through L1.";
    cp_async_cg_16() = "cp.async.cg.shared.global", "16", "", "past L1.";
    cp_async_ca_4_src_size(src_size: u32 = reg32 src_size) = "cp.async.ca.shared.global", "4",
        ", {src_size}", "reads `src_size` bytes only, the rest becomes 0.";
    cp_async_ca_8_src_size(src_size: u32 = reg32 src_size) = "cp.async.ca.shared.global", "8",
        ", {src_size}", "reads `src_size` bytes only, the rest becomes 0.";
    cp_async_ca_16_src_size(src_size: u32 = reg32 src_size) = "cp.async.ca.shared.global", "16",
        ", {src_size}", "reads `src_size` bytes only, the rest becomes 0.";
    cp_async_cg_16_src_size(src_size: u32 = reg32 src_size) = "cp.async.cg.shared.global", "16",
        ", {src_size}", "reads `src_size` bytes only, the rest becomes 0.";
    cp_async_cg_l2_128b_16() = "cp.async.cg.shared.global.L2::128B", "16", "",
        "past L1; brings the 128 bytes around into L2.";
    cp_async_cg_l2_128b_16_src_size(src_size: u32 = reg32 src_size) =
        "cp.async.cg.shared.global.L2::128B", "16", ", {src_size}",
        "the same; reads `src_size` bytes only, the rest becomes 0.";
    cp_async_cg_l2_cache_hint_16(policy: CachePolicy = reg64 policy.bits()) =
        "cp.async.cg.shared.global.L2::cache_hint", "16", ", {policy}",
        "past L1, and in L2 by the policy.";
}

/// `@predicate cp.async.cg.shared.global.L2::128B [dst], [src], 16, src_size`: copies 16 bytes,
/// bypassing L1 and prefetching the surrounding 128 bytes into L2. It reads only `src_size` bytes
/// and fills the rest with zeros. Where `predicate` is false it does nothing; there is no branch.
///
/// *Scope*: thread. *Since*: PTX 7.4, sm_80.
///
/// # Safety
/// As for [`cp_async_cg_l2_128b_16_src_size`] where `predicate` is true.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn cp_async_cg_l2_128b_16_src_size_if<T>(
    predicate: bool,
    dst: SharedAddr,
    src: *const T,
    src_size: u32,
) {
    on_device!("cp_async", (predicate, dst, src, src_size), {
        // SAFETY: the caller's memory is there, and free for it.
        unsafe {
            core::arch::asm!(
                "{{",
                ".reg .pred copied;",
                "setp.ne.u32 copied, {predicate}, 0;",
                "@copied cp.async.cg.shared.global.L2::128B [{dst}], [{src}], 16, {src_size};",
                "}}",
                predicate = in(reg32) u32::from(predicate), dst = in(reg32) dst.bits(),
                src = in(reg64) src, src_size = in(reg32) src_size, options(nostack));
        }
    })
}

macro_rules! groups {
    ($($name:ident $(<const $n:ident>)? = $instruction:literal $operand:literal, $doc:literal;)*)
        => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 7.0, sm_80.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name$(<const $n: u32>)?() {
            on_device!("cp_async", (), {
                // SAFETY: touches nothing but what the thread's copies are to write.
                unsafe {
                    core::arch::asm!(concat!($instruction, $operand, ";"), $(const $n,)?
                        options(nostack));
                }
            })
        }
    )*};
}

groups! {
    cp_async_commit_group = "cp.async.commit_group" "",
        "the thread's copies since the last one are a group, empty or not.";
    cp_async_wait_group<const N> = "cp.async.wait_group" " {}",
        "waits until at most `N` of the thread's groups are on their way, the latest.";
    cp_async_wait_all = "cp.async.wait_all" "", "waits for all of the thread's copies.";
}

macro_rules! arrivals {
    ($($name:ident = $instruction:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// *Scope*: thread. *Since*: PTX 7.0, sm_80.
        ///
        /// # Safety
        /// The barrier is initialised and counts this arrival.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(barrier: Mbarrier) {
            on_device!("cp_async", (barrier), {
                // SAFETY: the caller's barrier is one.
                unsafe {
                    core::arch::asm!(concat!($instruction, " [{}];"),
                        in(reg32) barrier.addr().bits(), options(nostack));
                }
            })
        }
    )*};
}

arrivals! {
    cp_async_mbarrier_arrive = "cp.async.mbarrier.arrive.shared.b64",
        "the barrier expects one arrival more, and gets it when the thread's copies so far have \
         landed.";
    cp_async_mbarrier_arrive_noinc = "cp.async.mbarrier.arrive.noinc.shared.b64",
        "arrives, as one of those that `init` counted, when the thread's copies so far have \
         landed.";
}
