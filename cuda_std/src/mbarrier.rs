//! mbarriers: barriers in shared memory that count arrivals and the transaction bytes of
//! asynchronous copies.
//!
//! - **Phases.** The current phase completes when the pending arrival count is 0 and the
//!   transaction count (bytes expected and not yet copied) is 0. The next phase then begins with
//!   the arrival count that [`Mbarrier::init`] set, less one for each
//!   [`arrive_drop`](Mbarrier::arrive_drop).
//! - **Parity.** Phases are numbered from 0; the parity is the number modulo 2. A wait for a parity
//!   returns when the current phase has the other parity, that is, when the last phase of that
//!   parity has completed. A fresh barrier is in phase 0, so a wait for parity 1 returns at once.
//! - **Transaction bytes.** An `expect_tx` adds to the transaction count, and an asynchronous copy
//!   subtracts the bytes that it has written.
//! - **Ordering.** An arrival has release semantics and a successful wait acquire semantics, at
//!   block scope unless the function's name says `cluster` (`expect_tx` and `complete_tx` alone are
//!   relaxed). A successful wait also makes the bytes that copies of the phase wrote visible to the
//!   waiting thread.

use crate::shared::{ClusterAddr, SharedAddr};

/// The state that [`Mbarrier::arrive_state`] returns: it identifies the phase of the arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct MbarrierState(u64);

/// An mbarrier in the block's own shared memory: 8 bytes, aligned to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Mbarrier(SharedAddr);

/// An mbarrier in the shared memory of any block of the cluster. It can be arrived at, but not
/// waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct RemoteMbarrier(ClusterAddr);

impl Mbarrier {
    /// The barrier at `address`, a multiple of 8.
    #[inline(always)]
    pub const fn at(address: SharedAddr) -> Self {
        Self(address)
    }

    /// Its address.
    #[inline(always)]
    pub const fn addr(self) -> SharedAddr {
        self.0
    }

    /// The barrier at the same offset in the shared memory of the block of rank `rank`
    /// ([`crate::cluster::mapa_shared_cluster`]).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn of_rank(self, rank: u32) -> RemoteMbarrier {
        RemoteMbarrier(crate::cluster::mapa_shared_cluster(self.0, rank))
    }
}

impl RemoteMbarrier {
    /// The barrier at `address`, a multiple of 8.
    #[inline(always)]
    pub const fn at(address: ClusterAddr) -> Self {
        Self(address)
    }

    /// Its address.
    #[inline(always)]
    pub const fn addr(self) -> ClusterAddr {
        self.0
    }
}

macro_rules! signals {
    ($target:ident: $($name:ident($($operand:ident),*) = $instruction:literal, $operands:literal,
        $since:literal, $doc:literal;)*) => {
        /// Arrivals and counts.
        impl $target {$(
            #[doc = concat!("`", $instruction, "`: ", $doc)]
            ///
            #[doc = concat!("*Scope*: thread. *Since*: ", $since, ".")]
            ///
            /// # Safety
            /// The barrier is initialised (`init`: the memory is free for it and nobody uses it
            /// meanwhile), in a block that has not exited. Neither its arrivals nor its bytes go
            /// beyond what the phase still expects.
            ///
            /// # Panics
            /// On the host.
            #[inline(always)]
            pub unsafe fn $name(self $(, $operand: u32)*) {
                on_device!("mbarrier", (self $(, $operand)*), {
                    // SAFETY: the caller's barrier is one.
                    unsafe {
                        core::arch::asm!(concat!($instruction, " ", $operands, ";"),
                            bar = in(reg32) self.0.bits(), $($operand = in(reg32) $operand,)*
                            options(nostack));
                    }
                })
            }
        )*}
    };
}

signals! { Mbarrier:
    init(count) = "mbarrier.init.shared::cta.b64", "[{bar}], {count}", "PTX 7.0, sm_80",
        "makes a barrier for `count` arrivals a phase. Others see it after a barrier of the \
         block; the async proxy and the cluster after `fence_mbarrier_init_release_cluster` too.";
    inval() = "mbarrier.inval.shared::cta.b64", "[{bar}]", "PTX 7.0, sm_80",
        "the memory is free for other things.";
    arrive() = "mbarrier.arrive.shared::cta.b64", "_, [{bar}]", "PTX 7.0, sm_80",
        "one arrival; releases what the thread did before to those that wait.";
    arrive_count(count) = "mbarrier.arrive.shared::cta.b64", "_, [{bar}], {count}",
        "PTX 7.8, sm_90", "`count` arrivals at once.";
    arrive_expect_tx(bytes) = "mbarrier.arrive.expect_tx.shared::cta.b64",
        "_, [{bar}], {bytes}", "PTX 8.0, sm_90",
        "expects `bytes` more in this phase, then one arrival.";
    arrive_drop() = "mbarrier.arrive_drop.shared::cta.b64", "_, [{bar}]", "PTX 7.1, sm_80",
        "one arrival, and one fewer expected in all later phases.";
    expect_tx(bytes) = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", "[{bar}], {bytes}",
        "PTX 8.0, sm_90", "expects `bytes` more in this phase.";
    complete_tx(bytes) = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64",
        "[{bar}], {bytes}", "PTX 8.0, sm_90",
        "counts `bytes` as come, as a copy does when it lands; copies nothing.";
}

