//! What is done to a finished piece of an output while it is in the cache: biases, activations, residual additions.

use super::Site;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind};
use crate::graph::{Op, OperandId};
use std::ops::Range;

/// A stage of an epilogue. The output is seen as rows (channels of a convolution, rows of a product) of columns.
#[derive(Debug)]
enum Stage {
    /// Adds a number to each row.
    AddToRows(Vec<f32>),
    /// Adds a row to all rows.
    AddRow(Vec<f32>),
    /// Adds a tensor of the output's shape.
    AddTensor(OperandId),
    Relu,
    Clamp(f32, f32),
}

/// All stages, in order.
#[derive(Debug, Default)]
pub struct Epilogue(Vec<Stage>);

/// How the output's shape is seen as rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows {
    /// A product: all but the last dimension.
    Leading,
    /// A convolution in nchw: the channels.
    Channels,
}

impl Epilogue {
    pub fn new(bias: Option<Vec<f32>>, rows: Rows) -> Self {
        let stage = match rows {
            Rows::Leading => Stage::AddRow,
            Rows::Channels => Stage::AddToRows,
        };
        Epilogue(bias.map(stage).into_iter().collect())
    }

    /// Adds the fused operators of a step, and notes the constants that are taken. All or none of them.
    pub fn fuse(&mut self, site: &Site<'_>, rows: Rows, taken: &mut impl Extend<usize>) -> bool {
        let mut constants = Vec::new();
        let stages: Option<Vec<Stage>> = site.fused.iter().map(|op| stage(op, site, rows, &mut constants)).collect();
        let Some(stages) = stages else { return false };
        self.0.extend(stages);
        taken.extend(constants);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&self) -> usize {
        let numbers = |stage: &Stage| match stage {
            Stage::AddToRows(list) | Stage::AddRow(list) => list.len(),
            _ => 0,
        };
        self.0.iter().map(numbers).sum::<usize>() * 4
    }

    /// The tensors that stages add, for [`Epilogue::apply`].
    pub fn tensors<'a>(&self, arguments: &Arguments<'a, '_>) -> Vec<&'a [f32]> {
        let added = |stage: &Stage| match stage {
            Stage::AddTensor(id) => Some(arguments.input(*id).elements::<f32>()),
            _ => None,
        };
        self.0.iter().filter_map(added).collect()
    }

    /// Finishes a piece of a row, whose first element is number `place` of the output.
    pub fn apply(&self, row: usize, columns: Range<usize>, place: usize, tensors: &[&[f32]], piece: &mut [f32]) {
        let mut tensors = tensors.iter();
        for stage in &self.0 {
            match stage {
                Stage::AddToRows(numbers) => {
                    let number = numbers[row];
                    piece.iter_mut().for_each(|x| *x += number);
                }
                Stage::AddRow(numbers) => add(piece, &numbers[columns.clone()]),
                Stage::AddTensor(_) => add(piece, &tensors.next().expect("one for each stage")[place..][..piece.len()]),
                // What is not a number is neither below nor above a bound, and stays.
                Stage::Relu => piece.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
                &Stage::Clamp(low, high) => piece.iter_mut().for_each(|x| {
                    let raised = if *x < low { low } else { *x };
                    *x = if raised > high { high } else { raised };
                }),
            }
        }
    }
}

fn add(piece: &mut [f32], numbers: &[f32]) {
    piece.iter_mut().zip(numbers).for_each(|(x, number)| *x += number);
}

fn stage(op: &Op, site: &Site<'_>, rows: Rows, taken: &mut Vec<usize>) -> Option<Stage> {
    match op {
        Op::Activation(op) if op.kind == ActivationKind::Relu => Some(Stage::Relu),
        Op::Clamp(op) => {
            let bound = |bound: Option<crate::graph::Number>, absent| bound.map_or(absent, crate::graph::Number::to_f32);
            Some(Stage::Clamp(bound(op.min_value, f32::NEG_INFINITY), bound(op.max_value, f32::INFINITY)))
        }
        Op::Binary(op) if op.kind == BinaryKind::Add => {
            let running = OperandId(site.inputs.len() as u32);
            let id = if op.a == running { op.b } else { op.a };
            let other = site.inputs[id.0 as usize];
            if other.shape == site.output.shape {
                return Some(Stage::AddTensor(id));
            }
            let (axis, make): (usize, fn(Vec<f32>) -> Stage) = match rows {
                Rows::Leading => (site.output.shape.len() - 1, Stage::AddRow),
                Rows::Channels => (1, Stage::AddToRows),
            };
            // A constant that varies along this axis only.
            let missing = site.output.shape.len() - other.shape.len();
            let size = site.output.shape[axis];
            let along = axis >= missing && other.shape[axis - missing] == size && other.shape.iter().product::<usize>() == size;
            let elements = other.elements()?;
            if !along {
                return None;
            }
            taken.push(id.0 as usize);
            Some(make(elements.to_vec()))
        }
        _ => None,
    }
}
