//! The masks of com.microsoft's attention: which keys count, in the forms that onnxruntime reads.

use super::{add_bias, type_of_scores};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;

/// Adds what hides keys to the bias of scores. The query is [batch, heads, sequence, head size], and the mask's numbers are
/// - `[batch, keys]` or `[batch, sequence, keys]`: a key counts where its number is above 0;
/// - `[batch]`: how many keys of each sequence count;
/// - `[2 * batch]`: these numbers, and then the places of the first keys that count;
/// - `[3 * batch + 2]`: these numbers, and then where sequences of queries and of keys begin and end, which tells nothing more;
/// - `[batch, 1]`: there is no mask.
pub fn with_mask(
    node: &Node<'_>,
    mask: OperandId,
    (query, keys): (OperandId, u32),
    bias: Option<OperandId>,
    emit: &mut Emit<'_>,
) -> Mapped<Option<OperandId>> {
    let of = type_of_scores(query, emit);
    let &[batch, _, queries, _] = &emit.shape(query)[..] else { return Err("queries of another rank than 4".into()) };
    let wide = u64::from(batch);
    let shape = emit.shape(mask);
    let shown = match shape[..] {
        [b, k] if b == batch && k == keys => given(mask, &[b, 1, 1, k], emit)?,
        [b, q, k] if b == batch && q == queries && k == keys => given(mask, &[b, 1, q, k], emit)?,
        [b, 1] if b == batch => return Ok(bias),
        [n] if [wide, 2 * wide, 3 * wide + 2].contains(&n.into()) => {
            let positions = emit.positions(DataType::Int32, 4, 3, keys)?;
            let mask = emit.cast(mask, DataType::Int32)?;
            let part = |which: u32, emit: &mut Emit<'_>| -> Mapped<OperandId> {
                let own = emit.slice_axis(mask, 0, which * batch, batch)?;
                emit.reshape(own, &[batch, 1, 1, 1])
            };
            let ends = part(0, emit)?;
            let before_end = emit.logical(LogicalKind::Lesser, positions, ends)?;
            if u64::from(n) == 2 * wide {
                let starts = part(1, emit)?;
                let begun = emit.logical(LogicalKind::GreaterOrEqual, positions, starts)?;
                emit.logical(LogicalKind::LogicalAnd, before_end, begun)?
            } else {
                before_end
            }
        }
        _ => {
            let allowed = format!(
                "[{batch}], [{}], [{}], [{batch}, {keys}] and [{batch}, {queries}, {keys}] are supported",
                2 * wide,
                3 * wide + 2
            );
            return Err(format!("a mask of shape {shape:?}, where {allowed}").into());
        }
    };
    // As onnxruntime does it: a finite number, so that a row that is all hidden stays one of numbers.
    let of_mask = emit.choose(shown, of, 0.0, node.float("mask_filter_value", -10000.0)?)?;
    add_bias(bias, of_mask, emit)
}

fn given(mask: OperandId, aligned: &[u32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mask = emit.reshape(mask, aligned)?;
    emit.compare(LogicalKind::Greater, mask, 0.0)
}
