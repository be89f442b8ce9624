//! Products of matrices, wherever their elements lie: what matmul, gemm, convolutions and recurrent networks share.
//!
//! A workgroup makes a tile of the output. Tiles of both matrices are brought to the workgroup's memory, and each invocation
//! keeps a block of sums in registers. Where one side is only a few vectors, it is done without tiles. If there are too few
//! tiles for the device, several workgroups share the depth of one, and what they find is added up by another kernel.

mod matrices;
mod problem;
mod tiles;
mod vectors;

pub use problem::{End, Product};

use crate::backend::wgpu::lower::elementwise;
use crate::backend::wgpu::lower::kernel::{Kernel, grid};
use crate::backend::wgpu::lower::lowering::{Lowering, Tensor};
use crate::backend::wgpu::shader::{Layout, size};
use crate::error::Result;
use crate::graph::DataType;
use matrices::Matrix;
use problem::FEW;

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

impl Product<'_> {
    /// Whether everything that is multiplied has a layout in memory.
    fn are_all(&self, lowering: &Lowering<'_>, layout: Layout) -> bool {
        self.reads.iter().all(|(_, tensor)| lowering.layout(tensor) == layout)
    }

    /// The matrices that the device multiplies by itself, if they suit.
    fn matrix(&self, lowering: &Lowering<'_>) -> Option<Matrix> {
        let (_, first) = self.reads[0];
        let has_room = Matrix::workgroup_bytes() <= lowering.target.max_compute_workgroup_storage_size;
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
        let most_bytes = lowering.target.max_storage_buffer_binding_size.min(1 << 28);
        let (division, text) = match self.matrix(lowering) {
            _ if is_vector => vectors::text(self, most_bytes),
            Some(matrix) => matrices::text(self, matrix, lowering.is_open, most_bytes),
            None => tiles::text(self, self.are_all(lowering, Layout::Halves), lowering.is_open, most_bytes),
        };
        let (row, grid) = grid(lowering, division.groups * division.shares);
        let text = text.replace("ROW_OF_GRID", &format!("{}u", size(row)));
        if division.shares == 1 && lowering.is_written_alone(output.data_type) {
            let kernel = self.end.declare(lowering, kernel, output).writes(lowering, "output", output);
            let store = "fn store(share: u32, batch: u32, row: u32, column: u32, sum: f32) {\n\
                         let i = place(batch, row, column);\nstore_output(i, end(i, sum));\n}";
            return kernel.declare(store).declare(&text).run(lowering, grid);
        }
        let Product { batches, rows, columns, .. } = *self;
        let count = self.count();
        let sums = lowering.temporary(DataType::Float32, &[division.shares, count])?;
        let [batches, rows, columns] = [batches, rows, columns].map(size);
        let store = format!(
            "fn store(share: u32, batch: u32, row: u32, column: u32, sum: f32) {{\n\
             store_sums(((share * {batches}u + batch) * {rows}u + row) * {columns}u + column, sum);\n}}"
        );
        kernel.writes(lowering, "sums", &sums).declare(&store).declare(&text).run(lowering, grid)?;
        let kernel = Kernel::new(self.label).reads(lowering, "sums", &sums);
        let kernel = self.end.declare(lowering, kernel, output);
        let (number, shares, count) = (&self.number, size(division.shares), size(count));
        let body = format!(
            "let first = {number};\n\
             var sum = sums(first);\n\
             for (var share = 1u; share < {shares}u; share += 1u) {{ sum += sums(share * {count}u + first); }}\n\
             return end(i, sum);"
        );
        kernel.each(lowering, output, &body)
    }
}
