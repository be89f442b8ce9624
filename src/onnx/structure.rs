//! How much memory the structure of a model will take, found out before any of it is taken.
//!
//! An empty message is two bytes in a file and hundreds in memory, so a small file could ask for a lot. This walk visits
//! the messages that [`super::protobuf`] has, allocates nothing, and refuses what no real model comes near.

use super::protobuf::*;
use crate::error::{Error, Kind, Result};
use crate::memory;
use std::mem::size_of;

/// Half a million nodes with names and attributes fit in.
const MOST: usize = 512 << 20;

#[derive(Clone, Copy)]
enum Message {
    Model,
    Function,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    ContentType,
    TensorType,
    Shape,
    Leaf,
}

use Message::*;

impl Message {
    /// The message in a field, and the bytes that one takes in memory.
    fn nested(self, field: usize) -> Option<(Message, usize)> {
        Some(match (self, field) {
            (Model, 7) => (Graph, size_of::<GraphProto>()),
            (Model, 25) => (Function, size_of::<FunctionProto>()),
            (Model, 8) | (Function, 9) => (Leaf, size_of::<OperatorSetIdProto>()),
            (Function, 7) | (Graph, 1) => (Node, size_of::<NodeProto>()),
            (Function, 11) | (Node, 5) => (Attribute, size_of::<AttributeProto>()),
            (Graph, 5) | (Attribute, 5) | (SparseTensor, 1 | 2) => (Tensor, size_of::<TensorProto>()),
            (Graph, 11 | 12) => (ValueInfo, size_of::<ValueInfoProto>()),
            (Graph, 15) | (Attribute, 22) => (SparseTensor, size_of::<SparseTensorProto>()),
            (Tensor, 13) | (Model, 14) => (Leaf, size_of::<StringStringEntryProto>()),
            (ValueInfo, 2) => (Type, 0),
            (ContentType, 1) => (Type, 0),
            (Type, 1) => (TensorType, 0),
            (TensorType, 2) => (Shape, 0),
            (Shape, 1) => (Leaf, size_of::<DimensionProto>()),
            _ => return None,
        })
    }

    /// Bytes that the value of another field takes: a string or a piece of bytes beside its contents, and a packed list,
    /// whose numbers may be one byte each, as 64-bit numbers.
    fn plain(self, field: usize, length: usize) -> usize {
        match (self, field) {
            (Tensor, 1) | (Attribute, 7 | 8) | (SparseTensor, 3) => length.saturating_mul(8),
            // The contents of large fields stay where they are.
            (Tensor, _) | (Attribute, _) => 64,
            _ => length.saturating_add(64),
        }
    }
}

/// # Errors
/// `TypeError` when the bytes are no protobuf message, or one that would take too much memory, `UnknownError` when that much
/// cannot be had.
pub fn check(model: &[u8]) -> Result<()> {
    let mut cost = 0;
    walk(Model, model, &mut cost)?;
    // Decoding allocates it in pieces, and what is made for each node takes about as much again.
    memory::require(2 * cost)
}

/// The same for a graph within a node, of which less is expected.
pub fn check_graph(graph: &[u8]) -> Result<()> {
    let mut cost = MOST - MOST / 8;
    walk(Graph, graph, &mut cost)
}

/// The same for what a sequence or an optional value contains.
pub fn check_content(content: &[u8]) -> Result<()> {
    let mut cost = MOST - MOST / 64;
    walk(ContentType, content, &mut cost)
}

/// The recursion ends: no message contains itself.
fn walk(message: Message, mut rest: &[u8], cost: &mut usize) -> Result<()> {
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let field = key >> 3;
        match key & 7 {
            0 => {
                varint(&mut rest)?;
                *cost += 8;
            }
            1 => skip(&mut rest, 8, cost)?,
            5 => skip(&mut rest, 4, cost)?,
            2 => {
                let length = varint(&mut rest)?;
                let (value, others) = rest.split_at_checked(length).ok_or_else(truncated)?;
                rest = others;
                match message.nested(field) {
                    Some((nested, size)) => {
                        *cost += size;
                        walk(nested, value, cost)?;
                    }
                    None => *cost = cost.saturating_add(message.plain(field, length)),
                }
            }
            kind => return Err(no_message(format!("a field of the unknown wire type {kind}"))),
        }
        if *cost > MOST {
            return Err(malformed(format!("its structure would take more than {MOST} bytes of memory")));
        }
    }
    Ok(())
}

fn skip(rest: &mut &[u8], length: usize, cost: &mut usize) -> Result<()> {
    *rest = rest.get(length..).ok_or_else(truncated)?;
    *cost += 8;
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Result<usize> {
    prost::decode_length_delimiter(&mut *rest).map_err(|_| truncated())
}

fn truncated() -> Error {
    no_message("it is truncated, or something else")
}

/// The error of bytes that cannot be decoded. `lib/onnxruntime/load.js` knows it by these words, since onnxruntime has others.
pub fn no_message(what: impl std::fmt::Display) -> Error {
    malformed(format!("no protobuf message: {what}"))
}

/// The error of a file that is no valid model.
pub fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Type, format!("not a valid ONNX model: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_messages_are_counted() {
        let nodes = b"\x0a\x00".repeat(1 << 20);
        let mut model = b"\x3a".to_vec();
        prost::encode_length_delimiter(nodes.len(), &mut model).unwrap();
        model.extend(&nodes);
        assert!(check(&model).is_ok());
        let nodes = b"\x0a\x00".repeat(1 << 22);
        let mut model = b"\x3a".to_vec();
        prost::encode_length_delimiter(nodes.len(), &mut model).unwrap();
        model.extend(&nodes);
        assert!(check(&model).unwrap_err().message().contains("memory"));
    }

    #[test]
    fn garbage_is_refused() {
        for bytes in [&b"\xff"[..], b"\x3a\x05ab", b"\x3b", b"\x09\x00", &[0xff; 32]] {
            assert!(check(bytes).is_err(), "{bytes:?}");
        }
    }
}
