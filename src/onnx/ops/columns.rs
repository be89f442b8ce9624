//! Col2Im: blocks of an image are added up where they overlap.

use super::elementwise::one;
use crate::graph::OperandId;
use crate::graph::ops::reduce::ReduceKind;
use crate::memory;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// A dimension of the image, and the blocks along it.
#[derive(Debug)]
struct Dimension {
    image: u32,
    block: u32,
    /// How many blocks there are.
    count: u32,
    stride: u32,
    dilation: u32,
    /// Padding before the image.
    before: u32,
}

impl Dimension {
    /// For each pixel the elements of `[block, count]` that are added up there. A list that is shorter than the longest one is
    /// filled up with the place after all of them.
    fn places(&self) -> Mapped<Vec<Vec<i64>>> {
        let [stride, dilation, count] = [self.stride, self.dilation, self.count].map(i64::from);
        let mut places = memory::filled(Vec::new(), self.image as usize)?;
        for (pixel, list) in places.iter_mut().enumerate() {
            let at = pixel as i64 + i64::from(self.before);
            for offset in 0..self.block.into() {
                let begin = at - offset * dilation;
                if begin >= 0 && begin % stride == 0 && begin / stride < count {
                    list.push(offset * count + begin / stride);
                }
            }
        }
        let longest = places.iter().map(Vec::len).max().unwrap_or(0).max(1);
        memory::require(places.len().saturating_mul(longest).saturating_mul(size_of::<i64>()))?;
        places.iter_mut().for_each(|list| list.resize(longest, i64::from(self.block) * count));
        Ok(places)
    }
}

pub fn col2im(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let sizes = |tensor: &Tensor| tensor.integers().into_iter().map(size).collect::<Mapped<Vec<u32>>>();
    let image = sizes(node.constant(1, "the shape of the image")?)?;
    let block = sizes(node.constant(2, "the shape of a block")?)?;
    let input = emit.input(node, 0)?;
    let [batches, columns, blocks] = emit.shape(input)[..] else { return Err("an input whose rank is not 3".into()) };
    let spatial = image.len();
    let list = |name: &str, length: usize, default: u32| -> Mapped<Vec<u32>> {
        let Some(list) = node.ints(name)?.filter(|list| !list.is_empty()) else { return Ok(vec![default; length]) };
        super::ml::check_length(name, list.len(), length)?;
        list.into_iter().map(size).collect()
    };
    let (strides, dilations) = (list("strides", spatial, 1)?, list("dilations", spatial, 1)?);
    let pads = list("pads", 2 * spatial, 0)?;
    if spatial == 0 || block.len() != spatial {
        return Err(format!("blocks of {block:?} for an image of {image:?}").into());
    }
    if [&image, &block, &strides, &dilations].iter().any(|list| list.contains(&0)) {
        return Err(format!("a size, stride or dilation of 0, of blocks of {block:?} for an image of {image:?}").into());
    }
    let mut dimensions = Vec::new();
    for d in 0..spatial {
        let extent = (u64::from(block[d]) - 1) * u64::from(dilations[d]) + 1;
        let padded = u64::from(image[d]) + u64::from(pads[d]) + u64::from(pads[spatial + d]);
        let room = padded.checked_sub(extent).ok_or("a block that is larger than the image")?;
        dimensions.push(Dimension {
            image: image[d],
            block: block[d],
            count: size(room / u64::from(strides[d]) + 1)?,
            stride: strides[d],
            dilation: dilations[d],
            before: pads[d],
        });
    }
    let counts: Vec<u32> = dimensions.iter().map(|dimension| dimension.count).collect();
    let whole = |list: &[u32]| list.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
    let of_block = whole(&block).ok_or("a block that is too large")?;
    let expected = whole(&counts);
    if expected != Some(blocks) || columns % of_block != 0 {
        let found = format!("{columns} columns and {blocks} blocks");
        return Err(format!("{found}; {expected:?} blocks and a multiple of {of_block} columns are needed").into());
    }
    let channels = columns / of_block;
    let planes = emit.check_count(&[batches, channels])?;
    // [planes, blocks…, counts…], from which one dimension after the other is folded, the last one first.
    let mut result = emit.reshape(input, &[&[planes][..], &block, &counts].concat())?;
    for d in (0..spatial).rev() {
        let rank = emit.rank(result);
        let (of_block, of_count) = (1 + d, 2 + 2 * d);
        let mut order: Vec<usize> = (0..rank).filter(|&axis| axis != of_block && axis != of_count).collect();
        order.extend([of_block, of_count]);
        let ordered = emit.transpose(result, &order)?;
        result = fold(ordered, &dimensions[d], emit)?;
    }
    // The dimensions of the image are there in their opposite order.
    let order: Vec<usize> = std::iter::once(0).chain((1..=spatial).rev()).collect();
    let result = emit.transpose(result, &order)?;
    one(emit.reshape(result, &[&[batches, channels][..], &image].concat())?)
}

/// Adds up what is in the last two dimensions, of blocks and their count, for each pixel of a dimension.
fn fold(input: OperandId, dimension: &Dimension, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut shape = emit.shape(input);
    shape.truncate(shape.len() - 2);
    emit.reserve(&[dimension.image.into(), dimension.block.into()])?;
    let places = dimension.places()?;
    let (axis, each) = (shape.len(), places[0].len() as u32);
    let elements = dimension.block.checked_mul(dimension.count).ok_or("blocks that are too large")?;
    let flat = emit.reshape(input, &[&shape[..], &[elements]].concat())?;
    let zero = emit.scalar(emit.data_type(input), 0.0)?;
    let zero = emit.expand(zero, &[&shape[..], &[1]].concat())?;
    let flat = emit.concat(vec![flat, zero], axis)?;
    let places = places.concat();
    let places = emit.constant(Tensor::from_integers(ElementType::Int32, vec![places.len()], &places))?;
    emit.check_count(&[&shape[..], &[dimension.image, each]].concat())?;
    let parts = emit.gather(flat, places, axis)?;
    let parts = emit.reshape(parts, &[&shape[..], &[dimension.image, each]].concat())?;
    emit.reduce(ReduceKind::Sum, parts, &[axis + 1], false)
}
