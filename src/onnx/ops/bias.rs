//! What is added to scores of attention: BiasSoftmax and RelativePositionBias of com.microsoft.

use super::elementwise::one;
use crate::graph::ops::softmax::Softmax;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// BiasSoftmax: softmax of sums. All from the axis on counts as one row; a bias for fewer rows than there are is repeated row
/// by row, or with `is_inner_broadcast` each of its rows is.
pub fn softmax(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, bias) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let shape = emit.shape(input);
    let at = axis(node.int("axis", 1)?, shape.len())?;
    let (rows, row) = (emit.check_count(&shape[..at])?, emit.check_count(&shape[at..])?);
    let of_bias = emit.check_count(&emit.shape(bias))?;
    let biases = of_bias / row;
    if biases == 0 || biases * row != of_bias || rows % biases != 0 {
        return Err(format!("a bias of shape {:?} for {rows} rows of {row}", emit.shape(bias)).into());
    }
    let (target, of_bias) = match node.flag("is_inner_broadcast", true)? {
        true => ([biases, rows / biases, row], [biases, 1, row]),
        false => ([rows / biases, biases, row], [1, biases, row]),
    };
    let (input, bias) = (emit.reshape(input, &target)?, emit.reshape(bias, &of_bias)?);
    let sum = emit.add(input, bias)?;
    let result = emit.push(Softmax { input: sum, axis: 2 })?;
    one(emit.reshape(result, &shape)?)
}

/// RelativePositionBias: for each head and each pair of positions the number of the bucket that their distance is in. The table
/// has the buckets of one head after those of the other, whatever its shape says.
pub fn relative_position(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let table = emit.input(node, 0)?;
    let length = |position: usize, what: &str| match node.constant(position, what)?.integers()[..] {
        [length] if length > 0 => size(length),
        ref list => Err(format!("{what} {list:?}").into()),
    };
    let (queries, keys) = (length(1, "the length of queries")?, length(2, "the length of keys")?);
    let [buckets, heads] = emit.shape(table)[..] else { return Err("a table whose rank is not 2".into()) };
    let is_bidirectional = node.flag("is_bidirectional", false)?;
    let most = node.int("max_distance", 0)?;
    let own = if is_bidirectional { buckets / 2 } else { buckets };
    if own < 2 || most <= i64::from(own / 2) {
        return Err(format!("{buckets} buckets for distances up to {most}").into());
    }
    emit.reserve(&[queries.into(), keys.into()])?;
    let mut places = Vec::new();
    for query in 0..i64::from(queries) {
        places.extend((0..i64::from(keys)).map(|key| bucket(key - query, own, most, is_bidirectional)));
    }
    let table = emit.reshape(table, &[heads, buckets])?;
    let places = Tensor::from_integers(ElementType::Int32, vec![queries as usize, keys as usize], &places);
    let places = emit.constant(places)?;
    let result = emit.gather(table, places, 1)?;
    one(emit.reshape(result, &[1, heads, queries, keys])?)
}

/// The bucket of a distance, of so many for one direction: half of them for small ones, the others on a logarithmic scale.
fn bucket(distance: i64, own: u32, most: i64, is_bidirectional: bool) -> i64 {
    let other_side = if is_bidirectional && distance > 0 { i64::from(own) } else { 0 };
    let distance = if is_bidirectional { distance.abs() } else { (-distance).max(0) };
    let exact = i64::from(own / 2);
    if distance < exact {
        return other_side + distance;
    }
    // In float32, as the networks were trained.
    let ratio = (distance as f32 / exact as f32).ln() / (most as f32 / exact as f32).ln();
    let scaled = exact + (ratio * (i64::from(own) - exact) as f32) as i64;
    other_side + scaled.min(i64::from(own) - 1)
}

#[cfg(test)]
mod tests {
    use super::bucket;

    /// As in the paper on T5: 32 buckets, distances up to 128.
    #[test]
    fn buckets_of_distances() {
        let both: Vec<i64> = [0, -1, -7, -8, -15, -16, -31, -32, -64, -127, -500].map(|x| bucket(x, 16, 128, true)).to_vec();
        assert_eq!(both, [0, 1, 7, 8, 9, 10, 11, 12, 14, 15, 15]);
        assert_eq!([1, 7, 8, 500].map(|x| bucket(x, 16, 128, true)), [17, 23, 24, 31]);
        assert_eq!([5, 0, -15, -16, -127, -1000].map(|x| bucket(x, 32, 128, false)), [0, 0, 15, 16, 31, 31]);
    }
}
