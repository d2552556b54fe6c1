//! Host memory for what files and options ask for, which may be more than there is.

use anyhow::Result;
use warpsmith::{DeviceError, Error};

/// An empty vector with room for `len` elements: where there is none, an error, and not the end of
/// the process as from a collection that grows by itself.
///
/// # Errors
/// [`DeviceError::OutOfHostMemory`].
pub(crate) fn reserved<T>(len: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    let reserved = elements.try_reserve_exact(len);
    reserved.map_err(|_| {
        Error::Device(DeviceError::OutOfHostMemory {
            requested_bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
        })
    })?;
    Ok(elements)
}

/// [`reserved`], filled with the elements of `of`, which gives at most `len`.
///
/// # Errors
/// [`DeviceError::OutOfHostMemory`].
pub(crate) fn collected<T>(len: usize, of: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut elements = reserved(len)?;
    elements.extend(of.into_iter().take(len));
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_host_has_memory_for_is_an_error_with_its_size() {
        let refused = collected(1 << 50, std::iter::repeat(1_u64)).expect_err("2^53 bytes");
        let typed = refused.downcast_ref::<Error>();
        assert!(
            matches!(typed, Some(Error::Device(DeviceError::OutOfHostMemory { requested_bytes })) if *requested_bytes == 1 << 53),
            "{refused}"
        );
        assert_eq!(collected(2, 5..9).expect("memory"), [5, 6]);
    }
}
