//! What the arguments of a safe kernel share: with each other, and with work on other streams.

use crate::argument::{Elements, number_of_atomic, pointee};
use crate::error::Result;
use crate::storage::Storage;
use crate::stream::Stream;

/// How the threads of a safe kernel use what a parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Nobody writes it.
    Read,
    /// All update it by atomics.
    Atomic,
    /// Each thread has elements of its own, and nothing else points to them.
    Own,
}

impl Use {
    /// That of a parameter of this Rust type.
    fn of(ty: &str) -> Self {
        match pointee(ty) {
            _ if ty.starts_with("*mut ") => Self::Own,
            Some(of) if number_of_atomic(of).is_some() => Self::Atomic,
            _ => Self::Read,
        }
    }
}

/// The memory that a launch of a safe kernel passes.
#[derive(Default)]
pub(crate) struct Shared<'a>(Vec<(usize, Use, Elements<'a>)>);

impl<'a> Shared<'a> {
    /// Adds the elements for the parameter at `index`, of Rust type `ty`. Returns the index of one that
    /// may have the same elements, and must not.
    pub(crate) fn add(
        &mut self,
        index: usize,
        ty: &str,
        elements: Elements<'a>,
    ) -> Result<Option<usize>> {
        let own = Use::of(ty);
        for (other, use_of_other, others) in &self.0 {
            let may_share = own == *use_of_other && own != Use::Own;
            if !may_share && elements.overlaps(others)? {
                return Ok(Some(*other));
            }
        }
        self.0.push((index, own, elements));
        Ok(None)
    }

    /// Enqueues the launch on `stream`, ordered with other streams that use the memory.
    pub(crate) fn in_turn(
        &self,
        stream: &Stream,
        launch: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let storages = self.0.iter().filter_map(|(.., of)| of.storage());
        in_turn(storages, stream, launch)
    }
}

/// Enqueues the work on `stream`, ordered with other streams that use the memory.
pub(crate) fn in_turn<'a>(
    mut storages: impl Iterator<Item = &'a Storage>,
    stream: &Stream,
    launch: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    match storages.next() {
        Some(storage) => storage.in_turn(stream, || in_turn(storages, stream, launch)),
        None => launch(),
    }
}

#[cfg(test)]
mod tests {
    use super::Use;

    #[test]
    fn the_type_says_how_a_parameter_is_used() {
        for (ty, want) in [
            ("*const f32", Use::Read),
            ("*const half::bf16", Use::Read),
            ("*const AtomicU32", Use::Atomic),
            ("*const core::sync::atomic::AtomicI64", Use::Atomic),
            ("*mut f32", Use::Own),
        ] {
            assert_eq!(Use::of(ty), want, "{ty}");
        }
    }
}
