//! Accumulators and fragments as the registers that they are.

/// A thread's registers of a matrix: `[f32; N]`, `[i32; N]`, `[u32; N]` (pairs of f16).
pub trait Registers: Sized {
    /// Registers of which nobody set the value, for a first product that does not read them. No
    /// instruction. What they hold is any number, not the same each time it is made.
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

/// No instruction: LLVM does what it does with these registers before, and with those after it,
/// on that side of it. Before a fence: what was written is written. After a wait: what is read is
/// read then.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn tie(registers: &mut impl Registers) {
    registers.tie();
}

/// `wgmma.wait_group.sync.aligned GROUPS`: waits until at most `GROUPS` of the warpgroup's groups are
/// on their way, the latest, and gives `acc` back if its products are not among them. Others that
/// it gives back: [`tie`] them after it.
///
/// *Scope*: warpgroup, converged. *Since*: PTX 8.0, sm_90a.
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
