//! SparseAttention and PagedAttention of com.microsoft: which keys a query sees, and where they lie, is said in blocks.

use super::cache::Coding;
use super::fixed::{filled, room, written};
use super::grouped::{angles, heads, packed_or_apart};
use super::{Attention, bias_of_mask, default_scale, join_heads, split_heads, type_of_scores};
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::scatter::ScatterNd;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::normalization::simplified;
use crate::onnx::ops::precision::wide;
use crate::onnx::ops::rotary::rotate;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Queries see the blocks of keys that a matrix names, for heads in turn; caches have a fixed size.
pub fn sparse(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let [heads, key_heads] = heads(node)?;
    let [query, key, value] = packed_or_apart(node, [heads, key_heads], emit)?;
    let mut query = split_heads(query, heads, emit)?;
    let mut key = split_heads(key, key_heads, emit)?;
    let value = split_heads(value, key_heads, emit)?;
    let (past_key, past_value) = (emit.input(node, 3)?, emit.input(node, 4)?);
    let (&[batch, _, length, _], &[_, _, keys, _]) = (&emit.shape(query)[..], &emit.shape(past_key)[..]) else {
        return Err("caches whose rank is not 4".into());
    };
    let totals = emit.input(node, 8)?;
    let totals = emit.cast(totals, DataType::Int32)?;
    let totals = emit.reshape(totals, &[batch, 1, 1, 1])?;
    let begin = emit.with(BinaryKind::Sub, totals, length.into())?;
    let begin = emit.clamp(begin, Some(0.0), None)?;
    let begin = room(begin, keys, length, emit)?;
    let queries = emit.positions(DataType::Int32, 4, 2, length)?;
    let queries = emit.add(queries, begin)?;
    if node.flag("do_rotary", false)? {
        let (cos, sin) = (emit.input(node, 9)?, emit.input(node, 10)?);
        let width = emit.shape(cos).last().copied().unwrap_or(0).saturating_mul(2);
        let interleaved = node.flag("rotary_interleaved", false)?;
        let positions = emit.reshape(queries, &[batch, length])?;
        let positions = emit.within(positions, &emit.shape(cos)[..1], Negative::Outside)?;
        let (cos, sin) = (angles(cos, positions, emit)?, angles(sin, positions, emit)?);
        let of_key = emit.data_type(key);
        (query, key) = (wide(query, emit)?, wide(key, emit)?);
        query = rotate(query, cos, sin, width, interleaved, emit)?;
        key = rotate(key, cos, sin, width, interleaved, emit)?;
        key = emit.cast(key, of_key)?;
    }
    let presents = [written(past_key, key, begin, emit)?, written(past_value, value, begin, emit)?];
    let last = emit.with(BinaryKind::Sub, totals, 1.0)?;
    let (key, value) = (filled(presents[0], last, None, emit)?, filled(presents[1], last, None, emit)?);
    let of = type_of_scores(query, emit);
    let positions = emit.positions(DataType::Int32, 4, 3, keys)?;
    let sees = emit.logical(LogicalKind::LesserOrEqual, positions, queries)?;
    let layouts = layouts(node, heads, keys, emit)?;
    // [layouts, batch, queries, keys], and then by heads.
    let block = emit.with(BinaryKind::Div, queries, node.int("sparse_block_size", 0)? as f64)?;
    let block = emit.reshape(block, &[batch, length])?;
    let count = emit.shape(layouts)[0];
    let rows = emit.gather(layouts, block, 1)?;
    let rows = emit.transpose(rows, &[1, 0, 2, 3])?;
    let rows = emit.insert_axis(rows, 1)?;
    let rows = emit.expand(rows, &[batch, heads / count, count, length, keys])?;
    let rows = emit.reshape(rows, &[batch, heads, length, keys])?;
    let named = emit.compare(LogicalKind::NotEqual, rows, 0.0)?;
    let sees = emit.logical(LogicalKind::LogicalAnd, sees, named)?;
    let bias = Some(bias_of_mask(sees, of, emit)?);
    let scale = default_scale(node, query, emit)?;
    let result = Attention { query, key, value, scale, bias, softcap: 0.0 }.emit(emit)?;
    Ok(vec![join_heads(result, emit)?.into(), presents[0].into(), presents[1].into()])
}

