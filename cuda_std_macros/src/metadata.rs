//! The JSON that describes a kernel to cuda_builder.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Expr, Ident, Type};

use crate::attributes::Attributes;

/// Placeholder for a number in the JSON; `cuda_std::meta::fill` overwrites it.
const NUMBER: &str = "@@@@@@@@@@";

/// A parameter of the entry.
pub(crate) struct Param {
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: String,
    /// In a safe kernel, an expression for how the kernel uses the memory behind the pointer. 0:
    /// nothing is known; 1: nobody writes it; 2: nothing else points to it.
    pub(crate) alias: Option<TokenStream>,
}

/// The static with the metadata of kernel `name`.
pub(crate) fn expand(
    name: &Ident,
    params: &[Param],
    attributes: &Attributes,
    is_safe: bool,
) -> TokenStream {
    let (tail, numbers) = tail(params, attributes, is_safe);
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
fn tail(params: &[Param], attributes: &Attributes, is_safe: bool) -> (String, Vec<TokenStream>) {
    let mut numbers = Vec::new();
    let params: Vec<String> = params
        .iter()
        .map(|Param { name, ty, alias }| {
            let alias = alias.clone().map_or_else(String::new, |alias| {
                numbers.push(alias);
                format!(",\"alias\":{NUMBER}")
            });
            format!("{{\"name\":\"{name}\",\"type\":\"{ty}\"{alias}}}")
        })
        .collect();
    let mut text = format!("\",\"params\":[{}]", params.join(","));
    let mut number = |key: &str, value: &Option<Expr>| {
        text += &format!(
            ",\"{key}\":{}",
            if value.is_some() { NUMBER } else { "null" }
        );
        numbers.extend(value.iter().map(ToTokens::to_token_stream));
    };
    number("max_threads", &attributes.max_threads);
    number("min_blocks", &attributes.min_blocks);
    number("dynamic_shared_bytes", &attributes.dynamic_shared);
    match &attributes.arch {
        Some(name) => text += &format!(",\"arch\":\"{name}\""),
        None => text += ",\"arch\":null",
    }
    let mut extents = |key: &str, value: &Option<[Expr; 3]>| match value {
        Some(extents) => {
            text += &format!(",\"{key}\":[{NUMBER},{NUMBER},{NUMBER}]");
            numbers.extend(extents.iter().map(ToTokens::to_token_stream));
        }
        None => text += &format!(",\"{key}\":null"),
    };
    extents("cluster", &attributes.cluster);
    extents("block", &attributes.block);
    text += &format!(",\"safe\":{is_safe}}}");
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
