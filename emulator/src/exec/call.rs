//! Calls, returns, and branches through tables.

use super::block::Block;
use super::fault::{Checked, Fault};
use super::path::{Frame, Path, State};
use super::row::{Lanes, Row};
use super::warp::Warp;
use crate::memory::local::LOCAL_LIMIT;
use crate::program::{Call, Callee, FUNCTION_HANDLES, Op};
use crate::report::FaultKind;

impl Warp {
    /// The lanes of `active` exit.
    pub(super) fn exit(&mut self, block: &mut Block<'_>, index: usize, active: u32) {
        let path = &mut self.paths.list[index];
        path.mask &= !active;
        path.pc += 1;
        block.exited |= active != 0;
        let agent = block.agent(self.index);
        if block.cluster.barrier.borrow_mut().exit(agent, active) {
            block.cluster.order.borrow_mut().complete_uses();
            block.cluster.event.set(true);
        }
        // Lanes that wait for the exited ones to converge have to look again at who is left.
        for path in &mut self.paths.list {
            if path.state == State::Converging {
                path.state = State::Ready;
            }
        }
    }

    /// Calls a function for the lanes of `active`; the other lanes stay in the path.
    pub(crate) fn call(
        &mut self,
        block: &Block<'_>,
        call: &Call,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let path = self.paths.list[index].clone();
        let own = &mut self.paths.list[index];
        own.mask &= !active;
        own.pc += 1;
        match call.callee {
            Callee::Direct(function) => self.enter(block, call, &path, function, active),
            Callee::Indirect(slot) => {
                let handles = *self.regs.row::<u64>(&block.launch.program.constants, slot);
                let mut rest = active;
                while rest != 0 {
                    let lane = rest.trailing_zeros() as usize;
                    let handle = handles.0[lane];
                    let same = Lanes(rest)
                        .filter(|&lane| handles.0[lane] == handle)
                        .fold(0, |mask, lane| mask | 1 << lane);
                    let function = self.callee(block, call, handle, lane as u32)?;
                    self.enter(block, call, &path, function, same)?;
                    rest &= !same;
                }
                Ok(())
            }
        }
    }

    /// The function that a handle stands for, if its signature fits the call.
    fn callee(&self, block: &Block<'_>, call: &Call, handle: u64, lane: u32) -> Checked<u32> {
        let program = &block.launch.program;
        let sizes = |list: &[(u64, u64)]| list.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>();
        let index = usize::try_from(handle.wrapping_sub(FUNCTION_HANDLES)).unwrap_or(usize::MAX);
        let index = program.handles.get(index).copied().flatten();
        let function = index.and_then(|index| program.functions.get(index as usize));
        let message = match (index, function) {
            (Some(index), Some(function))
                if sizes(&function.params) == sizes(&call.args)
                    && sizes(&function.results) == sizes(&call.results) =>
            {
                return Ok(index);
            }
            (_, Some(function)) => {
                format!("the call does not fit the signature of `{}`", function.name)
            }
            (_, None) => format!("0x{handle:x} is not the address of a function"),
        };
        Err(Fault::new(FaultKind::BadTarget, Some(lane), message))
    }

    fn enter(
        &mut self,
        block: &Block<'_>,
        call: &Call,
        path: &Path,
        function: u32,
        active: u32,
    ) -> Checked<()> {
        let functions = &block.launch.program.functions;
        let info = &functions[function as usize];
        let caller = path.frame();
        let caller_info = &functions[caller.function as usize];
        let frame = Frame {
            function,
            call: path.pc,
            window: caller.window.after(caller_info.registers),
            local: caller.local + caller_info.frame_bytes,
        };
        let end = frame.local + info.frame_bytes;
        if end > LOCAL_LIMIT || path.frames.len() >= 4096 {
            let message = format!(
                "calling `{}` needs {end} bytes of local memory at depth {}; a thread has \
                 {LOCAL_LIMIT}",
                info.name,
                path.frames.len()
            );
            let lane = Some(active.trailing_zeros());
            return Err(Fault::new(FaultKind::StackOverflow, lane, message));
        }
        let (registers, starved) = (frame.window.after(info.registers), &block.launch.starved);
        if !self.regs.reserve(registers, starved) || !self.local.reserve(end, starved) {
            return Err(Fault::starved());
        }
        self.local.forget(frame.local, end, active);
        for ((from, bytes), (to, _)) in call.args.iter().zip(&info.params) {
            self.local
                .copy(caller.local + from, frame.local + to, *bytes, active);
        }
        let mut frames = path.frames.clone();
        frames.push(frame);
        let state = State::Ready;
        let chosen = path.chosen;
        self.paths.list.push(Path {
            pc: info.entry,
            mask: active,
            frames,
            state,
            chosen,
            expired: false,
        });
        Ok(())
    }

    /// Returns the lanes of `active` to their callers.
    pub(crate) fn return_lanes(&mut self, block: &Block<'_>, index: usize, active: u32) {
        let program = &block.launch.program;
        let path = &mut self.paths.list[index];
        self.stack.leave(path.frames.len(), active);
        let mut frames = path.frames.clone();
        let (Some(callee), Some(caller)) = (frames.pop(), frames.last().copied()) else {
            return;
        };
        let chosen = path.chosen;
        path.mask &= !active;
        path.pc += 1;
        let info = &program.functions[callee.function as usize];
        if let Op::Call(call) = &program.code[callee.call as usize].op {
            for ((to, bytes), (from, _)) in call.results.iter().zip(&info.results) {
                self.local
                    .copy(callee.local + from, caller.local + to, *bytes, active);
            }
        }
        let (pc, state) = (callee.call + 1, State::Ready);
        self.paths.list.push(Path {
            pc,
            mask: active,
            frames,
            state,
            chosen,
            expired: false,
        });
    }

    /// Sends each lane of `active` to the target that it chose.
    pub(crate) fn branch_indexed(
        &mut self,
        index: usize,
        active: u32,
        choice: &Row<u32>,
        targets: &[u32],
    ) -> Checked<()> {
        let path = self.paths.list[index].clone();
        let mut rest = active;
        let mut parts = Vec::new();
        while rest != 0 {
            let lane = rest.trailing_zeros();
            let chosen = choice.0[lane as usize];
            let Some(target) = targets.get(chosen as usize) else {
                let message = format!(
                    "index {chosen} of a list of {} branch targets",
                    targets.len()
                );
                return Err(Fault::new(FaultKind::BadTarget, Some(lane), message));
            };
            let same = Lanes(rest)
                .filter(|&lane| choice.0[lane] == chosen)
                .fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            parts.push(Path {
                pc: *target,
                mask: same,
                ..path.clone()
            });
        }
        let own = &mut self.paths.list[index];
        own.mask &= !active;
        own.pc += 1;
        self.paths.list.append(&mut parts);
        Ok(())
    }
}
