//! Edits of a kernel's syntax tree, between the file it comes from and the device.
//!
//! What an edit inserts takes the line of the statement behind it, so that all others keep theirs.

mod begin_early;
mod prologue;
mod read_once;

pub(super) use begin_early::{can_begin_early, waits};

use super::signature::Signature;
use super::variant::LoadVariant;
use crate::error::{Error, KernelError, Result};
use begin_early::begin_early;
use ptx_syntax::ast::Module;
use ptx_syntax::isa::Opcode;
use read_once::read_once;

/// Edits a module of one kernel for a device of compute capability `arch`, and notes in `signature`
/// whether the kernel begins early.
///
/// # Errors
/// [`Error::Bug`] for a module without a kernel, [`KernelError::PtxSyntax`] for an unknown target.
pub(super) fn edit(
    module: &mut Module,
    signature: &mut Signature,
    arch: (u32, u32),
    variant: LoadVariant,
) -> Result<()> {
    begin_early(module, signature, arch, variant)?;
    if variant == LoadVariant::Streaming {
        read_once(module)?;
    }
    Ok(())
}

/// Raises what the module needs to what has the opcode.
///
/// # Errors
/// [`KernelError::PtxSyntax`] for a module with a target that PTX does not know.
fn require(module: &mut Module, opcode: Opcode) -> Result<()> {
    module.require(opcode.facts().since).map_err(|error| {
        let message = error.to_string().into();
        let (line, column) = (module.target_line, 1);
        Error::Kernel(KernelError::PtxSyntax {
            line,
            column,
            message,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::signature::{parse, signatures};
    use crate::load::{builtin_manifest, embedded};

    #[test]
    fn both_edits_keep_the_lines_of_the_text() {
        let text = "\
.version 7.0
.target sm_75

.visible .entry k(
.param .u64 p
)
.maxntid 256
{
.reg .b64 %rd<2>;

.reg .b32 %r<2>;
ld.param.u64 %rd1,[p];
ld.global.u32 %r1,[%rd1]; // once
st.global.u32 [%rd1],%r1;
}
";
        let policy = ".reg .b64 once;createpolicy.fractional.L2::evict_last.b64 once,1.0;";
        let load = "ld.global.L2::cache_hint.u32 %r1,[%rd1],once;";
        let want = text
            .replace("7.0", "7.8")
            .replace("sm_75", "sm_90")
            .replace(
                "ld.global.u32 %r1,[%rd1]; // once",
                &format!("griddepcontrol.wait;{{{policy}{load}}}"),
            );
        let mut module = parse(text).expect("valid");
        let mut signature = signatures(&module).expect("valid").remove(0);
        let variant = LoadVariant::Streaming;
        edit(&mut module, &mut signature, (9, 0), variant).expect("a known target");
        let printed = module.text_at_lines();
        let want = parse(&want).expect("valid");
        assert_eq!(parse(&printed).expect("valid"), want, "{printed}");
    }

    #[test]
    fn every_embedded_kernel_is_printed_as_it_was_edited() {
        for module in &builtin_manifest().expect("kernels are embedded").modules {
            for entry in &module.kernels {
                let (ptx, signature) = embedded::kernel(module, entry).expect("as it says");
                for variant in LoadVariant::ALL {
                    let (mut ptx, mut signature) = (ptx.clone(), signature.clone());
                    edit(&mut ptx, &mut signature, (9, 0), variant).expect("a known target");
                    let printed = parse(&ptx.text_at_lines()).expect("valid");
                    assert_eq!(printed, ptx, "{} {variant}", entry.name);
                }
            }
        }
    }
}
