//! The JSON that describes a kernel to cuda_builder.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Expr, Ident, Type};

use crate::attributes::Attributes;

/// Placeholder for a number in the JSON; `cuda_std::meta::fill` overwrites it.
const NUMBER: &str = "@@@@@@@@@@";

/// The static with the metadata of kernel `name`.
pub(crate) fn expand(
    name: &Ident,
    params: &[(&Ident, &Type)],
    attributes: &Attributes,
) -> TokenStream {
    let (tail, numbers) = tail(params, attributes);
    let head = format!("{{\"name\":\"{name}\",\"module\":\"");
    let symbol = format_ident!("__WARPSMITH_KERNEL_{name}");
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[used]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".warpsmith.kernel")]
        #[allow(non_upper_case_globals)]
        static #symbol: [u8; ::core::concat!(#head, ::core::module_path!(), #tail).len()] =
            ::cuda_std::meta::fill(
                ::core::concat!(#head, ::core::module_path!(), #tail),
                &[#((#numbers) as u64),*],
            );
    }
}

/// The JSON after the module path, and the expressions for its numbers.
fn tail<'a>(params: &[(&Ident, &Type)], attributes: &'a Attributes) -> (String, Vec<&'a Expr>) {
    let mut numbers = Vec::new();
    let params: Vec<String> = params
        .iter()
        .map(|(name, ty)| {
            let (name, ty) = (name.unraw(), type_name(ty));
            format!("{{\"name\":\"{name}\",\"type\":\"{ty}\"}}")
        })
        .collect();
    let mut text = format!("\",\"params\":[{}]", params.join(","));
    let mut number = |key: &str, value: &'a Option<Expr>| {
        text += &format!(
            ",\"{key}\":{}",
            if value.is_some() { NUMBER } else { "null" }
        );
        numbers.extend(value);
    };
    number("max_threads", &attributes.max_threads);
    number("min_blocks", &attributes.min_blocks);
    number("dynamic_shared_bytes", &attributes.dynamic_shared);
    match &attributes.arch {
        Some(name) => text += &format!(",\"arch\":\"{name}\""),
        None => text += ",\"arch\":null",
    }
    match &attributes.cluster {
        Some(extents) => {
            text += &format!(",\"cluster\":[{NUMBER},{NUMBER},{NUMBER}]}}");
            numbers.extend(extents);
        }
        None => text += ",\"cluster\":null}",
    }
    (text, numbers)
}

/// The type as written, without white space except between two words.
pub(crate) fn type_name(ty: &Type) -> String {
    let spaced = ty.to_token_stream().to_string();
    let mut name = String::new();
    for word in spaced.split_whitespace() {
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        if name.ends_with(joins) && word.starts_with(joins) {
            name.push(' ');
        }
        name += word;
    }
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
