//! The rules that a build enforces on its PTX.

use crate::divergence::Threads;
use std::fmt;
use std::path::Path;

use ptx_syntax::ast::Module;
use ptx_syntax::isa::Opcode;
use ptx_syntax::lint::{Finding, LintOptions, Rule, Severity, lint_with};
use ptx_syntax::origins::Origins;

/// The kernel name that allows local memory in every kernel.
pub(crate) const EVERYWHERE: &str = "*";

/// A rule that the PTX breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Found by `ptx_syntax::lint`.
    Finding(Finding),
    /// ptxas spilled registers to local memory.
    Spills {
        /// The kernel.
        kernel: String,
        /// Bytes stored.
        store_bytes: u32,
        /// Bytes loaded.
        load_bytes: u32,
    },
    /// Barriers or wgmma instructions were duplicated into different arms of a branch.
    Copied {
        /// The kernel.
        kernel: String,
        /// `barriers` or `wgmma`.
        what: &'static str,
        /// How many the IR before `opt` has; those of a called function count once for each call.
        source: usize,
        /// How many the PTX has.
        ptx: usize,
    },
    /// In a safe kernel, threads may part before an instruction for which all of them have to be
    /// there.
    Divergent {
        /// The kernel.
        kernel: String,
        /// The instruction: `bar.sync`.
        instruction: String,
        /// Its lines.
        at: Place,
        /// Which threads have to be there.
        threads: Threads,
        /// Why threads may part.
        cause: Parting,
    },
    /// A fragment whose text cannot be pasted into a kernel.
    Fragment {
        /// The fragment.
        fragment: String,
        /// What it does.
        reason: String,
    },
    /// A compare-and-swap in local memory, which PTX does not have.
    LocalAtomic {
        /// The function.
        function: String,
        /// The line in the PTX.
        line: u32,
    },
    /// A ptxas warning that means slow or serialised code.
    PtxasWarning {
        /// Its text.
        text: String,
    },
}

/// A line of the PTX, and that of the source if the PTX names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line in the PTX.
    pub line: u32,
    /// File and line of the source.
    pub source: Option<(String, u32)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((file, line)) => write!(f, "{file}:{line}"),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// Why threads may part before an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parting {
    /// A branch, or an early end, depends on a value that may differ between threads.
    Branch(Place),
    /// No way leads from the instruction to the kernel's end.
    Endless,
    /// The instruction's own predicate or number may differ between threads.
    Operand,
    /// A call of a function with such an instruction, or through a pointer.
    Call,
}

impl Refusal {
    /// Whether it names a line of the PTX because the PTX does not name that of the source.
    pub(crate) fn lacks_its_line(&self) -> bool {
        matches!(self, Self::Divergent { at, .. } if at.source.is_none())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finding(finding) => {
                // Whatever the linter thinks of it, it ends the build.
                let severity = Severity::Error;
                let error = Finding {
                    severity,
                    ..finding.clone()
                };
                write!(f, "line {error}")?;
                match (&finding.rule, &finding.function) {
                    // Of a kernel that prints, the linter only warns.
                    (Rule::LocalMemory, Some(function)) if finding.severity < severity => write!(
                        f,
                        " (println! is for looking inside: allow it meanwhile, by \
                         --allow-local {function}, `CudaBuilder::allow_local(\"{function}\")`)"
                    ),
                    (Rule::LocalMemory, Some(function)) => write!(
                        f,
                        " (index arrays by constants in loops that unroll, or allow it: \
                         --allow-local {function}, `CudaBuilder::allow_local(\"{function}\")`)"
                    ),
                    (Rule::NewerInstruction, _) => {
                        write!(f, " (say so at the kernel: #[kernel(arch = \"..\")])")
                    }
                    _ => Ok(()),
                }
            }
            Self::Spills {
                kernel,
                store_bytes,
                load_bytes,
            } => write!(
                f,
                "`{kernel}` spills registers: {store_bytes} bytes stored, {load_bytes} loaded; \
                 lower max_threads or min_blocks, or keep fewer values alive"
            ),
            Self::Copied {
                kernel,
                what,
                source,
                ptx,
            } => write!(
                f,
                "`{kernel}` has {ptx} {what} where its source has {source}, not one after the \
                 other, behind a branch on which threads of a warp may part: the compiler copied them, with an \
                 unrolled loop or into its arms; \
                 let all threads pass them outside of branches, or keep the loop from being \
                 unrolled by a count that goes through `cuda_std::hint::opaque`"
            ),
            Self::Divergent {
                kernel,
                instruction,
                at,
                threads,
                cause,
            } => {
                write!(
                    f,
                    "{at}: the safe kernel `{kernel}` has `{instruction}` where "
                )?;
                match cause {
                    Parting::Branch(branch) => write!(
                        f,
                        "not all threads of the {threads} may come: the condition at {branch} may \
                         differ between them"
                    ),
                    Parting::Endless => write!(f, "no way leads to the kernel's end"),
                    Parting::Operand => write!(f, "its operands may differ between threads"),
                    Parting::Call => write!(
                        f,
                        "the build cannot see whether all threads of the block come to the barriers \
                         in there: mark the function `#[inline(always)]`"
                    ),
                }?;
                match cause {
                    Parting::Call => Ok(()),
                    _ => write!(
                        f,
                        " (let all threads come there, and decide by a value that is the same in \
                         all: a number, a length{})",
                        match threads {
                            Threads::OfWarp | Threads::OfBlock => ", the block's index",
                            Threads::OfGrid => "",
                        }
                    ),
                }
            }
            Self::Fragment { fragment, reason } => {
                write!(f, "fragment `{fragment}`: {reason}")
            }
            Self::LocalAtomic { function, line } => write!(
                f,
                "line {line}: `{function}` exchanges an atomic that is a local variable, which PTX \
                 cannot do: put it in shared or global memory, or make it a `Cell`"
            ),
            Self::PtxasWarning { text } => write!(f, "ptxas: {text}"),
        }
    }
}

