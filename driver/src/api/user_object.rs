//! Objects of the program that graphs keep alive.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use crate::c::{Handle, HostFunction, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{State, driver};

/// The owner of references that no graph has.
const PROGRAM: Handle = 0;
/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which must be given.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the program's references become the graph's.
const MOVE: u32 = 1;

/// An object. Its last reference destroys it, and is not to be dropped under the lock of the state.
pub(crate) struct UserObject {
    destroy: HostFunction,
    /// The address of the program's data.
    data: usize,
}

impl Drop for UserObject {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the program's function, with its data, once, as the contract says.
            unsafe { destroy(self.data as *mut c_void) };
        }
    }
}

/// References to objects, and how many there are of each.
pub(crate) type Held = HashMap<Handle, (Arc<UserObject>, u32)>;

/// Adds references of an owner to an object that anyone has.
fn retain(state: &mut State, owner: Handle, object: Handle, count: u32) -> Answer {
    let found = state.held.values().find_map(|held| held.get(&object));
    let kept = Arc::clone(&found.ok_or(Code::INVALID_VALUE)?.0);
    let held = state.held.entry(owner).or_default();
    let (_, known) = held.entry(object).or_insert((kept, 0));
    *known = known.checked_add(count).ok_or(Code::INVALID_VALUE)?;
    Ok(())
}

/// Takes references from an owner. The answer is to be dropped without the lock.
fn release(
    state: &mut State,
    owner: Handle,
    object: Handle,
    count: u32,
) -> Answer<Option<Arc<UserObject>>> {
    let held = state.held.get_mut(&owner).ok_or(Code::INVALID_VALUE)?;
    let (_, known) = held.get_mut(&object).ok_or(Code::INVALID_VALUE)?;
    *known = known.checked_sub(count).ok_or(Code::INVALID_VALUE)?;
    match known {
        0 => Ok(held.remove(&object).map(|(object, _)| object)),
        _ => Ok(None),
    }
}

/// Counts of references are from 1 to `i32::MAX`.
fn check(count: u32) -> Answer {
    let is_allowed = count > 0 && i32::try_from(count).is_ok();
    is_allowed.then_some(()).ok_or(Code::INVALID_VALUE)
}

impl State {
    /// A new graph keeps what another keeps, in the place of what it kept, which is to be dropped
    /// without the lock.
    pub(super) fn keep_as(&mut self, new: Handle, old: Handle) -> Option<Held> {
        match self.held.get(&old).cloned() {
            Some(held) => self.held.insert(new, held),
            None => self.held.remove(&new),
        }
    }
}

entries! {
    fn cuUserObjectCreate: "cuUserObjectCreate" @ 11030 (
        place: Out<Handle>, data: usize, destroy: HostFunction, count: u32, flags: u32,
    ) {
        check(count)?;
        if destroy.is_none() || flags != NO_DESTRUCTOR_SYNC {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = driver()?.state();
        let handle = state.new_handle();
        place.set(handle)?;
        let object = Arc::new(UserObject { destroy, data });
        state.held.entry(PROGRAM).or_default().insert(handle, (object, count));
        Ok(())
    }

    fn cuUserObjectRetain: "cuUserObjectRetain" @ 11030 (object: Handle, count: u32) {
        check(count)?;
        retain(&mut driver()?.state(), PROGRAM, object, count)
    }

    fn cuUserObjectRelease: "cuUserObjectRelease" @ 11030 (object: Handle, count: u32) {
        check(count)?;
        let last = release(&mut driver()?.state(), PROGRAM, object, count)?;
        drop(last);
        Ok(())
    }

    fn cuGraphRetainUserObject: "cuGraphRetainUserObject" @ 11030 (
        graph: Handle, object: Handle, count: u32, flags: u32,
    ) {
        check(count)?;
        if flags & !MOVE != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = driver()?.state();
        state.graph(graph)?;
        retain(&mut state, graph, object, count)?;
        if flags == MOVE
            && let Err(code) = release(&mut state, PROGRAM, object, count)
        {
            // The program has fewer. The object lives on: the program has a reference, or another
            // graph had one.
            release(&mut state, graph, object, count)?;
            return Err(code);
        }
        Ok(())
    }

    fn cuGraphReleaseUserObject: "cuGraphReleaseUserObject" @ 11030 (
        graph: Handle, object: Handle, count: u32,
    ) {
        check(count)?;
        let mut state = driver()?.state();
        state.graph(graph)?;
        let last = release(&mut state, graph, object, count)?;
        drop(state);
        drop(last);
        Ok(())
    }
}
