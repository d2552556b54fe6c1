//! Pages of the host that work may still use. They are protected until the host has waited, so that
//! the system tells of an access before: reads and writes of what work writes, writes of what work
//! reads.
//!
//! Only pages whose bytes work uses all are guarded. So a correct program never meets a guard.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

use warpsmith_emulator::{Footprint, Touched};

use crate::api::host_memory::PAGE;
use crate::c::Address;
use crate::state::{DEVICE_ADDRESSES, RangeKind, State, running};

/// Most pages that are guarded at a time.
const MOST_PAGES: u64 = 1 << 16;

/// Pages that work uses, and whether it writes them.
#[derive(Clone)]
pub(super) struct Guarded {
    pages: Range<Address>,
    writes: bool,
}

/// The pages of the host that a piece of work uses. If it talks with the host while it runs, there
/// are none: an order may come of that.
pub(super) fn pages(touched: &Footprint, state: &State) -> Vec<Guarded> {
    let is_host = |part: &Touched| !DEVICE_ADDRESSES.contains(&part.bytes.start);
    let strong = [&touched.strong_reads, &touched.strong_writes];
    if strong.into_iter().flatten().any(is_host) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (list, writes) in [(&touched.writes, true), (&touched.reads, false)] {
        for bytes in merged(list.iter().filter(|part| is_host(part))) {
            let Some((base, range)) = state.range_at(bytes.start) else {
                continue;
            };
            let end = base + range.bytes;
            // Nothing else is in the last page of what the driver allocated.
            let is_own = !matches!(range.kind, RangeKind::Registered { .. });
            let last = match is_own && bytes.end >= end {
                true => bytes.end.next_multiple_of(PAGE),
                false => bytes.end / PAGE * PAGE,
            };
            let pages = bytes.start.next_multiple_of(PAGE)..last;
            if !pages.is_empty() {
                found.push(Guarded { pages, writes });
            }
        }
    }
    found
}

/// Ranges without gaps between their parts.
fn merged<'a>(parts: impl Iterator<Item = &'a Touched>) -> Vec<Range<Address>> {
    let mut all: Vec<Range<Address>> = Vec::new();
    for part in parts {
        match all.last_mut() {
            Some(last) if last.end >= part.bytes.start => last.end = last.end.max(part.bytes.end),
            _ => all.push(part.bytes.clone()),
        }
    }
    all
}

/// The pages that are protected now.
#[derive(Default)]
pub(super) struct Guard {
    /// Their addresses, and whether reads are refused too.
    pages: BTreeMap<Address, bool>,
}

impl Guard {
    /// Protects these pages, and no others.
    pub(super) fn set(&mut self, wanted: impl Iterator<Item = Guarded>) {
        let mut pages = BTreeMap::new();
        for Guarded { pages: all, writes } in wanted {
            let most = MOST_PAGES.saturating_sub(pages.len() as u64) as usize;
            for page in all.step_by(PAGE as usize).take(most) {
                *pages.entry(page).or_insert(false) |= writes;
            }
        }
        if pages.is_empty() && self.pages.is_empty() {
            return;
        }
        install();
        let both = pages.keys().chain(self.pages.keys());
        let changed: Vec<Address> = both
            .filter(|page| pages.get(*page) != self.pages.get(*page))
            .copied()
            .collect();
        for page in changed {
            protect(page, pages.get(&page).copied());
        }
        self.pages = pages;
    }

    /// Lets the host touch the page of an address; false if it was not guarded.
    pub(super) fn open(&mut self, address: Address) -> bool {
        let page = address / PAGE * PAGE;
        let was = self.pages.remove(&page).is_some();
        if was {
            protect(page, None);
        }
        was
    }
}

/// Sets what the host may do with a page: all, or no writes, or nothing.
fn protect(page: Address, refuses_reads: Option<bool>) {
    let allowed = match refuses_reads {
        None => libc::PROT_READ | libc::PROT_WRITE,
        Some(false) => libc::PROT_READ,
        Some(true) => libc::PROT_NONE,
    };
    // SAFETY: a page of live memory of the host, all of which work uses. Whoever touches it gets a
    // signal, and the handler gives the access back.
    unsafe { libc::mprotect(page as *mut c_void, PAGE as usize, allowed) };
}

/// What a signal did before.
static EARLIER: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once.
fn install() {
    EARLIER.get_or_init(|| {
        // SAFETY: all zero bits are a valid `sigaction`, with no handler.
        let mut earlier: libc::sigaction = unsafe { std::mem::zeroed() };
        let mut own = earlier;
        own.sa_sigaction = handle as *const () as usize;
        own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: both are ours, and the handler has the signature that SA_SIGINFO says.
        unsafe { libc::sigaction(libc::SIGSEGV, &own, &mut earlier) };
        earlier
    });
}

/// The handler: an access to a guarded page is told and goes on; another is for the handler before.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    thread_local! {
        /// Where the thread was refused an access to a page that was not guarded any longer.
        static AGAIN: Cell<Address> = const { Cell::new(0) };
    }
    // SAFETY: by SA_SIGINFO, valid while the handler runs; the signal has an address.
    let address = unsafe { (*info).si_addr() } as Address;
    // The thread does not hold the lock: who does touches no memory of the program.
    let is_guarded =
        running().is_some_and(|driver| driver.order().touched_by_host(address, is_write(context)));
    // Another thread may have opened the page since: then the access succeeds the second time.
    if is_guarded || AGAIN.replace(address) != address {
        return;
    }
    let Some(earlier) = EARLIER.get() else {
        return;
    };
    match earlier.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access happens again, and now the system ends the program.
            // SAFETY: what was there before.
            unsafe { libc::sigaction(signal, earlier, std::ptr::null_mut()) };
        }
        address if earlier.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: by SA_SIGINFO a function of this signature.
            let handler: Handler = unsafe { std::mem::transmute(address) };
            handler(signal, info, context);
        }
        address => {
            // SAFETY: without SA_SIGINFO a function of this signature.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(address) };
            handler(signal);
        }
    }
}

/// Whether the access that a signal is about was a write.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn is_write(context: *mut c_void) -> bool {
    /// The bit of a page fault's error code.
    const WRITE: i64 = 2;
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: by SA_SIGINFO, the context of the thread.
    let error = unsafe { (&(*context).uc_mcontext.gregs)[libc::REG_ERR as usize] };
    error & WRITE != 0
}

/// Whether the access that a signal is about was a write: it is not known here, and a read is what
/// most programs get wrong.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn is_write(_context: *mut c_void) -> bool {
    false
}
