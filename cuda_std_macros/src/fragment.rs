//! `#[fragment]`: checks the function, and expands it to a device function with metadata.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, Ident, ItemFn, Pat, ReturnType, Safety, Type, parse2};

use crate::attributes::Attributes;
use crate::metadata::type_name;
use crate::names;

/// The types of parameters and results of fragments: each fits in one register.
const SCALARS: [&str; 6] = ["f32", "f64", "i32", "i64", "u32", "u64"];

/// Expands the attribute.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let span = attribute.span();
    let attributes: Attributes = parse2(attribute)?;
    let has_contract = attributes.requires.is_some() || attributes.grid.is_some();
    if attributes.constants().next().is_some() || has_contract || !attributes.instances.is_empty() {
        return Err(syn::Error::new(
            span,
            "a fragment has no launch bounds: it takes `arch` and nothing else",
        ));
    }
    let function: ItemFn = parse2(item)?;
    check_signature(&function)?;
    let metadata = metadata(&function, attributes.arch.as_deref())?;
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = &function;
    let (name, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    // Otherwise the compiler may read single bytes of a parameter. Pasted into a kernel, a
    // parameter is a register, not memory that has bytes.
    let whole = inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(typed) => Some(&typed.pat),
        FnArg::Receiver(_) => None,
    });
    let names = function
        .sig
        .inputs
        .iter()
        .map(|argument| Ok(param(argument)?.0));
    let names: Vec<&Ident> = names.collect::<syn::Result<_>>()?;
    Ok(quote! {
        #(#attrs)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #vis extern "C" fn #name(#inputs) #output {
            #(let #whole = ::cuda_std::hole::whole(#names);)*
            #block
        }

        #(#attrs)*
        #[cfg(not(target_arch = "nvptx64"))]
        #vis fn #name(#inputs) #output #block

        #metadata
    })
}

/// Refuses functions that cannot be pasted into a kernel.
fn check_signature(function: &ItemFn) -> syn::Result<()> {
    function.modifiers.require_empty()?;
    let sig = &function.sig;
    names::check_function(&sig.ident, "fragment")?;
    let refusals = [
        (
            !sig.generics.params.is_empty(),
            "a fragment cannot be generic: it is one compiled function",
        ),
        (sig.asyncness.is_some(), "a fragment cannot be async"),
        (sig.constness.is_some(), "a fragment cannot be const"),
        (sig.variadic.is_some(), "a fragment cannot be variadic"),
        (
            sig.abi.is_some(),
            "#[fragment] chooses the ABI; remove `extern`",
        ),
        (
            matches!(sig.safety, Safety::Unsafe(_)),
            "a fragment is a safe fn: a function of its arguments and of nothing else",
        ),
    ];
    match refusals.iter().find(|(refused, _)| *refused) {
        Some((_, message)) => Err(syn::Error::new(sig.span(), message)),
        None => Ok(()),
    }
}

/// The static that describes the fragment to cuda_builder: one JSON object.
fn metadata(function: &ItemFn, arch: Option<&str>) -> syn::Result<TokenStream> {
    let name = &function.sig.ident;
    let params: Vec<String> = function
        .sig
        .inputs
        .iter()
        .map(|argument| {
            let (name, ty) = param(argument)?;
            let name = name.unraw();
            Ok(format!(
                "{{\"name\":\"{name}\",\"type\":\"{}\"}}",
                scalar(ty)?
            ))
        })
        .collect::<syn::Result<_>>()?;
    let result = match &function.sig.output {
        ReturnType::Type(_, ty) => scalar(ty)?,
        ReturnType::Default => {
            return Err(syn::Error::new(
                function.sig.span(),
                "a fragment returns its value",
            ));
        }
    };
    let arch = arch.map_or("null".to_owned(), |arch| format!("\"{arch}\""));
    let head = format!("{{\"name\":\"{name}\",\"module\":\"");
    let tail = format!(
        "\",\"params\":[{}],\"result\":\"{result}\",\"arch\":{arch}}}",
        params.join(",")
    );
    let symbol = format_ident!("__WARPSMITH_FRAGMENT_{name}");
    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #[used]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".warpsmith.fragment")]
        #[allow(non_upper_case_globals)]
        static #symbol: [u8; ::core::concat!(#head, ::core::module_path!(), #tail).len()] =
            ::cuda_std::meta::fill(::core::concat!(#head, ::core::module_path!(), #tail), &[]);
    })
}

fn param(argument: &FnArg) -> syn::Result<(&Ident, &Type)> {
    if let FnArg::Typed(typed) = argument
        && let Pat::Ident(pattern) = typed.pat.as_ref()
    {
        names::check_parameter(&typed.attrs, "fragment")?;
        return Ok((&pattern.ident, &typed.ty));
    }
    Err(syn::Error::new(
        argument.span(),
        "a fragment's parameter has a plain name: it stands in the manifest",
    ))
}

/// The name of the type, if it fits in one register.
fn scalar(ty: &Type) -> syn::Result<String> {
    let name = type_name(ty);
    if SCALARS.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(syn::Error::new(
        ty.span(),
        format!(
            "a fragment takes and returns {}, not {name}",
            SCALARS.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compile error of `#[fragment(attribute)] item`; empty if there is none.
    fn refusal(attribute: &str, item: &str) -> String {
        let parse = |text: &str| text.parse().expect("the test's text is tokens");
        match expand(parse(attribute), parse(item)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_cannot_be_a_fragment_is_refused_with_the_reason() {
        let cases = [
            ("", "fn f<T>(x: T) -> f32 { 0.0 }", "cannot be generic"),
            ("", "unsafe fn f(x: f32) -> f32 { x }", "is a safe fn"),
            (
                "",
                "extern \"C\" fn f(x: f32) -> f32 { x }",
                "chooses the ABI",
            ),
            ("", "fn f(x: *const f32) -> f32 { 0.0 }", "not *const f32"),
            ("", "fn f(x: bool) -> f32 { 0.0 }", "not bool"),
            ("", "fn f(x: f32) -> (f32, f32) { (x, x) }", "not (f32,f32)"),
            ("", "fn f(x: f32) {}", "returns its value"),
            ("", "fn f((x, y): f32) -> f32 { x }", "plain name"),
            (
                "",
                "fn r#loop(x: f32) -> f32 { x }",
                "fragment's name cannot be",
            ),
            (
                "",
                "fn f(#[cfg(test)] x: f32) -> f32 { 0.0 }",
                "the same in every build",
            ),
            (
                "arch = \"sm_12\"",
                "fn f(x: f32) -> f32 { x }",
                "`sm_12` is not an architecture",
            ),
            (
                "max_threads = 4",
                "fn f(x: f32) -> f32 { x }",
                "no launch bounds",
            ),
        ];
        for (attribute, item, want) in cases {
            let got = refusal(attribute, item);
            assert!(got.contains(want), "`{item}`: {got:?}, want {want:?}");
        }
        let fine = "pub fn f(x: f32, n: u64) -> f64 { 0.0 }";
        assert_eq!(refusal("arch = \"sm_89\"", fine), "");
    }
}
