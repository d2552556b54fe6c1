//! Tensor maps as parameters by value.
//!
//! In the source a `TensorMapParam` is a pointer. The hardware reads a map from the launch's
//! parameters where it is 128 bytes of them, aligned to 64; rustc has no such parameter (a type
//! of that alignment by value makes it crash, and one of less is copied to local memory). So the
//! pointer becomes `byval`, which is a pointer too, and the body stays as it is.

use super::Module;
use super::kernels::Kernel;

/// Last segment of the type's path.
const TYPE: &str = "TensorMapParam";
/// What such a parameter is in the header.
const BY_VALUE: &str = "ptr byval([128 x i8]) align 64 \"nvvm.grid_constant\"";

/// Changes the headers of `kernels` that have such parameters.
pub fn apply(module: &mut Module, kernels: &[Kernel]) {
    for kernel in kernels {
        let is_map: Vec<bool> = kernel
            .params
            .iter()
            .map(|param| param.ty.rsplit("::").next() == Some(TYPE))
            .collect();
        if !is_map.contains(&true) {
            continue;
        }
        let function = module
            .functions_mut()
            .find(|function| function.name == kernel.name);
        if let Some(function) = function
            && let Some(header) = with_values(&function.header, &is_map)
        {
            function.header = header;
        }
    }
}

/// The header with those parameters by value; `None` where it does not have as many.
fn with_values(header: &str, is_map: &[bool]) -> Option<String> {
    let start = header.find('(')? + 1;
    let end = start + closing(&header[start..])?;
    let params = split(&header[start..end]);
    if params.len() != is_map.len() {
        return None;
    }
    let params: Vec<String> = params
        .into_iter()
        .zip(is_map)
        .map(|(param, is_map)| match (is_map, param.rsplit_once(' ')) {
            (true, Some((_, name))) => format!("{BY_VALUE} {name}"),
            _ => param.to_owned(),
        })
        .collect();
    let (before, after) = (&header[..start], &header[end..]);
    Some(format!("{before}{}{after}", params.join(", ")))
}

/// Where the parenthesis closes that was open before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.bytes().position(|byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        depth == 0
    })
}

/// The parameters, which may have commas of their own inside of brackets.
fn split(params: &str) -> Vec<&str> {
    let mut depth = 0;
    params
        .split(|c: char| {
            depth += i32::from("([{<".contains(c)) - i32::from(")]}>".contains(c));
            depth == 0 && c == ','
        })
        .map(str::trim)
        .filter(|param| !param.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::kernels::KernelParam;
    use super::*;

    #[test]
    fn maps_become_values_and_the_rest_stays() {
        let mut module = Module::parse(
            "define ptx_kernel void @k(ptr noundef %0, { i32, i32 } %1, ptr captures(none) %2) #0 {\n  \
             ret void\n}\n",
        );
        let param = |ty: &str| KernelParam {
            name: "p".to_owned(),
            ty: ty.to_owned(),
        };
        let kernel = Kernel {
            name: "k".to_owned(),
            module: "c".to_owned(),
            params: vec![
                param("tma::TensorMapParam"),
                param("Pair"),
                param("*mut u32"),
            ],
            max_threads: None,
            min_blocks: None,
            cluster: None,
            dynamic_shared_bytes: None,
            arch: None,
        };
        apply(&mut module, &[kernel]);
        let header = module
            .function("k")
            .map(|function| function.header.as_str());
        assert_eq!(
            header,
            Some(
                "define ptx_kernel void @k(ptr byval([128 x i8]) align 64 \"nvvm.grid_constant\" %0, \
                 { i32, i32 } %1, ptr captures(none) %2) #0"
            )
        );
    }
}
