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
    let integer = |tensor: &Tensor, position: &[usize]| match tensor.at(position) {
        Scalar::Integer(x) => x,
        Scalar::Float(x) => unreachable!("{x} is no integer"),
    };
    let product = |a: &Tensor, left: &[usize], b: &Tensor, right: &[usize]| integer(a, left).wrapping_mul(integer(b, right));
    products(call, product, |data_type, products: &[i128]| {
        Element::integer(wrap(data_type, products.iter().fold(0i128, |sum, x| sum.wrapping_add(*x))))
    })
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
    Element::within(value, if value.is_finite() { error } else { 0.0 })
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
