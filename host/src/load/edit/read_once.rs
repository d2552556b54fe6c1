//! A cache policy for what a kernel reads once.
//!
//! Instructions that [read once](ptx_syntax::ast::Instruction::reads_once) load or prefetch such
//! data (`cuda_std::mem::ld_global_once_v4_u32`). Kernels for every GPU cannot say more than that:
//! cache policies begin with sm_80. [Streaming](super::super::LoadVariant::Streaming) launches tell
//! L2 to evict such data last. Nobody reads it again. But the data that the kernel writes then
//! seems to leave L2 sooner and in longer runs. A kernel that reads and writes as much takes 1 to 5
//! % less time.

use super::require;
use crate::error::Result;
use ptx_syntax::ast::{
    Instruction, Module, Operand, RegisterNames, Registers, ScalarType, Statement,
};
use ptx_syntax::isa::Opcode;

/// The register of the policy, in a scope of its own. Compilers give no such names.
const POLICY: &str = "once";

/// Gives the policy to all loads and prefetches of `module` that read once.
///
/// # Errors
/// [`KernelError::PtxSyntax`](crate::KernelError::PtxSyntax) for an unknown target.
pub(super) fn read_once(module: &mut Module) -> Result<()> {
    require(module, Opcode::Createpolicy)?;
    let bodies = module
        .functions
        .iter_mut()
        .filter_map(|it| it.body.as_mut());
    bodies.for_each(|body| in_body(body));
    Ok(())
}

fn in_body(body: &mut [Statement]) {
    for statement in body {
        match statement {
            Statement::Block(inner) => in_body(inner),
            Statement::Instruction(it)
                if it.reads_once && is(it, Opcode::Prefetch, &["global", "L2"]) =>
            {
                it.modifiers[1] = "L2::evict_last".into();
                it.reads_once = false;
            }
            Statement::Instruction(it) if it.reads_once && is(it, Opcode::Ld, &["global"]) => {
                *statement = with_policy(it);
            }
            _ => {}
        }
    }
}

fn is(instruction: &Instruction, opcode: Opcode, modifiers: &[&str]) -> bool {
    let mut own = instruction.modifiers.iter();
    instruction.known() == Some(opcode)
        && modifiers
            .iter()
            .all(|&it| own.next().is_some_and(|o| o == it))
}

/// A scope with the policy and the load that has it.
fn with_policy(load: &Instruction) -> Statement {
    let line = load.line;
    let policy = || Operand::Name(POLICY.into());
    let register = Registers {
        ty: ScalarType::B64,
        vector: None,
        names: vec![RegisterNames::One(POLICY.into())],
        line,
    };
    let whole = Operand::F64(1.0_f64.to_bits());
    let create = Instruction::new(
        "createpolicy.fractional.L2::evict_last.b64",
        vec![policy(), whole],
        line,
    );
    let mut load = load.clone();
    load.reads_once = false;
    load.modifiers.insert(1, "L2::cache_hint".into());
    load.operands.push(policy());
    Statement::Block(vec![
        Statement::Registers(register),
        Statement::Instruction(create),
        Statement::Instruction(load),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::signature::parse;

    const PTX: &str = "\
.version 6.3
.target sm_75
.entry k()
{
ld.global.v4.u32 {%r1,%r2,%r3,%r4},[%D1]; // once
{
@%p1 ld.global.b16\t%h1,[%D1+2]; // once
}
prefetch.global.L2 [%D2]; // once
ld.global.b32\t%r1,[%D1];
}
";

    #[test]
    fn marked_instructions_get_a_policy_on_their_lines() {
        let policy = "{.reg .b64 once;createpolicy.fractional.L2::evict_last.b64 once,1.0;";
        let want = format!(
            "\
.version 7.4
.target sm_80
.entry k()
{{
{policy}ld.global.L2::cache_hint.v4.u32 {{%r1,%r2,%r3,%r4}},[%D1],once;}}
{{
{policy}@%p1 ld.global.L2::cache_hint.b16\t%h1,[%D1+2],once;}}
}}
prefetch.global.L2::evict_last [%D2];
ld.global.b32\t%r1,[%D1];
}}
"
        );
        let mut module = parse(PTX).expect("valid");
        read_once(&mut module).expect("a known target");
        assert_eq!(module, parse(&want).expect("valid"), "{module}");
    }

    #[test]
    fn newer_modules_keep_their_version_and_target() {
        let mut module = parse(&PTX.replace("6.3", "8.0").replace("sm_75", "sm_90a"));
        let module = module.as_mut().expect("valid");
        read_once(module).expect("a known target");
        assert_eq!(
            (module.version, &*module.targets),
            ((8, 0), &["sm_90a".to_owned()][..])
        );
    }
}
