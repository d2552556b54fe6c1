//! The operands and results of a case on the device, which both sides use.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

use serde_json::{Map, Value, json};
use warpsmith::{Element, Stream, Tensor};

use crate::error::Result;
use crate::inputs::{Sample, largest_difference};
use crate::opponent::Opponent;

/// Our name in results.
const OURS: &str = "warpsmith";

/// A case that is ready to be measured.
#[derive(Debug, Default)]
pub struct Prepared {
    operands: Vec<Operand>,
    answers: Vec<Answer>,
    ours: Option<Opponent<'static>>,
}

/// A named tensor, in the copies that launches rotate through.
pub struct Operand {
    name: String,
    description: Value,
    /// Keeps the memory alive.
    _tensors: Box<dyn Any>,
}

impl Operand {
    fn new<T: Element>(name: &str, copies: &[Tensor<T>]) -> Self {
        let first = copies.first();
        let addresses: Vec<u64> = copies
            .iter()
            .map(|copy| copy.device_ptr().as_raw())
            .collect();
        Self {
            name: name.to_owned(),
            description: json!({
                "dtype": T::DTYPE.name(),
                "shape": first.map(|first| first.shape().to_vec()),
                "strides": first.map(|first| first.strides().to_vec()),
                "addresses": addresses,
            }),
            _tensors: Box::new(copies.to_vec()),
        }
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operand({}: {})", self.name, self.description)
    }
}

type Clear = Box<dyn Fn(&Stream) -> Result<()>>;

/// A result: ours, and the memory for a peer's.
struct Answer {
    theirs: Operand,
    clear_ours: Clear,
    clear_theirs: Clear,
    difference: Box<dyn Fn() -> Result<f64>>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({:?})", self.theirs)
    }
}

impl Prepared {
    /// A case without operands and results yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input, which peers get too: one tensor per copy, or one that all copies share.
    pub fn operand<T: Element>(&mut self, name: &str, copies: &[Tensor<T>]) {
        self.operands.push(Operand::new(name, copies));
    }

    /// Adds an output of floating-point numbers, that of the first copy. Results are compared by
    /// the largest difference divided by the largest value.
    ///
    /// # Errors
    /// If there is no memory for the peer's result.
    pub fn answer<T: Sample>(
        &mut self,
        name: &str,
        ours: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let unwritten = T::rounded(f32::NAN);
        self.answer_by(name, ours, stream, unwritten, |ours, theirs| {
            largest_difference(ours, theirs)
        })
    }

    /// Adds an output that must be equal, as integers must. `unwritten` is a value that does not
    /// occur in correct results.
    ///
    /// # Errors
    /// As [`Prepared::answer`].
    pub fn exact_answer<T: Element + PartialEq>(
        &mut self,
        name: &str,
        ours: &Tensor<T>,
        stream: &Stream,
        unwritten: T,
    ) -> Result<()> {
        self.answer_by(name, ours, stream, unwritten, |ours, theirs| {
            match ours == theirs {
                true => 0.0,
                false => f64::MAX,
            }
        })
    }

    fn answer_by<T: Element>(
        &mut self,
        name: &str,
        ours: &Tensor<T>,
        stream: &Stream,
        unwritten: T,
        apart: impl Fn(&[T], &[T]) -> f64 + 'static,
    ) -> Result<()> {
        let ours = ours.clone();
        let theirs = Tensor::<T>::empty(stream, ours.shape())?;
        let clear = |tensor: &Tensor<T>| -> Clear {
            let tensor = tensor.clone();
            Box::new(move |stream| Ok(tensor.fill(unwritten, stream)?))
        };
        let read: RefCell<Option<Vec<T>>> = RefCell::new(None);
        self.answers.push(Answer {
            theirs: Operand::new(name, std::slice::from_ref(&theirs)),
            clear_ours: clear(&ours),
            clear_theirs: clear(&theirs),
            difference: Box::new(move || {
                // Ours is read once: it does not change while the peers compute.
                let mut read = read.borrow_mut();
                if read.is_none() {
                    *read = Some(ours.to_vec()?);
                }
                let ours = read.as_deref().unwrap_or_default();
                Ok(apart(ours, &theirs.to_vec()?))
            }),
        });
        Ok(())
    }

    /// Sets our launch, whose argument is the index of the copy, and the kernel that it chose.
    pub fn ours(
        &mut self,
        choice: Option<String>,
        launch: impl FnMut(usize) -> Result<()> + 'static,
    ) {
        self.ours = Some(Opponent {
            name: OURS.into(),
            choice,
            launch: Box::new(launch),
        });
    }

    pub(super) fn take_ours(&mut self) -> Option<Opponent<'static>> {
        self.ours.take()
    }

    pub(super) fn described_operands(&self) -> Value {
        described(self.operands.iter())
    }

    pub(super) fn described_answers(&self) -> Value {
        described(self.answers.iter().map(|answer| &answer.theirs))
    }

    /// Fills our results with NaN (or the value `unwritten`), which elements that are not written
    /// keep.
    pub(super) fn clear_ours(&self, stream: &Stream) -> Result<()> {
        let mut answers = self.answers.iter();
        answers.try_for_each(|answer| (answer.clear_ours)(stream))
    }

    pub(super) fn clear_theirs(&self, stream: &Stream) -> Result<()> {
        let mut answers = self.answers.iter();
        answers.try_for_each(|answer| (answer.clear_theirs)(stream))
    }

    /// The largest difference of all results.
    pub(super) fn difference(&self) -> Result<f64> {
        let mut answers = self.answers.iter();
        answers.try_fold(
            0.0,
            |most: f64, answer| Ok(most.max((answer.difference)()?)),
        )
    }
}

fn described<'a>(operands: impl Iterator<Item = &'a Operand>) -> Value {
    let by_name = operands.map(|operand| (operand.name.clone(), operand.description.clone()));
    Value::Object(by_name.collect::<Map<String, Value>>())
}
