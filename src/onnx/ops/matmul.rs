//! Products of matrices.

use super::elementwise::one;
use crate::graph::ops::determinant::Determinant;
use crate::graph::ops::elementwise::BinaryKind;
use crate::graph::ops::matmul::Gemm;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Det.
pub fn determinant(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let input = emit.cast(input, DataType::Float32)?;
    one(emit.push(Determinant { input })?)
}

pub fn matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    one(product(a, b, emit)?)
}

/// A product in which vectors count as matrices of one row or column, as NumPy has it.
pub fn product(a: OperandId, b: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let (shape_a, shape_b) = (emit.shape(a), emit.shape(b));
    if shape_a.is_empty() || shape_b.is_empty() {
        return Err("a scalar in a product of matrices".into());
    }
    let (row, column) = (shape_a.len() == 1, shape_b.len() == 1);
    let a = if row { emit.reshape(a, &[1, shape_a[0]])? } else { a };
    let b = if column { emit.reshape(b, &[shape_b[0], 1])? } else { b };
    let result = emit.matmul(a, b)?;
    if !row && !column {
        return Ok(result);
    }
    let mut shape = emit.shape(result);
    if column {
        shape.pop();
    }
    if row {
        shape.remove(shape.len() - if column { 1 } else { 2 });
    }
    emit.reshape(result, &shape)
}

pub fn gemm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b, c) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.optional(node, 2)?);
    one(emit.push(Gemm {
        a,
        b,
        c,
        alpha: node.float("alpha", 1.0)?,
        beta: node.float("beta", 1.0)?,
        a_transpose: node.flag("transA", false)?,
        b_transpose: node.flag("transB", false)?,
    })?)
}

/// FusedMatMul of com.microsoft: matrices may be transposed, also with a batch dimension, and the result scaled.
pub fn fused_matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut operands = [emit.input(node, 0)?, emit.input(node, 1)?];
    for (operand, name) in operands.iter_mut().zip(["A", "B"]) {
        if node.flag(&format!("transBatch{name}"), false)? {
            return Err(format!("the attribute transBatch{name} is not supported").into());
        }
        if node.flag(&format!("trans{name}"), false)? && emit.rank(*operand) > 1 {
            *operand = emit.transpose_matrices(*operand)?;
        }
    }
    let result = product(operands[0], operands[1], emit)?;
    match node.float("alpha", 1.0)? {
        1.0 => one(result),
        alpha => one(emit.with(BinaryKind::Mul, result, alpha)?),
    }
}

/// Einsum of one or two operands: permute, multiply matrices, permute.
pub fn einsum(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let equation: String = node.string("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = equation.split_once("->").map_or((equation.as_str(), None), |(left, right)| (left, Some(right)));
    let terms: Vec<Vec<char>> = left.split(',').map(|term| term.chars().collect()).collect();
    let letters = |term: &[char]| term.iter().all(char::is_ascii_alphabetic);
    if terms.len() != node.inputs.len() || !terms.iter().all(|term| letters(term)) {
        return Err(format!("the equation {equation:?} is not supported").into());
    }
    let count = |letter: char| terms.iter().flatten().filter(|&&other| other == letter).count();
    let output: Vec<char> = match right {
        Some(right) => right.chars().collect(),
        None => {
            let mut once: Vec<char> = terms.iter().flatten().copied().filter(|&letter| count(letter) == 1).collect();
            once.sort_unstable();
            once
        }
    };
    let repeats = |term: &[char]| term.iter().enumerate().any(|(i, letter)| term[..i].contains(letter));
    if terms.iter().any(|term| repeats(term)) || repeats(&output) || output.iter().any(|&letter| count(letter) == 0) {
        return Err(format!("the equation {equation:?} is not supported: a letter is repeated, or unknown").into());
    }
    let mut operands = Vec::new();
    for (position, term) in terms.into_iter().enumerate() {
        let operand = emit.input(node, position)?;
        if emit.rank(operand) != term.len() {
            return Err(format!("{} letters for input {position} of rank {}", term.len(), emit.rank(operand)).into());
        }
        operands.push((operand, term));
    }
    let mut operands = operands.into_iter();
    let mut result = operands.next().ok_or("no inputs")?;
    let mut rest: Vec<(OperandId, Vec<char>)> = operands.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let still: Vec<char> = output.iter().copied().chain(rest.iter().flat_map(|(_, term)| term.clone())).collect();
        result = contract(result, next, &still, emit)?;
    }
    let (summed, term) = sum_out(result, &output, emit)?;
    let permutation: Vec<usize> = output.iter().filter_map(|letter| term.iter().position(|other| other == letter)).collect();
    one(emit.transpose(summed, &permutation)?)
}

