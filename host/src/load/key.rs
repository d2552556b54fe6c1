//! Keys of loaded kernels. They are borrowed and live on the stack, so that a lookup allocates
//! nothing.

use super::LoadVariant;

/// A kernel as a device loads it. `E` is the name of an embedded entry (`str`), or the description
/// of a composed kernel (`[u64]`).
pub(crate) struct KernelKey<'a, E: ?Sized = str> {
    pub(crate) entry: &'a E,
    pub(crate) variant: LoadVariant,
}
