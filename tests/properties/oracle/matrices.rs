//! Products of matrices. An element is a sum of as many products as the inner dimension has elements, each rounded, and
//! rounded as often.

use super::number::option;
use super::{EPSILON, broadcast, by_position, stretched};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, Tensor, wrap};
use webnn_node::graph::DataType;

pub fn matmul(call: &Call) -> Expected {
    products(call, |a, left, b, right| a.float(left) * b.float(right), |_, products: &[f64]| sum(products))
}

/// Exact, but for the bits that the type does not have.
pub fn integer_matmul(call: &Call) -> Expected {
    let product = |a: &Tensor, left: &[usize], b: &Tensor, right: &[usize]| integer(a, left).wrapping_mul(integer(b, right));
    products(call, product, |data_type, products: &[i128]| {
        Element::integer(wrap(data_type, products.iter().fold(0i128, |sum, x| sum.wrapping_add(*x))))
    })
}

/// The same of bytes without their zero points.
pub fn quantized(call: &Call) -> Expected {
    let zero = |field: &str, position: &[usize]| match call.optional(field) {
        None => 0,
        Some(zeros) => integer(zeros, &stretched(&zeros.shape, position)),
    };
    let product = |a: &Tensor, left: &[usize], b: &Tensor, right: &[usize]| {
        (integer(a, left) - zero("a_zero_point", left)) * (integer(b, right) - zero("b_zero_point", right))
    };
    let sum = |_, products: &[i128]| Element::integer(wrap(DataType::Int32, products.iter().sum()));
    Expected { data_type: DataType::Int32, ..products(call, product, sum) }
}

fn integer(tensor: &Tensor, position: &[usize]) -> i128 {
    match tensor.at(position) {
        Scalar::Integer(x) => x,
        Scalar::Float(x) => unreachable!("{x} is no integer"),
    }
}

/// A product of stacks of matrices, from those of elements and their sums.
fn products<T>(
    call: &Call,
    product: impl Fn(&Tensor, &[usize], &Tensor, &[usize]) -> T,
    sum: impl Fn(DataType, &[T]) -> Element,
) -> Expected {
    let (a, b) = (call.operand("a"), call.operand("b"));
    let (batch_a, matrix_a) = a.shape.split_at(a.rank() - 2);
    let (batch_b, matrix_b) = b.shape.split_at(b.rank() - 2);
    let batch = broadcast(batch_a, batch_b);
    let shape = [batch.as_slice(), &[matrix_a[0], matrix_b[1]]].concat();
    by_position(a.data_type, shape, |position| {
        let (batch, place) = position.split_at(batch.len());
        let products: Vec<T> = (0..matrix_a[1])
            .map(|k| {
                let left = [stretched(batch_a, batch).as_slice(), &[place[0], k]].concat();
                let right = [stretched(batch_b, batch).as_slice(), &[k, place[1]]].concat();
                product(a, &left, b, &right)
            })
            .collect();
        sum(a.data_type, &products)
    })
}

/// A sum of rounded products.
pub fn sum(products: &[f64]) -> Element {
    let value: f64 = products.iter().sum();
    let magnitude: f64 = products.iter().map(|product| product.abs()).sum();
    let error = (products.len() + 1) as f64 * EPSILON * magnitude;
    if value.is_finite() { Element::sum(value, error, magnitude) } else { Element::within(value, 0.0) }
}

pub fn gemm(call: &Call) -> Expected {
    let (a, b) = (call.operand("a"), call.operand("b"));
    let (a_transpose, b_transpose) = (call.boolean("a_transpose", false), call.boolean("b_transpose", false));
    let alpha = option(a.data_type, call.double("alpha", 1.0));
    let beta = option(a.data_type, call.double("beta", 1.0));
    let in_order = |swap: bool, [i, j]: [usize; 2]| if swap { [j, i] } else { [i, j] };
    let shape_a = in_order(a_transpose, [a.shape[0], a.shape[1]]);
    let shape_b = in_order(b_transpose, [b.shape[0], b.shape[1]]);
    by_position(a.data_type, vec![shape_a[0], shape_b[1]], |position| {
        let mut terms: Vec<f64> = (0..shape_a[1])
            .map(|k| {
                let left = a.float(&in_order(a_transpose, [position[0], k]));
                let right = b.float(&in_order(b_transpose, [k, position[1]]));
                alpha * left * right
            })
            .collect();
        if let Some(c) = call.optional("c") {
            terms.push(beta * c.float(&stretched(&c.shape, position)));
        }
        // Multiplying with alpha and beta rounds once more.
        terms.push(0.0);
        sum(&terms)
    })
}

