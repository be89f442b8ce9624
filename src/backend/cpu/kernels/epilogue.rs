//! What is done to a finished piece of an output while it is in the cache: biases, activations, residual additions, whole
//! chains of element-wise operators.
#![allow(unsafe_code)]

use super::Problem;
use super::formulas::{Formula, Power, Rounding, both, each};
use super::isa::Isa;
use super::prefetch::prefetch;
use super::product::{self, Block};
use super::vector::{OnVectors, Vector, with_vectors};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::BinaryKind;
use crate::graph::{DataType, Op, OperandId};
use std::ops::Range;

/// A stage of an epilogue. The output is seen as rows (channels of a convolution, rows of a product) of columns.
#[derive(Debug)]
pub enum Stage {
    Binary(Operation, With),
    Formula(Formula),
}

/// Arithmetic on the value so far, `x`, and another one, `y`.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
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
    /// `x y` below zero, `x` elsewhere.
    Slope,
}

/// The other operand.
#[derive(Debug)]
pub enum With {
    Number(f32),
    /// A row for all rows.
    Row(Vec<f32>),
    /// The same, one number or a row, which the run brings.
    Single(OperandId),
    Line(OperandId),
    /// A tensor of the output's shape.
    Tensor(OperandId),
}

/// All stages, in order.
#[derive(Debug, Default)]
pub struct Epilogue(Vec<Stage>);

/// Elements that all stages are done to before the next ones: they stay in the first-level cache.
const TOGETHER: usize = 2048;

/// Where a matrix lies in the output.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Number of its first element in the output.
    pub place: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

impl Epilogue {
    pub fn new(bias: Option<Vec<f32>>) -> Self {
        Epilogue(bias.map(|bias| Stage::Binary(Operation::Add, With::Row(bias))).into_iter().collect())
    }

    /// The same for an output of one column.
    pub fn of_column(bias: Option<f32>) -> Self {
        Epilogue(bias.map(|bias| Stage::Binary(Operation::Add, With::Number(bias))).into_iter().collect())
    }

    /// Adds the fused operators of a step, and notes the constants that are packed. All or none of them.
    pub fn fuse(&mut self, problem: &Problem<'_>, consumed: &mut impl Extend<usize>) -> bool {
        let running = OperandId(problem.inputs.len() as u32);
        let mut constants = Vec::new();
        // The way back from float16 changes nothing: stages have float32 all the time.
        let counts = |op: &&Op| !matches!(op, Op::Cast(cast) if cast.data_type == DataType::Float32);
        let mut stages = Vec::new();
        for op in problem.fused.iter().filter(counts) {
            let Some(stage) = stage(op, running, problem, &mut constants) else { return false };
            stages.push(stage);
        }
        self.0.extend(stages);
        self.join_steps();
        consumed.extend(constants);
        true
    }

    /// Lets stages that round to steps, as values that have been quantized are, be one.
    fn join_steps(&mut self) {
        use Operation::{Add, Div, Mul, Sub};
        use Stage::Binary;
        use With::Number;
        let joined = |stages: &[Stage]| match stages {
            &[
                Binary(Div, Number(size)),
                Stage::Formula(Formula::Clamp(low, high)),
                Binary(Add, Number(up)),
                Binary(Sub, Number(down)),
                Binary(Mul, Number(back)),
            ] => Some(Stage::Formula(Formula::Steps(Rounding::new(size, [low, high], [up, down], back)))),
            _ => None,
        };
        let mut i = 0;
        while i + 5 <= self.0.len() {
            if let Some(stage) = joined(&self.0[i..i + 5]) {
                self.0.splice(i..i + 5, [stage]);
            }
            i += 1;
        }
    }

    /// Adds a step's own operator, done to its operand `input`.
    pub fn begin(&mut self, problem: &Problem<'_>, input: OperandId, consumed: &mut impl Extend<usize>) -> bool {
        let mut constants = Vec::new();
        let Some(stage) = stage(problem.op, input, problem, &mut constants) else { return false };
        self.0.push(stage);
        consumed.extend(constants);
        true
    }

    /// The row that is added first of all, if there is one, and the other stages.
    pub fn split_bias(&self) -> (Option<&[f32]>, Stages<'_>) {
        match self.0.as_slice() {
            [Stage::Binary(Operation::Add, With::Row(row)), rest @ ..] => (Some(row), Stages(rest)),
            all => (None, Stages(all)),
        }
    }

