//! What WebNN says of weights of a few bits, `dequantizeLinear` of constants before a product, becomes a product that reads the bits
//! ([`BlockQuantizedMatmul`]), and so does a cast of bytes that a factor is multiplied with. Their blocks lie along the depth; a transposition,
//! a reshape and, where float16 is rounded late, a cast of it may stand between. Where float16 is
//! computed in float32, so are products with float16 constants: kernels convert these as they read them.

use super::capabilities::Preferences;
use super::compilation::Compilation;
use super::quantized::dequantized;
use crate::error::Result;
use crate::graph::ops::block_quantized::{BlockQuantizedMatmul, WeightCoding};
use crate::graph::ops::elementwise::{Binary, BinaryKind, Cast, DequantizeLinear};
use crate::graph::ops::movement::{Reshape, Transpose};
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, Node, Op, OperandId};
use crate::memory;

/// If the backend multiplies integers, products of which both operands are bytes are left to kernels for these. If it widens, float16
/// weights are wanted too.
pub fn block_quantized(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let preferences = &compilation.preferences;
    let weights = |graph: &Graph, node: &Node| weights(graph, node, preferences);
    if !graph.nodes.iter().any(|node| weights(graph, node).is_some()) {
        return Ok(());
    }
    graph.rewrite(compilation, |graph, mut node| {
        if let Some(found) = weights(graph, &node) {
            node.op = found.product(graph, &node)?;
        }
        Ok(node)
    })
}

/// The weights of a product.
struct Found {
    a: OperandId,
    input: OperandId,
    /// None of float16 numbers.
    quantized: Option<Quantized>,
    /// Whether a row of the weights is a step in depth.
    by_depth: bool,
    columns: usize,
    blocks: usize,
    block_size: usize,
    /// Whether all columns have the same scales and zero points.
    is_shared: bool,
    c: Option<OperandId>,
}

#[derive(Clone, Copy)]
struct Quantized {
    input: OperandId,
    scale: OperandId,
    zero_point: Option<OperandId>,
}

/// What is dequantized to an operand: by one operator, or as it is written where only numbers are multiplied, by a cast and a factor.
fn quantized(graph: &Graph, id: OperandId) -> Option<Quantized> {
    match graph.maker(id)?.1.op {
        Op::DequantizeLinear(DequantizeLinear { input, scale, zero_point }) => {
            Some(Quantized { input, scale, zero_point: Some(zero_point) })
        }
        Op::Binary(Binary { kind: BinaryKind::Mul, a, b }) => [(a, b), (b, a)].into_iter().find_map(|(number, scale)| {
            let Op::Cast(cast) = &graph.maker(number)?.1.op else { return None };
            let is_whole = graph.descriptor(cast.input).shape == graph.descriptor(id).shape;
            let is_byte = matches!(graph.descriptor(cast.input).data_type, DataType::Int8 | DataType::Uint8);
            let are_floats = [number, scale].iter().all(|&id| graph.descriptor(id).data_type == DataType::Float32);
            (is_whole && is_byte && are_floats).then_some(Quantized { input: cast.input, scale, zero_point: None })
        }),
        _ => None,
    }
}

/// What an operand is the float32 form of: dequantized numbers that are float16 by their scales, where nothing has to be rounded to that.
fn widened(graph: &Graph, id: OperandId) -> OperandId {
    match graph.maker(id) {
        Some((_, Node { op: Op::Cast(Cast { input, data_type: DataType::Float32 }), .. }))
            if graph.rounds_late && graph.descriptor(*input).data_type == DataType::Float16 =>
        {
            *input
        }
        _ => id,
    }
}

/// The constant that an operand is: in another shape, or as often as there are elements if the second is true. What importers put between is
/// one of each at most, and a longer way is not gone, however often products ask.
fn known(graph: &Graph, mut id: OperandId) -> Option<(OperandId, bool)> {
    let mut is_repeated = false;
    for _ in 0..3 {
        if graph.is_constant(id) {
            return (graph.is_single(id) || !is_repeated).then_some((id, is_repeated));
        }
        match &graph.maker(id)?.1.op {
            Op::Reshape(op) => id = op.input,
            Op::Expand(op) => (id, is_repeated) = (op.input, true),
            _ => return None,
        }
    }
    None
}

