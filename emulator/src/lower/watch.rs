//! Operations that keep account of registers that may be unwritten.

use ptx_syntax::unwritten::{Doubt, Step, Watched, When};

use super::scope::Symbol;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::program::{self, Guard, Op, Watch, WatchStep, Width};

impl FunctionLowering<'_, '_> {
    /// Begins a function: gives each watched register its predicate.
    pub(super) fn begin_watch(&mut self) {
        let count = self.doubtful.watched().len();
        self.unwritten = (0..count).map(|_| self.fresh(Width::Pred).slot).collect();
        let registers = self.unwritten.iter().zip(self.doubtful.watched());
        let steps: Vec<WatchStep> = registers
            .map(|(slot, watch)| WatchStep::Begin {
                slot: *slot,
                unwritten: watch.open,
            })
            .collect();
        self.emit_watch(false, steps);
    }

    /// The steps of the instruction that is lowered next.
    pub(super) fn watch(&mut self) -> Lowered {
        let number = self.instructions;
        self.instructions += 1;
        let element = |doubt: &Doubt<'_>| (self.unwritten[doubt.register], self.doubt(doubt));
        let stored = self.doubtful.stored(number).iter();
        self.stored = stored.map(|own| own.as_ref().map(element)).collect();
        let mut steps = Vec::new();
        let mut follows = true;
        for step in self.doubtful.steps(number) {
            follows &= self
                .registers_of(step)
                .all(|register| !self.is_open(register));
            steps.push((matches!(step, Step::Guard(_)), self.watch_step(step)?));
        }
        let guard = self.guard.take();
        let (first, rest): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|(is_guard, _)| *is_guard);
        self.emit_watch(follows, first.into_iter().map(|(_, step)| step).collect());
        self.guard = guard;
        self.emit_watch(follows, rest.into_iter().map(|(_, step)| step).collect());
        Ok(())
    }

    fn emit_watch(&mut self, follows: bool, steps: Vec<WatchStep>) {
        if steps.is_empty() {
            return;
        }
        let steps = steps.into();
        self.emit(Op::Watch(Box::new(Watch { follows, steps })));
        if let Some(inst) = self.build.code.last_mut() {
            inst.weight = 0;
        }
    }

    fn is_open(&self, register: Watched) -> bool {
        self.doubtful.watched()[register].open
    }

    fn registers_of(&self, step: &Step<'_>) -> impl Iterator<Item = Watched> + use<> {
        let (to, from): (Watched, Vec<Watched>) = match step {
            Step::Guard(doubt) | Step::Read(doubt) | Step::ReadIf(doubt, _) => {
                (doubt.register, Vec::new())
            }
            Step::Write(to) => (*to, Vec::new()),
            Step::Take { to, from, .. } => (*to, from.clone()),
            Step::Select { to, from, by, .. } => {
                (*to, from.iter().chain([by]).flatten().copied().collect())
            }
        };
        from.into_iter().chain([to])
    }

    fn watch_step(&self, step: &Step<'_>) -> Result<WatchStep, LoadError> {
        let slot = |register: &Watched| self.unwritten[*register];
        let read = |doubt: &Doubt<'_>, when| WatchStep::Read {
            slot: slot(&doubt.register),
            when,
            doubt: Box::new(self.doubt(doubt)),
        };
        Ok(match step {
            Step::Guard(doubt) | Step::Read(doubt) => read(doubt, None),
            Step::ReadIf(doubt, when) => read(doubt, Some(self.when(when)?)),
            Step::Write(to) => WatchStep::Write(slot(to)),
            Step::Take { to, from, all } => WatchStep::Take {
                to: slot(to),
                from: from.iter().map(slot).collect(),
                all: *all,
            },
            Step::Select { to, from, when, by } => WatchStep::Select {
                to: slot(to),
                from: from.map(|own| own.map(|own| slot(&own))),
                when: self.when(when)?,
                by: by.as_ref().map(slot),
            },
        })
    }

    fn doubt(&self, doubt: &Doubt<'_>) -> program::Doubt {
        program::Doubt {
            register: self.doubtful.watched()[doubt.register].name.to_owned(),
            origins: doubt
                .origins
                .iter()
                .map(|(name, line)| ((*name).to_owned(), *line))
                .collect(),
        }
    }

    fn when(&self, when: &When<'_>) -> Result<Guard, LoadError> {
        match self.scopes.get(when.register) {
            Some(Symbol::Register(reg)) => {
                self.expect_width(*reg, Width::Pred)?;
                Ok(Guard {
                    pred: reg.slot,
                    negated: when.negated,
                })
            }
            _ => Err(self.undeclared(when.register)),
        }
    }
}
