//! Products of matrices.

use super::elementwise::one;
use crate::graph::ops::determinant::{Determinant, Inverse};
use crate::graph::ops::elementwise::BinaryKind;
use crate::graph::ops::matmul::Gemm;
use crate::graph::ops::movement::Slice;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Inverse, in float32.
pub fn inverse(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let input = emit.cast(input, DataType::Float32)?;
    let result = emit.push(Inverse { input })?;
    one(emit.cast(result, of)?)
}

/// Det, in float32.
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
    let of_nothing = [0, 1].map(|i| node.input(i).ok().and_then(Value::constant).is_some_and(Tensor::is_empty));
    if of_nothing == [true; 2]
        && let Some(result) = gemm_of_nothing(node, emit)?
    {
        return Ok(result);
    }
    let (a, b, c) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.optional(node, 2)?);
    if !emit.data_type(a).is_float() {
        return one(integer_gemm(node, [a, b], c, emit)?);
    }
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

/// Gemm of two matrices that have an inner dimension of 0 and no other: what is added to sums of nothing.
fn gemm_of_nothing(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Option<Vec<Value>>> {
    let size = |i: usize, transposed: bool, axis: usize, emit: &Emit<'_>| -> Mapped<usize> {
        let shape = node.input(i)?.shape(emit.builder);
        let &[rows, columns] = &shape[..] else {
            return Err(format!("an operand of rank {}, which is not a matrix", shape.len()).into());
        };
        Ok([rows, columns][axis ^ usize::from(transposed)])
    };
    let (a, b) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let target = [size(0, a, 0, emit)?, size(1, b, 1, emit)?];
    if target.contains(&0) || [size(0, a, 1, emit)?, size(1, b, 0, emit)?] != [0, 0] {
        return Ok(None);
    }
    let element = emit.stored_element(node.input(0)?);
    let number = |number: f64| Tensor::from_floats(ElementType::Double, vec![], &[number]).cast(element);
    let zeros = super::movement::expanded(&number(0.0).into(), &target, emit)?;
    let Some(c) = emit.optional(node, 2)? else { return Ok(Some(zeros)) };
    let beta = emit.constant(number(node.float("beta", 1.0)?))?;
    let (zeros, scaled) = (emit.operand(&zeros[0])?, emit.mul(c, beta)?);
    let sum = emit.add(zeros, scaled)?;
    if emit.shape(sum).iter().map(|&size| size as usize).ne(target) {
        return Err(format!("the shape {:?} of C cannot be broadcast to {target:?}", emit.shape(c)).into());
    }
    Ok(Some(one(sum)?))
}

/// Gemm of integers, which wraps around; its factors are whole numbers.
fn integer_gemm(node: &Node<'_>, [a, b]: [OperandId; 2], c: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let factor = |name: &str| match node.float(name, 1.0)? {
        // A float32 that is whole and not beyond this is exact.
        factor if factor.fract() == 0.0 && factor.abs() <= f64::from(1 << 24) => Mapped::Ok(factor as i64),
        factor => Err(format!("the attribute {name} = {factor} is not supported for integers, only whole numbers are").into()),
    };
    let (alpha, beta) = (factor("alpha")?, factor("beta")?);
    let scaled = |id: OperandId, factor: i64, emit: &mut Emit<'_>| match factor {
        1 => Ok(id),
        factor => {
            let factor = Tensor::from_integers(emit.data_type(id).into(), vec![], &[factor]);
            let factor = emit.constant(factor)?;
            emit.mul(id, factor)
        }
    };
    let a = if node.flag("transA", false)? { emit.transpose_matrices(a)? } else { a };
    let b = if node.flag("transB", false)? { emit.transpose_matrices(b)? } else { b };
    if emit.rank(a) != 2 || emit.rank(b) != 2 {
        return Err(format!("operands of rank {} and {}, which are not matrices", emit.rank(a), emit.rank(b)).into());
    }
    let product = emit.matmul(a, b)?;
    let product = scaled(product, alpha, emit)?;
    let Some(c) = c else { return Ok(product) };
    let (shape, of_c) = (emit.shape(product), emit.shape(c));
    let fits = of_c.len() <= 2 && of_c.iter().rev().zip(shape.iter().rev()).all(|(&own, &whole)| own == 1 || own == whole);
    if !fits {
        return Err(format!("the shape {of_c:?} of C cannot be broadcast to {shape:?}").into());
    }
    let c = scaled(c, beta, emit)?;
    emit.add(product, c)
}