fn weights(graph: &Graph, node: &Node, preferences: &Preferences) -> Option<Found> {
    let (a, b, is_transposed, c) = match &node.op {
        Op::Matmul(op) => (op.a, op.b, false, None),
        Op::Gemm(op) if !op.a_transpose && op.alpha == 1.0 && op.beta == 1.0 => (op.a, op.b, op.b_transpose, op.c),
        _ => return None,
    };
    let shape = |id: OperandId| -> Vec<usize> { graph.descriptor(id).shape.iter().map(|&size| size as usize).collect() };
    // From the product back to where they are dequantized.
    let (mut id, mut is_transposed) = (widened(graph, b), is_transposed);
    if let Some((_, Node { op: Op::Transpose(Transpose { input, permutation }), .. })) = graph.maker(id)
        && shape(id).len() == 2
        && permutation.as_deref().is_none_or(|order| order == [1, 0])
    {
        (id, is_transposed) = (widened(graph, *input), !is_transposed);
    }
    let [rows, columns] = shape(id)[..] else { return None };
    if preferences.widens && rows * columns >= preferences.packed_weights {
        let input = match graph.maker(id) {
            Some((_, Node { op: Op::Cast(op), .. })) => op.input,
            _ => id,
        };
        if graph.is_constant(input) && graph.descriptor(input).data_type == DataType::Float16 {
            let (depth, columns) = if is_transposed { (columns, rows) } else { (rows, columns) };
            let (by_depth, block_size) = (!is_transposed, depth);
            return Some(Found { a, input, quantized: None, by_depth, columns, blocks: 1, block_size, is_shared: false, c });
        }
    }
    if let Some((_, Node { op: Op::Reshape(Reshape { input, .. }), .. })) = graph.maker(id) {
        id = *input;
    }
    let quantized = quantized(graph, id)?;
    let Quantized { input, scale, zero_point } = quantized;
    let data_type = graph.descriptor(input).data_type;
    let is_byte = matches!(data_type, DataType::Int8 | DataType::Uint8);
    let is_known =
        graph.is_constant(input) && [Some(scale), zero_point].into_iter().flatten().all(|id| known(graph, id).is_some());
    if !is_known
        || !is_byte && !matches!(data_type, DataType::Int4 | DataType::Uint4)
        || rows * columns < preferences.packed_weights
    {
        return None;
    }
    if preferences.integers.is_some() && is_byte && is_of_bytes(graph, a) {
        return None;
    }
    // Elements of a block down and across, as the matrix has them.
    let (whole, mut of_blocks) = (shape(input), shape(scale));
    // A factor may have fewer dimensions.
    of_blocks.splice(0..0, vec![1; whole.len().checked_sub(of_blocks.len())?]);
    let block = |axis: usize| whole[axis] / of_blocks[axis];
    let [down, across] = match whole[..] {
        [a, b] if [a, b] == [rows, columns] => [block(0), block(1)],
        [a, b, c] if [a, b * c] == [rows, columns] && of_blocks[2] == 1 => [block(0), block(1) * c],
        [a, b, c] if [a * b, c] == [rows, columns] && of_blocks[1] == 1 => [block(0) * b, block(2)],
        _ => return None,
    };
    // The matrix is [depth, columns], or transposed.
    let ([depth, columns], [block_size, other]) =
        if is_transposed { ([columns, rows], [across, down]) } else { ([rows, columns], [down, across]) };
    let is_shared = other == columns && columns > 1;
    let is_whole = is_byte || if is_transposed { block_size.is_multiple_of(2) } else { columns.is_multiple_of(2) };
    if !is_whole || other != 1 && !is_shared {
        return None;
    }
    let blocks = depth / block_size;
    Some(Found { a, input, quantized: Some(quantized), by_depth: !is_transposed, columns, blocks, block_size, is_shared, c })
}

