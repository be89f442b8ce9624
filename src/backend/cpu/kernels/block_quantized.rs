//! Products with constant weights of a few bits, which stay so. A few rows read the packed weights once; for many in float32 some
//! panels at a time are expanded.
#![allow(unsafe_code)]

use super::epilogue::Epilogue;
use super::product::{Grid, RightView, multiply, with_left};
use super::{Accepted, Built, Constant, Implementation, Kernel, Problem, Reject, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::packings::{Packed, packed_operand};
use crate::backend::cpu::threads::{for_each_job, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::block_quantized::{BlockQuantizedMatmul, WeightCoding};
use crate::graph::{DataType, Op, OperandId};
use crate::looks::{self, Progress};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::Arc;
use webnn_kernels::block_quantized::unpack::Unpack;
use webnn_kernels::block_quantized::{
    Coding, Floats, Format, Instructions, MOST_PANELS, MOST_ROWS, Points, Scales, Source, Weights, float32, int8,
};
use webnn_kernels::epilogue::post_ops::Origin;
use webnn_kernels::isa::Isa;
use webnn_kernels::output::{Block, BlockEpilogue, Output};
use webnn_kernels::pauses::Pauses;
use webnn_kernels::simd::MOST_LANES;

/// The packed weights of a product, and what is done to its output.
#[derive(Debug)]
struct Product {
    isa: &'static Isa,
    left: OperandId,
    rows: usize,
    format: Format,
    code_book: Option<[f32; 16]>,
    packed: Arc<Packed>,
    epilogue: Epilogue,
    threads: usize,
}

/// Rows that are rounded, or multiplied, together: what they are made of stays in a shared cache.
const ROWS_TOGETHER: usize = 1024;

impl Product {
    fn weights(&self) -> Weights<'_> {
        Weights::new(&self.format, self.code_book.as_ref(), &self.packed)
    }

    /// About how many nanoseconds some rows take: what is multiplied, or what is read.
    fn cost(&self, rows: usize) -> usize {
        (rows * self.format.depth * self.format.columns / 32).max(self.packed.len() / 16)
    }

    /// Calls `body` with the panels of each job, of which threads take several.
    fn for_each_panels(&self, rows: usize, body: impl Fn(Range<usize>) + Sync) {
        let panels = self.format.panels();
        let wanted = if self.threads == 1 { 1 } else { self.threads * 8 };
        // A job is no longer than some milliseconds, so that a context can end.
        let most = (20_000_000 * panels / self.cost(rows).max(1)).max(1);
        let size = panels.div_ceil(wanted).min(most).next_multiple_of(MOST_PANELS);
        for_each_job(panels.div_ceil(size), self.cost(rows), |job| body(job * size..panels.min((job + 1) * size)));
    }

    /// Computes the panels of a job for all rows, so many at a time: `multiply` is given rows and panels, room for their numbers, and when
    /// to pause.
    fn panels(
        &self,
        rows: usize,
        panels: Range<usize>,
        block: &mut Block<'_>,
        multiply: impl Fn([Range<usize>; 2], &mut [f32], Pauses),
    ) {
        let lanes = self.format.lanes;
        // Products of vectors.
        let products = |rows: usize, panels: usize| (rows * panels).saturating_mul(self.format.padded_depth());
        let progress = Progress::of(products(rows, panels.len()));
        let mut numbers = [0f32; MOST_ROWS * MOST_PANELS * MOST_LANES];
        // Of many rows the numbers stay in registers for one panel.
        let together = if rows > MOST_ROWS / 2 { 1 } else { MOST_PANELS };
        for first in panels.clone().step_by(together) {
            let panels = first..panels.end.min(first + together);
            let width = panels.len() * lanes;
            let columns = panels.start * lanes..self.format.columns.min(panels.end * lanes);
            for first in (0..rows).step_by(MOST_ROWS) {
                let rows = first..rows.min(first + MOST_ROWS);
                let count = products(rows.len(), panels.len());
                multiply([rows.clone(), panels.clone()], &mut numbers[..rows.len() * width], looks::pauses(count));
                progress.made(count);
                for (row, numbers) in rows.zip(numbers.chunks_exact(width)) {
                    block.row(row, columns.clone()).copy_from_slice(&numbers[..columns.len()]);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.packed.len()
    }
}

/// Calls `body` with the rows of a left operand, some at a time, the part of the output that they make, and what finishes it.
fn for_each_rows(
    product: &Product,
    arguments: &mut Arguments<'_, '_>,
    body: impl Fn(&[f32], Output<'_>, usize, Option<&dyn BlockEpilogue>),
) {
    let elements = arguments.input(product.left).elements::<f32>();
    let tensors = product.epilogue.tensors(arguments);
    let Format { depth, columns, .. } = product.format;
    let output = Output::new(arguments.output().elements::<f32>(), columns);
    for first in (0..product.rows).step_by(ROWS_TOGETHER) {
        let rows = ROWS_TOGETHER.min(product.rows - first);
        let origin = Origin { place: first * columns, stride: columns };
        let finish = product.epilogue.post_ops().on_block(product.isa, origin, &tensors);
        let finish = finish.as_ref().map(|finish| finish as &dyn BlockEpilogue);
        // SAFETY: these rows are written before the next ones are.
        let output = unsafe { output.from(first * columns) };
        body(&elements[first * depth..(first + rows) * depth], output, rows, finish);
    }
}

/// In float32.
#[derive(Debug)]
struct Float32(Product);

impl Float32 {
    /// A few rows: the weights are read as they are.
    fn few(&self, left: &[f32], output: Output<'_>, rows: usize, finish: Option<&dyn BlockEpilogue>) {
        let Float32(product) = self;
        let (format, weights) = (&product.format, product.weights());
        let (depth, blocks) = (format.padded_depth(), format.blocks());
        with_scratch(rows * (depth + blocks), |scratch| {
            let (numbers, sums) = scratch.split_at_mut(rows * depth);
            let pauses = looks::pauses(left.len());
            float32::Pad { format, from: left, numbers: &mut *numbers, sums: &mut *sums, pauses }.compute(product.isa);
            let (numbers, sums) = (&*numbers, &*sums);
            product.for_each_panels(rows, |panels| {
                let columns = panels.start * format.lanes..format.columns.min(panels.end * format.lanes);
                // SAFETY: jobs have different columns.
                let mut block = unsafe { output.block(0..rows, columns.clone()) };
                product.panels(rows, panels, &mut block, |[rows, panels], to, pauses| {
                    let numbers = &numbers[rows.start * depth..rows.end * depth];
                    let sums = &sums[rows.start * blocks..rows.end * blocks];
                    float32::multiply(product.isa, &weights, float32::Rows { numbers, sums }, panels, to, pauses);
                });
                if let Some(finish) = finish {
                    finish.apply(&mut block, 0..rows, columns);
                }
            });
        });
    }

    /// Many rows: some panels are expanded, and multiplied with all of them.
    fn many(&self, left: &[f32], output: Output<'_>, rows: usize, finish: Option<&dyn BlockEpilogue>) {
        let Float32(product) = self;
        let (format, weights, isa) = (&product.format, product.weights(), product.isa);
        let gemm = isa.gemm;
        let Format { depth, columns, .. } = *format;
        let panels = columns.div_ceil(gemm.columns);
        // So many that a block of rows is worth being read from afar for them, and no more than threads need.
        let together = panels.div_ceil(product.threads * 2).clamp(1, PANELS_TOGETHER);
        let unit = depth * gemm.columns;
        with_left(gemm, [rows, depth], columns, left.into(), [depth, 1], |left| {
            for_each_job(panels.div_ceil(together), product.cost(rows), |job| {
                let panels = job * together..panels.min((job + 1) * together);
                let first = panels.start * gemm.columns;
                let columns = first..columns.min(panels.end * gemm.columns);
                with_scratch(panels.len() * unit, |expanded| {
                    for (panel, to) in panels.zip(expanded.chunks_exact_mut(unit)) {
                        let pauses = looks::pauses(unit);
                        Unpack { weights, panel, to, pauses }.compute(isa);
                    }
                    let grid = Grid::new(gemm, rows, depth, columns.len(), 1);
                    for number in 0..grid.count() {
                        let (rows, of_block) = grid.block(number);
                        let right =
                            RightView { columns: of_block.len(), panels: &expanded[of_block.start / gemm.columns * unit..] };
                        let columns = first + of_block.start..first + of_block.end;
                        // SAFETY: jobs have different columns, and the blocks of a grid do not overlap.
                        let mut block = unsafe { output.block(rows, columns) };
                        multiply(gemm, left, right, &mut block, None, finish);
                    }
                });
            });
        });
    }
}

/// Panels that are expanded for a block of rows.
const PANELS_TOGETHER: usize = 8;

impl Kernel for Float32 {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        // Measured on a Zen 4: with registers for eight rows beside the weights, these are multiplied nearly as fast as tiles are, and
        // expanding the weights costs as much as that loses on 68 rows.
        let few = if self.0.format.lanes == MOST_LANES { 64 } else { MOST_ROWS };
        for_each_rows(&self.0, arguments, |left, output, rows, finish| match rows <= few {
            true => self.few(left, output, rows, finish),
            false => self.many(left, output, rows, finish),
        });
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// With rows that are rounded to bytes.
#[derive(Debug)]
struct Int8(Product, Instructions);

impl Kernel for Int8 {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let Int8(product, instructions) = self;
        let (format, weights) = (&product.format, product.weights());
        let depth = format.depth;
        for_each_rows(product, arguments, |left, output, rows, finish| {
            let of_row = int8::row(format);
            with_scratch(rows * of_row, |scratch| {
                for_each_piece(scratch, of_row, depth / 4, |first, piece| {
                    for (row, to) in piece.chunks_exact_mut(of_row).enumerate() {
                        let from = &left[(first + row) * depth..][..depth];
                        let pauses = looks::pauses(depth);
                        int8::Round { format, from, to, pauses }.compute(product.isa);
                    }
                });
                let scratch = &*scratch;
                product.for_each_panels(rows, |panels| {
                    let columns = panels.start * format.lanes..format.columns.min(panels.end * format.lanes);
                    // SAFETY: jobs have different columns.
                    let mut block = unsafe { output.block(0..rows, columns.clone()) };
                    product.panels(rows, panels, &mut block, |[rows, panels], to, pauses| {
                        let rows = int8::Rows { rows: &scratch[rows.start * of_row..rows.end * of_row] };
                        int8::multiply(product.isa, *instructions, &weights, rows, panels, to, pauses);
                    });
                    if let Some(finish) = finish {
                        finish.apply(&mut block, 0..rows, columns);
                    }
                });
            });
        });
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// In float32, whatever the rows are.
pub static FLOAT32: Implementation = Implementation { name: "block_quantized.float32", accept: accept_float32 };
/// With rows that are rounded to bytes, where that is allowed.
pub static INT8: Implementation = Implementation { name: "block_quantized.int8", accept: accept_int8 };

fn accept_float32<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, constants) = constants(problem)?;
    require(op.code_book.is_none() || op.bits <= 4, "a code book of more than 16 numbers")?;
    let format = constants.format(target.isa.lanes(), false);
    build(problem, target, op, constants, format, |product| Box::new(Float32(product)))
}

fn accept_int8<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, constants) = constants(problem)?;
    require(op.approximate, "rows that may not be rounded")?;
    require(op.code_book.is_none() && op.coding != WeightCoding::Float16, "numbers for weights")?;
    // Sums of products of bytes, which are below 2^15, fit into 32 bits.
    let Source { block, depth, .. } = constants.form;
    require(block.min(depth) <= 1 << 16, "long blocks")?;
    let format = constants.format(target.isa.lanes(), true);
    let instructions = Instructions::all_of(target.isa)[0];
    build(problem, target, op, constants, format, move |product| Box::new(Int8(product, instructions)))
}

/// The constants of a product, which are looked at only when they are packed: others may have packed the same.
#[derive(Clone, Copy)]
struct Constants<'a> {
    /// What is known without their bytes: it has none.
    form: Source<'a>,
    weights: Constant<'a>,
    scales: Constant<'a>,
    zeros: Option<Constant<'a>>,
}

/// The operator, and its constants.
fn constants<'a>(problem: &Problem<'a>) -> Result<(&'a BlockQuantizedMatmul, Constants<'a>), Reject> {
    let Op::BlockQuantizedMatmul(op) = problem.op else { return Err(Reject("not a product with quantized weights")) };
    let a = problem.input(op.a);
    require(a.data_type == DataType::Float32 && a.order.is_none() && problem.output.order.is_none(), "not float32 in order")?;
    let depth = a.shape.last().copied().ok_or(Reject("a scalar"))?;
    let sizes = op.sizes(depth, problem.input(op.scales).shape);
    let constant = |id: OperandId| {
        let known = problem.input(id);
        let constant = known.constant.ok_or(Reject("weights, scales or zero points that are computed"))?;
        Ok((known.data_type, constant))
    };
    let (_, weights) = constant(op.weights)?;
    let (of_scales, scales) = constant(op.scales)?;
    let (of_zeros, zeros) = op.zero_points.map(constant).transpose()?.unzip();
    let form = Source {
        bits: op.bits as usize,
        columns: sizes.columns,
        depth,
        block: (op.block_size as usize).min(if op.by_depth { depth } else { usize::MAX }),
        coding: match op.coding {
            WeightCoding::Unsigned => Coding::Unsigned,
            WeightCoding::Offset => Coding::Offset,
            WeightCoding::Signed => Coding::Signed,
            WeightCoding::Float16 => Coding::Float16,
        },
        by_depth: op.by_depth,
        high_first: op.high_first,
        code_book: op.code_book.map(|id| problem.input(id).constant_elements()).transpose()?,
        weights: &[],
        scales: floats(of_scales, &[])?,
        zeros: of_zeros.map(points).transpose()?,
    };
    Ok((op, Constants { form, weights, scales, zeros }))
}

impl<'a> Constants<'a> {
    /// How they are packed.
    fn format(&self, lanes: usize, is_int8: bool) -> Format {
        let scales = match self.form.scales {
            Floats::Float16(_) => Scales::Float16,
            Floats::Float32(_) => {
                let are_halves = |bytes: &[u8]| {
                    let source = Source { scales: Floats::Float32(bytes), ..self.form };
                    source.format(lanes, is_int8).scales == Scales::Float16
                };
                if self.scales.are_halves(are_halves) { Scales::Float16 } else { Scales::Float32 }
            }
        };
        Format { scales, ..self.form.format(lanes, is_int8) }
    }

    /// With their bytes.
    fn source(&self) -> Source<'a> {
        let zeros = self.form.zeros.zip(self.zeros).map(|(form, constant)| match form {
            Points::Packed(_) => Points::Packed(constant.bytes()),
            Points::Numbers(form) => Points::Numbers(with_bytes(form, constant.bytes())),
        });
        let scales = with_bytes(self.form.scales, self.scales.bytes());
        Source { weights: self.weights.bytes(), scales, zeros, ..self.form }
    }
}

