//! How much memory the structure of a model will take, found out before any of it is taken.
//!
//! An empty message is two bytes in a file and hundreds in memory, so a small file could ask for a lot. This walk visits
//! the messages that [`super::protobuf`] has, allocates nothing, and refuses what no real model comes near.

use super::protobuf::*;
use crate::error::{Error, Kind, Result};
use crate::memory::{self, Pin, Place, WORTH_GIVING_BACK, pin};
use bytes::Bytes;
use std::mem::size_of;
use std::ops::Range;

/// What graphs within nodes may take, of which less is expected.
const MOST_OF_GRAPH: usize = 64 << 20;
const MOST_OF_CONTENT: usize = 8 << 20;

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

    /// Bytes that the value of another field takes: a string or a piece of bytes beside its contents, and the numbers of a packed list.
    fn plain(self, field: usize, value: &[u8]) -> usize {
        let integers = || value.iter().filter(|byte| **byte < 128).count().saturating_mul(size_of::<i64>());
        match (self, field) {
            (Tensor, 1) | (Attribute, 8) | (SparseTensor, 3) => integers(),
            (Attribute, 7) => value.len(),
            // The contents of large fields stay where they are.
            (Attribute, 9) => size_of::<Bytes>(),
            (Tensor, _) | (Attribute, _) => 64,
            _ => value.len().saturating_add(64),
        }
    }
}

/// # Errors
/// `TypeError` when the bytes are no protobuf message, `OperationError` for one that would take more than `most` bytes of memory,
/// `UnknownError` when that much cannot be had.
pub fn check(model: &[u8], most: usize) -> Result<()> {
    let mut cost = Cost { bytes: 0, most };
    visit(Model, model, &mut cost)?;
    // Decoding allocates it in pieces, and what is made for each node takes about as much again.
    memory::require(cost.bytes.saturating_mul(2))
}

/// What was found so far.
struct Cost {
    bytes: usize,
    most: usize,
}

impl Cost {
    fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.most {
            return Ok(());
        }
        let message = format!(
            "the nodes and attributes of the model would take more than the {} bytes of memory that a model of its size is allowed; a \
             larger maxBytes allows more",
            self.most
        );
        Err(Error::new(Kind::Operation, message))
    }
}

/// Reads a model that may be a file, but for the data of large tensors. What is no message is read whole: checking it will tell.
///
/// # Errors
/// Those of [`pin`].
pub fn read(model: &[u8]) -> Result<Vec<Pin>> {
    let place = Place::of(model);
    let part = |range: Range<usize>| Place { start: place.start + range.start, length: range.len() };
    let mut window = Window { model, part: &part, there: 0..0, pins: Vec::new() };
    if window.pin(0..WINDOW.min(model.len()))?.is_none() {
        return Ok(Vec::new());
    }
    let mut large = Vec::new();
    if !window.visit(Model, 0..model.len(), &mut large)? {
        large.clear();
    }
    let ends = large.iter().map(|range| range.end);
    let starts = large.iter().map(|range| range.start).chain([model.len()]);
    let others = [0].into_iter().chain(ends).zip(starts).filter(|(first, end)| first < end);
    // What the window had stays until all has a pin.
    others.filter_map(|(first, end)| pin(part(first..end)).transpose()).collect()
}

/// As many bytes of a file are read ahead where its structure is looked at in their order.
const WINDOW: usize = 64 << 10;
/// And so many behind data that was skipped: most often that of the next tensor follows soon.
const AFTER_DATA: usize = 1 << 10;

/// Bytes of a model that are looked at before all of its structure is there.
struct Window<'a> {
    model: &'a [u8],
    part: &'a dyn Fn(Range<usize>) -> Place,
    there: Range<usize>,
    pins: Vec<Pin>,
}

