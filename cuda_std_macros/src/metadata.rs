//! The JSON that describes a kernel to cuda_builder.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Expr, Ident, Type};

use crate::attributes::Attributes;

/// Placeholder for a number in the JSON; `cuda_std::meta::fill` overwrites it.
const NUMBER: &str = "@@@@@@@@@@@@@@@@@@@@";

/// A parameter of the entry.
pub(crate) struct Param {
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: String,
    /// In a safe kernel, an expression for how the kernel uses the memory behind the pointer. 0:
    /// nothing is known; 1: nobody writes it; 2: nothing else points to it.
    pub(crate) alias: Option<TokenStream>,
    /// In a safe kernel, an expression for the layout of a struct.
    pub(crate) layout: Option<TokenStream>,
}

impl Param {
    /// One of which the JSON has name and type.
    pub(crate) fn new(name: String, ty: String) -> Self {
        Self {
            name,
            ty,
            alias: None,
            layout: None,
        }
    }
}

/// Text with places for numbers, and the expressions for the numbers.
#[derive(Default)]
pub(crate) struct Text {
    text: String,
    numbers: Vec<TokenStream>,
}

impl Text {
    pub(crate) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            numbers: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text += text;
    }

    pub(crate) fn number(&mut self, number: TokenStream) {
        self.text += NUMBER;
        self.numbers.push(number);
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.text += &other.text;
        self.numbers.extend(other.numbers);
    }

    /// `"key":`, and the number or `null`.
    fn entry(&mut self, key: &str, value: Option<impl ToTokens>) {
        self.push(&format!(",\"{key}\":"));
        match value {
            Some(value) => self.number(value.to_token_stream()),
            None => self.push("null"),
        }
    }

    /// `"key":`, and the three numbers or `null`.
    fn extents(&mut self, key: &str, extents: Option<&[Expr; 3]>) {
        self.push(&format!(",\"{key}\":"));
        let Some(extents) = extents else {
            return self.push("null");
        };
        for (extent, before) in extents.iter().zip(["[", ",", ","]) {
            self.push(before);
            self.number(extent.to_token_stream());
        }
        self.push("]");
    }
}

/// The static with the metadata of kernel `name`.
pub(crate) fn expand(
    name: &Ident,
    params: Vec<Param>,
    attributes: &Attributes,
    contract: Text,
    is_safe: bool,
) -> TokenStream {
    let Text { text, numbers } = tail(params, attributes, contract, is_safe);
    let head = format!("{{\"name\":\"{name}\",\"module\":\"");
    let symbol = format_ident!("__WARPSMITH_KERNEL_{name}");
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[used]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".warpsmith.kernel")]
        #[allow(non_upper_case_globals)]
        static #symbol: [u8; ::core::concat!(#head, ::core::module_path!(), #text).len()] =
            ::cuda_std::meta::fill(
                ::core::concat!(#head, ::core::module_path!(), #text),
                &[#((#numbers) as u64),*],
            );
    }
}

/// The JSON after the module path.
fn tail(params: Vec<Param>, attributes: &Attributes, contract: Text, is_safe: bool) -> Text {
    let mut text = Text::of("\",\"params\":[");
    for (at, param) in params.into_iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let Param { name, ty, .. } = param;
        text.push(&format!("{comma}{{\"name\":\"{name}\",\"type\":\"{ty}\""));
        for (key, number) in [("alias", param.alias), ("layout", param.layout)] {
            if number.is_some() {
                text.entry(key, number);
            }
        }
        text.push("}");
    }
    text.push("]");
    text.entry("max_threads", attributes.max_threads.as_ref());
    text.entry("min_blocks", attributes.min_blocks.as_ref());
    text.entry("dynamic_shared_bytes", attributes.dynamic_shared.as_ref());
    match &attributes.arch {
        Some(name) => text.push(&format!(",\"arch\":\"{name}\"")),
        None => text.push(",\"arch\":null"),
    }
    text.extents("cluster", attributes.cluster.as_ref());
    text.extents("block", attributes.block.as_ref());
    text.append(contract);
    if attributes.allow_local {
        text.push(",\"allow_local\":true");
    }
    text.push(&format!(",\"safe\":{is_safe}}}"));
    text
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