fn with_bytes<'a>(form: Floats<'a>, bytes: &'a [u8]) -> Floats<'a> {
    match form {
        Floats::Float32(_) => Floats::Float32(bytes),
        Floats::Float16(_) => Floats::Float16(bytes),
    }
}

/// The numbers of a constant.
fn floats(data_type: DataType, bytes: &[u8]) -> Result<Floats<'_>, Reject> {
    match data_type {
        DataType::Float32 => Ok(Floats::Float32(bytes)),
        DataType::Float16 => Ok(Floats::Float16(bytes)),
        _ => Err(Reject("scales that are not numbers")),
    }
}

/// Zero points, codes or numbers, without their bytes.
fn points(data_type: DataType) -> Result<Points<'static>, Reject> {
    match data_type {
        DataType::Uint8 => Ok(Points::Packed(&[])),
        _ => floats(data_type, &[]).map(Points::Numbers),
    }
}

fn build<'a>(
    problem: &Problem<'a>,
    target: &Target,
    op: &'a BlockQuantizedMatmul,
    constants: Constants<'a>,
    format: Format,
    kernel: impl FnOnce(Product) -> Box<dyn Kernel> + 'a,
) -> Accepted<'a> {
    let bias = op.bias.map(|id| problem.input(id).constant_elements()).transpose()?;
    let (problem, target) = (*problem, *target);
    Ok(Box::new(move || {
        let operands = [Some(op.weights), Some(op.scales), op.zero_points, op.code_book, op.bias];
        let mut consumed: SmallVec<[usize; 2]> = smallvec![];
        consumed.extend(operands.into_iter().flatten().map(|id| id.0 as usize));
        let mut epilogue = Epilogue::new(bias);
        let fuses = epilogue.fuse(&problem, &mut consumed);
        let layout = [format.lanes, format.depth, usize::from(format.is_int8)];
        let packed = packed_operand(&layout, format.bytes(), |bytes| {
            let pauses = looks::pauses(bytes.len());
            constants.source().pack(&format, bytes, pauses);
        });
        let code_book = constants.form.code_book.map(|book| std::array::from_fn(|i| book.get(i).copied().unwrap_or(0.0)));
        let rows = problem.output.element_count() / format.columns.max(1);
        let Target { isa, threads, .. } = target;
        let product = Product { isa, left: op.a, rows, format, code_book, packed, epilogue, threads };
        Ok(Built { kernel: kernel(product), consumed, fuses })
    }))
}
