//! Accumulators and fragments as arrays of registers, and how to keep LLVM from moving accesses to
//! them.

/// A thread's registers of an accumulator or fragment: `[f32; N]`, `[i32; N]` or `[u32; N]` (two
/// 16-bit elements a register).
pub trait Registers: Sized {
    /// Registers with an arbitrary value, for an accumulator whose first instruction does not read
    /// it (`SCALE_D` false). Emits no instruction. The value may differ from call to call.
    ///
    /// # Panics
    /// On the host.
    fn unset() -> Self;

    /// All zero.
    fn zero() -> Self;

    /// As [`tie`].
    ///
    /// # Panics
    /// On the host.
    fn tie(&mut self);

    /// As [`wgmma_wait_group`].
    ///
    /// # Safety
    /// As for it.
    ///
    /// # Panics
    /// On the host.
    unsafe fn wgmma_wait_group<const GROUPS: u32>(&mut self);
}

/// A compiler barrier for these registers; emits no instruction.
///
/// LLVM does not move accesses to the registers across it. Before a
/// [`wgmma_fence`](super::wgmma_fence) it makes sure that earlier writes stay before the fence;
/// after a wait, that reads stay after the wait.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn tie(registers: &mut impl Registers) {
    registers.tie();
}

/// `wgmma.wait_group.sync.aligned GROUPS`: waits until at most the latest `GROUPS` groups of the
/// warpgroup are pending and all earlier ones are complete.
///
/// Afterwards `acc` may be accessed if no pending group writes it. [`tie`] any other registers
/// whose groups are complete before accessing them.
///
/// *Scope*: warpgroup, each warp converged. *Since*: PTX 8.0, sm_90a.
///
/// # Safety
/// All warps of the warpgroup execute it.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn wgmma_wait_group<const GROUPS: u32>(acc: &mut impl Registers) {
    // SAFETY: passed on to the caller.
    unsafe { acc.wgmma_wait_group::<GROUPS>() }
}

macro_rules! registers {
    ($ty:ty, $zero:literal, $first:literal $($i:literal)*) => {
        impl Registers for [$ty; [$first $(, $i)*].len()] {
            #[inline(always)]
            fn unset() -> Self {
                on_device!("wgmma::unset", (), {
                    let mut registers = [$zero; [$first $(, $i)*].len()];
                    // SAFETY: touches nothing; any bits are a value.
                    unsafe {
                        core::arch::asm!(
                            concat!("// unset: {", $first, "}" $(, " {", $i, "}")*),
                            out(reg32) registers[$first] $(, out(reg32) registers[$i])*,
                            options(nostack));
                    }
                    registers
                })
            }

            #[inline(always)]
            fn zero() -> Self {
                [$zero; [$first $(, $i)*].len()]
            }

            #[inline(always)]
            fn tie(&mut self) {
                on_device!("wgmma::tie", (self), {
                    // SAFETY: touches nothing.
                    unsafe {
                        core::arch::asm!(
                            concat!("// tied: {", $first, "}" $(, " {", $i, "}")*),
                            inout(reg32) self[$first] $(, inout(reg32) self[$i])*,
                            options(nostack));
                    }
                })
            }

            #[inline(always)]
            unsafe fn wgmma_wait_group<const GROUPS: u32>(&mut self) {
                on_device!("wgmma::wgmma_wait_group", (self), {
                    // SAFETY: the caller's warps are converged.
                    unsafe {
                        core::arch::asm!(
                            concat!("wgmma.wait_group.sync.aligned {groups}; // {", $first, "}"
                                $(, " {", $i, "}")*),
                            inout(reg32) self[$first] $(, inout(reg32) self[$i])*,
                            groups = const GROUPS, options(nostack));
                    }
                })
            }
        }
    };
}

macro_rules! f32_registers {
    ($n:literal [$($i:literal)*]) => { registers! { f32, 0.0, $($i)* } };
}

macro_rules! f16_registers {
    ($n:literal [$($i:literal)*]) => { registers! { u32, 0, $($i)* } };
}

macro_rules! s32_registers {
    ($n:literal [$($i:literal)*]) => { registers! { i32, 0, $($i)* } };
}

f32_rows!(f32_registers);
f16_rows!(f16_registers);
s32_rows!(s32_registers);