impl Window<'_> {
    fn pin(&mut self, range: Range<usize>) -> Result<Option<()>> {
        let Some(pin) = pin((self.part)(range.clone()))? else { return Ok(None) };
        self.pins.push(pin);
        self.there = range;
        Ok(Some(()))
    }

    /// A number, and where what follows begins; nothing where there is none.
    fn varint(&mut self, at: usize, end: usize) -> Result<Option<(usize, usize)>> {
        /// A number of 64 bits has no more bytes.
        const LONGEST: usize = 10;
        let needed = at..end.min(at + LONGEST);
        if needed.start < self.there.start || needed.end > self.there.end {
            let ahead = if self.there.end + AFTER_DATA < at { AFTER_DATA } else { WINDOW };
            self.pin(at..self.model.len().min(at + ahead))?;
        }
        let mut rest = &self.model[needed.clone()];
        let Ok(number) = varint(&mut rest) else { return Ok(None) };
        Ok(Some((number, needed.end - rest.len())))
    }

    /// Adds where the data of large tensors is, in the order of the file. The recursion ends as in [`visit`]. Tells whether it is a message.
    fn visit(&mut self, message: Message, range: Range<usize>, large: &mut Vec<Range<usize>>) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let Some((key, after)) = self.varint(at, range.end)? else { return Ok(false) };
            let next = match key & 7 {
                0 => self.varint(after, range.end)?.map(|(_, after)| after),
                1 => Some(after + 8),
                5 => Some(after + 4),
                2 => match self.varint(after, range.end)? {
                    Some((length, first)) if length <= range.end - first => {
                        let value = first..first + length;
                        match message.nested(key >> 3) {
                            _ if matches!((message, key >> 3), (Tensor, 9)) && length >= WORTH_GIVING_BACK => {
                                large.push(value.clone())
                            }
                            Some((nested, _)) if !self.visit(nested, value.clone(), large)? => return Ok(false),
                            _ => {}
                        }
                        Some(value.end)
                    }
                    _ => None,
                },
                _ => None,
            };
            let Some(next) = next.filter(|next| *next <= range.end) else { return Ok(false) };
            at = next;
        }
        Ok(true)
    }
}

/// The same for a graph within a node, of which less is expected.
pub fn check_graph(graph: &[u8]) -> Result<()> {
    visit(Graph, graph, &mut Cost { bytes: 0, most: MOST_OF_GRAPH })
}

/// The same for what a sequence or an optional value contains.
pub fn check_content(content: &[u8]) -> Result<()> {
    visit(ContentType, content, &mut Cost { bytes: 0, most: MOST_OF_CONTENT })
}

/// The recursion ends: no message contains itself.
fn visit(message: Message, mut rest: &[u8], cost: &mut Cost) -> Result<()> {
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let field = key >> 3;
        match key & 7 {
            0 => {
                varint(&mut rest)?;
                cost.add(8)?;
            }
            1 => skip(&mut rest, 8, cost)?,
            5 => skip(&mut rest, 4, cost)?,
            2 => {
                let length = varint(&mut rest)?;
                let (value, others) = rest.split_at_checked(length).ok_or_else(truncated)?;
                rest = others;
                match message.nested(field) {
                    Some((nested, size)) => {
                        cost.add(size)?;
                        visit(nested, value, cost)?;
                    }
                    None => cost.add(message.plain(field, value))?,
                }
            }
            kind => return Err(no_message(format!("a field of the unknown wire type {kind}"))),
        }
    }
    Ok(())
}

fn skip(rest: &mut &[u8], length: usize, cost: &mut Cost) -> Result<()> {
    *rest = rest.get(length..).ok_or_else(truncated)?;
    cost.add(8)
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

    /// A message with one field that has these bytes.
    fn within(field: u8, bytes: &[u8]) -> Vec<u8> {
        let mut message = vec![field << 3 | 2];
        prost::encode_length_delimiter(bytes.len(), &mut message).unwrap();
        message.extend(bytes);
        message
    }

    #[test]
    fn empty_messages_are_counted() {
        let model = |nodes: usize| within(7, &b"\x0a\x00".repeat(nodes));
        let most = 1000 * size_of::<NodeProto>() + size_of::<GraphProto>();
        assert!(check(&model(1000), most).is_ok());
        let error = check(&model(1001), most).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert!(error.message().contains(&most.to_string()) && error.message().contains("maxBytes"), "{error}");
    }

    /// A number of a list counts as what is kept of it, and a string as one, whatever is said of it elsewhere.
    #[test]
    fn lists_count_as_what_is_kept() {
        let around = size_of::<GraphProto>() + size_of::<NodeProto>() + size_of::<AttributeProto>();
        let of = |attribute: &[u8]| within(7, &within(1, &within(5, attribute)));
        // Three numbers of three bytes each, three of one, two floats, and two strings.
        for (attribute, bytes) in [
            (within(8, &[0x80u8, 0x80, 1].repeat(3)), 24),
            (within(8, &[1; 3]), 24),
            (within(7, &[0; 8]), 8),
            ([within(9, b"LEAF"), within(9, b"BRANCH_LEQ")].concat(), 2 * size_of::<Bytes>()),
        ] {
            assert!(check(&of(&attribute), around + bytes).is_ok(), "{attribute:?}");
            assert!(check(&of(&attribute), around + bytes - 1).is_err(), "{attribute:?}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        for bytes in [&b"\xff"[..], b"\x3a\x05ab", b"\x3b", b"\x09\x00", &[0xff; 32]] {
            assert!(check(bytes, usize::MAX).is_err(), "{bytes:?}");
        }
    }
}
