//! Tells LLVM which pointers of a safe kernel point to memory that nobody writes, which alone point to
//! theirs, and that an element is not at address 0. A load of the first may be `ld.global.nc`.

use super::Module;
use super::by_value::{closing, split};
use super::kernels::{Kernel, KernelParam};

/// Marks the parameters of the safe kernels among `kernels`.
pub fn apply(module: &mut Module, kernels: &[Kernel]) {
    for kernel in kernels.iter().filter(|kernel| kernel.safe) {
        let function = module
            .functions_mut()
            .find(|function| function.name == kernel.name);
        if let Some(function) = function
            && let Some(header) = marked(&function.header, &kernel.params)
        {
            function.header = header;
        }
    }
}

/// The header with these parameters marked; `None` if it has a different number of parameters.
fn marked(header: &str, params: &[KernelParam]) -> Option<String> {
    let start = header.find('(')? + 1;
    let end = start + closing(&header[start..])?;
    let written = split(&header[start..end]);
    if written.len() != params.len() {
        return None;
    }
    let written: Vec<String> = written
        .into_iter()
        .zip(params)
        .map(|(text, param)| {
            let Some(rest) = text.strip_prefix("ptr ").filter(|_| param.alias > 0) else {
                return text.to_owned();
            };
            // rustc may know more: that it is not read, or not written.
            let is_known = ["readonly", "readnone", "writeonly"];
            let is_known = rest.split(' ').any(|word| is_known.contains(&word));
            // An empty tensor may be at address 0, of which LLVM makes poison that nothing uses: no
            // index is in bounds. With `noundef` it would be undefined behaviour.
            let rest = rest.replace("noundef ", "").replace("nonnull ", "");
            match param.alias == 1 && !is_known {
                true => format!("ptr noalias nonnull readonly {rest}"),
                false => format!("ptr noalias nonnull {rest}"),
            }
        })
        .collect();
    let (before, after) = (&header[..start], &header[end..]);
    Some(format!("{before}{}{after}", written.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_readonly_and_outputs_alone() {
        let param = |alias| KernelParam {
            name: "p".to_owned(),
            ty: "*mut f32".to_owned(),
            alias,
            layout: None,
        };
        let params = [param(1), param(0), param(2), param(0), param(1)];
        let header = "define ptx_kernel void @k(ptr noundef %0, i64 noundef %1, ptr %2, ptr %3, \
                      ptr readnone %4) #0";
        assert_eq!(
            marked(header, &params).as_deref(),
            Some(
                "define ptx_kernel void @k(ptr noalias nonnull readonly %0, i64 noundef %1, \
                 ptr noalias nonnull %2, ptr %3, ptr noalias nonnull readnone %4) #0"
            )
        );
        assert_eq!(marked(header, &params[1..]), None);
    }
}