/// Whether an operand is dequantized from bytes, and then moved.
fn is_of_bytes(graph: &Graph, mut id: OperandId) -> bool {
    while let Some((_, node)) = graph.maker(id) {
        match &node.op {
            Op::Reshape(op) => id = op.input,
            Op::Transpose(op) => id = op.input,
            _ => break,
        }
    }
    dequantized(graph, id).is_some()
}

impl Found {
    fn product(self, graph: &mut Graph, node: &Node) -> Result<Op> {
        let Found { a, input, quantized, by_depth, columns, blocks, block_size, .. } = self;
        let Descriptor { data_type, .. } = *graph.descriptor(input);
        let bits = data_type.bits();
        let bytes = bytes_of(graph, input);
        let length = bytes.len();
        let rows = if by_depth { blocks * block_size } else { columns };
        let weights = add(graph, DataType::Uint8, [rows, length / rows], bytes);
        let shape = if by_depth { [blocks, columns] } else { [columns, blocks] };
        let (coding, scales, zero_points) = match quantized {
            Some(quantized) => {
                self.scales(graph, quantized, bits, matches!(data_type, DataType::Int4 | DataType::Int8), shape)?
            }
            None => {
                let mut ones = memory::filled(0u8, columns * 4)?;
                ones.chunks_exact_mut(4).for_each(|one| one.copy_from_slice(&1f32.to_le_bytes()));
                (WeightCoding::Float16, add(graph, DataType::Float32, shape, ConstantBytes::new(ones)), None)
            }
        };
        let bias = self.c.filter(|&c| {
            let shape = &graph.descriptor(c).shape;
            let is_row = shape.last() == Some(&(columns as u32)) && shape.iter().product::<u32>() == columns as u32;
            is_row && graph.is_constant(c)
        });
        let bias = bias.map(|c| {
            let (of_c, bytes) = (graph.descriptor(c).data_type, bytes_of(graph, c));
            graph.constant(Descriptor::new(of_c, [columns as u32]), bytes)
        });
        let is_added = bias.is_some();
        let product = BlockQuantizedMatmul {
            a,
            weights,
            scales,
            bits: bits as u32,
            block_size: block_size as u32,
            zero_points,
            code_book: None,
            bias,
            coding,
            by_depth,
            high_first: false,
            approximate: false,
        };
        Ok(match self.c {
            Some(b) if !is_added => {
                let output = node.outputs[0];
                let a = graph.insert(product, graph.descriptor(output).clone());
                Binary { kind: BinaryKind::Add, a, b }.into()
            }
            _ => product.into(),
        })
    }

    /// How the integers are coded, their scales, and their zero points unless these are part of the coding.
    fn scales(
        &self,
        graph: &mut Graph,
        Quantized { scale, zero_point, .. }: Quantized,
        bits: usize,
        signed: bool,
        shape: [usize; 2],
    ) -> Result<(WeightCoding, OperandId, Option<OperandId>)> {
        let of_scale = graph.descriptor(scale).data_type;
        let scales = match numbers(graph, scale)? {
            bytes if self.is_shared => self.repeated(bytes.as_slice(), of_scale.bits() / 8)?,
            bytes => bytes,
        };
        let scales = add(graph, of_scale, shape, scales);
        let count = if self.is_shared { self.blocks } else { self.blocks * self.columns };
        let codes = match zero_point.and_then(|id| known(graph, id)) {
            None => vec![0; count],
            Some((id, true)) => vec![codes(bytes_of(graph, id).as_slice(), bits, 1)?[0]; count],
            Some((id, false)) => codes(bytes_of(graph, id).as_slice(), bits, count)?,
        };
        let middle = 1 << (bits - 1);
        let are_all = |code: u8| codes.iter().all(|&other| other == code);
        let (coding, has_own) = match signed {
            true => (WeightCoding::Signed, !are_all(0)),
            false if are_all(middle) => (WeightCoding::Offset, false),
            false => (WeightCoding::Unsigned, !are_all(0)),
        };
        if !has_own {
            return Ok((coding, scales, None));
        }
        let codes = if self.is_shared { self.repeated(&codes, 1)?.as_slice().to_vec() } else { codes };
        let row = (shape[1] * bits).div_ceil(8);
        let mut packed = memory::filled(0u8, shape[0] * row)?;
        for (codes, to) in codes.chunks_exact(shape[1]).zip(packed.chunks_exact_mut(row)) {
            codes.iter().enumerate().for_each(|(i, code)| to[i * bits / 8] |= code << (i * bits % 8));
        }
        let points = add(graph, DataType::Uint8, [shape[0], row], ConstantBytes::new(packed));
        Ok((coding, scales, Some(points)))
    }

