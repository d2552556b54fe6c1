//! Parameters by value that a kernel reads where they are.
//!
//! rustc passes a struct by value as numbers, which an index that only the launch knows copies to local
//! memory. In the source a `ByValue<T, BYTES>` is a pointer; here it becomes `byval` of so many bytes,
//! which is a pointer too, and loads through it read the launch's parameters.
//!
//! The same for tensor maps:
//! In the source a `TensorMapParam` is a pointer. The hardware reads a map from the launch's
//! parameters where it is 128 bytes of them, aligned to 64; rustc has no such parameter (a type
//! of that alignment by value makes it crash, and one of less is copied to local memory). So the
//! pointer becomes `byval`, which is a pointer too, and the body stays as it is.

use super::Module;
use super::kernels::Kernel;

/// Bytes and alignment of a parameter of the type `ty` as it is written, where it is one by value.
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

/// Changes the headers of `kernels` that have such parameters.
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

/// The header with those parameters by value; `None` where it does not have as many.
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
