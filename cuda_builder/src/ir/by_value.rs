//! By-value parameters that a kernel reads in place, from parameter space.
//!
//! - **`ByValue<T, BYTES>`.** rustc passes a struct by value as scalars. If the kernel indexes into
//!   it by a run-time value, LLVM copies it to local memory. In the source a `ByValue` is a
//!   pointer. Here the parameter becomes `byval` with `BYTES` bytes, which is a pointer too, and
//!   loads through it read the launch's parameters.
//! - **`TensorMapParam`.** The hardware can read a tensor map from the launch's parameters, where
//!   it is 128 bytes, aligned to 64. rustc cannot express such a parameter: a by-value type of that
//!   alignment makes it crash, and one of a smaller alignment is copied to local memory. In the
//!   source it is a pointer too, and becomes `byval` in the same way.
//!
//! The function's body does not change.

use super::Module;
use super::kernels::Kernel;

/// Size and alignment in bytes, if the type `ty`, as the source spells it, is one of the two.
fn by_value(ty: &str) -> Option<(usize, usize)> {
    let name = ty.split('<').next()?.trim().rsplit("::").next()?.trim();
    match name {
        "TensorMapParam" => Some((128, 64)),
        "ByValue" => {
            let (_, bytes) = ty.rsplit_once(',')?;
            let bytes = bytes.trim().strip_suffix('>')?.trim().replace('_', "");
            Some((bytes.parse().ok()?, 8))
        }
        _ => None,
    }
}

/// Makes such parameters of `kernels` `byval`.
pub fn apply(module: &mut Module, kernels: &[Kernel]) {
    for kernel in kernels {
        let values: Vec<Option<(usize, usize)>> = kernel
            .params
            .iter()
            .map(|param| by_value(&param.ty))
            .collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let function = module
            .functions_mut()
            .find(|function| function.name == kernel.name);
        if let Some(function) = function
            && let Some(header) = with_values(&function.header, &values)
        {
            function.header = header;
        }
    }
}

/// The header with these parameters `byval`; `None` if it has a different number of parameters.
fn with_values(header: &str, values: &[Option<(usize, usize)>]) -> Option<String> {
    let start = header.find('(')? + 1;
    let end = start + closing(&header[start..])?;
    let params = split(&header[start..end]);
    if params.len() != values.len() {
        return None;
    }
    let params: Vec<String> = params
        .into_iter()
        .zip(values)
        .map(|(param, value)| match (value, param.rsplit_once(' ')) {
            (Some((bytes, align)), Some((_, name))) => {
                format!("ptr byval([{bytes} x i8]) align {align} \"nvvm.grid_constant\" {name}")
            }
            _ => param.to_owned(),
        })
        .collect();
    let (before, after) = (&header[..start], &header[end..]);
    Some(format!("{before}{}{after}", params.join(", ")))
}

/// The position in `text` of the parenthesis that closes the one opened before it.
pub(super) fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.bytes().position(|byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        depth == 0
    })
}

/// Splits the parameters at commas outside brackets.
pub(super) fn split(params: &str) -> Vec<&str> {
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
    fn types_by_value_are_told_by_how_they_are_written() {
        assert_eq!(by_value("tma::TensorMapParam"), Some((128, 64)));
        assert_eq!(
            by_value("cuda_std::param::ByValue < Params < 3 > , 1_32 >"),
            Some((132, 8))
        );
        assert_eq!(by_value("ByValue<Params, 432>"), Some((432, 8)));
        assert_eq!(by_value("*const ByValue<Params, 8>"), None);
        assert_eq!(by_value("Params"), None);
    }

    #[test]
    fn maps_become_values_and_the_rest_stays() {
        let mut module = Module::parse(
            "define ptx_kernel void @k(ptr noundef %0, { i32, i32 } %1, ptr captures(none) %2) #0 {\n  \
             ret void\n}\n",
        );
        let param = |ty: &str| KernelParam {
            name: "p".to_owned(),
            ty: ty.to_owned(),
            alias: 0,
            layout: None,
        };
        let kernel = Kernel {
            name: "k".to_owned(),
            module: "c".to_owned(),
            params: vec![
                param("tma::TensorMapParam"),
                param("Pair"),
                param("*mut u32"),
            ],
            ..Kernel::default()
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