signals! { RemoteMbarrier:
    arrive() = "mbarrier.arrive.shared::cluster.b64", "_, [{bar}]", "PTX 8.0, sm_90",
        "one arrival; orders nothing beyond the block: enough where the block only read by wgmma.";
    arrive_release_cluster() = "mbarrier.arrive.release.cluster.shared::cluster.b64",
        "_, [{bar}]", "PTX 8.0, sm_90",
        "one arrival; releases what the thread did before to the cluster.";
    arrive_count(count) = "mbarrier.arrive.shared::cluster.b64", "_, [{bar}], {count}",
        "PTX 8.0, sm_90", "`count` arrivals at once.";
    arrive_expect_tx(bytes) = "mbarrier.arrive.expect_tx.shared::cluster.b64",
        "_, [{bar}], {bytes}", "PTX 8.0, sm_90",
        "expects `bytes` more in this phase, then one arrival.";
    expect_tx(bytes) = "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64",
        "[{bar}], {bytes}", "PTX 8.0, sm_90", "expects `bytes` more in this phase.";
    complete_tx(bytes) = "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64",
        "[{bar}], {bytes}", "PTX 8.0, sm_90",
        "counts `bytes` as come, as a copy does when it lands; copies nothing.";
}

macro_rules! waits {
    ($($name:ident($phase:ident: $ty:ty, $bits:expr, $reg:ident $(, $limit:ident)?) =
        $instruction:literal, $since:literal, $doc:literal;)*) => {
        /// Tests and waits.
        impl Mbarrier {$(
            #[doc = concat!("`", $instruction, "`: ", $doc)]
            ///
            /// *Scope*: thread. True acquires what the arrivals released and what the copies that
            #[doc = concat!("the phase counted wrote. *Since*: ", $since, ".")]
            ///
            /// # Safety
            /// The barrier is initialised, and the phase is its current or its last one.
            ///
            /// # Panics
            /// On the host.
            #[inline(always)]
            pub unsafe fn $name(self, $phase: $ty $(, $limit: u32)?) -> bool {
                on_device!("mbarrier", (self, $phase $(, $limit)?), {
                    let complete: u32;
                    // SAFETY: the caller's barrier is one.
                    unsafe {
                        core::arch::asm!("{{", ".reg .pred p;",
                            concat!($instruction, " p, [{bar}], {phase}"
                                $(, ", {", stringify!($limit), "}")?, ";"),
                            "selp.u32 {complete}, 1, 0, p;", "}}",
                            bar = in(reg32) self.0.bits(), phase = in($reg) $bits,
                            $($limit = in(reg32) $limit,)?
                            complete = out(reg32) complete, options(nostack));
                    }
                    complete != 0
                })
            }
        )*}
    };
}

waits! {
    test_wait(state: MbarrierState, state.0, reg64) = "mbarrier.test_wait.shared::cta.b64",
        "PTX 7.0, sm_80", "whether the phase of `state` has completed.";
    test_wait_parity(parity: u32, parity, reg32) = "mbarrier.test_wait.parity.shared::cta.b64",
        "PTX 7.1, sm_80", "whether the phase of that parity has completed.";
    try_wait(state: MbarrierState, state.0, reg64) = "mbarrier.try_wait.shared::cta.b64",
        "PTX 7.8, sm_90", "waits a while for the phase of `state`; whether it has completed.";
    try_wait_parity(parity: u32, parity, reg32) = "mbarrier.try_wait.parity.shared::cta.b64",
        "PTX 7.8, sm_90", "waits a while for the phase of that parity; whether it has completed.";
    try_wait_parity_for(parity: u32, parity, reg32, limit_ns) =
        "mbarrier.try_wait.parity.shared::cta.b64", "PTX 7.8, sm_90",
        "waits `limit_ns` at most for the phase of that parity; whether it has completed.";
    try_wait_parity_acquire_cluster(parity: u32, parity, reg32) =
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", "PTX 8.0, sm_90",
        "as `try_wait_parity`; acquires what other blocks of the cluster released.";
}

impl Mbarrier {
    /// `mbarrier.arrive.shared::cta.b64`: as [`arrive`](Self::arrive), and returns the state of the
    /// phase, which [`test_wait`](Self::test_wait) and [`try_wait`](Self::try_wait) take.
    ///
    /// *Scope*: thread. *Since*: PTX 7.0, sm_80.
    ///
    /// # Safety
    /// As for [`arrive`](Self::arrive).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn arrive_state(self) -> MbarrierState {
        on_device!("mbarrier::arrive_state", (self), {
            let state: u64;
            // SAFETY: the caller's barrier is one.
            unsafe {
                core::arch::asm!("mbarrier.arrive.shared::cta.b64 {}, [{}];", out(reg64) state,
                    in(reg32) self.0.bits(), options(nostack));
            }
            MbarrierState(state)
        })
    }

    /// Repeats [`try_wait_parity`](Self::try_wait_parity) until it returns true: waits until the
    /// phase of that parity has completed.
    ///
    /// *Scope*: thread. Acquires at block scope. *Since*: PTX 7.8, sm_90.
    ///
    /// # Safety
    /// As for [`try_wait_parity`](Self::try_wait_parity).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait_parity(self, parity: u32) {
        // SAFETY: passed on to the caller.
        while !unsafe { self.try_wait_parity(parity) } {}
    }
}

impl MbarrierState {
    /// `mbarrier.pending_count.b64`: the pending arrival count that the state records.
    ///
    /// *Scope*: thread. *Since*: PTX 7.0, sm_80.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn pending_count(self) -> u32 {
        on_device!("mbarrier::pending_count", (self), {
            let count: u32;
            // SAFETY: computes a number from a number.
            unsafe {
                core::arch::asm!("mbarrier.pending_count.b64 {}, {};", out(reg32) count,
                    in(reg64) self.0, options(pure, nomem, nostack));
            }
            count
        })
    }
}
