//! The metadata of `#[fragment]`, and the check of compiled fragments.
//!
//! A fragment is a pure function that hosts paste into kernels, so its PTX must be valid at any
//! place. [`extract`] reads the metadata (as [`super::kernels`] does for kernels); `check` checks
//! the compiled function.

use serde::Deserialize;

use ptx_syntax::ast::{Function, Instruction, Module as Ptx, Statement};
use ptx_syntax::isa::{Effect, Opcode};

use super::kernels::{MetadataError, in_section, read};
use super::{Item, Module};
use crate::arch::Arch;
use crate::lint::Refusal;

/// Section of the metadata statics.
pub const SECTION: &str = ".warpsmith.fragment";

/// Metadata of one fragment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragment {
    /// Function name.
    pub name: String,
    /// `module_path!()` of the function.
    pub module: String,
    /// Parameters in order.
    pub params: Vec<super::kernels::KernelParam>,
    /// Type of its result.
    pub result: String,
    /// The only architecture that it is built for; `None` for those that the build asks for.
    pub arch: Option<Arch>,
}

/// Reads and removes the metadata; the fragments are sorted by name.
///
/// # Errors
/// [`MetadataError`]
pub fn extract(module: &mut Module) -> Result<Vec<Fragment>, MetadataError> {
    let statics = module
        .globals()
        .filter(|global| in_section(global, SECTION));
    let mut fragments: Vec<Fragment> = statics.map(read).collect::<Result<_, _>>()?;
    module.items.retain(|item| match item {
        Item::Global(global) => !in_section(global, SECTION),
        _ => true,
    });
    fragments.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(fragments)
}

/// Checks the functions of `ptx` that are `fragments`.
pub(crate) fn check(ptx: &Ptx, fragments: &[Fragment]) -> Vec<Refusal> {
    let named = |name: &str| ptx.functions.iter().find(|function| function.name == name);
    let faults = fragments.iter().filter_map(|fragment| {
        let reason = match named(&fragment.name) {
            None => Some("the compiler left it out".to_owned()),
            Some(function) => fault(function),
        };
        Some(Refusal::Fragment {
            fragment: fragment.name.clone(),
            reason: reason?,
        })
    });
    faults.collect()
}

/// Why a function cannot be pasted into a kernel.
fn fault(function: &Function) -> Option<String> {
    function.statements().find_map(|statement| match statement {
        Statement::Instruction(instruction) => forbidden(instruction),
        Statement::BranchTargets { .. } => Some("it jumps by a table".to_owned()),
        Statement::Variable(variable) => Some(format!("it has the variable {}", variable.name)),
        _ => None,
    })
}

/// Why an instruction is forbidden in a pure function, if it is.
fn forbidden(instruction: &Instruction) -> Option<String> {
    let has = |word: &str| instruction.has(word);
    let allowed = match instruction.facts().effect {
        Effect::Reads => has("param") || has("const") || has("global"),
        Effect::Writes => has("param"),
        Effect::Ends => instruction.known() == Some(Opcode::Ret),
        effect => matches!(effect, Effect::Nothing | Effect::Jumps | Effect::Traps),
    };
    (!allowed).then(|| {
        let name = instruction.mnemonic();
        format!("it has the instruction {name}: a fragment is a function of its arguments")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(body: &str) -> String {
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n\
             .visible .func (.param .b32 func_retval0) f(.param .b32 $a0)\n{{\n\
             .reg .pred %p<3>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<3>;\n{body}\n}}\n"
        );
        let ptx = ptx_syntax::parse(&text).expect("the fixture is valid PTX");
        let fragment = Fragment {
            name: "f".to_owned(),
            module: "c::fragments".to_owned(),
            params: Vec::new(),
            result: "f32".to_owned(),
            arch: None,
        };
        let refusals = check(&ptx, &[fragment]);
        refusals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_function_of_its_arguments_is_accepted() {
        let body = "ld.param.b32 %r1,[$a0];\nadd.rn.f32 %r2,%r1,%r1;\n\
                    st.param.b32 [func_retval0],%r2;\nret;";
        assert_eq!(refusals(body), "");
    }

    #[test]
    fn what_cannot_be_pasted_is_refused_with_the_reason() {
        let cases = [
            (".local .align 4 .b8 depot[8];\nret;", "variable depot"),
            (
                "ld.global.b32 %r1,[%rd1];\nst.global.b32 [%rd1],%r1;\nret;",
                "st.global.b32",
            ),
            ("bar.sync 0;\nret;", "bar.sync"),
        ];
        for (body, want) in cases {
            let got = refusals(body);
            assert!(got.contains(want), "{body}: {got:?}, want {want:?}");
        }
    }

    #[test]
    fn metadata_is_read_and_removed() {
        let text = concat!(
            r#"@M = constant [9 x i8] c"{\22name\22:\22f32_relu\22,\22module\22:\22c::m\22,"#,
            r#"\22params\22:[{\22name\22:\22x\22,\22type\22:\22f32\22}],\22result\22:\22f32\22,"#,
            r#"\22arch\22:null}", section ".warpsmith.fragment", align 1"#,
            "\n"
        );
        let mut module = Module::parse(text);
        let fragments = extract(&mut module).expect("the metadata is valid");
        assert_eq!(fragments[0].name, "f32_relu");
        assert_eq!(
            (fragments[0].params.len(), module.globals().count()),
            (1, 0)
        );
    }
}
