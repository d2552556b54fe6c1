//! Entries of a generic kernel: one for each list of arguments that the attribute names.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{
    AngleBracketedGenericArguments, Expr, GenericArgument, GenericParam, Ident, ItemFn, Type,
    parse_quote,
};

/// The name of a generic parameter, and its value in an entry.
pub(crate) type Value<'a> = (&'a Ident, TokenStream);

/// An entry `name = <f32, 4>` of a generic kernel.
pub(crate) struct Instance {
    pub(crate) name: Ident,
    pub(crate) arguments: AngleBracketedGenericArguments,
}

impl Instance {
    /// The function of the entry: it has the parameters of `generic` with the arguments in place, and
    /// calls it.
    pub(crate) fn function(
        &self,
        generic: &ItemFn,
        params: &[(&Ident, &Type)],
        values: &[Value<'_>],
    ) -> syn::Result<ItemFn> {
        let inputs = params.iter().map(|(name, ty)| {
            let ty = replaced(ty.to_token_stream(), values);
            quote!(#name: #ty)
        });
        let names = params.iter().map(|(name, _)| name);
        let (entry, callee, arguments) = (&self.name, &generic.sig.ident, &self.arguments);
        let call = quote!(#callee::#arguments(#(#names),*));
        let (qualifier, call) = match crate::kernel::is_unsafe(generic) {
            true => (quote!(unsafe), quote!(unsafe { #call })),
            false => (quote!(), call),
        };
        let ItemFn { attrs, vis, .. } = generic;
        Ok(parse_quote! {
            #(#attrs)*
            #vis #qualifier fn #entry(#(#inputs),*) {
                #call
            }
        })
    }

    /// The names of the generic parameters, each with its value.
    pub(crate) fn values<'a>(&'a self, generic: &'a ItemFn) -> syn::Result<Vec<Value<'a>>> {
        let params = &generic.sig.generics.params;
        let (got, want) = (self.arguments.args.len(), params.len());
        if got != want {
            let message = format!("`{}` takes {want} arguments, got {got}", generic.sig.ident);
            return Err(syn::Error::new(self.arguments.span(), message));
        }
        let pairs = params.iter().zip(&self.arguments.args);
        let values = pairs.map(|(param, value)| match param {
            GenericParam::Type(param) => Ok((&param.ident, value.to_token_stream())),
            GenericParam::Const(param) => Ok((&param.ident, constant(value))),
            GenericParam::Lifetime(_) => {
                let message =
                    "a kernel names no lifetime: what it borrows lives as long as it runs";
                Err(syn::Error::new(param.span(), message))
            }
        });
        values.collect()
    }
}

/// The value of a constant, which may stand in an expression.
fn constant(value: &GenericArgument) -> TokenStream {
    match value {
        GenericArgument::Const(value @ (Expr::Lit(_) | Expr::Block(_))) => quote!(#value),
        GenericArgument::Const(value) => quote!({ #value }),
        value => value.to_token_stream(),
    }
}

/// The tokens with the values in place of the names.
pub(crate) fn replaced(tokens: TokenStream, values: &[Value<'_>]) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(name) => {
            let value = values.iter().find(|(known, _)| **known == name);
            value.map_or_else(|| name.to_token_stream(), |(_, value)| value.clone())
        }
        TokenTree::Group(group) => {
            let inner = replaced(group.stream(), values);
            Group::new(group.delimiter(), inner).to_token_stream()
        }
        token => token.to_token_stream(),
    };
    tokens.into_iter().flat_map(replace).collect()
}