    /// The elements of blocks that all columns share, for each of these.
    fn repeated(&self, elements: &[u8], size: usize) -> Result<ConstantBytes> {
        let mut all = memory::filled(0u8, elements.len() * self.columns)?;
        match self.by_depth {
            true => {
                for (element, to) in elements.chunks_exact(size).zip(all.chunks_exact_mut(size * self.columns)) {
                    to.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(element));
                }
            }
            false => all.chunks_exact_mut(elements.len()).for_each(|to| to.copy_from_slice(elements)),
        }
        Ok(ConstantBytes::new(all))
    }
}

/// Codes of so many bits that lie one after the other.
fn codes(bytes: &[u8], bits: usize, count: usize) -> Result<Vec<u8>> {
    let mut codes = memory::filled(0u8, count)?;
    let mask = ((1u16 << bits) - 1) as u8;
    codes.iter_mut().enumerate().for_each(|(i, code)| *code = bytes[i * bits / 8] >> (i * bits % 8) & mask);
    Ok(codes)
}

/// The elements of an operand that is known, which are whole bytes.
fn numbers(graph: &Graph, id: OperandId) -> Result<ConstantBytes> {
    let (source, is_repeated) = known(graph, id).unwrap_or((id, false));
    let bytes = bytes_of(graph, source);
    if !is_repeated {
        return Ok(bytes);
    }
    let mut all = memory::filled(0u8, graph.descriptor(id).byte_length())?;
    all.chunks_exact_mut(bytes.as_slice().len()).for_each(|to| to.copy_from_slice(bytes.as_slice()));
    Ok(ConstantBytes::new(all))
}

fn bytes_of(graph: &Graph, id: OperandId) -> ConstantBytes {
    graph.bytes(id).expect("it was a constant").clone()
}