    /// All stages.
    pub fn stages(&self) -> Stages<'_> {
        Stages(&self.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the rows do not matter: all stages treat all elements alike, or find them by their place.
    pub fn is_flat(&self) -> bool {
        !self.0.iter().any(|stage| matches!(stage, Stage::Binary(_, With::Row(_) | With::Line(_))))
    }

    /// Lets so many rows be one. Nothing, and false, if a row is one that the run brings.
    pub fn join_rows(&mut self, count: usize) -> bool {
        if self.0.iter().any(|stage| matches!(stage, Stage::Binary(_, With::Line(_)))) {
            return false;
        }
        for stage in &mut self.0 {
            if let Stage::Binary(_, With::Row(row)) = stage {
                *row = row.repeat(count);
            }
        }
        true
    }

    /// About how many nanoseconds the stages take for an element, times 16.
    pub fn cost(&self) -> usize {
        self.0.iter().map(|stage| if matches!(stage, Stage::Formula(Formula::Of(_) | Formula::Swish(_))) { 8 } else { 1 }).sum()
    }

    pub fn bytes(&self) -> usize {
        let numbers = |stage: &Stage| match stage {
            Stage::Binary(_, With::Row(list)) => list.len(),
            _ => 0,
        };
        self.0.iter().map(numbers).sum::<usize>() * 4
    }

    /// The tensors that stages need, for [`Epilogue::apply`].
    pub fn tensors<'a>(&self, arguments: &Arguments<'a, '_>) -> Vec<&'a [f32]> {
        let needed = |stage: &Stage| match stage {
            Stage::Binary(_, With::Tensor(id) | With::Single(id) | With::Line(id)) => {
                Some(arguments.input(*id).elements::<f32>())
            }
            _ => None,
        };
        self.0.iter().filter_map(needed).collect()
    }

    /// Finishes a piece of a row, whose first element is number `place` of the output.
    pub fn apply(&self, isa: &Isa, columns: Range<usize>, place: usize, tensors: &[&[f32]], piece: &mut [f32]) {
        let pieces = Piece { columns, place, elements: piece };
        with_vectors(isa, Apply { stages: &self.0, tensors, pieces });
    }

    #[cfg(test)]
    pub fn of(stages: Vec<Stage>) -> Self {
        Epilogue(stages)
    }

    /// All stages, in order.
    pub fn list(&self) -> &[Stage] {
        &self.0
    }

    /// Finishes whole rows of so many columns, or a piece of one, of which the first element is number `place` of the output.
    pub fn apply_rows(&self, isa: &Isa, columns: usize, place: usize, tensors: &[&[f32]], piece: &mut [f32]) {
        let length = if self.is_flat() { TOGETHER } else { columns };
        let together = (TOGETHER / length).max(1) * length;
        for (i, elements) in piece.chunks_mut(together).enumerate() {
            let pieces = WholeRows { columns, length, place: place + i * together, elements };
            with_vectors(isa, Apply { stages: &self.0, tensors, pieces });
        }
    }
}

/// Stages of an epilogue.
#[derive(Clone, Copy)]
pub struct Stages<'a>(&'a [Stage]);

impl<'a> Stages<'a> {
    /// Those behind the first ones.
    pub fn behind(self, count: usize) -> Stages<'a> {
        Stages(&self.0[count..])
    }

    /// Finishes a tile that lies elsewhere.
    pub fn apply_tile(self, isa: &Isa, tile: Tile, tensors: &[&[f32]], elements: &mut [f32]) {
        if !self.0.is_empty() {
            with_vectors(isa, Apply { stages: self.0, tensors, pieces: Elsewhere { tile, elements } });
        }
    }

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
        let pieces = InBlock { block, rows, columns, origin: self.origin };
        with_vectors(self.isa, Apply { stages: self.stages, tensors: self.tensors, pieces });
    }
}

/// Pieces of rows that stages are done to.
trait Pieces {
    /// AlignedBuffer of the rows.
    fn rows(&self) -> Range<usize>;

    fn columns(&self) -> Range<usize>;

    /// The piece of a row, and the number of its first element in the output.
    fn of(&mut self, row: usize) -> (&mut [f32], usize);
}

