//! Biases, activations, residual additions, whole chains of element-wise operators, done to a piece of an output while it is
//! in the cache.
#![allow(unsafe_code)]

use crate::bf16::narrow::Stored;
use crate::bf16::rounding::widen;
use crate::functions::Function;
use crate::functions::formulas::{Formula, both, each};
use crate::isa::Isa;
use crate::output::{Block, BlockEpilogue};
use crate::simd::prefetch::prefetch;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use crate::subnormals::{Begun, Subnormals};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A post-op of an epilogue. The output is seen as rows (channels of a convolution, rows of a product) of columns.
#[derive(Debug)]
pub enum PostOp {
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
    Row(Row),
    /// The same, one number or a row, which the run brings.
    Single,
    Line,
    /// A tensor of the output's shape, which the run brings.
    Tensor,
}

/// The numbers of a row, which are whoever's: many epilogues may have them together.
#[derive(Clone)]
pub struct Row(Arc<dyn AsRef<[f32]> + Send + Sync>);

impl Row {
    pub fn new(numbers: impl AsRef<[f32]> + Send + Sync + 'static) -> Row {
        Row(Arc::new(numbers))
    }
}

impl Deref for Row {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PostOp {
    /// Whether its result is off by no more than its operands are, and 2⁻¹²⁶, where subnormal numbers are flushed.
    pub(crate) fn may_flush(&self) -> bool {
        use Operation::{Add, Sub, SubFrom};
        match self {
            PostOp::Binary(operation, _) => matches!(operation, Add | Sub | SubFrom),
            PostOp::Formula(Formula::Of(function)) => {
                matches!(function, Function::Relu | Function::Abs | Function::Neg | Function::Float16)
            }
            PostOp::Formula(formula) => matches!(formula, Formula::Clamp(..) | Formula::ReplaceNan(_)),
        }
    }
}

/// Elements that all post-ops are done to before the next ones: they stay in the first-level cache.
const STRIP: usize = 2048;

/// Where a matrix lies in the output.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Number of its first element in the output.
    pub place: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

/// Post-ops of an epilogue.
#[derive(Clone, Copy, Debug)]
pub struct PostOps<'a>(&'a [PostOp]);

impl<'a> PostOps<'a> {
    pub fn new(post_ops: &'a [PostOp]) -> Self {
        PostOps(post_ops)
    }

    /// Element-wise operators are exact for subnormal numbers also where what makes their operand flushes these: a logarithm, a
    /// quotient or a root would make much of little.
    fn begin(self) -> Option<Begun> {
        (!self.0.iter().all(PostOp::may_flush)).then(|| Subnormals::Exact.begin())
    }

