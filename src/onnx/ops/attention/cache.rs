//! Caches whose elements are quantized: 8 bits each, or 4, of which two share a byte, the first in its low half.

use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;

/// How a cache holds its elements.
#[derive(Clone, Copy)]
pub struct Coding {
    /// One for all, or one for each head and channel: [1, heads or 1, 1, head size or 1].
    scale: OperandId,
    bits: i64,
    of: DataType,
}

/// What holds 4 bits is above the numbers by this.
const OFFSET: f64 = 8.0;

impl Coding {
    /// Of a cache whose kind is in that attribute, and whose scale is that input; nothing for one that is not quantized.
    pub fn of(node: &Node<'_>, kind: &str, scale: usize, heads: u32, width: u32, emit: &mut Emit<'_>) -> Mapped<Option<Coding>> {
        Coding::with_bits(node, kind, node.int("kv_cache_bit_width", 0)?, scale, heads, width, emit)
    }

    /// The same where the number of bits is said elsewhere.
    pub fn with_bits(
        node: &Node<'_>,
        kind: &str,
        bits: i64,
        scale: usize,
        heads: u32,
        width: u32,
        emit: &mut Emit<'_>,
    ) -> Mapped<Option<Coding>> {
        let kind = node.string(kind, "NONE")?;
        if kind == "NONE" {
            return Ok(None);
        }
        if bits != 8 && bits != 4 {
            return Err(format!("the attribute kv_cache_bit_width is {bits}, allowed 8 and 4").into());
        }
        let given = emit.optional(node, scale)?.ok_or("a quantized cache without a scale")?;
        let given = emit.cast(given, DataType::Float32)?;
        let shape = match kind.as_str() {
            "PER_TENSOR" => [1, 1, 1, 1],
            "PER_CHANNEL" => [1, heads, 1, width],
            other => return Err(format!("the kind {other:?} of a quantized cache").into()),
        };
        let scale = emit.reshape(given, &shape)?;
        Ok(Some(Coding { scale, bits, of: if bits == 8 { DataType::Int8 } else { DataType::Uint8 } }))
    }

    /// Keys or values [batch, heads, sequence, head size] as the cache holds them.
    pub fn quantized(self, input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let wide = emit.cast(input, DataType::Float32)?;
        let scaled = emit.div(wide, self.scale)?;
        let whole = emit.unary(UnaryKind::RoundEven, scaled)?;
        let most = f64::from(1 << (self.bits - 1));
        let mut held = emit.clamp(whole, Some(-most), Some(most - 1.0))?;
        if self.bits == 4 {
            let mut pairs = emit.shape(held);
            let width = pairs.pop().filter(|width| width.is_multiple_of(2)).ok_or("an odd head size of a cache of 4 bits")?;
            pairs.extend([width / 2, 2]);
            let last = pairs.len() - 1;
            let above = emit.with(BinaryKind::Add, held, OFFSET)?;
            let apart = emit.reshape(above, &pairs)?;
            let halves = emit.split(apart, vec![1, 1], last)?;
            let high = emit.with(BinaryKind::Mul, halves[1], 16.0)?;
            let both = emit.add(halves[0], high)?;
            held = emit.reshape(both, &pairs[..last])?;
        }
        emit.cast(held, self.of)
    }

    /// The numbers of a cache.
    pub fn numbers(self, cache: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        if emit.data_type(cache) != self.of {
            return Err(
                format!("a cache of {} with {} bits, where {} holds these", emit.data_type(cache), self.bits, self.of).into()
            );
        }
        let mut held = emit.cast(cache, DataType::Float32)?;
        if self.bits == 4 {
            let mut shape = emit.shape(held);
            let scaled = emit.with(BinaryKind::Mul, held, 1.0 / 16.0)?;
            let high = emit.unary(UnaryKind::Floor, scaled)?;
            let above = emit.with(BinaryKind::Mul, high, 16.0)?;
            let low = emit.sub(held, above)?;
            let last = shape.len();
            shape.push(1);
            let (low, high) = (emit.reshape(low, &shape)?, emit.reshape(high, &shape)?);
            let both = emit.concat(vec![low, high], last)?;
            shape.pop();
            if let Some(width) = shape.last_mut() {
                *width = width.checked_mul(2).ok_or("too many elements")?;
            }
            let joined = emit.reshape(both, &shape)?;
            held = emit.with(BinaryKind::Sub, joined, OFFSET)?;
        }
        emit.mul(held, self.scale)
    }
}
