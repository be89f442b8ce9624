//! What is done to a finished piece of an output while it is in the cache: biases, activations, residual additions, whole
//! chains of element-wise operators.

use super::Site;
use super::functions::Function;
use super::isa::{Arithmetic, Isa, Loop};
use super::packing::prefetch;
use super::product::{self, Block};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind};
use crate::graph::{Number, Op, OperandId};
use std::ops::Range;

/// A stage of an epilogue. The output is seen as rows (channels of a convolution, rows of a product) of columns.
#[derive(Debug)]
enum Stage {
    Binary(Operation, With),
    Function(Function),
    Relu,
    Clamp(f32, f32),
}

/// Arithmetic on the value so far, `x`, and another one, `y`.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add,
    Mul,
    /// `x - y`
    Sub,
    /// `y - x`
    SubFrom,
    /// `x / y`
    Div,
    /// `y / x`
    DivInto,
}

/// The other operand.
#[derive(Debug)]
enum With {
    Number(f32),
    /// A number for each row.
    Rows(Vec<f32>),
    /// A row for all rows.
    Row(Vec<f32>),
    /// A tensor of the output's shape.
    Tensor(OperandId),
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

/// Where a matrix lies in the output.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Number of its first row among all rows that stages know.
    pub row: usize,
    /// Number of its first element in the output.
    pub place: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

impl Epilogue {
    pub fn new(bias: Option<Vec<f32>>, rows: Rows) -> Self {
        let with = match rows {
            Rows::Leading => With::Row,
            Rows::Channels => With::Rows,
        };
        Epilogue(bias.map(|bias| Stage::Binary(Operation::Add, with(bias))).into_iter().collect())
    }

    /// Adds the fused operators of a step, and notes the constants that are taken. All or none of them.
    pub fn fuse(&mut self, site: &Site<'_>, rows: Rows, taken: &mut impl Extend<usize>) -> bool {
        let running = OperandId(site.inputs.len() as u32);
        let mut constants = Vec::new();
        let stages: Option<Vec<Stage>> = site.fused.iter().map(|op| stage(op, running, site, rows, &mut constants)).collect();
        let Some(stages) = stages else { return false };
        self.0.extend(stages);
        taken.extend(constants);
        true
    }

    /// Adds a step's own operator, done to its operand `input`.
    pub fn begin(&mut self, site: &Site<'_>, input: OperandId, taken: &mut impl Extend<usize>) -> bool {
        let mut constants = Vec::new();
        let Some(stage) = stage(site.op, input, site, Rows::Leading, &mut constants) else { return false };
        self.0.push(stage);
        taken.extend(constants);
        true
    }

    /// The row that is added first of all, if there is one, and the other stages.
    pub fn split_bias(&self) -> (Option<&[f32]>, Stages<'_>) {
        match self.0.as_slice() {
            [Stage::Binary(Operation::Add, With::Row(row)), rest @ ..] => (Some(row), Stages(rest)),
            all => (None, Stages(all)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the rows do not matter: all stages treat all elements alike, or find them by their place.
    pub fn is_flat(&self) -> bool {
        !self.0.iter().any(|stage| matches!(stage, Stage::Binary(_, With::Row(_) | With::Rows(_))))
    }

    /// About how many nanoseconds the stages take for an element, times 16.
    pub fn cost(&self) -> usize {
        self.0.iter().map(|stage| if matches!(stage, Stage::Function(_)) { 8 } else { 1 }).sum()
    }

    pub fn bytes(&self) -> usize {
        let numbers = |stage: &Stage| match stage {
            Stage::Binary(_, With::Rows(list) | With::Row(list)) => list.len(),
            _ => 0,
        };
        self.0.iter().map(numbers).sum::<usize>() * 4
    }

    /// The tensors that stages need, for [`Epilogue::apply`].
    pub fn tensors<'a>(&self, arguments: &Arguments<'a, '_>) -> Vec<&'a [f32]> {
        let needed = |stage: &Stage| match stage {
            Stage::Binary(_, With::Tensor(id)) => Some(arguments.input(*id).elements::<f32>()),
            _ => None,
        };
        self.0.iter().filter_map(needed).collect()
    }

    /// Finishes a piece of a row, whose first element is number `place` of the output.
    pub fn apply(&self, isa: &Isa, row: usize, columns: Range<usize>, place: usize, tensors: &[&[f32]], piece: &mut [f32]) {
        let pieces = Piece { row, columns, place, elements: piece };
        isa.run_loop(Apply { stages: &self.0, tensors, pieces });
    }
}

/// Stages of an epilogue.
#[derive(Clone, Copy)]
pub struct Stages<'a>(&'a [Stage]);

impl<'a> Stages<'a> {
    /// All stages, done to the tiles of a matrix that lies there in the output; nothing when there are none.
    pub fn finish(self, isa: &'a Isa, origin: Origin, tensors: &'a [&'a [f32]]) -> Option<FinishTiles<'a>> {
        (!self.0.is_empty()).then_some(FinishTiles { isa, stages: self.0, origin, tensors })
    }
}

/// See [`Stages::finish`].
pub struct FinishTiles<'a> {
    isa: &'a Isa,
    stages: &'a [Stage],
    origin: Origin,
    tensors: &'a [&'a [f32]],
}

impl product::Finish for FinishTiles<'_> {
    fn expect(&self, rows: Range<usize>, columns: Range<usize>) {
        for tensor in self.tensors {
            for row in rows.clone() {
                let place = self.origin.place + row * self.origin.stride;
                prefetch(tensor, place + columns.start..place + columns.end);
            }
        }
    }

    fn finish(&self, block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>) {
        let pieces = Tile { block, rows, columns, origin: self.origin };
        self.isa.run_loop(Apply { stages: self.stages, tensors: self.tensors, pieces });
    }
}

/// Pieces of rows that stages are done to.
trait Pieces {
    /// Numbers of the rows.
    fn rows(&self) -> Range<usize>;

