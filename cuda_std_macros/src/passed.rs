//! What a launch of an unsafe kernel passes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Ident, Type};

use crate::contract::Value;
use crate::metadata::{self, Param};
use crate::safe;

/// What a launch of an unsafe kernel passes. A slice is an address and a length.
#[derive(Default)]
pub(crate) struct Passed {
    /// The parameters of the entry.
    pub(crate) inputs: Vec<TokenStream>,
    /// The same for the manifest.
    pub(crate) described: Vec<Param>,
    /// Lengths and numbers.
    pub(crate) values: Vec<Value>,
    /// Statements that make the slices.
    pub(crate) slices: Vec<TokenStream>,
}

impl Passed {
    pub(crate) fn of(params: &[(&Ident, &Type)]) -> Self {
        let mut passed = Self::default();
        for (name, ty) in params {
            let plain = name.unraw();
            let mut value = |extent, device| {
                passed.values.push(Value {
                    of: plain.clone(),
                    extent,
                    device,
                });
            };
            let Some(element) = element_of_slice(ty) else {
                if safe::is_unsigned(ty) {
                    value("", quote!(#name));
                }
                passed.inputs.push(quote!(#name: #ty));
                let param = Param::new(plain.to_string(), metadata::type_name(ty));
                passed.described.push(param);
                continue;
            };
            let len = format_ident!("__{plain}_len");
            value("len", quote!(#len));
            passed.inputs.push(quote!(#name: *const #element));
            passed.inputs.push(quote!(#len: usize));
            let pointer = format!("*const {}", metadata::type_name(element));
            passed.described.extend([
                Param::new(plain.to_string(), pointer),
                Param::new(format!("{plain}.len"), "usize".to_owned()),
            ]);
            passed.slices.push(quote! {
                // SAFETY: whoever launches the kernel passes so many elements.
                let #name: #ty = unsafe { ::cuda_std::meta::slice(#name, #len) };
            });
        }
        passed
    }
}

/// The type of the elements of `&[T]`.
pub(crate) fn element_of_slice(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Reference(reference) if reference.mutability.is_none() => match &*reference.elem {
            Type::Slice(slice) => Some(&slice.elem),
            _ => None,
        },
        _ => None,
    }
}
