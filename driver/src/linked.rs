//! Several modules of PTX as one text.

use std::borrow::Cow;

use ptx_syntax::link::link;

/// Links modules. One alone stays as it is, so that reports name its lines.
///
/// # Errors
/// What is wrong with a module, or with all of them together.
pub(crate) fn linked(modules: &[String]) -> Result<Cow<'_, str>, String> {
    if let [ptx] = modules {
        return Ok(Cow::Borrowed(ptx));
    }
    let mut parsed = Vec::new();
    for (number, ptx) in modules.iter().enumerate() {
        let module = ptx_syntax::parse(ptx);
        parsed.push(module.map_err(|error| format!("module {}: {error}", number + 1))?);
    }
    let linked = link(parsed).map_err(|error| error.to_string())?;
    Ok(Cow::Owned(linked.to_string()))
}