/// For each layout and block of queries 1 at the keys that are seen: [layouts, blocks, keys] of uint8.
fn layouts(node: &Node<'_>, heads: u32, keys: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let block = size(node.int("sparse_block_size", 0)?)? as usize;
    let (rows, columns) = (node.constant(5, "the rows of blocks")?, node.constant(6, "the columns of blocks")?);
    let (&[count, ends], &[_, most]) = (&rows.shape[..], &columns.shape[..]) else {
        return Err("rows or columns of blocks whose rank is not 2".into());
    };
    if block == 0 || count == 0 || ends < 2 || columns.shape[0] != count || !heads.is_multiple_of(count as u32) {
        return Err(format!("{count} layouts of blocks of {block} for {heads} heads").into());
    }
    let (blocks, keys) = (ends - 1, keys as usize);
    if !emit.folding.affords(&[count, blocks, keys]) {
        return Err("too many blocks to lay out at import".into());
    }
    let (starts, places) = (rows.integers(), columns.integers());
    let mut seen = vec![0i64; count * blocks * keys];
    for layout in 0..count {
        for row in 0..blocks {
            let [first, end] = [row, row + 1].map(|place| usize::try_from(starts[layout * ends + place]).unwrap_or(usize::MAX));
            if first > end || end > most {
                return Err(format!("row {row} of blocks from {first} to {end} of {most}").into());
            }
            for &column in &places[layout * most + first..layout * most + end] {
                let Some(column) = usize::try_from(column).ok().filter(|&column| column < blocks) else {
                    return Err(format!("the block {column} of {blocks}").into());
                };
                let begin = (column * block).min(keys);
                seen[(layout * blocks + row) * keys..][begin..(begin + block).min(keys)].fill(1);
            }
        }
    }
    emit.constant(Tensor::from_integers(ElementType::Uint8, vec![count, blocks, keys], &seen))
}

/// Sequences whose tokens lie one after the other, [tokens, hidden], and whose keys and values lie in blocks that a table names.
struct Pages {
    tokens: u32,
    batch: u32,
    block: u32,
    /// Of the whole cache.
    slots: u32,
    /// [batch, blocks of a sequence].
    table: OperandId,
    /// Of each token [tokens]: its sequence, and its position there.
    sequence: OperandId,
    position: OperandId,
    /// The same where rotary embeddings look it up.
    rotary_position: OperandId,
    /// [batch]: tokens of a sequence when it has the new ones.
    totals: OperandId,
}

/// Of each token [tokens]: the number of its sequence, and its position there. Sequences begin and end at `starts` and `after` [batch].
fn sequences_of_tokens(
    tokens: u32,
    [starts, after]: [OperandId; 2],
    pasts: OperandId,
    emit: &mut Emit<'_>,
) -> Mapped<[OperandId; 2]> {
    // As many sequences have ended where a token is as come before its own.
    let number = emit.positions(DataType::Int32, 2, 0, tokens)?;
    let over = emit.logical(LogicalKind::GreaterOrEqual, number, after)?;
    let over = emit.cast(over, DataType::Int32)?;
    let sequence = emit.reduce(ReduceKind::Sum, over, &[1], false)?;
    let last = f64::from(emit.shape(starts)[0]) - 1.0;
    let sequence = emit.clamp(sequence, None, Some(last))?;
    let (start, past) = (emit.gather(starts, sequence, 0)?, emit.gather(pasts, sequence, 0)?);
    let number = emit.positions(DataType::Int32, 1, 0, tokens)?;
    let own = emit.sub(number, start)?;
    Ok([sequence, emit.add(own, past)?])
}

