//! Kernels that begin before the launch before them has ended.
//!
//! From compute capability 9.0 on, the blocks of a launch may be there when the launch before it
//! ends (programmatic dependent launch, PDL). They then have to wait by `griddepcontrol.wait`
//! before they touch global memory. PTX for older architectures has no such instruction. So the
//! host adds this instruction to its own kernels when they are loaded for such a device, behind the
//! part that needs no global memory ([`prologue`]). Then no time passes between the two launches.
//!
//! For [brief](LoadVariant::Brief) launches it also lets the next launch begin, right before its
//! wait (`griddepcontrol.launch_dependents`). That one then waits for this one: in a CUDA graph of
//! small launches, each takes 0.1 to 0.2 µs less. Launches further back are waited for too. Every
//! thread of a launch waits, so a launch ends after all before it. A launch that waits for it waits
//! for those as well. Longer launches do not. An H200 takes 2.4 ns for each block that executes the
//! instruction, one after the other. The next launch's blocks take what is free before this one's
//! leave, and end up unevenly on the multiprocessors (docs/decisions/0048-launch-dependents.md).

use super::{prologue, require};
use crate::error::{Error, Result};
use crate::load::LoadVariant;
use crate::load::signature::Signature;
use ptx_syntax::ast::{Function, FunctionKind, Instruction, Module, Statement};
use ptx_syntax::isa::Opcode;

const WAIT: &str = "griddepcontrol.wait";
const LET_BEGIN: &str = "griddepcontrol.launch_dependents";

/// Whether a device of compute capability `arch` has the instruction.
pub(in crate::load) fn can_begin_early(arch: (u32, u32)) -> bool {
    let since = Opcode::Griddepcontrol.facts().since;
    since.target.runs_on(arch)
}

/// Makes the kernel of `module` begin early on a device of compute capability `arch`, and notes in
/// `signature` whether it does.
///
/// Our kernels that have the instruction access no global memory before it, with one exception:
/// cross-entropy reads rows earlier where the launch before it only goes over targets. That one
/// lets it begin itself, after the wait that it gets here, so it gets nothing else.
///
/// # Errors
/// [`Error::Bug`] for a module without a kernel,
/// [`KernelError::PtxSyntax`](crate::KernelError::PtxSyntax) for an unknown target.
pub(super) fn begin_early(
    module: &mut Module,
    signature: &mut Signature,
    arch: (u32, u32),
    variant: LoadVariant,
) -> Result<()> {
    signature.begins_early = can_begin_early(arch);
    if !signature.begins_early || signature.waits {
        return Ok(());
    }
    require(module, Opcode::Griddepcontrol)?;
    let lets_begin = variant == LoadVariant::Brief
        && !module
            .functions
            .iter()
            .any(|function| has(function, LET_BEGIN));
    let kernel = module
        .functions
        .iter_mut()
        .find(|function| function.kind == FunctionKind::Entry && function.body.is_some());
    let kernel = kernel.ok_or(Error::Bug("a kernel's text has no entry"))?;
    let first_line = kernel.line;
    let body = kernel.body.get_or_insert_default();
    let at = prologue::end(body);
    let line = body.get(at).and_then(Statement::line).unwrap_or(first_line);
    let mnemonics = [LET_BEGIN, WAIT].into_iter().skip(usize::from(!lets_begin));
    let inserted =
        mnemonics.map(|it| Statement::Instruction(Instruction::new(it, Vec::new(), line)));
    body.splice(at..at, inserted);
    Ok(())
}

/// Whether `griddepcontrol.wait` stands in the function's body.
pub(in crate::load) fn waits(function: &Function) -> bool {
    has(function, WAIT)
}

fn has(function: &Function, mnemonic: &str) -> bool {
    let mut all = function.instructions();
    all.any(|it| it.known() == Some(Opcode::Griddepcontrol) && it.mnemonic() == mnemonic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::signature::{parse, signatures};

    const TEXT: &str = ".version 7.8\n.target sm_75\n.address_size 64\n\
        .global .align 4 .b8 table[4] = {1,2,3,4};\n\
        .visible .entry k(\n.param .u64 p\n)\n.maxntid 256\n{\n.reg .b64 %rd<2>;\n\
        ld.param.u64 %rd1, [p];\nst.global.u32 [%rd1], 0;\nret;\n}\n";

    fn edited(variant: LoadVariant, text: &str, arch: (u32, u32)) -> (Module, bool) {
        let mut module = parse(text).expect("valid");
        let mut signature = signatures(&module).expect("valid").remove(0);
        begin_early(&mut module, &mut signature, arch, variant).expect("has an entry");
        (module, signature.begins_early)
    }

    /// Holds the edited module against the text that it is to be, line numbers included.
    #[track_caller]
    fn becomes(variant: LoadVariant, text: &str, want: &str) {
        let (module, begins_early) = edited(variant, text, (9, 0));
        assert!(begins_early);
        assert_eq!(module, parse(want).expect("valid"), "{module}");
    }

    #[test]
    fn the_wait_comes_before_global_memory_from_hopper_on() {
        let want = TEXT
            .replace("sm_75", "sm_90")
            .replace("\nst.global", "\ngriddepcontrol.wait;st.global");
        becomes(LoadVariant::Plain, TEXT, &want);
        let empty = ".version 7.8\n.target sm_75\n.entry k()\n{\n}\n";
        let (module, _) = edited(LoadVariant::Plain, empty, (9, 0));
        assert!(
            module
                .to_string()
                .ends_with("{\n\tgriddepcontrol.wait;\n}\n")
        );
        for newer in ["sm_90a", "sm_100f", "sm_120"] {
            let text = TEXT.replace("sm_75", newer);
            let (module, _) = edited(LoadVariant::Plain, &text, (12, 0));
            assert_eq!(module.targets, [newer]);
        }
    }

    #[test]
    fn older_versions_of_ptx_are_raised() {
        let (module, _) = edited(LoadVariant::Plain, &TEXT.replace("7.8", "7.0"), (9, 0));
        assert_eq!(module.version, (7, 8));
    }

    #[test]
    fn brief_launches_let_the_next_one_begin_before_they_wait() {
        let both = "\ngriddepcontrol.launch_dependents;griddepcontrol.wait;st";
        let wait = "\ngriddepcontrol.wait;st";
        for (variant, want) in [
            (LoadVariant::Brief, both),
            (LoadVariant::Plain, wait),
            (LoadVariant::Streaming, wait),
        ] {
            let want = TEXT.replace("sm_75", "sm_90").replace("\nst", want);
            becomes(variant, TEXT, &want);
        }
    }

    #[test]
    fn a_kernel_that_lets_the_next_begin_does_so_at_its_own_place() {
        let lets = TEXT.replace("ret;", "griddepcontrol.launch_dependents;\nret;");
        let want = lets
            .replace("sm_75", "sm_90")
            .replace("\nst.global", "\ngriddepcontrol.wait;st.global");
        becomes(LoadVariant::Brief, &lets, &want);
    }

    #[test]
    fn older_devices_and_kernels_that_wait_get_the_kernel_as_it_is() {
        let unchanged = |text: &str| parse(text).expect("valid");
        let older = edited(LoadVariant::Brief, TEXT, (8, 9));
        assert_eq!(older, (unchanged(TEXT), false));
        let waits = TEXT.replace("ret;", "griddepcontrol.wait;\nret;");
        let newer = edited(LoadVariant::Brief, &waits, (9, 0));
        assert_eq!(newer, (unchanged(&waits), true));
    }
}