    fn columns(&self) -> Range<usize>;

    /// The piece of a row, the number of that row for stages, and the number of the piece's first element in the output.
    fn of(&mut self, row: usize) -> (&mut [f32], usize, usize);
}

struct Tile<'a, 'b> {
    block: &'a mut Block<'b>,
    rows: Range<usize>,
    columns: Range<usize>,
    origin: Origin,
}

impl Pieces for Tile<'_, '_> {
    #[inline(always)]
    fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    #[inline(always)]
    fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    #[inline(always)]
    fn of(&mut self, row: usize) -> (&mut [f32], usize, usize) {
        let place = self.origin.place + row * self.origin.stride + self.columns.start;
        (self.block.row(row, self.columns.clone()), self.origin.row + row, place)
    }
}

struct Piece<'a> {
    row: usize,
    columns: Range<usize>,
    place: usize,
    elements: &'a mut [f32],
}

impl Pieces for Piece<'_> {
    #[inline(always)]
    fn rows(&self) -> Range<usize> {
        0..1
    }

    #[inline(always)]
    fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    #[inline(always)]
    fn of(&mut self, _: usize) -> (&mut [f32], usize, usize) {
        (self.elements, self.row, self.place)
    }
}

struct Apply<'a, P> {
    stages: &'a [Stage],
    tensors: &'a [&'a [f32]],
    pieces: P,
}

impl<P: Pieces> Loop for Apply<'_, P> {
    // Stage by stage: what depends on the stage is decided once for all rows.
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Apply { stages, tensors, mut pieces } = self;
        let (rows, columns) = (pieces.rows(), pieces.columns());
        let mut tensors = tensors.iter();
        for stage in stages {
            match stage {
                Stage::Binary(operation, with) => match with {
                    With::Number(number) => with_number(*operation, &mut pieces, |_| *number),
                    With::Rows(numbers) => with_number(*operation, &mut pieces, |row| numbers[row]),
                    With::Row(numbers) => {
                        let numbers = &numbers[columns.clone()];
                        with_numbers(*operation, &mut pieces, |_, _| numbers);
                    }
                    With::Tensor(_) => {
                        let tensor = tensors.next().expect("one for each stage");
                        with_numbers(*operation, &mut pieces, |place, length| &tensor[place..][..length]);
                    }
                },
                Stage::Function(function) => {
                    for row in rows.clone() {
                        function.apply::<A>(pieces.of(row).0);
                    }
                }
                // What is not a number is neither below nor above a bound, and stays.
                Stage::Relu => each(&mut pieces, |x, _| if x < 0.0 { 0.0 } else { x }, |_| ()),
                &Stage::Clamp(low, high) => each(
                    &mut pieces,
                    |x, _| {
                        let raised = if x < low { low } else { x };
                        if raised > high { high } else { raised }
                    },
                    |_| (),
                ),
            }
        }
    }
}

/// `number` says what stands in a row.
#[inline(always)]
fn with_number(operation: Operation, pieces: &mut impl Pieces, number: impl Fn(usize) -> f32) {
    match operation {
        Operation::Add => each(pieces, |x, y| x + y, number),
        Operation::Mul => each(pieces, |x, y| x * y, number),
        Operation::Sub => each(pieces, |x, y| x - y, number),
        Operation::SubFrom => each(pieces, |x, y| y - x, number),
        Operation::Div => each(pieces, |x, y| x / y, number),
        Operation::DivInto => each(pieces, |x, y| y / x, number),
    }
}