/// The table with -1 where there is no page: what is below 0 is none, and entries after a sequence's last key may be anything.
fn used_pages(table: OperandId, totals: OperandId, [blocks, block]: [u32; 2], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let &[batch, of_sequence] = &emit.shape(table)[..] else { return Err("a table whose rank is not 2".into()) };
    let keys_before = emit.positions(DataType::Int32, 2, 1, of_sequence)?;
    let keys_before = emit.with(BinaryKind::Mul, keys_before, block.into())?;
    let of_row = emit.reshape(totals, &[batch, 1])?;
    let is_used = emit.logical(LogicalKind::Lesser, keys_before, of_row)?;
    let none = emit.scalar(DataType::Int32, -1.0)?;
    let table = emit.select(is_used, table, none)?;
    let table = emit.clamp(table, Some(-1.0), None)?;
    emit.within(table, &[blocks], Negative::FromEnd)
}

impl Pages {
    fn new(node: &Node<'_>, tokens: u32, cache: &[u32], emit: &mut Emit<'_>) -> Mapped<Pages> {
        let &[blocks, block, ..] = cache else { return Err("caches whose rank is not 4".into()) };
        let [ends, pasts, table] = [emit.input(node, 5)?, emit.input(node, 6)?, emit.input(node, 7)?];
        let [ends, pasts, table] =
            [emit.cast(ends, DataType::Int32)?, emit.cast(pasts, DataType::Int32)?, emit.cast(table, DataType::Int32)?];
        let (&[batch], &[rows, of_sequence]) = (&emit.shape(pasts)[..], &emit.shape(table)[..]) else {
            return Err("lengths of the past whose rank is not 1, or a table whose rank is not 2".into());
        };
        if rows != batch || emit.shape(ends) != [batch + 1] {
            return Err(format!("{rows} rows of the table and {:?} ends of {batch} sequences", emit.shape(ends)).into());
        }
        let slots = blocks.checked_mul(block).ok_or("too many elements")?;
        let all_keys = of_sequence.checked_mul(block).and_then(|keys| keys.checked_mul(batch)?.checked_add(1));
        all_keys.ok_or("too many elements")?;
        let ends = emit.within(ends, &[tokens + 1], Negative::Outside)?;
        let pasts = emit.within(pasts, &[of_sequence * block + 1], Negative::Outside)?;
        let (starts, after) = (emit.slice_axis(ends, 0, 0, batch)?, emit.slice_axis(ends, 0, 1, batch)?);
        let [sequence, position] = sequences_of_tokens(tokens, [starts, after], pasts, emit)?;
        let new = emit.sub(after, starts)?;
        let totals = emit.add(pasts, new)?;
        let totals = emit.within(totals, &[of_sequence * block + 1], Negative::Outside)?;
        let table = used_pages(table, totals, [blocks, block], emit)?;
        // After the last sequence there may be more tokens, whose angles do not matter.
        let end = emit.slice_axis(ends, 0, batch, 1)?;
        let number = emit.positions(DataType::Int32, 1, 0, tokens)?;
        let is_token = emit.logical(LogicalKind::Lesser, number, end)?;
        let first = emit.scalar(DataType::Int32, 0.0)?;
        let rotary_position = emit.select(is_token, position, first)?;
        Ok(Pages { tokens, batch, block, slots, table, sequence, position, rotary_position, totals })
    }