    /// All of them, in order.
    pub fn list(self) -> &'a [PostOp] {
        self.0
    }

    /// Whether the rows do not matter: all post-ops treat all elements alike, or find them by their place.
    pub fn is_flat(self) -> bool {
        !self.0.iter().any(|post_op| matches!(post_op, PostOp::Binary(_, With::Row(_) | With::Line)))
    }

    /// About how many nanoseconds the post-ops take for an element, times 16.
    pub fn cost(self) -> usize {
        self.0
            .iter()
            .map(|post_op| if matches!(post_op, PostOp::Formula(Formula::Of(_) | Formula::Swish(_))) { 8 } else { 1 })
            .sum()
    }

    /// Finishes a piece of a row, whose first element is number `place` of the output.
    pub fn apply(self, isa: &Isa, columns: Range<usize>, place: usize, tensors: &[Stored<'_>], piece: &mut [f32]) {
        let length = piece.len();
        let pieces = Pieces::new(piece, 1, [length, length], columns, [place, 0]);
        let _exact = self.begin();
        with_vectors(isa, Apply { post_ops: self.0, tensors, pieces });
    }

    /// Finishes whole rows of so many columns, or a piece of one, of which the first element is number `place` of the output.
    pub fn apply_rows(self, isa: &Isa, columns: usize, place: usize, tensors: &[Stored<'_>], piece: &mut [f32]) {
        let length = if self.is_flat() { STRIP } else { columns };
        let strip = (STRIP / length).max(1) * length;
        let _exact = self.begin();
        for (i, elements) in piece.chunks_mut(strip).enumerate() {
            let place = place + i * strip;
            let first = place % columns;
            let of_row = first..columns.min(first + elements.len());
            let rows = elements.len().div_ceil(length);
            let pieces = Pieces::new(elements, rows, [length, length], of_row, [place, length]);
            with_vectors(isa, Apply { post_ops: self.0, tensors, pieces });
        }
    }

    /// Those after the first ones.
    pub fn after(self, count: usize) -> PostOps<'a> {
        PostOps(&self.0[count..])
    }

    /// Finishes a tile that lies elsewhere.
    pub fn apply_tile(self, isa: &Isa, tile: Tile, tensors: &[Stored<'_>], elements: &mut [f32]) {
        if !self.0.is_empty() {
            let Tile { rows, columns, stride, width } = tile;
            let place = rows.start * stride + columns.start;
            let pieces = Pieces::new(elements, rows.len(), [width, columns.len()], columns, [place, stride]);
            let _exact = self.begin();
            with_vectors(isa, Apply { post_ops: self.0, tensors, pieces });
        }
    }

    /// All post-ops, done to the tiles of a matrix that lies there in the output; nothing when there are none.
    pub fn on_block(self, isa: &'a Isa, origin: Origin, tensors: &'a [Stored<'a>]) -> Option<PostOpsOnBlock<'a>> {
        (!self.0.is_empty()).then_some(PostOpsOnBlock { isa, post_ops: self.0, origin, tensors })
    }
}

/// See [`PostOps::on_block`].
pub struct PostOpsOnBlock<'a> {
    isa: &'a Isa,
    post_ops: &'a [PostOp],
    origin: Origin,
    tensors: &'a [Stored<'a>],
}

impl BlockEpilogue for PostOpsOnBlock<'_> {
    fn prefetch(&self, rows: Range<usize>, columns: Range<usize>) {
        for tensor in self.tensors {
            for row in rows.clone() {
                let place = self.origin.place + row * self.origin.stride;
                let range = place + columns.start..place + columns.end;
                match *tensor {
                    Stored::Float32(numbers) => prefetch(numbers, range),
                    Stored::Bf16(bits) => prefetch(bits, range),
                }
            }
        }
    }

    fn apply(&self, block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let place = self.origin.place + rows.start * self.origin.stride + columns.start;
        let (start, stride) = (block.tile(rows.start, rows.len(), columns.clone()), block.stride());
        let (length, last) = (columns.len(), columns.len());
        // SAFETY: these rows of the block are there (`Block::tile`), whose columns are inside of them, and the block is ours.
        let pieces = unsafe { Pieces::at(start, rows.len(), [stride, length, last], columns, [place, self.origin.stride]) };
        let _exact = PostOps(self.post_ops).begin();
        with_vectors(self.isa, Apply { post_ops: self.post_ops, tensors: self.tensors, pieces });
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

/// Pieces of rows that post-ops are done to: one kind for all, so that the loops over them exist once for each instruction set.
struct Pieces<'a> {
    start: *mut f32,
    rows: usize,
    /// Elements from the first of a row to that of the next, those of a row, and those of the last one.
    step: usize,
    length: usize,
    last: usize,
    columns: Range<usize>,
    /// Number of the first element in the output, and how much later the first of the next row is.
    place: usize,
    place_step: usize,
    _elements: PhantomData<&'a mut [f32]>,
}

impl<'a> Pieces<'a> {
    /// Rows of elements that begin `step` apart; the last one has what is left, if that is less.
    fn new(elements: &'a mut [f32], rows: usize, [step, length]: [usize; 2], columns: Range<usize>, places: [usize; 2]) -> Self {
        let after = (rows.saturating_sub(1) * step).min(elements.len());
        let last = if rows == 0 { 0 } else { length.min(elements.len() - after) };
        assert!(rows < 2 || length <= step && after < elements.len());
        // SAFETY: the last row is inside the elements, and the others end before it; they are borrowed alone.
        unsafe { Pieces::at(elements.as_mut_ptr(), rows, [step, length, last], columns, places) }
    }

    /// # Safety
    /// There must be such rows, `last` elements of the last one, which nobody else accesses as long as this lives.
    unsafe fn at(
        start: *mut f32,
        rows: usize,
        [step, length, last]: [usize; 3],
        columns: Range<usize>,
        [place, place_step]: [usize; 2],
    ) -> Self {
        Pieces { start, rows, step, length, last, columns, place, place_step, _elements: PhantomData }
    }

    /// The piece of a row, and the number of its first element in the output.
    #[inline(always)]
    fn of(&mut self, row: usize) -> (&mut [f32], usize) {
        debug_assert!(row < self.rows);
        let length = if row + 1 == self.rows { self.last } else { self.length };
        // SAFETY: the row is there, by the promise at `Pieces::at`.
        let piece = unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.step), length) };
        (piece, self.place + row * self.place_step)
    }
}

struct Apply<'a> {
    post_ops: &'a [PostOp],
    tensors: &'a [Stored<'a>],
    pieces: Pieces<'a>,
}

