//! What is known of a step when its implementation is chosen, and what an implementation answers.

use super::Target;
use crate::backend::cpu::kernels::Kernel;
use crate::error::{Error, Kind, Result};
use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
use crate::graph::shape::strides;
use crate::graph::{ConstantBytes, DataType, Op, OperandId, greatest};
use crate::memory::Bytes;
use smallvec::SmallVec;
use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What is known of a step at build time.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// What makes the left operand of the operator (see [`Step::prologue`](crate::compiler::Step)).
    pub prologue: &'a [Op],
    /// What dequantizes its operands, when these are integers (see [`Step::dequantized`](crate::compiler::Step)).
    pub dequantized: &'a [Op],
    pub op: &'a Op,
    /// What is done to the output afterwards; that output stands after the inputs.
    pub fused: &'a [Op],
    pub inputs: &'a [TensorDesc<'a>],
    pub output: TensorDesc<'a>,
    /// Which of the step's [`workspaces`](super::workspaces) it may have.
    pub workspace: Option<usize>,
}

/// What is known of an operand at build time.
#[derive(Clone, Copy)]
pub struct TensorDesc<'a> {
    pub data_type: DataType,
    pub shape: &'a [usize],
    /// A constant, aligned.
    pub constant: Option<Constant<'a>>,
    /// Of an operand: dimension i of the shape is dimension `order[i]` in memory. Of the output: dimension i of the shape is
    /// dimension `order[i]` of what the operator makes. Only products have any, and the input of first-layer convolutions.
    pub order: Option<&'a [u32]>,
}

/// The bytes of a constant operand. They may be computed when they are first looked at, so what needs their number alone takes it from
/// the shape.
#[derive(Clone, Copy, Debug)]
pub enum Constant<'a> {
    Bytes(&'a [u8]),
    Known(&'a ConstantBytes),
    /// Where it lies kernels cannot read it.
    Copied(&'a LazyCopy<'a>),
}

/// A constant that lies anywhere, as in a file, and is copied when it is first looked at: where others have packed it nobody does.
#[derive(Debug)]
pub struct LazyCopy<'a> {
    constant: &'a ConstantBytes,
    copy: OnceLock<Bytes>,
    room: &'a CopyRoom,
}

/// Memory for such copies, which serves all steps of a graph: to touch new memory takes longer than the copy.
#[derive(Debug, Default)]
pub struct CopyRoom(Mutex<Vec<Bytes>>);

impl<'a> LazyCopy<'a> {
    pub fn new(constant: &'a ConstantBytes, room: &'a CopyRoom) -> Self {
        LazyCopy { constant, copy: OnceLock::new(), room }
    }

    /// The bytes, aligned.
    ///
    /// # Panics
    /// With an [`Error`] when there is no memory for them.
    fn bytes(&self) -> &[u8] {
        let length = self.constant.len();
        let copy = self.copy.get_or_init(|| {
            let mut copy = self.room.take(length).unwrap_or_else(|error| resume_unwind(Box::new(error)));
            copy[..length].copy_from_slice(self.constant.as_slice());
            copy
        });
        &copy[..length]
    }
}

impl Drop for LazyCopy<'_> {
    fn drop(&mut self) {
        if let Some(copy) = self.copy.take() {
            self.room.0.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        }
    }
}

impl CopyRoom {
    /// At least so many bytes, with whatever was in them.
    fn take(&self, length: usize) -> Result<Bytes> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = idle.iter().enumerate().filter(|(_, bytes)| bytes.len() >= length);
        let smallest = fits.min_by_key(|(_, bytes)| bytes.len()).map(|(position, _)| position);
        match smallest {
            Some(position) => Ok(idle.swap_remove(position)),
            None => {
                // What is too small for this one goes before there is a larger one.
                idle.pop();
                Bytes::zeroed(length)
            }
        }
    }
}

impl<'a> Constant<'a> {
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Constant::Bytes(bytes) => bytes,
            Constant::Known(constant) => constant.as_slice(),
            Constant::Copied(copy) => copy.bytes(),
        }
    }
}

impl Constant<'_> {
    /// Whether float16 holds the same numbers as elements of float32, as `find` finds it when it is not known.
    pub fn are_halves(self, find: impl FnOnce(&[u8]) -> bool) -> bool {
        match self {
            Constant::Known(constant) => constant.are_halves(find),
            // Wherever they lie.
            Constant::Copied(copy) => copy.constant.are_halves(find),
            Constant::Bytes(bytes) => find(bytes),
        }
    }
}

impl<'a> From<&'a [u8]> for Constant<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Constant::Bytes(bytes)
    }
}

/// The elements of a constant of float32, which may be computed when they are first looked at.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a>(Constant<'a>);

