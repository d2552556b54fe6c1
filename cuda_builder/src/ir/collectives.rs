//! Counts a kernel's barriers and wgmma instructions before `opt`; those of a called function count
//! once for each call.
//!
//! The lint compares the finished PTX with these counts: a barrier that was duplicated into the
//! arms of a branch means a deadlock or worse.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use ptx_syntax::ast::Instruction;
use ptx_syntax::isa::Collective;

use super::{Module, convergent, symbols, text};

/// Counts of the instructions that all threads of a warp must reach together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    /// Barriers of the block or the cluster.
    pub barriers: usize,
    /// `wgmma.mma_async` instructions.
    pub wgmma: usize,
}

impl Collectives {
    /// Counts an instruction.
    pub fn add(&mut self, instruction: &Instruction) {
        match instruction.collective() {
            Some(Collective::Wgmma) => self.wgmma += 1,
            None | Some(Collective::OtherAligned) => {}
            Some(_) => self.barriers += 1,
        }
    }
}

impl AddAssign for Collectives {
    fn add_assign(&mut self, other: Self) {
        self.barriers = self.barriers.saturating_add(other.barriers);
        self.wgmma = self.wgmma.saturating_add(other.wgmma);
    }
}

/// The counts of each kernel of `module`.
pub fn count(module: &Module) -> BTreeMap<String, Collectives> {
    let mut known = BTreeMap::new();
    module
        .functions()
        .filter(|function| function.is_kernel())
        .map(|function| {
            let counted = count_function(module, &function.name, &mut known);
            (function.name.clone(), counted)
        })
        .collect()
}

fn count_function(
    module: &Module,
    name: &str,
    known: &mut BTreeMap<String, Collectives>,
) -> Collectives {
    if let Some(counted) = known.get(name) {
        return *counted;
    }
    // A recursive call finds this entry and adds nothing to the count.
    known.insert(name.to_owned(), Collectives::default());
    let mut total = Collectives::default();
    let body = module
        .function(name)
        .and_then(|function| function.body.as_ref());
    for line in body
        .into_iter()
        .flatten()
        .filter(|line| convergent::is_call(line))
    {
        if let Some(template) = convergent::asm_template(line) {
            total += of_assembly(template);
        } else if let Some(callee) = callee(line) {
            total += if callee.starts_with("llvm.nvvm.barrier") && !callee.contains("warp") {
                Collectives {
                    barriers: 1,
                    wgmma: 0,
                }
            } else {
                count_function(module, &callee, known)
            };
        }
    }
    known.insert(name.to_owned(), total);
    total
}

fn callee(line: &str) -> Option<String> {
    let (start, _) = text::split_call_arguments(line)?;
    symbols(&line[..start]).next()
}

/// The counts of an `asm!` template in the form of IR: `\0A` for a line end, `$0` for operands.
fn of_assembly(template: &str) -> Collectives {
    let mut total = Collectives::default();
    for instruction in template
        .replace("\\0A", ";")
        .replace("\\09", " ")
        .split([';', '{', '}'])
    {
        let mnemonic = instruction
            .split_whitespace()
            .find(|word| !word.starts_with('@'));
        let mnemonic = mnemonic.unwrap_or_default();
        total.add(&Instruction::new(mnemonic, Vec::new(), 0));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_as_often_as_they_occur() {
        let module = Module::parse(
            "define ptx_kernel void @k() {\n  call void @sync() #1\n  call void @sync()\n  \
             call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n  ret void\n}\n\
             define void @sync() {\n  call void asm sideeffect \"{ bar.sync 0;\\0A\\09@p bar.sync $0; }\", \"r\"(i32 1)\n  \
             call void asm sideeffect \"bar.warp.sync -1;\", \"\"()\n  ret void\n}\n",
        );
        let counted = count(&module);
        assert_eq!(
            counted.get("k"),
            Some(&Collectives {
                barriers: 5,
                wgmma: 0
            })
        );
        assert_eq!(counted.len(), 1);
    }

    #[test]
    fn recursion_ends() {
        let module = Module::parse(
            "define ptx_kernel void @k() {\n  call void @f()\n  ret void\n}\n\
             define void @f() {\n  call void asm \"wgmma.mma_async.sync x;\", \"\"()\n  \
             call void @f()\n  ret void\n}\n",
        );
        assert_eq!(
            count(&module).get("k"),
            Some(&Collectives {
                barriers: 0,
                wgmma: 1
            })
        );
    }
}
