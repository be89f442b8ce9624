//! Matrix products.

use crate::error::{Error, Result};
use crate::graph::data_type::{FLOAT, WIDE_INTEGERS};
use crate::graph::descriptor::Dimensions;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Ranks, Rule, at_least, one, operators, rank};
use crate::graph::shape::{bidirectionally_broadcast, unidirectionally_broadcastable};
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// A product of matrices, or of stacks of them.
    pub struct Matmul: "MLOperatorOptions" in "api-mlgraphbuilder-matmul" {
        a: OperandId,
        b: OperandId,
    } options {}
    [("a", Of(FLOAT), at_least(2)), ("b", SameAs("a"), at_least(2))] -> One [("output", SameAs("a"), at_least(2))] {
        /// Multiplies matrices: a [..., m, k] and b [..., k, n] give [..., m, n]. The dimensions before the last two are
        /// broadcast to each other.
        "matmul"
    }
}

operators! {
    /// A product of matrices of integers, or of stacks of them.
    pub struct IntegerMatmul: "MLOperatorOptions" in "" {
        a: OperandId,
        b: OperandId,
    } options {}
    [("a", Of(WIDE_INTEGERS), at_least(2)), ("b", SameAs("a"), at_least(2))] -> One [("output", SameAs("a"), at_least(2))] {
        /// Multiplies matrices as matmul does. Sums and products wrap around.
        "integerMatmul"
    }
}

operators! {
    /// A general matrix multiplication.
    pub struct Gemm: "MLGemmOptions" in "api-mlgraphbuilder-gemm" {
        a: OperandId,
        b: OperandId,
    } options {
        /// The addend, multiplied by beta.
        c: Option<OperandId> = None,
        /// The factor of the product.
        alpha: f64 = 1.0,
        /// The factor of c.
        beta: f64 = 1.0,
        /// Whether a is transposed, as [k, m].
        a_transpose: bool = false,
        /// Whether b is transposed, as [n, k].
        b_transpose: bool = false,
    }
    [
        ("a", Of(FLOAT), rank(2)),
        ("b", SameAs("a"), rank(2)),
        ("c", SameAs("a"), Ranks::Between(0, 2)),
    ] -> One [("output", SameAs("a"), rank(2))] {
        /// Computes alpha * a * b + beta * c, where a is [m, k], b is [k, n] (each possibly given transposed) and c can be
        /// broadcast to the output's shape [m, n].
        "gemm"
    }
}

impl Rule for Matmul {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        product(self.a, self.b, operands)
    }
}

impl Rule for IntegerMatmul {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        product(self.a, self.b, operands)
    }
}

/// `#api-mlgraphbuilder-matmul`, *calculate the output shape*.
pub fn product(a: OperandId, b: OperandId, operands: &Operands<'_>) -> Result<Outputs> {
    let data_type = operands.data_type(a);
    let (a, b) = (operands.shape(a), operands.shape(b));
    let (batches_a, &[rows, columns_a]) = a.split_last_chunk::<2>().expect("the row demands rank 2");
    let (batches_b, &[rows_b, columns]) = b.split_last_chunk::<2>().expect("the row demands rank 2");
    if columns_a != rows_b {
        return Err(Error::argument("b", format!("matrices of {rows_b} rows"), format!("the {columns_a} columns of a")));
    }
    let Some(mut shape) = bidirectionally_broadcast(batches_a, batches_b) else {
        return Err(Error::argument(
            "a and b",
            format!("the shapes {} and {}", Dimensions(a), Dimensions(b)),
            "shapes whose dimensions before the last two can be broadcast to each other",
        ));
    };
    shape.extend([rows, columns]);
    one(Descriptor::new(data_type, shape))
}

impl Rule for Gemm {
    /// `#api-mlgraphbuilder-gemm`, from the shapes on. (alpha and beta are cast where they are used.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let oriented = |shape: &[u32], transpose| if transpose { [shape[1], shape[0]] } else { [shape[0], shape[1]] };
        let [rows, columns_a] = oriented(operands.shape(self.a), self.a_transpose);
        let [rows_b, columns] = oriented(operands.shape(self.b), self.b_transpose);
        if columns_a != rows_b {
            return Err(Error::argument("b", format!("a matrix of {rows_b} rows"), format!("the {columns_a} columns of a")));
        }
        if let Some(c) = self.c {
            let c = operands.shape(c);
            if !unidirectionally_broadcastable(c, &[rows, columns]) {
                return Err(Error::argument(
                    "c",
                    format!("shape {}", Dimensions(c)),
                    format!("shapes that can be broadcast to [{rows}, {columns}]"),
                ));
            }
        }
        one(Descriptor::new(operands.data_type(self.a), [rows, columns]))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::Value::*;
    use crate::graph::testing;
    use crate::graph::{DataType, DataType::*, OperandId};

