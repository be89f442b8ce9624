//! Products of matrices, wherever their elements lie: what matmul, gemm, convolutions and recurrent networks share.
//!
//! A workgroup makes a tile of the output. Tiles of both matrices are brought to the workgroup's memory, and each invocation
//! keeps a block of sums in registers. Where one side is only a few vectors, it is done without tiles. If there are too few
//! tiles for the device, several workgroups share the depth of one, and what they find is added up by another kernel.

mod matrices;
mod tiles;
mod vectors;

use super::kernel::Kernel;
use super::{Lowering, Operands, Tensor, elementwise};
use crate::backend::wgpu::shader::Layout;
use crate::error::Result;
use crate::graph::DataType;
use matrices::Matrix;

/// Up to so many rows or columns are a few vectors.
const FEW: usize = 4;
/// Workgroups that keep a device busy.
const BUSY: usize = 512;
/// The least depth that is worth a workgroup of its own.
const LEAST_SHARE: usize = 256;

/// `batches` times `rows` x `depth` times `depth` x `columns`.
pub struct Product<'a> {
    pub label: &'static str,
    pub batches: usize,
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
    /// Whether what lies side by side in memory follows along the depth, for the left and the right matrix.
    pub by_depth: [bool; 2],
    /// What `functions` read, by name.
    pub reads: Vec<(&'static str, &'a Tensor)>,
    /// `fn left_at(batch: u32, row: u32, k: u32) -> f32`, `fn right_at(batch: u32, k: u32, column: u32) -> f32` and
    /// `fn place(batch: u32, row: u32, column: u32) -> u32`, the output's element. They are called with numbers in range.
    pub functions: String,
    /// The inverse of `place`: an expression of the output's element `i`, a number in the order of batches, rows and columns.
    pub number: String,
    pub end: End<'a>,
}

/// What is done to each sum.
pub struct End<'a> {
    /// What `text` reads, by name.
    pub reads: Vec<(&'static str, &'a Tensor)>,
    /// Statements that change the sum `x` for element `i` of the output.
    pub text: String,
    /// The data type of the operator, and the step, whose fused operators follow.
    pub then: Option<(DataType, &'a Operands)>,
}

impl End<'_> {
    /// Declares `fn end(i: u32, sum: f32) -> T`.
    pub fn declare(&self, lowering: &Lowering<'_>, mut kernel: Kernel, output: &Tensor) -> Kernel {
        for (name, tensor) in &self.reads {
            kernel = kernel.reads(lowering, name, tensor);
        }
        let mut result = "x".to_owned();
        if let Some((head, operands)) = self.then {
            kernel = elementwise::finish(kernel, lowering, operands, head);
            result = "finish(i, x)".to_owned();
        }
        let (text, scalar) = (&self.text, output.scalar().name());
        kernel.declare(&format!("fn end(i: u32, sum: f32) -> {scalar} {{\nvar x = sum;\n{text}return {result};\n}}"))
    }
}

/// How workgroups divide the output and the depth.
struct Division {
    /// Workgroups, without those that share a depth.
    groups: usize,
    /// The part of the depth of each, and how many there are.
    share: usize,
    shares: usize,
}

impl Division {
    fn new(groups: usize, product: &Product<'_>, unit: usize, most_bytes: usize) -> Self {
        let bytes = product.count() * 4;
        let wanted = (BUSY / groups).min(product.depth / LEAST_SHARE).min(most_bytes / bytes.max(1)).max(1);
        let share = product.depth.div_ceil(wanted).next_multiple_of(unit).min(product.depth);
        Division { groups, share, shares: product.depth.div_ceil(share) }
    }
}

impl Product<'_> {
    fn count(&self) -> usize {
        self.batches * self.rows * self.columns
    }

    /// Whether everything that is multiplied has a layout in memory.
    fn are_all(&self, lowering: &Lowering<'_>, layout: Layout) -> bool {
        self.reads.iter().all(|(_, tensor)| lowering.layout(tensor) == layout)
    }

    /// The matrices that the device multiplies by itself, if they suit.
    fn matrix(&self, lowering: &Lowering<'_>) -> Option<Matrix> {
        let (_, first) = self.reads[0];
        let has_room = Matrix::workgroup_bytes() <= lowering.device.limits.max_compute_workgroup_storage_size as usize;
        let is_alike = self.are_all(lowering, lowering.layout(first));
        let matrices = lowering.features().matrices.filter(|_| has_room && is_alike)?;
        Matrix::of(&matrices, first.data_type, lowering.layout(first), self)
    }

    pub fn lower(&self, lowering: &mut Lowering<'_>, output: &Tensor) -> Result<()> {
        let kernel =
            self.reads.iter().fold(Kernel::new(self.label), |kernel, (name, tensor)| kernel.reads(lowering, name, tensor));
        let kernel = kernel.declare(&self.functions);
        let is_vector = self.rows <= FEW || self.columns <= FEW;
        // Sums that are not finished lie in memory of their own, as long as that is not too much.
        let most_bytes = (lowering.device.limits.max_storage_buffer_binding_size as usize).min(1 << 28);
        let (division, text) = match self.matrix(lowering) {
            _ if is_vector => vectors::text(self, most_bytes),
            Some(matrix) => matrices::text(self, matrix, most_bytes),
            None => tiles::text(self, self.are_all(lowering, Layout::Halves), most_bytes),
        };
        let (row, grid) = super::kernel::grid(lowering, division.groups * division.shares);
        let text = text.replace("ROW_OF_GRID", &format!("{row}u"));
        if division.shares == 1 && lowering.is_written_alone(output.data_type) {
            let kernel = self.end.declare(lowering, kernel, output).writes(lowering, "output", output);
            let store = "fn store(share: u32, batch: u32, row: u32, column: u32, sum: f32) {\n\
                         let i = place(batch, row, column);\nstore_output(i, end(i, sum));\n}";
            return kernel.declare(store).declare(&text).run(lowering, grid);
        }
        let Product { batches, rows, columns, .. } = *self;
        let count = self.count();
        let sums = lowering.temporary(DataType::Float32, &[division.shares, count])?;
        let store = format!(
            "fn store(share: u32, batch: u32, row: u32, column: u32, sum: f32) {{\n\
             store_sums(((share * {batches}u + batch) * {rows}u + row) * {columns}u + column, sum);\n}}"
        );
        kernel.writes(lowering, "sums", &sums).declare(&store).declare(&text).run(lowering, grid)?;
        let kernel = Kernel::new(self.label).reads(lowering, "sums", &sums);
        let kernel = self.end.declare(lowering, kernel, output);
        let (number, shares) = (&self.number, division.shares);
        let body = format!(
            "let first = {number};\n\
             var sum = sums(first);\n\
             for (var share = 1u; share < {shares}u; share += 1u) {{ sum += sums(share * {count}u + first); }}\n\
             return end(i, sum);"
        );
        kernel.each(lowering, output, &body)
    }
}
