//! The `mbarrier` instructions.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};

use super::mods::Mods;
use super::recipe::op;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::exec::registers::Slot;
use crate::memory::space::Space;
use crate::program::{
    Asynchronous, Base, Mbarrier, MbarrierKind as Kind, Op, Pointer, Until, Width,
};

/// Where an operand of an asynchronous instruction may point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Own,
    Cluster,
    Generic,
}

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn mbarrier(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let what = mods.take_map(Some).unwrap_or_default();
        match what {
            "pending_count" => return self.pending_count(inst, mods),
            "init" | "inval" | "arrive" | "arrive_drop" | "expect_tx" | "complete_tx"
            | "test_wait" | "try_wait" => {}
            _ => return Err(Mods::new(inst).unsupported()),
        }
        let expects = matches!(what, "arrive" | "arrive_drop") && mods.take("expect_tx");
        let no_complete = matches!(what, "arrive" | "arrive_drop") && mods.take("noComplete");
        let parity = matches!(what, "test_wait" | "try_wait") && mods.take("parity");
        let is_wait = matches!(what, "test_wait" | "try_wait");
        let ordered = is_ordered(what, &mut mods);
        if !matches!(what, "init" | "inval") {
            mods.ignore(&["cta", "cluster"]);
        }
        let reach = reach(&mut mods);
        if mods.ty()? != T::B64 {
            return Err(Mods::new(inst).unsupported());
        }
        mods.finish()?;
        let mut operands = inst.operands.as_slice();
        let mut d = None;
        let mut p = None;
        if let ("arrive" | "arrive_drop" | "test_wait" | "try_wait", [first, rest @ ..]) =
            (what, operands)
        {
            operands = rest;
            match first {
                first if is_wait => p = Some(self.destination_of(first, Width::Pred)?),
                Operand::Sink => {}
                _ if reach == Reach::Cluster => {
                    return Err(
                        self.invalid("an arrival in another block gives no state: write `_`")
                    );
                }
                first => d = Some(self.destination_of(first, Width::B64)?),
            }
        }
        let [address, values @ ..] = operands else {
            return Err(self.invalid("an mbarrier needs its address"));
        };
        let at = self.pointer(address, reach)?;
        let kind = match (what, values) {
            ("init", [count]) => Kind::Init {
                count: self.source(count, Width::B32)?,
            },
            ("inval", []) => Kind::Inval,
            ("expect_tx", [bytes]) => Kind::ExpectTx {
                bytes: self.source(bytes, Width::B32)?,
            },
            ("complete_tx", [bytes]) => Kind::CompleteTx {
                bytes: self.source(bytes, Width::B32)?,
            },
            ("arrive" | "arrive_drop", values) => {
                self.arrival(values, what == "arrive_drop", expects, no_complete)?
            }
            ("test_wait" | "try_wait", values) => {
                let blocks = what == "try_wait";
                let p = p.unwrap_or(Slot::register(0));
                self.wait(values, p, parity, blocks)?
            }
            _ => return Err(self.invalid("wrong number of operands")),
        };
        let remote = reach != Reach::Own
            && matches!(
                kind,
                Kind::Arrive { .. } | Kind::ExpectTx { .. } | Kind::CompleteTx { .. }
            );
        self.emit(Op::Asynchronous(Box::new(Asynchronous::Mbarrier(
            Mbarrier {
                kind,
                at,
                remote,
                ordered,
                d,
            },
        ))));
        Ok(())
    }

    fn arrival(
        &mut self,
        values: &[Operand],
        drop: bool,
        expects: bool,
        no_complete: bool,
    ) -> Result<Kind, LoadError> {
        let value = match values {
            [] if !expects && !no_complete => None,
            [value] => Some(self.source(value, Width::B32)?),
            _ => return Err(self.invalid("wrong number of operands")),
        };
        let (count, expect) = if expects {
            (None, value)
        } else {
            (value, None)
        };
        Ok(Kind::Arrive {
            count,
            expect,
            drop,
            no_complete,
        })
    }

    fn wait(
        &mut self,
        values: &[Operand],
        p: Slot,
        parity: bool,
        blocks: bool,
    ) -> Result<Kind, LoadError> {
        let phase = match values {
            [phase] => phase,
            [phase, hint] if blocks => {
                // The time limit is only a hint: the scheduler decides by itself when the wait
                // expires.
                self.source(hint, Width::B32)?;
                phase
            }
            _ => return Err(self.invalid("wrong number of operands")),
        };
        let until = if parity {
            Until::Parity(self.source(phase, Width::B32)?)
        } else {
            Until::State(self.source(phase, Width::B64)?)
        };
        Ok(Kind::Wait { p, until, blocks })
    }

    /// `mbarrier.pending_count`: the pending arrivals in a state.
    fn pending_count(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        mods.ignore(&["b64"]);
        mods.finish()?;
        let [d, state] =
            self.operands(inst, "`mbarrier.pending_count` takes a count and a state")?;
        let d = self.destination_of(d, Width::B32)?;
        let state = self.source(state, Width::B64)?;
        let recipe = op!(|x, a: u64| -> u32 { (a & 0xf_ffff) as u32 });
        self.emit_unary(&recipe, d, state);
        Ok(())
    }

    /// An address in shared memory.
    pub(super) fn pointer(
        &mut self,
        operand: &Operand,
        reach: Reach,
    ) -> Result<Pointer, LoadError> {
        let address = self.address(operand)?;
        let declared = address
            .space
            .filter(|_| matches!(address.base, Base::Absolute));
        let space = match (reach, declared) {
            (_, Some(Space::Shared)) => Space::Shared,
            (Reach::Generic, None) => Space::Generic,
            (Reach::Own | Reach::Cluster, None) => Space::Shared,
            (_, Some(other)) => {
                let message = format!("an address of {} memory, not of shared", other.name());
                return Err(self.invalid(message));
            }
        };
        Ok(Pointer {
            space,
            base: address.base,
            offset: address.offset,
        })
    }
}

/// Whether the instruction acquires or releases, as it does unless it says `.relaxed`.
fn is_ordered(what: &str, mods: &mut Mods<'_>) -> bool {
    match what {
        "init" | "inval" => false,
        "expect_tx" | "complete_tx" => {
            mods.ignore(&["relaxed"]);
            false
        }
        _ => {
            let relaxed = mods.take("relaxed");
            let is_wait = matches!(what, "test_wait" | "try_wait");
            mods.ignore(if is_wait { &["acquire"] } else { &["release"] });
            !relaxed
        }
    }
}

/// Takes the state space of an operand in shared memory.
pub(super) fn reach(mods: &mut Mods<'_>) -> Reach {
    mods.take_map(|word| match word {
        "shared" | "shared::cta" => Some(Reach::Own),
        "shared::cluster" => Some(Reach::Cluster),
        _ => None,
    })
    .unwrap_or(Reach::Generic)
}