struct InBlock<'a, 'b> {
    block: &'a mut Block<'b>,
    rows: Range<usize>,
    columns: Range<usize>,
    origin: Origin,
}

impl Pieces for InBlock<'_, '_> {
    #[inline(always)]
    fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    #[inline(always)]
    fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    #[inline(always)]
    fn of(&mut self, row: usize) -> (&mut [f32], usize) {
        let place = self.origin.place + row * self.origin.stride + self.columns.start;
        (self.block.row(row, self.columns.clone()), place)
    }
}

/// A part of the output that lies elsewhere.
pub struct Tile {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    /// Elements from one row of the output to the next, and from one row of the tile.
    pub stride: usize,
    pub width: usize,
}

struct Elsewhere<'a> {
    tile: Tile,
    elements: &'a mut [f32],
}

impl Pieces for Elsewhere<'_> {
    #[inline(always)]
    fn rows(&self) -> Range<usize> {
        self.tile.rows.clone()
    }

    #[inline(always)]
    fn columns(&self) -> Range<usize> {
        self.tile.columns.clone()
    }

    #[inline(always)]
    fn of(&mut self, row: usize) -> (&mut [f32], usize) {
        let Tile { rows, columns, stride, width } = &self.tile;
        let first = (row - rows.start) * width;
        (&mut self.elements[first..first + columns.len()], row * stride + columns.start)
    }
}

struct Piece<'a> {
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
    fn of(&mut self, _: usize) -> (&mut [f32], usize) {
        (self.elements, self.place)
    }
}

/// Rows of `columns` one after the other, or a piece of one, taken so many elements at a time: a row, or more where rows do
/// not matter.
struct WholeRows<'a> {
    columns: usize,
    length: usize,
    place: usize,
    elements: &'a mut [f32],
}

impl Pieces for WholeRows<'_> {
    #[inline(always)]
    fn rows(&self) -> Range<usize> {
        0..self.elements.len().div_ceil(self.length)
    }

    #[inline(always)]
    fn columns(&self) -> Range<usize> {
        let first = self.place % self.columns;
        first..self.columns.min(first + self.elements.len())
    }

    #[inline(always)]
    fn of(&mut self, row: usize) -> (&mut [f32], usize) {
        let first = row * self.length;
        let last = self.elements.len().min(first + self.length);
        let place = self.place + first;
        (&mut self.elements[first..last], place)
    }
}

struct Apply<'a, P> {
    stages: &'a [Stage],
    tensors: &'a [&'a [f32]],
    pieces: P,
}

