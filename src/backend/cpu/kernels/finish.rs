//! What is fused with a convolution whose channels are last: additions of constants and of a tensor, and bounds.

use super::tile::Limits;
use super::{Known, Site};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind};
use crate::graph::{Number, Op, OperandId};

/// The fused operators, in the one order that the kernels know: constants, bounds, a tensor, bounds.
#[derive(Debug, Default, PartialEq)]
pub struct Finish {
    /// A number for each output channel; empty when there is nothing to add.
    pub bias: Vec<f32>,
    /// A tensor of the output's shape.
    pub added: Option<OperandId>,
    pub limits: Limits,
    /// Constants that are taken, by position.
    pub taken: Vec<usize>,
    /// Whether all fused operators are in here; otherwise none is.
    pub is_whole: bool,
}

impl Finish {
    /// Of a step whose output has its channels last.
    pub fn new(site: &Site<'_>, bias: Option<OperandId>) -> Option<Finish> {
        let mut plain = Finish { is_whole: true, ..Finish::default() };
        if let Some(bias) = bias {
            plain.bias = site.inputs[bias.0 as usize].elements()?.to_vec();
            plain.taken.push(bias.0 as usize);
        }
        let mut whole = Finish { bias: plain.bias.clone(), taken: plain.taken.clone(), is_whole: true, ..Finish::default() };
        if site.fused.iter().all(|op| whole.push(op, site).is_some()) {
            return Some(whole);
        }
        plain.is_whole = site.fused.is_empty();
        Some(plain)
    }

    fn push(&mut self, op: &Op, site: &Site<'_>) -> Option<()> {
        match op {
            Op::Activation(op) if op.kind == ActivationKind::Relu => self.bound(0.0, f32::INFINITY),
            Op::Clamp(op) => {
                let bound = |bound: Option<Number>, absent| bound.map_or(absent, Number::to_f32);
                self.bound(bound(op.min_value, f32::NEG_INFINITY), bound(op.max_value, f32::INFINITY))
            }
            Op::Binary(op) if op.kind == BinaryKind::Add => {
                let running = OperandId(site.inputs.len() as u32);
                let id = if op.a == running { op.b } else { op.a };
                self.add(id, site.inputs[id.0 as usize], site)
            }
            _ => None,
        }
    }

    fn bound(&mut self, low: f32, high: f32) -> Option<()> {
        let place = if self.added.is_some() { &mut self.limits.after } else { &mut self.limits.before };
        place.is_none().then(|| *place = Some([low, high]))
    }

    fn add(&mut self, id: OperandId, other: Known<'_>, site: &Site<'_>) -> Option<()> {
        let channels = *site.output.shape.last()?;
        let is_line = other.shape.last() == Some(&channels) && other.shape.iter().product::<usize>() == channels;
        if let Some(numbers) = other.elements().filter(|_| is_line)
            && self.limits == Limits::default()
        {
            self.bias.resize(channels, 0.0);
            self.bias.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
            self.taken.push(id.0 as usize);
            return Some(());
        }
        let fits = other.shape == site.output.shape && self.added.is_none();
        fits.then(|| self.added = Some(id))
    }

    /// The tensor that is added.
    pub fn added<'a>(&self, arguments: &Arguments<'a, '_>) -> Option<&'a [f32]> {
        self.added.map(|id| arguments.input(id).elements())
    }

    pub fn bytes(&self) -> usize {
        self.bias.len() * 4
    }
}