    /// Where each token's keys go, [tokens, 1]: after all slots if nowhere.
    fn slots_of_tokens(&self, node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let slots = match emit.optional(node, 10)? {
            Some(given) => {
                let slots = emit.cast(given, DataType::Int32)?;
                let slots = emit.clamp(slots, Some(-1.0), None)?;
                emit.within(slots, &[self.slots], Negative::FromEnd)?
            }
            None => {
                let of_block = f64::from(self.block);
                let column = emit.with(BinaryKind::Div, self.position, of_block)?;
                let columns = emit.shape(self.table)[1];
                let is_mapped = emit.compare(LogicalKind::Lesser, column, columns.into())?;
                let column = emit.clamp(column, Some(0.0), Some(f64::from(columns) - 1.0))?;
                let row = emit.with(BinaryKind::Mul, self.sequence, columns.into())?;
                let place = emit.add(row, column)?;
                let all = emit.reshape(self.table, &[self.batch * columns])?;
                let page = emit.gather(all, place, 0)?;
                let first = emit.with(BinaryKind::Mul, page, of_block)?;
                let whole = emit.with(BinaryKind::Div, self.position, of_block)?;
                let whole = emit.with(BinaryKind::Mul, whole, of_block)?;
                let within = emit.sub(self.position, whole)?;
                let slot = emit.add(first, within)?;
                let nowhere = emit.scalar(DataType::Int32, -f64::from(self.block))?;
                emit.select(is_mapped, slot, nowhere)?
            }
        };
        let is_some = emit.compare(LogicalKind::GreaterOrEqual, slots, 0.0)?;
        let is_inside = emit.compare(LogicalKind::Lesser, slots, self.slots.into())?;
        let is_slot = emit.logical(LogicalKind::LogicalAnd, is_some, is_inside)?;
        let after = emit.scalar(DataType::Int32, self.slots.into())?;
        let slots = emit.select(is_slot, slots, after)?;
        emit.reshape(slots, &[self.tokens, 1])
    }

    /// A cache [blocks, block, heads, size] with what is new [tokens, heads, size].
    fn written(&self, cache: OperandId, new: OperandId, slots: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let shape = emit.shape(cache);
        let row = [self.slots, shape[2], shape[3]];
        let all = emit.reshape(cache, &row)?;
        // One more row takes what goes nowhere.
        let spare = emit.slice_axis(all, 0, 0, 1)?;
        let all = emit.concat(vec![all, spare], 0)?;
        let all = emit.push(ScatterNd { input: all, indices: slots, updates: new })?;
        let all = emit.slice_axis(all, 0, 0, self.slots)?;
        emit.reshape(all, &shape)
    }

    /// The keys of all sequences, one after the other: [1, heads, batch * keys, size].
    fn read(&self, cache: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let shape = emit.shape(cache);
        let table = emit.clamp(self.table, Some(0.0), Some(f64::from(shape[0]) - 1.0))?;
        let pages = emit.gather(cache, table, 0)?;
        let keys = emit.shape(self.table)[1] * self.block;
        let rows = emit.reshape(pages, &[1, self.batch * keys, shape[2], shape[3]])?;
        emit.transpose(rows, &[0, 2, 1, 3])
    }

    /// A cache with new keys or values [1, heads, tokens, size], and what all sequences read of it as numbers.
    fn store(
        &self,
        new: OperandId,
        cache: OperandId,
        coding: Option<Coding>,
        slots: OperandId,
        emit: &mut Emit<'_>,
    ) -> Mapped<[OperandId; 2]> {
        let new = match coding {
            Some(coding) => coding.quantized(new, emit)?,
            None => emit.cast(new, emit.data_type(cache))?,
        };
        let rows = emit.transpose(new, &[0, 2, 1, 3])?;
        let rows = emit.reshape(rows, &emit.shape(rows)[1..])?;
        let held = self.written(cache, rows, slots, emit)?;
        let read = self.read(held, emit)?;
        let numbers = match coding {
            Some(coding) => coding.numbers(read, emit)?,
            None => wide(read, emit)?,
        };
        Ok([held, numbers])
    }