/// FusedMatMul of com.microsoft: `trans` exchanges the last two axes of an operand, `transBatch` moves its first axis after the other batch
/// axes before that, and the result is scaled.
pub fn fused_matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut operands = [emit.input(node, 0)?, emit.input(node, 1)?];
    for (operand, name) in operands.iter_mut().zip(["A", "B"]) {
        let rank = emit.rank(*operand);
        if node.flag(&format!("transBatch{name}"), false)? && rank > 2 {
            let permutation: Vec<usize> = (1..rank - 1).chain([0, rank - 1]).collect();
            *operand = emit.transpose(*operand, &permutation)?;
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

/// Einsum: operands are permuted, multiplied as matrices one after the other, and the result is permuted.
pub fn einsum(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let equation: String = node.string("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let mut operands = Vec::new();
    for position in 0..node.inputs.len() {
        operands.push(emit.input(node, position)?);
    }
    let ranks: Vec<usize> = operands.iter().map(|&id| emit.rank(id)).collect();
    let Equation { terms, output } =
        Equation::parse(&equation, &ranks).map_err(|why| format!("the equation {equation:?} is not supported: {why}"))?;
    let mut lettered: Vec<Lettered> = Vec::new();
    for (operand, term) in operands.into_iter().zip(terms) {
        lettered.push(diagonal((operand, term), emit)?);
    }
    stretch(&mut lettered, emit)?;
    let mut rest = lettered.into_iter().collect::<std::collections::VecDeque<Lettered>>();
    let mut result = rest.pop_front().ok_or("no inputs")?;
    while let Some(next) = rest.pop_front() {
        let still: Vec<char> = output.iter().copied().chain(rest.iter().flat_map(|(_, term)| term.clone())).collect();
        result = contract(result, next, &still, emit)?;
    }
    let (summed, term) = sum_out(result, &output, emit)?;
    let permutation: Vec<usize> = output.iter().filter_map(|letter| term.iter().position(|other| other == letter)).collect();
    one(emit.transpose(summed, &permutation)?)
}

/// An equation of Einsum. Dimensions that an ellipsis stands for have letters of their own.
#[derive(Debug, PartialEq)]
struct Equation {
    terms: Vec<Vec<char>>,
    output: Vec<char>,
}

impl Equation {
    /// The letter of a dimension of an ellipsis, counted from its end: outside of those that an equation can have.
    fn unnamed(from_end: usize) -> char {
        char::from_u32(0xe000 + from_end as u32).unwrap_or('\u{e000}')
    }

    fn parse(text: &str, ranks: &[usize]) -> Result<Equation, String> {
        let (left, right) = text.split_once("->").map_or((text, None), |(left, right)| (left, Some(right)));
        let names: Vec<&str> = left.split(',').collect();
        if names.len() != ranks.len() {
            return Err(format!("{} terms for {} inputs", names.len(), ranks.len()));
        }
        // The letters of a term whose ellipsis stands for so many dimensions, and whether there is one.
        let letters = |term: &str, unnamed: usize| {
            let (before, after) = term.split_once("...").map_or((term, None), |(before, after)| (before, Some(after)));
            let named = before.chars().chain(after.unwrap_or_default().chars());
            if let Some(other) = named.into_iter().find(|letter| !letter.is_ascii_alphabetic()) {
                return Err(format!("found {other:?}, where letters and an ellipsis are allowed"));
            }
            let between = (0..if after.is_some() { unnamed } else { 0 }).rev().map(Self::unnamed);
            Ok((before.chars().chain(between).chain(after.unwrap_or_default().chars()).collect::<Vec<char>>(), after.is_some()))
        };
        let (mut terms, mut most) = (Vec::new(), 0);
        for (i, (term, &rank)) in names.iter().zip(ranks).enumerate() {
            let (named, has_ellipsis) = letters(term, 0)?;
            let unnamed = rank.checked_sub(named.len()).filter(|&unnamed| unnamed == 0 || has_ellipsis);
            let unnamed = unnamed.ok_or_else(|| format!("{} letters for input {i} of rank {rank}", named.len()))?;
            most = most.max(unnamed);
            terms.push(letters(term, unnamed)?.0);
        }
        let count = |letter: char| terms.iter().flatten().filter(|&&other| other == letter).count();
        let output = match right {
            Some(right) => {
                let (output, has_ellipsis) = letters(right, most)?;
                if most > 0 && !has_ellipsis {
                    return Err("the output leaves out the dimensions of an ellipsis".into());
                }
                output
            }
            None => {
                let named = terms.iter().flatten().copied().filter(|&letter| letter.is_ascii_alphabetic() && count(letter) == 1);
                let mut once: Vec<char> = named.collect();
                once.sort_unstable();
                (0..most).rev().map(Self::unnamed).chain(once).collect()
            }
        };
        if let Some(&twice) =
            output.iter().enumerate().find(|(i, letter)| output[..*i].contains(letter)).map(|(_, letter)| letter)
        {
            return Err(format!("the output names {twice} twice"));
        }
        match output.iter().find(|&&letter| count(letter) == 0) {
            Some(unknown) => Err(format!("no input has the letter {unknown} of the output")),
            None => Ok(Equation { terms, output }),
        }
    }
}

/// Takes the diagonal of dimensions that have the same letter.
fn diagonal((mut operand, mut term): Lettered, emit: &mut Emit<'_>) -> Mapped<Lettered> {
    let twice = |term: &[char]| {
        let pair = |second: usize| Some((term[..second].iter().position(|other| *other == term[second])?, second));
        (0..term.len()).find_map(pair)
    };
    while let Some((first, second)) = twice(&term) {
        let shape = emit.shape(operand);
        let size = shape[first];
        if shape[second] != size {
            return Err(format!("the letter {} stands for two sizes, {size} and {}", term[first], shape[second]).into());
        }
        let mut order: Vec<usize> = (0..term.len()).filter(|&i| i != first && i != second).collect();
        let outer: Vec<u32> = order.iter().map(|&i| shape[i]).collect();
        let letters: Vec<char> = order.iter().map(|&i| term[i]).collect();
        order.extend([first, second]);
        let moved = emit.transpose(operand, &order)?;
        let both = size.checked_mul(size).ok_or("too many elements")?;
        let lines = emit.reshape(moved, &[&outer[..], &[both]].concat())?;
        operand = if size == 1 {
            lines
        } else {
            let (mut starts, mut strides) = (vec![0; outer.len()], vec![1; outer.len()]);
            starts.push(0);
            strides.push(size + 1);
            emit.push(Slice { input: lines, starts, sizes: [&outer[..], &[both]].concat(), strides: Some(strides) })?
        };
        term = [letters, vec![term[first]]].concat();
    }
    Ok((operand, term))
}

/// Leaves out dimensions of one element where another operand has more under the same letter: they are broadcast.
fn stretch(operands: &mut [Lettered], emit: &mut Emit<'_>) -> Mapped<()> {
    let mut sizes: Vec<(char, u32)> = Vec::new();
    for (operand, term) in operands.iter() {
        for (&letter, size) in term.iter().zip(emit.shape(*operand)) {
            match sizes.iter_mut().find(|(other, _)| *other == letter) {
                None => sizes.push((letter, size)),
                Some((_, known)) if *known == size || size == 1 => {}
                Some((_, known)) if *known == 1 => *known = size,
                Some((_, known)) => return Err(format!("the letter {letter} stands for two sizes, {known} and {size}").into()),
            }
        }
    }
    for (operand, term) in operands {
        let shape = emit.shape(*operand);
        let is_narrow = |i: usize| shape[i] == 1 && !sizes.contains(&(term[i], 1));
        let kept: Vec<usize> = (0..term.len()).filter(|&i| !is_narrow(i)).collect();
        *operand = emit.reshape(*operand, &kept.iter().map(|&i| shape[i]).collect::<Vec<u32>>())?;
        *term = kept.into_iter().map(|i| term[i]).collect();
    }
    Ok(())
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