    #[test]
    fn matmul() {
        let check_types = |a: (DataType, &[u32]), b: (DataType, &[u32]), expected| {
            testing::check("matmul", &[a, b], &[Operand(OperandId(0)), Operand(OperandId(1))], expected);
        };
        let check = |a: &[u32], b: &[u32], expected| check_types((Float32, a), (Float32, b), expected);
        check(&[2, 3], &[3, 4], Ok(&["float32[2, 4]"]));
        check(&[5, 2, 3], &[3, 4], Ok(&["float32[5, 2, 4]"]));
        check(&[2, 3], &[5, 1, 3, 4], Ok(&["float32[5, 1, 2, 4]"]));
        check(&[5, 1, 2, 3], &[6, 3, 4], Ok(&["float32[5, 6, 2, 4]"]));
        check_types((Float16, &[1; 8]), (Float16, &[1, 1]), Ok(&["float16[1, 1, 1, 1, 1, 1, 1, 1]"]));
        check_types((Int32, &[2, 3]), (Int32, &[3, 4]), Err("a"));
        check_types((Float32, &[2, 3]), (Float16, &[3, 4]), Err("b"));
        check(&[3], &[3, 4], Err("a"));
        check(&[2, 3], &[3], Err("b"));
        check(&[2, 3], &[4, 3], Err("b"));
        check(&[5, 2, 3], &[2, 3, 4], Err("a and b"));
        check(&[1 << 20, 1], &[1, 1 << 20], Err("output"));
    }

    #[test]
    fn gemm() {
        let check_types = |operands: &[(DataType, &[u32])], transposed: [bool; 2], expected| {
            let c = if operands.len() > 2 { Operand(OperandId(2)) } else { Absent };
            let [a_transpose, b_transpose] = transposed.map(Boolean);
            let values = [Operand(OperandId(0)), Operand(OperandId(1)), c, Double(2.0), Double(-1.0), a_transpose, b_transpose];
            testing::check("gemm", operands, &values, expected);
        };
        let check = |shapes: &[&'static [u32]], transposed, expected| {
            check_types(&shapes.iter().map(|&shape| (Float32, shape)).collect::<Vec<_>>(), transposed, expected);
        };
        check(&[&[2, 3], &[3, 4]], [false, false], Ok(&["float32[2, 4]"]));
        check(&[&[3, 2], &[3, 4]], [true, false], Ok(&["float32[2, 4]"]));
        check(&[&[2, 3], &[4, 3]], [false, true], Ok(&["float32[2, 4]"]));
        check(&[&[3, 2], &[4, 3]], [true, true], Ok(&["float32[2, 4]"]));
        for c in [&[][..], &[1], &[4], &[1, 1], &[2, 1], &[1, 4], &[2, 4]] {
            check(&[&[2, 3], &[3, 4], c], [false, false], Ok(&["float32[2, 4]"]));
        }
        check_types(&[(Int32, &[2, 3]), (Int32, &[3, 4])], [false; 2], Err("a"));
        check_types(&[(Float32, &[2, 3]), (Float16, &[3, 4])], [false; 2], Err("b"));
        check_types(&[(Float32, &[2, 3]), (Float32, &[3, 4]), (Float16, &[])], [false; 2], Err("c"));
        check(&[&[1, 2, 3], &[3, 4]], [false; 2], Err("a"));
        check(&[&[2, 3], &[3]], [false; 2], Err("b"));
        check(&[&[2, 3], &[3, 4], &[1, 2, 4]], [false; 2], Err("c"));
        check(&[&[2, 3], &[2, 4]], [false; 2], Err("b"));
        check(&[&[2, 3], &[3, 4]], [true, false], Err("b"));
        check(&[&[2, 3], &[3, 4]], [false, true], Err("b"));
        check(&[&[2, 3], &[3, 4], &[2]], [false; 2], Err("c"));
        check(&[&[2, 3], &[3, 4], &[4, 1]], [false; 2], Err("c"));
        check(&[&[1 << 20, 1], &[1, 1 << 20]], [false; 2], Err("output"));
    }
}
