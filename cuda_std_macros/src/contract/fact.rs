//! What a launch has checked, as statements of the kernel.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{BinOp, Expr};

use super::{Value, term};

/// A statement by which LLVM knows a condition.
pub(crate) fn assume(condition: &TokenStream) -> TokenStream {
    quote!(::core::hint::assert_unchecked(#condition);)
}

/// A statement by which LLVM knows a condition that a launch has checked. Where a value of the launch
/// equals another one or a constant, it becomes that: LLVM sees one value, in every pass.
pub(super) fn known(
    condition: &Expr,
    on_device: &TokenStream,
    values: &[Value],
) -> syn::Result<TokenStream> {
    let Expr::Binary(equality) = condition else {
        return Ok(assume(on_device));
    };
    let sides = (
        simple(&equality.left, values),
        simple(&equality.right, values),
    );
    match (&equality.op, sides) {
        (BinOp::Eq(_), (Some(_), Some(Some(value)))) => replace(value, &equality.left, values),
        (BinOp::Eq(_), (Some(Some(value)), Some(None))) => replace(value, &equality.right, values),
        _ => Ok(assume(on_device)),
    }
}

/// The value of a launch that an expression is, or `None` for a constant.
fn simple<'a>(expression: &Expr, values: &'a [Value]) -> Option<Option<&'a Value>> {
    let is = |path: &Expr, value: &Value| matches!(path, Expr::Path(path) if path.path.is_ident(&value.of));
    let value = values.iter().find(|value| match expression {
        Expr::MethodCall(call) => {
            call.args.is_empty() && call.method == value.extent && is(&call.receiver, value)
        }
        other => value.extent.is_empty() && is(other, value),
    });
    let is_constant = matches!(expression, Expr::Lit(_) | Expr::Path(_) | Expr::Block(_));
    match value {
        Some(value) => Some(Some(value)),
        None => is_constant.then_some(None),
    }
}

fn replace(value: &Value, by: &Expr, values: &[Value]) -> syn::Result<TokenStream> {
    let (place, by) = (&value.device, term(by, values)?.device);
    let parameter = place.clone().into_iter().next();
    let Some(TokenTree::Ident(parameter)) = parameter else {
        return Ok(assume(&quote!(#place as u64 == #by)));
    };
    Ok(quote! {
        let #parameter = {
            let mut #parameter = #parameter;
            #place = #by as _;
            #parameter
        };
    })
}
