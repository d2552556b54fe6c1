//! Peers behind a C ABI: the callbacks that `peers/compare.py` passes through ctypes.
//!
//! Every callback gets a buffer for text, into which it writes a zero-terminated string: the offer
//! as JSON, or an error message if it does not return 0.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use serde_json::Value;

use super::{Offer, Peers};
use crate::error::{BenchError, Result};

/// Size of the text buffer.
const TEXT_BYTES: usize = 1 << 16;

/// The functions of the peers' side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    /// The peers' names, with versions.
    pub name: *const c_char,
    /// Takes a case as JSON; leaves an [`Offer`] as JSON.
    pub prepare: unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> i32,
    /// Enqueues a peer on a copy.
    pub run: unsafe extern "C" fn(u32, u32, *mut c_char, usize) -> i32,
    /// Enqueues a peer and a copy of its results.
    pub answer: unsafe extern "C" fn(u32, *mut c_char, usize) -> i32,
}

/// Peers that are called through callbacks.
#[derive(Debug)]
pub struct Foreign {
    callbacks: Callbacks,
    name: String,
    case: RefCell<String>,
    text: RefCell<Vec<u8>>,
}

impl Foreign {
    /// The peers behind `callbacks`.
    ///
    /// # Safety
    /// `name` is a zero-terminated string. The callbacks may be called on this thread while this
    /// value lives. They write at most as many bytes as their last argument says to the buffer that
    /// the argument before it names. What they enqueue accesses only their own memory and that of
    /// the operands and results described to `prepare`.
    pub unsafe fn new(callbacks: Callbacks) -> Self {
        // SAFETY: the caller passes a zero-terminated string.
        let name = unsafe { CStr::from_ptr(callbacks.name) };
        Self {
            callbacks,
            name: name.to_string_lossy().into_owned(),
            case: RefCell::new(String::new()),
            text: RefCell::new(vec![0; TEXT_BYTES]),
        }
    }

    /// The text that `call` writes; it is the error if `call` reports one.
    fn text_of(&self, call: impl FnOnce(*mut c_char, usize) -> i32) -> Result<String> {
        let mut text = self.text.borrow_mut();
        text[0] = 0;
        let code = call(text.as_mut_ptr().cast(), TEXT_BYTES);
        let left = CStr::from_bytes_until_nul(&text);
        let left = left.map_or_else(
            |_| String::new(),
            |text| text.to_string_lossy().into_owned(),
        );
        match code {
            0 => Ok(left),
            _ => Err(self.error(left)),
        }
    }

    fn error(&self, message: String) -> BenchError {
        BenchError::Peers {
            case: self.case.borrow().clone(),
            message,
        }
    }
}

impl Peers for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&self, case: &str, description: &Value) -> Result<Offer> {
        self.case.replace(case.to_owned());
        let json = CString::new(description.to_string());
        let json = json.map_err(|error| self.error(error.to_string()))?;
        let offer = self.text_of(|text, bytes| {
            // SAFETY: `json` is zero-terminated and `text` has room for `bytes` bytes; see `new`.
            unsafe { (self.callbacks.prepare)(json.as_ptr(), text, bytes) }
        })?;
        serde_json::from_str(&offer).map_err(|error| self.error(format!("{error} in {offer}")))
    }

    fn run(&self, peer: usize, copy: usize) -> Result<()> {
        let call = |text, bytes| {
            // SAFETY: room for as many bytes; see `new`.
            unsafe { (self.callbacks.run)(peer as u32, copy as u32, text, bytes) }
        };
        self.text_of(call).map(drop)
    }

    fn answer(&self, peer: usize) -> Result<()> {
        let call = |text, bytes| {
            // SAFETY: room for as many bytes; see `new`.
            unsafe { (self.callbacks.answer)(peer as u32, text, bytes) }
        };
        self.text_of(call).map(drop)
    }
}