/// An operand with a letter for each dimension.
type Lettered = (OperandId, Vec<char>);

/// Sums over the letters that nobody needs any more.
fn sum_out((operand, term): Lettered, needed: &[char], emit: &mut Emit<'_>) -> Mapped<Lettered> {
    let gone: Vec<usize> = (0..term.len()).filter(|&i| !needed.contains(&term[i])).collect();
    if gone.is_empty() {
        return Ok((operand, term));
    }
    let list: Vec<i64> = gone.iter().map(|&axis| axis as i64).collect();
    let axes = axes(&list, term.len())?;
    let summed = emit.reduce(crate::graph::ops::reduce::ReduceKind::Sum, operand, &axes, false)?;
    Ok((summed, term.into_iter().filter(|letter| needed.contains(letter)).collect()))
}

/// The product of two operands, summed over what only they have.
fn contract(a: Lettered, b: Lettered, needed: &[char], emit: &mut Emit<'_>) -> Mapped<Lettered> {
    let either = |own: &[char]| -> Vec<char> { needed.iter().chain(own).copied().collect() };
    let (a, b) = (sum_out(a.clone(), &either(&b.1), emit)?, sum_out(b, &either(&a.1), emit)?);
    let shared = |letter: &&char| a.1.contains(letter) && b.1.contains(letter);
    let batch: Vec<char> = a.1.iter().filter(shared).filter(|letter| needed.contains(letter)).copied().collect();
    let inner: Vec<char> = a.1.iter().filter(shared).filter(|letter| !needed.contains(letter)).copied().collect();
    let rows: Vec<char> = a.1.iter().filter(|letter| !b.1.contains(letter)).copied().collect();
    let columns: Vec<char> = b.1.iter().filter(|letter| !a.1.contains(letter)).copied().collect();

    let (shape_a, shape_b) = (emit.shape(a.0), emit.shape(b.0));
    let size_in = |term: &[char], shape: &[u32], letter: char| term.iter().position(|&other| other == letter).map(|i| shape[i]);
    let size = |letter: char| size_in(&a.1, &shape_a, letter).or_else(|| size_in(&b.1, &shape_b, letter)).unwrap_or(1);
    for &letter in batch.iter().chain(&inner) {
        if size_in(&a.1, &shape_a, letter) != size_in(&b.1, &shape_b, letter) {
            return Err(format!("the letter {letter} stands for two sizes").into());
        }
    }
    let product = |letters: &[char]| -> Mapped<u32> {
        crate::onnx::node::size(letters.iter().map(|&letter| u64::from(size(letter))).product::<u64>())
    };
    let mut arrange = |operand: &Lettered, groups: [&[char]; 3]| -> Mapped<OperandId> {
        let order: Vec<char> = groups.concat();
        let permutation: Vec<usize> =
            order.iter().filter_map(|letter| operand.1.iter().position(|other| other == letter)).collect();
        let moved = emit.transpose(operand.0, &permutation)?;
        emit.reshape(moved, &[product(groups[0])?, product(groups[1])?, product(groups[2])?])
    };
    let left = arrange(&a, [&batch, &rows, &inner])?;
    let right = arrange(&b, [&batch, &inner, &columns])?;
    let result = emit.matmul(left, right)?;
    let term: Vec<char> = [batch, rows, columns].concat();
    let shape: Vec<u32> = term.iter().map(|&letter| size(letter)).collect();
    Ok((emit.reshape(result, &shape)?, term))
}