/// `numbers` gives those beside a piece with this place and length.
#[inline(always)]
fn with_numbers<'a>(operation: Operation, pieces: &mut impl Pieces, numbers: impl Fn(usize, usize) -> &'a [f32]) {
    match operation {
        Operation::Add => both(pieces, numbers, |x, y| x + y),
        Operation::Mul => both(pieces, numbers, |x, y| x * y),
        Operation::Sub => both(pieces, numbers, |x, y| x - y),
        Operation::SubFrom => both(pieces, numbers, |x, y| y - x),
        Operation::Div => both(pieces, numbers, |x, y| x / y),
        Operation::DivInto => both(pieces, numbers, |x, y| y / x),
    }
}

/// Elements that are treated together: one vector, or a few. Pieces are often as short as a tile.
const TOGETHER: usize = 16;

#[inline(always)]
fn each<Y: Copy>(pieces: &mut impl Pieces, function: impl Fn(f32, Y) -> f32, number: impl Fn(usize) -> Y) {
    for row in pieces.rows() {
        let (piece, row, _) = pieces.of(row);
        let y = number(row);
        let (groups, rest) = piece.as_chunks_mut::<TOGETHER>();
        for group in groups {
            // Copies: what lies in memory could be the same memory, for all that the compiler knows.
            let mut x = *group;
            for x in &mut x {
                *x = function(*x, y);
            }
            *group = x;
        }
        for x in rest {
            *x = function(*x, y);
        }
    }
}

#[inline(always)]
fn both<'a>(pieces: &mut impl Pieces, numbers: impl Fn(usize, usize) -> &'a [f32], function: impl Fn(f32, f32) -> f32) {
    for row in pieces.rows() {
        let (piece, _, place) = pieces.of(row);
        let numbers = numbers(place, piece.len());
        let (groups, rest) = piece.as_chunks_mut::<TOGETHER>();
        let (numbers, rest_of_numbers) = numbers.as_chunks::<TOGETHER>();
        for (group, numbers) in groups.iter_mut().zip(numbers) {
            let (mut x, y) = (*group, *numbers);
            for i in 0..TOGETHER {
                x[i] = function(x[i], y[i]);
            }
            *group = x;
        }
        for (x, y) in rest.iter_mut().zip(rest_of_numbers) {
            *x = function(*x, *y);
        }
    }
}

/// An operator as a stage. `running` is the operand that it is done to.
fn stage(op: &Op, running: OperandId, site: &Site<'_>, rows: Rows, taken: &mut Vec<usize>) -> Option<Stage> {
    match op {
        Op::Activation(op) if op.kind == ActivationKind::Relu => Some(Stage::Relu),
        Op::Clamp(op) => {
            let bound = |bound: Option<Number>, absent| bound.map_or(absent, Number::to_f32);
            Some(Stage::Clamp(bound(op.min_value, f32::NEG_INFINITY), bound(op.max_value, f32::INFINITY)))
        }
        Op::Binary(op) => {
            let is_first = op.a == running;
            let operation = match (op.kind, is_first) {
                (BinaryKind::Add, _) => Operation::Add,
                (BinaryKind::Mul, _) => Operation::Mul,
                (BinaryKind::Sub, true) => Operation::Sub,
                (BinaryKind::Sub, false) => Operation::SubFrom,
                (BinaryKind::Div, true) => Operation::Div,
                (BinaryKind::Div, false) => Operation::DivInto,
                _ => return None,
            };
            with(if is_first { op.b } else { op.a }, site, rows, taken).map(|with| Stage::Binary(operation, with))
        }
        op => Function::of(op).map(Stage::Function),
    }
}

/// The other operand of a stage, if it is there in a way that is quick to read.
fn with(id: OperandId, site: &Site<'_>, rows: Rows, taken: &mut Vec<usize>) -> Option<With> {
    let other = *site.inputs.get(id.0 as usize)?;
    if other.shape == site.output.shape {
        return Some(With::Tensor(id));
    }
    let elements = other.elements()?;
    // A constant of one element, or one that varies along one axis only.
    let (axis, make): (usize, fn(Vec<f32>) -> With) = match rows {
        Rows::Leading => (site.output.shape.len().checked_sub(1)?, With::Row),
        Rows::Channels => (1, With::Rows),
    };
    let missing = site.output.shape.len() - other.shape.len();
    let size = site.output.shape[axis];
    let along = || axis >= missing && other.shape[axis - missing] == size && elements.len() == size;
    let with = match elements {
        &[number] => With::Number(number),
        _ if along() => make(elements.to_vec()),
        _ => return None,
    };
    taken.push(id.0 as usize);
    Some(with)
}