fn add(graph: &mut Graph, data_type: DataType, shape: [usize; 2], bytes: ConstantBytes) -> OperandId {
    graph.constant(Descriptor::new(data_type, shape.map(|size| size as u32)), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::reference::interpret;
    use crate::compiler::prune::prune;
    use crate::graph::ops::matmul::{Gemm, Matmul};
    use crate::graph::ops::movement::Expand;
    use crate::graph::{GraphBuilder, Limits};
    use std::sync::Arc;

    /// How the weights lie, and what stands between them and the product.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Written {
        /// [depth, columns].
        ByDepth,
        /// [columns, depth], transposed by a node, or by gemm.
        Transposed,
        Gemm,
        /// [columns, blocks, block], reshaped and transposed.
        Reshaped,
    }

    const DEPTH: u32 = 96;
    const COLUMNS: u32 = 64;
    const BLOCK: u32 = 32;

    fn bytes(count: usize, seed: usize) -> Vec<u8> {
        (0..count).map(|i| (((i + 3 * seed) * 2_654_435_761) >> 7) as u8).collect()
    }

    fn floats(count: usize, seed: usize) -> Vec<u8> {
        bytes(count, seed).iter().flat_map(|&byte| (f32::from(byte) / 128.0 - 1.0).to_le_bytes()).collect()
    }

    /// A product with a row of gemm's that is added, where it is one.
    fn graph(written: Written, data_type: DataType, is_shared: bool, zero: Option<u8>) -> Graph {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let a = builder.input("a", Descriptor::new(DataType::Float32, [5, DEPTH])).unwrap();
        let blocks = DEPTH / BLOCK;
        let columns = if is_shared { 1 } else { COLUMNS };
        let (shape, of_blocks) = match written {
            Written::ByDepth => (vec![DEPTH, COLUMNS], vec![blocks, columns]),
            Written::Transposed | Written::Gemm => (vec![COLUMNS, DEPTH], vec![columns, blocks]),
            Written::Reshaped => (vec![COLUMNS, blocks, BLOCK], vec![columns, blocks, 1]),
        };
        let mut constant = |data_type: DataType, shape: &[u32], bytes: Vec<u8>| {
            let descriptor = Descriptor::new(data_type, shape.iter().copied());
            let length = descriptor.byte_length();
            builder.constant(descriptor, ConstantBytes::new(bytes[..length].to_vec())).unwrap()
        };
        let input = constant(data_type, &shape, bytes((DEPTH * COLUMNS) as usize, 1));
        let scale = constant(DataType::Float32, &of_blocks, floats((blocks * COLUMNS) as usize, 2));
        let points = zero.map_or_else(|| bytes((blocks * COLUMNS) as usize, 3), |zero| vec![zero; (blocks * COLUMNS) as usize]);
        let zero_point = constant(data_type, &of_blocks, points);
        let c = constant(DataType::Float32, &[1, COLUMNS], floats(COLUMNS as usize, 4));
        let mut push = |op: Op| builder.push_op(op, "").unwrap()[0];
        let mut b = push(DequantizeLinear { input, scale, zero_point }.into());
        if written == Written::Reshaped {
            b = push(Reshape { input: b, new_shape: vec![COLUMNS, DEPTH] }.into());
        }
        if matches!(written, Written::Transposed | Written::Reshaped) {
            b = push(Transpose { input: b, permutation: None }.into());
        }
        let y = push(match written {
            Written::Gemm => Gemm { a, b, c: Some(c), alpha: 1.0, beta: 1.0, a_transpose: false, b_transpose: true }.into(),
            _ => Matmul { a, b }.into(),
        });
        builder.build(vec![("y".to_owned(), y)]).unwrap()
    }

    /// Scales of float16 whose numbers are cast for a product of float32, before or after a transposition. These numbers are exact.
    #[test]
    fn float16_numbers_are_not_cast() {
        let left = floats((5 * DEPTH) as usize, 5);
        for (is_transposed, is_cast_first, rounds_late) in
            [(false, true, true), (true, true, true), (true, false, true), (false, true, false), (true, false, false)]
        {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let a = builder.input("a", Descriptor::new(DataType::Float32, [5, DEPTH])).unwrap();
            let blocks = DEPTH / BLOCK;
            let (shape, of_blocks) =
                if is_transposed { ([COLUMNS, DEPTH], [COLUMNS, blocks]) } else { ([DEPTH, COLUMNS], [blocks, COLUMNS]) };
            let mut constant = |data_type: DataType, shape: [u32; 2], bytes: Vec<u8>| {
                let descriptor = Descriptor::new(data_type, shape);
                let length = descriptor.byte_length();
                builder.constant(descriptor, ConstantBytes::new(bytes[..length].to_vec())).unwrap()
            };
            let halves = bytes((blocks * COLUMNS) as usize, 2).into_iter().map(|byte| f32::from(byte) / 128.0 - 1.0);
            let halves = halves.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect();
            let input = constant(DataType::Int4, shape, bytes((DEPTH * COLUMNS) as usize, 1));
            let scale = constant(DataType::Float16, of_blocks, halves);
            let zero_point = constant(DataType::Int4, of_blocks, vec![0; (blocks * COLUMNS) as usize]);
            let mut push = |op: Op| builder.push_op(op, "").unwrap()[0];
            let mut b = push(DequantizeLinear { input, scale, zero_point }.into());
            let cast = |b| Cast { input: b, data_type: DataType::Float32 }.into();
            if is_cast_first {
                b = push(cast(b));
            }
            if is_transposed {
                b = push(Transpose { input: b, permutation: None }.into());
            }
            if !is_cast_first {
                b = push(cast(b));
            }
            let y = push(Matmul { a, b }.into());
            let mut graph = builder.build(vec![("y".to_owned(), y)]).unwrap();
            graph.rounds_late = rounds_late;
            if rounds_late {
                is_one_product(&graph, &left, &format!("turned {is_transposed}, cast first {is_cast_first}"));
            } else {
                // The product gets numbers that are rounded to float16.
                block_quantized(&mut graph, &Compilation::unasked()).unwrap();
                assert!(graph.nodes.iter().all(|node| node.op.row().name != "blockQuantizedMatmul"));
            }
        }
    }

    /// A product with float16 constants, in a graph of these or of float32, alone and with a row that is computed.
    #[test]
    fn float16_weights_are_read_as_they_are() {
        for (of_graph, is_gemm) in
            [(DataType::Float16, false), (DataType::Float16, true), (DataType::Float32, false), (DataType::Float32, true)]
        {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let a = builder.input("a", Descriptor::new(of_graph, [5, DEPTH])).unwrap();
            let c = builder.input("c", Descriptor::new(of_graph, [1, COLUMNS])).unwrap();
            let numbers =
                |count: u32, seed: usize| bytes(count as usize, seed).into_iter().map(|byte| f32::from(byte) / 128.0 - 1.0);
            let shape = if is_gemm { [COLUMNS, DEPTH] } else { [DEPTH, COLUMNS] };
            let weights = numbers(DEPTH * COLUMNS, 1).flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect::<Vec<u8>>();
            let mut b = builder.constant(Descriptor::new(DataType::Float16, shape), ConstantBytes::new(weights)).unwrap();
            let mut push = |op: Op| builder.push_op(op, "").unwrap()[0];
            if of_graph == DataType::Float32 {
                b = push(Cast { input: b, data_type: of_graph }.into());
            }
            let y = push(match is_gemm {
                true => Gemm { a, b, c: Some(c), alpha: 1.0, beta: 1.0, a_transpose: false, b_transpose: true }.into(),
                false => Matmul { a, b }.into(),
            });
            let graph = builder.build(vec![("y".to_owned(), y)]).unwrap();
            let encoded = |numbers: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
                match of_graph {
                    DataType::Float16 => numbers.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect(),
                    _ => numbers.flat_map(f32::to_le_bytes).collect(),
                }
            };
            let given = [encoded(&mut numbers(5 * DEPTH, 5)), encoded(&mut numbers(COLUMNS, 6))];
            let inputs: Vec<&[u8]> = given.iter().take(graph.inputs.len()).map(Vec::as_slice).collect();
            let expected = interpret(&graph, &inputs).remove(0);
            let mut changed = graph.clone();
            block_quantized(&mut changed, &Compilation::unasked()).unwrap();
            prune(&mut changed, &Compilation::unasked()).unwrap();
            assert_eq!(changed.nodes[0].op.row().name, "blockQuantizedMatmul");
            assert_eq!(changed.nodes.len(), if is_gemm { 2 } else { 1 });
            let found = interpret(&changed, &inputs).remove(0);
            let decoded = |bytes: &[u8]| -> Vec<f32> {
                match of_graph {
                    DataType::Float16 => bytes.as_chunks::<2>().0.iter().map(|x| half::f16::from_le_bytes(*x).to_f32()).collect(),
                    _ => bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
                }
            };
            for (found, expected) in decoded(&found).into_iter().zip(decoded(&expected)) {
                let error = if of_graph == DataType::Float16 { 4e-3 } else { 1e-5 };
                assert!((found - expected).abs() <= error * expected.abs().max(4.0), "{of_graph} {is_gemm}: {found}, {expected}");
            }
        }
    }

    /// As exporters write it that only know arithmetic, and with a zero point that is one number for all.
    #[test]
    fn bytes_with_a_factor_are_quantized() {
        let left = floats((5 * DEPTH) as usize, 5);
        for data_type in [DataType::Int8, DataType::Uint8] {
            for (of_scale, zero) in [
                (vec![1, COLUMNS], None),
                (vec![COLUMNS], None),
                (vec![], None),
                (vec![1, 1], None),
                (vec![DEPTH, 1], None),
                (vec![1, COLUMNS], Some(7u8)),
                (vec![1, COLUMNS], Some(0)),
            ] {
                let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
                let a = builder.input("a", Descriptor::new(DataType::Float32, [5, DEPTH])).unwrap();
                let mut constant = |data_type: DataType, shape: &[u32], bytes: Vec<u8>| {
                    let descriptor = Descriptor::new(data_type, shape.iter().copied());
                    let length = descriptor.byte_length();
                    builder.constant(descriptor, ConstantBytes::new(bytes[..length].to_vec())).unwrap()
                };
                let input = constant(data_type, &[DEPTH, COLUMNS], bytes((DEPTH * COLUMNS) as usize, 1));
                // A scale that is written as a vector has to be reshaped for the one operator.
                let of_constant = if zero.is_some() { vec![COLUMNS] } else { of_scale.clone() };
                let factor = constant(DataType::Float32, &of_constant, floats((DEPTH * COLUMNS) as usize, 2));
                let zero = zero.map(|zero| constant(data_type, &[], vec![zero]));
                let mut push = |op: Op| builder.push_op(op, "").unwrap()[0];
                let b = match zero {
                    None => {
                        let number = push(Cast { input, data_type: DataType::Float32 }.into());
                        push(Binary { kind: BinaryKind::Mul, a: factor, b: number }.into())
                    }
                    Some(zero) => {
                        let scale = push(Reshape { input: factor, new_shape: of_scale.clone() }.into());
                        let zero = push(Reshape { input: zero, new_shape: vec![1, 1] }.into());
                        let zero_point = push(Expand { input: zero, new_shape: of_scale.clone() }.into());
                        push(DequantizeLinear { input, scale, zero_point }.into())
                    }
                };
                let y = push(Matmul { a, b }.into());
                let graph = builder.build(vec![("y".to_owned(), y)]).unwrap();
                is_one_product(&graph, &left, &format!("{data_type} {of_scale:?} {zero:?}"));
            }
        }
    }

    /// Whether the graph becomes one operator that computes the same.
    fn is_one_product(graph: &Graph, left: &[u8], what: &str) {
        let expected = interpret(graph, &[left]).remove(0);
        let mut changed = graph.clone();
        let compilation = &Compilation::unasked();
        block_quantized(&mut changed, compilation).unwrap();
        prune(&mut changed, compilation).unwrap();
        let names: Vec<&str> = changed.nodes.iter().map(|node| node.op.row().name).collect();
        assert_eq!(names, ["blockQuantizedMatmul"], "{what}");
        let found = interpret(&changed, &[left]).remove(0);
        let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
        for (found, expected) in found.as_chunks::<4>().0.iter().zip(expected.as_chunks::<4>().0) {
            let (found, expected) = (number(found), number(expected));
            assert!((found - expected).abs() <= 1e-4 * expected.abs().max(100.0), "{what}: {found}, {expected}");
        }
    }

    #[test]
    fn products_stay_what_they_are() {
        let left = floats((5 * DEPTH) as usize, 5);
        for written in [Written::ByDepth, Written::Transposed, Written::Gemm, Written::Reshaped] {
            for data_type in [DataType::Int4, DataType::Uint4, DataType::Int8, DataType::Uint8] {
                // 0, the middle of the range of either, and others.
                for zero in [Some(0), Some(0x88), Some(0x80), None] {
                    for is_shared in [false, true] {
                        let graph = graph(written, data_type, is_shared, zero);
                        is_one_product(&graph, &left, &format!("{written:?} {data_type} {zero:?} shared {is_shared}"));
                    }
                }
            }
        }
    }
}
