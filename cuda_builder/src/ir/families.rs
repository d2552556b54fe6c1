//! Splits a module into one for each family of kernels.
//!
//! The family is the first path segment below the crate: kernels in `kernels::gemm::f32` belong to
//! `gemm`. Kernels in the crate's root belong to a family with the crate's name. A smaller module
//! is loaded and compiled by the driver faster.

use std::collections::{BTreeMap, BTreeSet};

use super::fragments::Fragment;
use super::kernels::Kernel;
use super::{Item, Module, symbols};

/// A family: its kernels and fragments, and a module with all that they reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Name, also of the PTX file.
    pub name: String,
    /// Kernels, sorted by name.
    pub kernels: Vec<Kernel>,
    /// Fragments, sorted by name.
    pub fragments: Vec<Fragment>,
    /// Their code.
    pub module: Module,
}

/// The family of a kernel whose `module_path!()` is `path`.
pub fn family_name(path: &str) -> &str {
    let mut segments = path.split("::");
    let root = segments.next().unwrap_or(path);
    segments.next().unwrap_or(root)
}

/// Splits `module`; the families are sorted by name.
pub fn split(module: &Module, kernels: &[Kernel], fragments: &[Fragment]) -> Vec<Family> {
    let mut families: BTreeMap<&str, (Vec<Kernel>, Vec<Fragment>)> = BTreeMap::new();
    for kernel in kernels {
        let family = families.entry(family_name(&kernel.module)).or_default();
        family.0.push(kernel.clone());
    }
    for fragment in fragments {
        let family = families.entry(family_name(&fragment.module)).or_default();
        family.1.push(fragment.clone());
    }
    let uses = uses(module);
    families
        .into_iter()
        .map(|(name, (kernels, fragments))| {
            let roots = kernels.iter().map(|kernel| kernel.name.as_str());
            let roots = roots.chain(fragments.iter().map(|fragment| fragment.name.as_str()));
            let module = keep(module, &reached(&uses, roots));
            Family {
                name: name.to_owned(),
                kernels,
                fragments,
                module,
            }
        })
        .collect()
}

/// The symbols that each symbol's definition refers to.
fn uses(module: &Module) -> BTreeMap<&str, BTreeSet<String>> {
    let functions = module.functions().map(|function| {
        let lines = function.body.iter().flatten();
        let used = symbols(&function.header)
            .skip(1)
            .chain(lines.flat_map(|line| symbols(line)));
        (function.name.as_str(), used.collect())
    });
    let globals = module
        .globals()
        .map(|global| (global.name.as_str(), symbols(&global.definition).collect()));
    functions.chain(globals).collect()
}

fn reached<'a>(
    uses: &'a BTreeMap<&str, BTreeSet<String>>,
    roots: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = roots.collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(uses.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

fn keep(module: &Module, reached: &BTreeSet<&str>) -> Module {
    let kept = |item: &&Item| match item {
        Item::Function(function) => reached.contains(function.name.as_str()),
        Item::Global(global) => reached.contains(global.name.as_str()),
        Item::Other(_) => true,
    };
    Module {
        items: module.items.iter().filter(kept).cloned().collect(),
        attributes: module.attributes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, module: &str) -> Kernel {
        Kernel {
            name: name.to_owned(),
            module: module.to_owned(),
            ..Kernel::default()
        }
    }

    #[test]
    fn a_family_holds_what_its_kernels_reach() {
        let module = Module::parse(
            "@a = internal constant ptr @b\n@b = internal constant i8 0\n@c = internal constant i8 1\n\
             define ptx_kernel void @k1() {\n  %1 = load ptr, ptr @a\n  ret void\n}\n\
             define ptx_kernel void @k2() {\n  call void @f()\n  ret void\n}\n\
             define void @f() {\n  ret void\n}\n",
        );
        let kernels = [kernel("k1", "crate::gemm::simple"), kernel("k2", "crate")];
        let families = split(&module, &kernels, &[]);
        let names = |family: &Family| {
            let functions = family
                .module
                .functions()
                .map(|function| function.name.clone());
            let globals = family.module.globals().map(|global| global.name.clone());
            functions.chain(globals).collect::<Vec<_>>()
        };
        assert_eq!(families[0].name, "crate");
        assert_eq!(names(&families[0]), ["k2", "f"]);
        assert_eq!(families[1].name, "gemm");
        assert_eq!(names(&families[1]), ["k1", "a", "b"]);
    }
}
