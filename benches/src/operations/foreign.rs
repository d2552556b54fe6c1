//! Peers behind a C ABI: what `peers/compare.py` gives through ctypes.
//!
//! Every callback gets room for a text, which it fills with a string that ends in a zero: the offer
//! as JSON, or what went wrong where it does not return 0.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use serde_json::Value;

use super::{Offer, Peers};
use crate::error::{BenchError, Result};

/// Room for a text.
const TEXT_BYTES: usize = 1 << 16;

/// What the other side offers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    /// Who they are, with versions.
    pub name: *const c_char,
    /// Takes a case as JSON; leaves an [`Offer`] as JSON.
    pub prepare: unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> i32,
    /// Enqueues a peer on a copy.
    pub run: unsafe extern "C" fn(u32, u32, *mut c_char, usize) -> i32,
    /// Enqueues a peer, and copies its answers.
    pub answer: unsafe extern "C" fn(u32, *mut c_char, usize) -> i32,
}

/// Peers that callbacks reach.
#[derive(Debug)]
pub struct Foreign {
    callbacks: Callbacks,
    name: String,
    case: RefCell<String>,
    text: RefCell<Vec<u8>>,
}

impl Foreign {
    /// By `callbacks`.
    ///
    /// # Safety
    /// `name` is a string that ends in a zero. The callbacks may be called on this thread while this
    /// value lives, write no more than their last argument says to the argument before it, and
    /// enqueue nothing that touches other memory than its own and that of the operands and answers
    /// described to `prepare`.
    pub unsafe fn new(callbacks: Callbacks) -> Self {
        // SAFETY: the caller's.
        let name = unsafe { CStr::from_ptr(callbacks.name) };
        Self {
            callbacks,
            name: name.to_string_lossy().into_owned(),
            case: RefCell::new(String::new()),
            text: RefCell::new(vec![0; TEXT_BYTES]),
        }
    }

    /// What `call` leaves as a text, as the error where it says that there is one.
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
            // SAFETY: a string that ends in a zero, and room for as many bytes; see `new`.
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