impl OnVectors for Apply<'_> {
    // Operator by operator: what depends on the post-op is decided once for all rows.
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Apply { post_ops, tensors, mut pieces } = self;
        let (rows, columns) = (0..pieces.rows, pieces.columns.clone());
        let mut tensors = tensors.iter();
        for post_op in post_ops {
            match post_op {
                PostOp::Binary(operation, with) => match with {
                    With::Number(number) => with_number::<V>(*operation, &mut pieces, *number),
                    With::Row(numbers) => {
                        let numbers = &numbers[columns.clone()];
                        with_numbers::<V>(*operation, &mut pieces, |_, _| numbers);
                    }
                    With::Single => {
                        let tensor = tensors.next().expect("one for each post-op");
                        with_number::<V>(*operation, &mut pieces, tensor.at(0));
                    }
                    With::Line => {
                        let numbers = &tensors.next().expect("one for each post-op").numbers()[columns.clone()];
                        with_numbers::<V>(*operation, &mut pieces, |_, _| numbers);
                    }
                    With::Tensor => match *tensors.next().expect("one for each post-op") {
                        Stored::Float32(tensor) => {
                            with_numbers::<V>(*operation, &mut pieces, |place, length| &tensor[place..][..length]);
                        }
                        Stored::Bf16(tensor) => with_bits::<V>(*operation, &mut pieces, tensor),
                    },
                },
                PostOp::Formula(formula) => {
                    for row in rows.clone() {
                        formula.apply::<V>(pieces.of(row).0);
                    }
                }
            }
        }
    }
}

/// Chooses what `$rows` does by the operation: `x` is the value so far, `y` the other one.
macro_rules! by_operation {
    ($operation:expr, $rows:ident) => {
        match $operation {
            Operation::Add => $rows!(|x, y| x.add(y)),
            Operation::Mul => $rows!(|x, y| x.mul(y)),
            Operation::Sub => $rows!(|x, y| x.sub(y)),
            Operation::SubFrom => $rows!(|x, y| y.sub(x)),
            Operation::Div => $rows!(|x, y| x.div(y)),
            Operation::DivInto => $rows!(|x, y| y.div(x)),
            Operation::Slope => $rows!(|x, y| x.if_below(V::splat(0.0), x.mul(y), x)),
        }
    };
}

#[inline(always)]
fn with_number<V: Vector>(operation: Operation, pieces: &mut Pieces<'_>, number: f32) {
    let number = V::splat(number);
    macro_rules! rows {
        (|$x:ident, $y:ident| $value:expr) => {
            for row in 0..pieces.rows {
                let (piece, $y) = (pieces.of(row).0, number);
                each!(V, piece, |$x| $value);
            }
        };
    }
    by_operation!(operation, rows);
}

/// `numbers` gives those beside a piece with this place and length.
#[inline(always)]
fn with_numbers<'a, V: Vector>(operation: Operation, pieces: &mut Pieces<'_>, numbers: impl Fn(usize, usize) -> &'a [f32]) {
    macro_rules! rows {
        (|$x:ident, $y:ident| $value:expr) => {
            for row in 0..pieces.rows {
                let (piece, place) = pieces.of(row);
                let numbers = numbers(place, piece.len());
                both!(V, piece, numbers, |$x, $y| $value);
            }
        };
    }
    by_operation!(operation, rows);
}

/// Numbers that are widened at a time.
const WIDENED: usize = 128;

/// The same with a tensor of the output's shape that lies as bfloat16.
#[inline(always)]
fn with_bits<V: Vector>(operation: Operation, pieces: &mut Pieces<'_>, tensor: &[u16]) {
    let mut numbers = [0f32; WIDENED];
    for row in 0..pieces.rows {
        let (piece, place) = pieces.of(row);
        let bits = &tensor[place..][..piece.len()];
        for (piece, bits) in piece.chunks_mut(WIDENED).zip(bits.chunks(WIDENED)) {
            numbers.iter_mut().zip(bits).for_each(|(to, from)| *to = widen(*from));
            let length = piece.len();
            let mut part = Pieces::new(piece, 1, [length, length], 0..length, [0, 0]);
            with_numbers::<V>(operation, &mut part, |_, length| &numbers[..length]);
        }
    }
}

/// Post-ops that are done to pixels of so many channels each, soon after these are stored, with the tensors that they need.
#[derive(Debug)]
pub struct BoundPostOps<'a> {
    post_ops: PostOps<'a>,
    isa: &'static Isa,
    channels: usize,
    tensors: Vec<Stored<'a>>,
}

impl<'a> BoundPostOps<'a> {
    pub fn new(post_ops: PostOps<'a>, isa: &'static Isa, channels: usize, tensors: Vec<Stored<'a>>) -> Self {
        BoundPostOps { post_ops, isa, channels, tensors }
    }

    pub fn is_empty(&self) -> bool {
        self.post_ops.list().is_empty()
    }

    /// Finishes pixels that lie one after the other, from number `place` of the output on; or some channels of one pixel.
    pub fn apply(&self, place: usize, numbers: &mut [f32]) {
        if !self.is_empty() {
            self.post_ops.apply_rows(self.isa, self.channels, place, &self.tensors, numbers);
        }
    }
}