impl<P: Pieces> OnVectors for Apply<'_, P> {
    // Stage by stage: what depends on the stage is decided once for all rows.
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Apply { stages, tensors, mut pieces } = self;
        let (rows, columns) = (pieces.rows(), pieces.columns());
        let mut tensors = tensors.iter();
        for stage in stages {
            match stage {
                Stage::Binary(operation, with) => match with {
                    With::Number(number) => with_number::<V>(*operation, &mut pieces, *number),
                    With::Row(numbers) => {
                        let numbers = &numbers[columns.clone()];
                        with_numbers::<V>(*operation, &mut pieces, |_, _| numbers);
                    }
                    With::Single(_) => {
                        let tensor = tensors.next().expect("one for each stage");
                        with_number::<V>(*operation, &mut pieces, tensor[0]);
                    }
                    With::Line(_) => {
                        let numbers = &tensors.next().expect("one for each stage")[columns.clone()];
                        with_numbers::<V>(*operation, &mut pieces, |_, _| numbers);
                    }
                    With::Tensor(_) => {
                        let tensor = tensors.next().expect("one for each stage");
                        with_numbers::<V>(*operation, &mut pieces, |place, length| &tensor[place..][..length]);
                    }
                },
                Stage::Formula(formula) => {
                    for row in rows.clone() {
                        formula.apply::<V>(pieces.of(row).0);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn with_number<V: Vector>(operation: Operation, pieces: &mut impl Pieces, number: f32) {
    let number = V::set(number);
    macro_rules! rows {
        (|$x:ident, $y:ident| $value:expr) => {
            for row in pieces.rows() {
                let (piece, $y) = (pieces.of(row).0, number);
                each!(V, piece, |$x| $value);
            }
        };
    }
    match operation {
        Operation::Add => rows!(|x, y| x.add(y)),
        Operation::Mul => rows!(|x, y| x.mul(y)),
        Operation::Sub => rows!(|x, y| x.sub(y)),
        Operation::SubFrom => rows!(|x, y| y.sub(x)),
        Operation::Div => rows!(|x, y| x.div(y)),
        Operation::DivInto => rows!(|x, y| y.div(x)),
        Operation::Slope => rows!(|x, y| x.if_below(V::set(0.0), x.mul(y), x)),
    }
}

/// `numbers` gives those beside a piece with this place and length.
#[inline(always)]
fn with_numbers<'a, V: Vector>(operation: Operation, pieces: &mut impl Pieces, numbers: impl Fn(usize, usize) -> &'a [f32]) {
    macro_rules! rows {
        (|$x:ident, $y:ident| $value:expr) => {
            for row in pieces.rows() {
                let (piece, place) = pieces.of(row);
                let numbers = numbers(place, piece.len());
                both!(V, piece, numbers, |$x, $y| $value);
            }
        };
    }
    match operation {
        Operation::Add => rows!(|x, y| x.add(y)),
        Operation::Mul => rows!(|x, y| x.mul(y)),
        Operation::Sub => rows!(|x, y| x.sub(y)),
        Operation::SubFrom => rows!(|x, y| y.sub(x)),
        Operation::Div => rows!(|x, y| x.div(y)),
        Operation::DivInto => rows!(|x, y| y.div(x)),
        Operation::Slope => rows!(|x, y| x.if_below(V::set(0.0), x.mul(y), x)),
    }
}

/// An operator as a stage. `running` is the operand that it is done to.
fn stage(op: &Op, running: OperandId, problem: &Problem<'_>, consumed: &mut Vec<usize>) -> Option<Stage> {
    match op {
        Op::Binary(op) => {
            let is_first = op.a == running;
            let operation = match (op.kind, is_first) {
                (BinaryKind::Add, _) => Operation::Add,
                (BinaryKind::Mul, _) => Operation::Mul,
                (BinaryKind::Sub, true) => Operation::Sub,
                (BinaryKind::Sub, false) => Operation::SubFrom,
                (BinaryKind::Div, true) => Operation::Div,
                (BinaryKind::Div, false) => Operation::DivInto,
                (BinaryKind::Pow, true) => {
                    let &[exponent] = problem.inputs.get(op.b.0 as usize)?.elements()? else { return None };
                    consumed.push(op.b.0 as usize);
                    return Power::of(exponent).map(|power| Stage::Formula(Formula::Power(power)));
                }
                _ => return None,
            };
            with(if is_first { op.b } else { op.a }, problem, consumed).map(|with| Stage::Binary(operation, with))
        }
        Op::Prelu(op) if op.input == running => {
            with(op.slope, problem, consumed).map(|with| Stage::Binary(Operation::Slope, with))
        }
        op => Formula::of(op).map(Stage::Formula),
    }
}

/// The other operand of a stage, if it is there in a way that is quick to read.
fn with(id: OperandId, problem: &Problem<'_>, consumed: &mut Vec<usize>) -> Option<With> {
    let other = *problem.inputs.get(id.0 as usize)?;
    // Stages read float32, also where a constant of another type has as many bytes.
    if other.data_type != DataType::Float32 {
        return None;
    }
    if other.shape == problem.output.shape {
        return Some(With::Tensor(id));
    }
    if other.shape.len() > problem.output.shape.len() {
        return None;
    }
    let Some(elements) = other.elements() else {
        let count = other.shape.iter().product::<usize>();
        let is_line = other.shape.last() == problem.output.shape.last() && other.shape.last() == Some(&count);
        return if other.order.is_some() {
            None
        } else if count == 1 {
            Some(With::Single(id))
        } else {
            is_line.then_some(With::Line(id))
        };
    };
    // A constant of one element, or one that varies along the last axis only.
    let axis = problem.output.shape.len().checked_sub(1)?;
    let missing = problem.output.shape.len() - other.shape.len();
    let size = problem.output.shape[axis];
    let along = || axis >= missing && other.shape[axis - missing] == size && elements.len() == size;
    let with = match elements {
        &[number] => With::Number(number),
        _ if along() => With::Row(elements.to_vec()),
        _ => return None,
    };
    consumed.push(id.0 as usize);
    Some(with)
}
