//! Adds launch bounds and cluster size as the attributes from which LLVM's NVPTX backend emits
//! `.maxntid`, `.reqntid`, `.minnctapersm` and `.reqnctapercluster`.

use super::Module;
use super::kernels::Kernel;

/// Adds the bounds of `kernels` to the attributes of their functions.
pub fn apply(module: &mut Module, kernels: &[Kernel]) {
    for kernel in kernels {
        let bounds = attributes(kernel);
        let group = module
            .function(&kernel.name)
            .and_then(|function| function.attribute_group());
        let old = group
            .and_then(|number| module.attributes.get(&number))
            .cloned();
        let content = match old {
            _ if bounds.is_empty() => continue,
            Some(old) => format!("{old} {bounds}"),
            None => bounds,
        };
        let number = module.attribute_group(&content);
        let function = module
            .functions_mut()
            .find(|function| function.name == kernel.name);
        if let Some(function) = function {
            function.set_attribute_group(number);
        }
    }
}

fn attributes(kernel: &Kernel) -> String {
    let mut attributes = Vec::new();
    if let Some(threads) = kernel.max_threads {
        attributes.push(format!("\"nvvm.maxntid\"=\"{threads}\""));
    }
    if let Some([x, y, z]) = kernel.block {
        attributes.push(format!("\"nvvm.reqntid\"=\"{x},{y},{z}\""));
    }
    if let Some(blocks) = kernel.min_blocks {
        attributes.push(format!("\"nvvm.minctasm\"=\"{blocks}\""));
    }
    if let Some([x, y, z]) = kernel.cluster {
        attributes.push(format!("\"nvvm.cluster_dim\"=\"{x},{y},{z}\""));
    }
    attributes.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_added_to_the_kernel_alone() {
        let mut module = Module::parse(
            "define ptx_kernel void @k() #0 {\n  ret void\n}\n\
             define void @f() #0 {\n  ret void\n}\nattributes #0 = { nounwind }\n",
        );
        let kernel = Kernel {
            name: "k".to_owned(),
            module: "c".to_owned(),
            max_threads: Some(384),
            min_blocks: Some(1),
            cluster: Some([2, 1, 1]),
            ..Kernel::default()
        };
        apply(&mut module, &[kernel]);
        assert_eq!(
            module.function("f").and_then(|f| f.attribute_group()),
            Some(0)
        );
        let number = module.function("k").and_then(|k| k.attribute_group());
        assert_eq!(
            number
                .and_then(|number| module.attributes.get(&number))
                .map(String::as_str),
            Some(
                "nounwind \"nvvm.maxntid\"=\"384\" \"nvvm.minctasm\"=\"1\" \
                 \"nvvm.cluster_dim\"=\"2,1,1\""
            )
        );
    }
}
