//! What stands in the manifest under the name that the source gives it.

use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Ident};

/// Refuses a function whose name is a raw identifier. PTX has no such names. Without `r#` it is a
/// word that PTX, or a reader of the manifest, may keep for itself.
///
/// # Errors
/// At the name; `what` is "kernel" or "fragment".
pub(crate) fn check_function(name: &Ident, what: &str) -> syn::Result<()> {
    if *name == name.unraw() {
        return Ok(());
    }
    let message = format!("a {what}'s name cannot be a raw identifier: it is a symbol of the PTX");
    Err(syn::Error::new(name.span(), message))
}

/// Refuses parameters that not every build has: the macro sees them before `cfg` is decided.
///
/// # Errors
/// At the attribute; `what` is "kernel" or "fragment".
pub(crate) fn check_parameter(attributes: &[Attribute], what: &str) -> syn::Result<()> {
    let conditional = |attribute: &&Attribute| {
        let path = attribute.path();
        path.is_ident("cfg") || path.is_ident("cfg_attr")
    };
    match attributes.iter().find(conditional) {
        None => Ok(()),
        Some(attribute) => Err(syn::Error::new(
            attribute.span(),
            format!(
                "a {what}'s parameters are the same in every build, since they stand in the \
                 manifest: write a {what} for each and put `cfg` on it"
            ),
        )),
    }
}