/// Weights are numbers of a stream of bits, the first one of a byte in its lowest. The integers are multiplied with the left
/// operand block by block, and a zero point times the sum of a block is taken off: two sums, each with an error.
/// Bit by bit. The weights are rounded before they are multiplied, and the sum as often as it has terms.
pub fn experts(call: &Call) -> Expected {
    let operand = |name: &str| call.operand(name);
    let (a, weights, scales, chosen) = (operand("a"), operand("weights"), operand("scales"), operand("experts"));
    let bits = call.unsigned("bits").expect("an argument");
    let (depth, blocks) = (a.shape[1], scales.shape[2]);
    let integer = |tensor: &Tensor, position: &[usize]| match tensor.at(position) {
        Scalar::Integer(x) => x,
        Scalar::Float(x) => unreachable!("{x} is no integer"),
    };
    by_position(DataType::Float32, vec![a.shape[0], scales.shape[1]], |position| {
        let &[row, column] = position else { unreachable!("a position in a matrix") };
        let matrix = integer(chosen, &[row]).clamp(0, scales.shape[0] as i128 - 1) as usize;
        let (mut sum, mut size) = (0.0, 0.0);
        for k in 0..depth {
            let bit = |i: usize| integer(weights, &[matrix, column, (k * bits + i) / 8]) >> ((k * bits + i) % 8) & 1;
            let code = (0..bits).map(|i| bit(i) << i).sum::<i128>() as f64;
            let place = [matrix, column, k / (depth / blocks)];
            let zero = call.optional("zero_points").map_or((1 << (bits - 1)) as f64, |points| points.float(&place));
            let factor = a.float(&[row, k]) * scales.float(&place);
            sum += factor * (code - zero);
            size += factor.abs() * (code + zero.abs());
        }
        Element::within(sum, (depth + 6) as f64 * EPSILON * size)
    })
}

pub fn block_quantized(call: &Call) -> Expected {
    let (a, weights, scales) = (call.operand("a"), call.operand("weights"), call.operand("scales"));
    let bits = call.unsigned("bits").expect("an argument");
    let block = call.unsigned("block_size").expect("an argument");
    let by_depth = call.boolean("by_depth", false);
    let (high_first, approximate) = (call.boolean("high_first", false), call.boolean("approximate", false));
    let coding = call.enumeration("coding", "unsigned");
    let depth = a.shape[a.rank() - 1];
    let columns = scales.shape[usize::from(by_depth)];
    let byte = |tensor: &Tensor, position: [usize; 2]| match tensor.at(&position) {
        Scalar::Integer(x) => x as u32,
        Scalar::Float(x) => unreachable!("{x} is no integer"),
    };
    let number = |tensor: &Tensor, row: usize, first_bit: usize| {
        let bit = |i: usize| byte(tensor, [row, (first_bit + i) / 8]) >> ((first_bit + i) % 8) & 1;
        let code = (0..bits).map(|i| bit(i) << i).sum::<u32>() as usize;
        if let Some(book) = call.optional("code_book") {
            return book.float(&[code]);
        }
        let half = (1 << (bits - 1)) as f64;
        match coding {
            "float16" => half::f16::from_bits(code as u16).to_f64(),
            "unsigned" => code as f64,
            "offset" => code as f64 - half,
            _ if code as f64 >= half => code as f64 - 2.0 * half,
            _ => code as f64,
        }
    };
    let of_bytes = |count: usize| (count * bits).div_ceil(8);
    let weight = |k: usize, column: usize| match by_depth {
        true => number(weights, k, column * bits),
        false => {
            let place = if high_first { (k % block) ^ 1 } else { k % block };
            number(weights, column, k / block * of_bytes(block) * 8 + place * bits)
        }
    };
    let of_block = |k: usize, column: usize| if by_depth { [k / block, column] } else { [column, k / block] };
    let zero = |k: usize, column: usize| match call.optional("zero_points") {
        None => 0.0,
        Some(points) if points.data_type == DataType::Uint8 => {
            let [row, place] = of_block(k, column);
            number(points, row, place * bits)
        }
        Some(points) => points.float(&of_block(k, column)),
    };
    let shape = [&a.shape[..a.rank() - 1], &[columns]].concat();
    by_position(a.data_type, shape, |position| {
        let (row, column) = position.split_at(a.rank() - 1);
        let column = column[0];
        let left = |k: usize| a.float(&[row, &[k]].concat());
        let mut value = call.optional("bias").map_or(0.0, |bias| bias.float(&[column]));
        let (mut magnitude, mut rounding) = (value.abs(), 0.0);
        for first in (0..depth).step_by(block) {
            let of_this = first..depth.min(first + block);
            let greatest = of_this.clone().map(|k| left(k).abs()).fold(0.0, f64::max);
            let (scale, zero) = (scales.float(&of_block(first, column)), zero(first, column));
            for k in of_this {
                value += left(k) * (weight(k, column) - zero) * scale;
                magnitude += left(k).abs() * (weight(k, column).abs() + zero.abs() + (1 << bits.min(8)) as f64) * scale.abs();
                rounding += greatest / 254.0 * (weight(k, column) - zero).abs() * scale.abs();
            }
        }
        let error = (depth + 4) as f64 * EPSILON * magnitude + if approximate { rounding * 1.001 } else { 0.0 };
        Element::within(value, error)
    })
}