/// Checks a module against the rules that need no other tool.
pub(crate) fn check(module: &Module, local: &[String]) -> Vec<Refusal> {
    let everywhere = local.iter().any(|kernel| kernel == EVERYWHERE);
    let options = LintOptions::default()
        .rounding(true)
        .allow_local(everywhere);
    let options = local
        .iter()
        .fold(options, |options, kernel| options.allow_local_in(kernel));
    let origins = Origins::of(module);
    let mut refusals: Vec<Refusal> = lint_with(module, &options)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error || forbidden(finding))
        .map(|mut finding| {
            if let Some((file, line)) = source(module, &origins, &finding) {
                finding.message += &format!(", from {file}:{line}");
            }
            Refusal::Finding(finding)
        })
        .collect();
    refusals.extend(local_atomics(module));
    refusals
}

/// Atomics in local memory. LLVM makes plain accesses of all but compare-and-swap.
fn local_atomics(module: &Module) -> impl Iterator<Item = Refusal> {
    module.functions.iter().flat_map(|function| {
        let atomics = function
            .instructions()
            .filter(|inst| inst.known() == Some(Opcode::Atom) && inst.has("local"));
        atomics.map(|inst| Refusal::LocalAtomic {
            function: function.name.clone(),
            line: inst.line,
        })
    })
}

/// The source line in the kernel of what was found there; of a declaration, the line of what it is
/// declared for first, which is the kernel's own.
fn source<'a>(
    module: &Module,
    origins: &'a Origins,
    finding: &Finding,
) -> Option<&'a (String, u32)> {
    let name = finding.function.as_deref()?;
    let function = module.functions.iter().find(|f| f.name == name)?;
    let mut lines = function.instructions().map(|instruction| instruction.line);
    let line = lines.find(|line| *line >= finding.line)?;
    origins.at(line).first()
}

/// Where the lines are that refusals name; empty if they name none.
pub(crate) fn where_lines_are(refusals: &[Refusal], kept: Option<&Path>) -> String {
    let names_lines = |refusal: &Refusal| {
        let is_of_ptx = matches!(refusal, Refusal::Finding(_) | Refusal::LocalAtomic { .. });
        is_of_ptx || refusal.lacks_its_line()
    };
    match kept {
        _ if !refusals.iter().any(names_lines) => String::new(),
        Some(ptx) => format!("lines are those of {}", ptx.display()),
        None => "--dump-ir DIR (`CudaBuilder::dump_ir`) keeps the PTX whose lines these are, and \
                 --line-info (`CudaBuilder::line_info`) names those of the source"
            .to_owned(),
    }
}

/// Whether a build refuses the finding although the linter only warns of it: a driver would load
/// the PTX.
fn forbidden(finding: &Finding) -> bool {
    finding.severity == Severity::Warning
        && matches!(
            finding.rule,
            Rule::LocalMemory | Rule::UnroundedFloat | Rule::SetmaxnregWithoutBounds
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is refused in a kernel with these lines; `local` kernels may use local memory.
    fn refused(body: &str, local: &[String]) -> Vec<String> {
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n.file 1 \"k.rs\" .file 2 \"lib.rs\" \
             .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n\
             .visible .entry k()\n{{\n.local .align 8 .b8 depot[16];\n{body}\nret;\n}}\n"
        );
        let module = ptx_syntax::parse(&text).expect("valid PTX");
        let refusals = check(&module, local);
        refusals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn local_memory_is_refused_as_an_error_that_says_how_to_allow_it() {
        for (body, hint) in [
            ("", "index arrays by constants"),
            (
                "call (r), vprintf, (f, a);",
                "println! is for looking inside",
            ),
        ] {
            let found = refused(body, &[]);
            assert_eq!(found.len(), 1, "{found:?}");
            for part in [
                "line 7: error[local-memory]: in k",
                hint,
                "--allow-local k,",
            ] {
                assert!(found[0].contains(part), "{} lacks {part}", found[0]);
            }
            assert_eq!(refused(body, &["k".into()]), [""; 0]);
        }
    }

    #[test]
    fn a_compare_and_swap_in_local_memory_is_refused() {
        let body = "atom.relaxed.gpu.local.cas.b32 %r1,[%rd1],5,7;";
        let found = refused(body, &["k".into()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("line 8: `k` exchanges"), "{found:?}");
    }

    #[test]
    fn a_refusal_names_the_line_of_the_source_in_the_kernel() {
        let body = ".loc 1 3 0\nmov.u32 %r1,0;\n.loc 1 9 5\n\
                    .loc 2 40 1, function_name $L__inlined, inlined_at 1 9 5\n\
                    add.f32 %f1,%f1,%f1;";
        let found = refused(body, &[]).join("\n");
        for part in [
            "line 7: ",
            ", from k.rs:3 (index",
            "line 12: ",
            ", from k.rs:9",
        ] {
            assert!(found.contains(part), "{found} lacks {part}");
        }
    }

    #[test]
    fn what_names_lines_says_where_they_are() {
        let finding = |body| check(&ptx_syntax::parse(body).expect("valid PTX"), &[]);
        let found = finding(
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\
             .local .b8 depot[16];\nret;\n}\n",
        );
        assert!(where_lines_are(&found, None).contains("--dump-ir"));
        let kept = where_lines_are(&found, Some(Path::new("ir/k.ptx")));
        assert_eq!(kept, "lines are those of ir/k.ptx");
        let text = "spills".to_owned();
        assert_eq!(where_lines_are(&[Refusal::PtxasWarning { text }], None), "");
    }
}