    /// Queries and keys [1, heads, tokens, size], some of whose channels are turned by the positions of their tokens.
    fn rotated(&self, node: &Node<'_>, inputs: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
        let width = emit.shape(inputs[1])[3];
        let (cos, sin) = (emit.input(node, 8)?, emit.input(node, 9)?);
        let channels = emit.shape(cos).last().copied().unwrap_or(0).saturating_mul(2);
        let interleaved = node.flag("rotary_interleaved", false)?;
        let offset = size(node.int("rotary_offset", 0)?)?;
        if offset.checked_add(channels).is_none_or(|end| end > width) {
            return Err(format!("rotary embedding of {channels} channels from {offset} on of {width}").into());
        }
        let positions = emit.reshape(self.rotary_position, &[1, self.tokens])?;
        let positions = emit.within(positions, &emit.shape(cos)[..1], Negative::Outside)?;
        let (cos, sin) = (angles(cos, positions, emit)?, angles(sin, positions, emit)?);
        let mut rotated = |input: OperandId| -> Mapped<OperandId> {
            if offset == 0 {
                return rotate(input, cos, sin, channels, interleaved, emit);
            }
            let (before, rest) = (emit.slice_axis(input, 3, 0, offset)?, emit.slice_axis(input, 3, offset, width - offset)?);
            let rest = rotate(rest, cos, sin, channels, interleaved, emit)?;
            emit.concat(vec![before, rest], 3)
        };
        Ok([rotated(inputs[0])?, rotated(inputs[1])?])
    }

    /// What hides from each token [1, 1, tokens, batch * keys] all but the keys of its sequence that it sees.
    fn bias(&self, node: &Node<'_>, of: DataType, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let columns = emit.shape(self.table)[1];
        let keys = columns * self.block;
        let position = emit.reshape(self.position, &[1, 1, self.tokens, 1, 1])?;
        let key = emit.positions(DataType::Int32, 5, 4, keys)?;
        let totals = emit.reshape(self.totals, &[1, 1, 1, self.batch, 1])?;
        let mut sees = emit.logical(LogicalKind::Lesser, key, totals)?;
        let sequences = emit.positions(DataType::Int32, 5, 3, self.batch)?;
        let own = emit.reshape(self.sequence, &[1, 1, self.tokens, 1, 1])?;
        let is_own = emit.logical(LogicalKind::Equal, sequences, own)?;
        sees = emit.logical(LogicalKind::LogicalAnd, sees, is_own)?;
        if node.flag("is_causal", true)? {
            let is_before = emit.logical(LogicalKind::LesserOrEqual, key, position)?;
            sees = emit.logical(LogicalKind::LogicalAnd, sees, is_before)?;
        }
        let window = node.int("local_window_size", -1)?;
        if window > 0 {
            let first = emit.with(BinaryKind::Sub, position, window.min(1 << 30) as f64)?;
            let is_near = emit.logical(LogicalKind::Greater, key, first)?;
            sees = emit.logical(LogicalKind::LogicalAnd, sees, is_near)?;
        }
        let is_page = emit.compare(LogicalKind::GreaterOrEqual, self.table, 0.0)?;
        let is_page = emit.cast(is_page, DataType::Int32)?;
        let is_page = emit.reshape(is_page, &[1, 1, 1, self.batch, columns, 1])?;
        let is_page = emit.expand(is_page, &[1, 1, 1, self.batch, columns, self.block])?;
        let is_page = emit.reshape(is_page, &[1, 1, 1, self.batch, keys])?;
        let is_mapped = emit.compare(LogicalKind::NotEqual, is_page, 0.0)?;
        sees = emit.logical(LogicalKind::LogicalAnd, sees, is_mapped)?;
        let sees = emit.reshape(sees, &[1, 1, self.tokens, self.batch * keys])?;
        bias_of_mask(sees, of, emit)
    }
}

/// Whether keys and values are one; attributes about the types of caches are checked, too.
fn is_latent(node: &Node<'_>) -> Mapped<bool> {
    for name in ["k_cache_dtype", "v_cache_dtype"] {
        let found = node.string(name, "")?;
        if !["", "float16", "bfloat16", "int8", "int4"].contains(&found.as_str()) {
            return Err(format!("the attribute {name} is {found:?}, allowed float16, bfloat16, int8 and int4").into());
        }
    }
    match node.string("kv_cache_layout", "SEPARATE")?.as_str() {
        "SEPARATE" => Ok(false),
        "LATENT" => Ok(true),
        other => Err(format!("the attribute kv_cache_layout is {other:?}, allowed SEPARATE and LATENT").into()),
    }
}