impl<'a> Numbers<'a> {
    pub fn all(self) -> &'a [f32] {
        bytemuck::cast_slice(self.0.bytes())
    }

    /// The greatest magnitude; no number where one is none.
    pub fn greatest(self) -> f32 {
        match self.0 {
            Constant::Known(constant) => constant.greatest(),
            Constant::Copied(copy) => copy.constant.greatest(),
            Constant::Bytes(_) => greatest(self.all().iter().copied()),
        }
    }
}

impl Default for Numbers<'_> {
    fn default() -> Self {
        Numbers(Constant::Bytes(&[]))
    }
}

impl<'a> From<&'a [f32]> for Numbers<'a> {
    fn from(numbers: &'a [f32]) -> Self {
        Numbers(Constant::Bytes(bytemuck::cast_slice(numbers)))
    }
}

/// Why an implementation does not take a problem, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject(pub &'static str);

/// A kernel made for one step.
pub struct Built {
    pub kernel: Box<dyn Kernel>,
    /// The operands (by position) that it has packed for itself and does not look at any more.
    pub consumed: SmallVec<[usize; 2]>,
    /// Whether it does the step's fused operators too.
    pub fuses: bool,
}

/// Makes the kernel of an accepted problem: packs weights, divides the work.
///
/// # Errors
/// `UnknownError` when there is no memory for it.
pub type Build<'a> = Box<dyn FnOnce() -> Result<Built> + 'a>;

/// What an implementation answers: how to build it, or why it does not take the problem.
pub type Accepted<'a> = std::result::Result<Build<'a>, Reject>;

/// A way to compute some operators.
pub struct Implementation {
    /// What it is called in profiles, reports and `WEBNN_IMPL`: the operator or its algorithm's family, a dot, the algorithm.
    pub name: &'static str,
    /// Pure, and the only place where its conditions stand. Nothing is packed before [`Build`] is called.
    pub accept: for<'a> fn(&Problem<'a>, &Target) -> Accepted<'a>,
}

impl std::fmt::Debug for Implementation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Refuses with this reason unless the condition holds.
pub fn require(condition: bool, reason: &'static str) -> std::result::Result<(), Reject> {
    if condition { Ok(()) } else { Err(Reject(reason)) }
}

impl From<Reject> for Error {
    /// Of an implementation within another one, whose conditions the outer one has asked before.
    fn from(Reject(reason): Reject) -> Error {
        Error::new(Kind::Unknown, format!("an implementation that was accepted cannot be built: {reason}"))
    }
}

impl<'a> Problem<'a> {
    pub fn input(&self, id: OperandId) -> TensorDesc<'a> {
        self.inputs[id.0 as usize]
    }

    /// The operator, if it is a convolution of an image in the usual order.
    pub fn conv2d(&self) -> std::result::Result<&'a Conv2d, Reject> {
        match self.op {
            // What is made in the same step is no input, and always in the usual order.
            Op::Conv2d(op) if self.inputs.get(op.input.0 as usize).is_none_or(|image| image.order.is_none()) => Ok(op),
            Op::Conv2d(_) => Err(Reject("an image with its channels first in memory")),
            _ => Err(Reject("not a conv2d")),
        }
    }

    /// The operator, if it is a transposed convolution.
    pub fn conv_transpose2d(&self) -> std::result::Result<&'a ConvTranspose2d, Reject> {
        match self.op {
            Op::ConvTranspose2d(op) => Ok(op),
            _ => Err(Reject("not a convTranspose2d")),
        }
    }
}

impl<'a> TensorDesc<'a> {
    /// The elements of a constant, if it is one of float32.
    pub fn numbers(&self) -> Option<Numbers<'a>> {
        self.constant.filter(|_| self.data_type == DataType::Float32).map(Numbers)
    }

    /// The bytes of a constant, where they are looked at.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        self.constant.map(Constant::bytes)
    }

    /// The same where they are looked at.
    pub fn elements(&self) -> Option<&'a [f32]> {
        self.numbers().map(Numbers::all)
    }

    /// The same for an operand that an implementation packs.
    pub fn constant_numbers(&self) -> std::result::Result<Numbers<'a>, Reject> {
        self.numbers().ok_or(Reject("an operand to pack is not a float32 constant"))
    }

    /// The same where they are looked at.
    pub fn constant_elements(&self) -> std::result::Result<&'a [f32], Reject> {
        self.constant_numbers().map(Numbers::all)
    }

    /// Of an output: the shape that the operator makes, and the distances of elements along its dimensions in memory.
    pub fn layout(&self) -> (Vec<usize>, Vec<usize>) {
        let distances = strides(self.shape);
        let Some(order) = self.order else { return (self.shape.to_vec(), distances) };
        let (mut shape, mut ordered) = (vec![0; order.len()], vec![0; order.len()]);
        for (i, &dimension) in order.iter().enumerate() {
            shape[dimension as usize] = self.shape[i];
            ordered[dimension as usize] = distances[i];
        }
        (shape, ordered)
    }

    pub fn element_count(&self) -> usize {
        self.shape.iter().product()
    }
}
