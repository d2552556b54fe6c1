//! Removes the processor that rustc names in every function.
//!
//! A crate is compiled once and built for several architectures; `opt` and `llc` take theirs from
//! the command line where a function names none.

use super::Module;

/// Attributes that name it, up to their values.
const NAMES: [&str; 3] = ["\"target-cpu\"=", "\"target-features\"=", "\"tune-cpu\"="];

/// Removes it from all of `module`.
pub fn apply(module: &mut Module) {
    for group in module.attributes.values_mut() {
        let named = |word: &&str| !NAMES.iter().any(|name| word.starts_with(name));
        *group = group.split(' ').filter(named).collect::<Vec<_>>().join(" ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_names_a_processor() {
        let mut module = Module::parse(
            "define void @k() #0 {\n  ret void\n}\n\
             attributes #0 = { nounwind \"target-cpu\"=\"sm_75\" \"target-features\"=\"+ptx83,+sm_75\" \
             \"nvvm.maxntid\"=\"256\" }\n",
        );
        apply(&mut module);
        assert_eq!(module.attributes[&0], "nounwind \"nvvm.maxntid\"=\"256\"");
    }
}