/// Queries and keys, normalized where the node has factors for that.
fn normalized(node: &Node<'_>, [query, key]: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
    match (emit.optional(node, 12)?, emit.optional(node, 13)?) {
        (None, None) => Ok([query, key]),
        (Some(of_query), Some(of_key)) => {
            let epsilon = node.float("qk_norm_epsilon", 1e-6)?;
            Ok([simplified(query, of_query, 3, epsilon, emit)?, simplified(key, of_key, 3, epsilon, emit)?])
        }
        _ => Err("a norm of queries without one of keys, or the other way round".into()),
    }
}

pub fn paged(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let [heads, key_heads] = heads(node)?;
    let is_latent = is_latent(node)?;
    let given = emit.input(node, 0)?;
    let of = emit.data_type(given);
    let (query, key, value) = match is_latent {
        true => (given, emit.input(node, 1)?, None),
        false => {
            let [query, key, value] = packed_or_apart(node, [heads, key_heads], emit)?;
            (query, key, Some(value))
        }
    };
    let &[tokens, _] = &emit.shape(query)[..] else { return Err("queries whose rank is not 2".into()) };
    // As one sequence [1, heads, tokens, size].
    let apart = |input: OperandId, heads: u32, emit: &mut Emit<'_>| -> Mapped<OperandId> {
        let one = emit.insert_axis(input, 0)?;
        split_heads(one, heads, emit)
    };
    let (mut query, mut key) = (apart(query, heads, emit)?, apart(key, key_heads, emit)?);
    let cache = emit.input(node, 3)?;
    let pages = Pages::new(node, tokens, &emit.shape(cache), emit)?;
    [query, key] = normalized(node, [query, key], emit)?;
    let width = emit.shape(key)[3];
    (query, key) = (wide(query, emit)?, wide(key, emit)?);
    if node.flag("do_rotary", false)? {
        [query, key] = pages.rotated(node, [query, key], emit)?;
    }
    let slots = pages.slots_of_tokens(node, emit)?;
    let kind = |node: &Node<'_>, kind: &str, dtype: &str, scale: usize, width: u32, emit: &mut Emit<'_>| {
        let bits = if node.string(dtype, "")? == "int4" { 4 } else { 8 };
        Coding::with_bits(node, kind, bits, scale, key_heads, width, emit)
    };
    let key_coding = kind(node, "k_quant_type", "k_cache_dtype", 14, width, emit)?;
    let [key_cache, keys] = pages.store(key, cache, key_coding, slots, emit)?;
    let mut outputs = vec![key_cache];
    let values = match value {
        Some(value) => {
            let value = apart(value, key_heads, emit)?;
            let value_cache = emit.input(node, 4)?;
            let value_coding = kind(node, "v_quant_type", "v_cache_dtype", 15, emit.shape(value)[3], emit)?;
            let [held, values] = pages.store(value, value_cache, value_coding, slots, emit)?;
            outputs.push(held);
            values
        }
        None => match size(node.int("v_head_size", 0)?)? {
            0 => keys,
            own if own <= width => emit.slice_axis(keys, 3, 0, own)?,
            own => return Err(format!("the attribute v_head_size is {own}, allowed 0 to the {width} channels of a key").into()),
        },
    };
    let bias = Some(pages.bias(node, DataType::Float32, emit)?);
    let scale = default_scale(node, query, emit)?;
    let attention = Attention { query, key: keys, value: values, scale, bias, softcap: node.float("softcap", 0.0)? };
    let result = match emit.optional(node, 11)? {
        Some(sink) => {
            let sink = emit.reshape(sink, &[1, heads, 1, 1])?;
            attention.with_sink(sink, emit)?
        }
        None => attention.emit(emit)?,
    };
    let joined = join_heads(result, emit)?;
    let joined = emit.reshape(joined, &emit.shape(joined)[1..])?;
    let mut all: Vec<Value> = vec![emit.cast(joined, of)?.into()];
    all.extend(outputs.into_iter().map(Value::from));
    Ok(all)
}
