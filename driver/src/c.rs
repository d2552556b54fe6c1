//! Types of the C interface.
//!
//! Handles are numbers that are looked up, never pointers that are followed. What a caller hands
//! over by pointer comes as one of the types below, which check for null.

use std::ffi::{CStr, c_char, c_void};

use crate::code::{Answer, Code};

/// A handle of the driver; 0 is none.
pub(crate) type Handle = usize;
/// `CUdevice`
pub(crate) type Device = i32;
/// `CUdeviceptr`
pub(crate) type Address = u64;

/// A place for an answer: null, or valid for a write, by the contract of each function of the API.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place of our own.
    pub(crate) fn to(place: &mut T) -> Self {
        Self(place)
    }

    /// No place, for an answer that is not wanted.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A list of our own.
    pub(crate) fn to_all(list: &mut [T]) -> Self {
        Self(list.as_mut_ptr())
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes the answer.
    pub(crate) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller's place for a `T`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Reads an answer that was written.
    pub(crate) fn answered(self) -> Answer<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// Writes an answer that the caller need not want.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so the caller's place for a `T`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes the items to a list of the caller, which has room for `room`.
    pub(crate) fn set_all(self, items: impl IntoIterator<Item = T>, room: usize) -> Answer {
        if self.0.is_null() && room > 0 {
            return Err(Code::INVALID_VALUE);
        }
        for (at, item) in items.into_iter().take(room).enumerate() {
            // SAFETY: not null, and the caller's list has room for more than `at` items.
            unsafe { self.0.add(at).write_unaligned(item) };
        }
        Ok(())
    }
}

/// A value or a list of values to read: null, or valid for reads, by the contract of each function.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> In<T> {
    /// A pointer that came by another way than as an argument.
    ///
    /// # Safety
    /// As its type states.
    pub(crate) unsafe fn new(pointer: *const T) -> Self {
        Self(pointer)
    }

    pub(crate) fn null() -> Self {
        Self(std::ptr::null())
    }

    /// Where it is.
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// A value of our own.
    pub(crate) fn from(value: &T) -> Self {
        Self(value)
    }
}

impl<T: Copy> In<T> {
    /// Reads the value.
    pub(crate) fn get(self) -> Answer<T> {
        self.at(0)
    }

    /// Reads an item of a list; the caller's contract says that it is there.
    pub(crate) fn at(self, index: usize) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller's list, which has this item.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    /// Reads a list of `len` items.
    pub(crate) fn list(self, len: usize) -> Answer<Vec<T>> {
        (0..len).map(|index| self.at(index)).collect()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A list of values that are read and replaced: null, or valid for both, by the contract of each
/// function.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

impl<T> InOut<T> {
    /// A pointer that came by another way than as an argument of this type.
    ///
    /// # Safety
    /// As its type states.
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl<T: Copy> InOut<T> {
    /// Reads an item; the caller's contract says that it is there.
    pub(crate) fn at(self, index: usize) -> Answer<T> {
        In(self.0.cast_const()).at(index)
    }

    /// The pointer itself, for a view as another type.
    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }

    /// Replaces an item; the caller's contract says that it is there.
    pub(crate) fn set_at(self, index: usize, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller's list, which has this item.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }
}

/// A text that ends with a zero byte, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// A text of our own.
    pub(crate) fn from(text: &CStr) -> Self {
        Self(text.as_ptr())
    }

    /// The text.
    pub(crate) fn get(&self) -> Answer<&str> {
        let bytes = self.bytes()?;
        str::from_utf8(bytes).map_err(|_| Code::INVALID_VALUE)
    }

    /// The text's bytes, without the zero.
    pub(crate) fn bytes(&self) -> Answer<&[u8]> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so by the caller's contract a text that ends with a zero byte and stays
        // while the function runs, as `self` does.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

/// A pointer to data whose size the function's contract says elsewhere.
pub(crate) type Data = *const c_void;

/// A pointer to memory of the host that a copy writes.
pub(crate) type Room = *mut c_void;

/// The bytes that a pointer of the caller leads to.
///
/// # Safety
/// `data` is null, or valid for reads of `len` bytes for as long as the result is used.
pub(crate) unsafe fn bytes<'a>(data: Data, len: usize) -> Answer<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null; the rest is the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// The bytes that a pointer of the caller leads to, for writing.
///
/// # Safety
/// `room` is null, or valid for writes of `len` bytes by nobody else for as long as the result is
/// used.
pub(crate) unsafe fn bytes_mut<'a>(room: Room, len: usize) -> Answer<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if room.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null; the rest is the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(room.cast(), len) })
}

/// `CUDA_MEMCPY2D`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Copy2d {
    pub(crate) from: Side2d,
    pub(crate) to: Side2d,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
}

/// One side of a [`Copy2d`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Side2d {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) kind: u32,
    pub(crate) host: usize,
    pub(crate) device: Address,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
}

/// `CUDA_MEMCPY3D`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Copy3d {
    pub(crate) from: Side3d,
    pub(crate) to: Side3d,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// One side of a [`Copy3d`].
#[derive(Clone, Copy, Default)]
#[allow(dead_code, reason = "the layout is that of the header")]
#[repr(C)]
pub(crate) struct Side3d {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) kind: u32,
    pub(crate) host: usize,
    pub(crate) device: Address,
    pub(crate) array: Handle,
    pub(crate) reserved: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUlaunchConfig`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: Handle,
    pub(crate) attributes: In<LaunchAttribute>,
    pub(crate) count: u32,
}

/// `CUlaunchAttribute`
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the layout is that of the header")]
#[repr(C)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: u32,
    pub(crate) pad: u32,
    pub(crate) value: [u32; 16],
}

/// `CUdevprop`
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the layout is that of the header")]
#[repr(C)]
pub(crate) struct DeviceProperties {
    pub(crate) max_threads: i32,
    pub(crate) max_block: [i32; 3],
    pub(crate) max_grid: [i32; 3],
    pub(crate) shared_bytes: i32,
    pub(crate) constant_bytes: i32,
    pub(crate) warp: i32,
    pub(crate) pitch: i32,
    pub(crate) registers: i32,
    pub(crate) clock_khz: i32,
    pub(crate) texture_align: i32,
}

/// A function of the host that a stream calls: `CUhostFn`.
pub(crate) type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// `CUstreamCallback`
pub(crate) type StreamCallback = Option<unsafe extern "C" fn(Handle, Code, *mut c_void)>;
/// Dynamic shared memory for a block size: `CUoccupancyB2DSize`.
pub(crate) type SharedBytesOf = Option<unsafe extern "C" fn(i32) -> usize>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Copy2d>(), 128);
        assert_eq!(size_of::<Copy3d>(), 200);
        assert_eq!(size_of::<LaunchShape>(), 56);
        assert_eq!(size_of::<LaunchAttribute>(), 72);
    }
}
