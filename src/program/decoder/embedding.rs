//! Decoders that take embeddings in the place of tokens, as exports of models that see images do.
//!
//! - The graph of the model that embeds tokens stands before that of the decoder ([`Embedder::before`]). So steps take tokens, as those of
//!   others do, and what is embedded stays where steps run.
//! - Features of an image are embeddings that are given. They run in pieces of their own, by the decoder's graph alone.
//! - In a sequence each row of features has a number of its own, above those of tokens ([`Features`]). So prompts with the same image
//!   begin alike, and those with another one do not.

use super::Decoder;
use super::inputs::{Extent, Role};
use crate::error::{Error, Kind, Result};
use crate::graph::{DataType, Graph, OperandId, Source};
use crate::memory::Bytes;
use crate::onnx::Size;
use crate::program::Program;
use crate::program::caches::{Importing, refused};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

/// Numbers from here on are rows of features.
pub(super) const FIRST: u32 = 1 << 31;
/// Images that are recognized when they come again.
const MOST: usize = 4096;

/// A model that embeds tokens.
#[derive(Debug)]
pub struct Embedder {
    program: Arc<Program>,
}

/// Features that stand for the tokens of a number in prompts.
#[derive(Clone, Debug)]
pub struct Given {
    pub token: u32,
    pub bytes: Arc<Bytes>,
}

impl Embedder {
    /// # Errors
    /// `NotSupportedError` for a model that takes anything else than tokens.
    pub fn new(program: Arc<Program>) -> Result<Embedder> {
        let is_ids = |data_type| matches!(data_type, DataType::Int64 | DataType::Int32);
        match program.loaded.inputs() {
            [ids] if ids.form.is_tensor() && ids.shape.len() == 2 && is_ids(ids.data_type) => {}
            inputs => {
                let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
                let text = format!("found a model of embeddings with the inputs {names:?}, allowed one input of tokens");
                return Err(Error::new(Kind::NotSupported, text));
            }
        }
        Ok(Embedder { program })
    }

    /// A graph with the tokens in the place of their embeddings, which an input of that name has; and the bytes that its values may take besides.
    fn before(&self, graph: Graph, name: &str, tokens: usize) -> Result<(Graph, usize)> {
        let importing = Importing { program: &self.program, caches: &[], fixed: None };
        let mut part = importing.part(&[vec![1, tokens as u32]], Vec::new(), 0, tokens)?;
        let mut first = part.graph.take().ok_or_else(|| refused("found a model of embeddings without a graph"))?;
        self.program.share_weights(&mut first, false);
        let (Some((_, ids)), Some((_, embedded))) = (first.inputs.first().cloned(), first.outputs.first().cloned()) else {
            return Err(refused("found a model of embeddings that takes or gives nothing"));
        };
        let Some(taken) = graph.inputs.iter().find(|(input, _)| input == name).map(|(_, id)| *id) else {
            return Err(refused("found a decoder that does not read its embeddings"));
        };
        let (found, wanted) = (first.descriptor(embedded), graph.descriptor(taken));
        if found != wanted {
            return Err(refused(format!("found embeddings of {found}, allowed {wanted}, as the decoder takes them")));
        }
        let Graph { operands, nodes, inputs, outputs, shared, rounds_late, fp_math, hiding } = graph;
        let mut joined = Graph { inputs: Vec::new(), outputs: Vec::new(), shared, rounds_late, fp_math, hiding, ..first };
        joined.operands[ids.0 as usize].source = Source::Input { name: name.to_owned() };
        let before = joined.nodes.len() as u32;
        let mut names = Vec::with_capacity(operands.len());
        for (position, mut operand) in operands.into_iter().enumerate() {
            if position == taken.0 as usize {
                names.push(embedded);
                continue;
            }
            if let Source::Node { node, .. } = &mut operand.source {
                *node += before;
            }
            names.push(OperandId(joined.operands.len() as u32));
            joined.operands.push(operand);
        }
        let name_of = |id: OperandId| names[id.0 as usize];
        for mut node in nodes {
            node.op.visit_mut(&mut |id| *id = name_of(*id));
            node.outputs.iter_mut().for_each(|id| *id = name_of(*id));
            joined.nodes.push(node);
        }
        joined.inputs = inputs.into_iter().map(|(name, id)| (name, if id == taken { ids } else { name_of(id) })).collect();
        joined.outputs = outputs.into_iter().map(|(name, id)| (name, name_of(id))).collect();
        Ok((joined, part.most_bytes))
    }
}

/// The numbers of rows of features.
#[derive(Debug, Default)]
pub struct Features {
    /// Rows that have one.
    used: u32,
    /// In the order in which they were used.
    images: Vec<Image>,
    /// There are no more numbers: what has one may be something else by now.
    is_worn: bool,
}

#[derive(Debug)]
struct Image {
    identity: u128,
    first: u32,
    rows: u32,
    /// A call that runs has it.
    bytes: Weak<Bytes>,
}

impl Features {
    /// The number of the first row. The same bytes have the same, and calls at a time have them once.
    fn number(&mut self, bytes: &mut Arc<Bytes>, rows: u32) -> u32 {
        let identity = crate::memory::identity(bytes);
        let known = self.images.iter().position(|image| image.identity == identity && image.rows == rows);
        let mut image = match known {
            Some(position) => self.images.remove(position),
            None => {
                if self.used.checked_add(rows).is_none_or(|used| used >= FIRST) {
                    (self.used, self.is_worn) = (0, true);
                }
                let first = FIRST + self.used;
                self.used += rows;
                Image { identity, first, rows, bytes: Weak::new() }
            }
        };
        match image.bytes.upgrade() {
            Some(there) => *bytes = there,
            None => image.bytes = Arc::downgrade(bytes),
        }
        let first = image.first;
        if self.images.len() >= MOST {
            self.images.remove(0);
        }
        self.images.push(image);
        first
    }

    /// The bytes of rows one after the other.
    fn rows(&self, ids: &[u32], row: usize) -> Result<Bytes> {
        let missing = || Error::new(Kind::Operation, "no such features (internal error)");
        let mut bytes = Bytes::zeroed(ids.len() * row)?;
        for (&id, into) in ids.iter().zip(bytes.chunks_exact_mut(row.max(1))) {
            // The latest, where numbers are used again.
            let has = |image: &&Image| id.checked_sub(image.first).is_some_and(|at| at < image.rows);
            let image = self.images.iter().rev().find(has).ok_or_else(missing)?;
            let all = image.bytes.upgrade().ok_or_else(missing)?;
            let first = (id - image.first) as usize * row;
            into.copy_from_slice(all.get(first..first + row).ok_or_else(missing)?);
        }
        Ok(bytes)
    }
}

impl Decoder {
    fn features(&self) -> MutexGuard<'_, Features> {
        // A number is there when its image is.
        self.features.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what is kept can be trusted: numbers of features are not used twice.
    pub(super) fn can_keep(&self) -> bool {
        !self.features().is_worn
    }

    /// A graph of the decoder for a step, and the bytes that its values may take.
    pub(super) fn embedded(&self, (graph, most_bytes): (Graph, usize), extent: &Extent) -> Result<(Graph, usize)> {
        let embeds = self.roles.inputs.iter().find(|(role, _)| *role == Role::Embeddings);
        match (&self.embedder, embeds) {
            (Some(embedder), Some((_, input))) if !extent.takes_features => {
                let (graph, more) = embedder.before(graph, &input.name, extent.tokens)?;
                Ok((graph, most_bytes.saturating_add(more)))
            }
            _ => Ok((graph, most_bytes)),
        }
    }

    /// The bytes of an embedding.
    fn row(&self) -> Option<usize> {
        let (_, input) = self.roles.inputs.iter().find(|(role, _)| *role == Role::Embeddings)?;
        match input.shape.last()? {
            Size::Known(size) => input.data_type.byte_length(*size as usize),
            _ => None,
        }
    }

    /// Puts the numbers of features in the place of tokens that stand for them, in their order.
    ///
    /// # Errors
    /// `TypeError` where there are more or fewer rows than such tokens.
    pub(super) fn place_features(&self, prompts: &mut [Vec<u32>], given: &mut [Given]) -> Result<()> {
        let refuse = |found: String, allowed: &str| Error::argument("features", found, allowed);
        let row = self.row().filter(|row| *row > 0 && self.embedder.is_some());
        for Given { token, bytes } in given.iter_mut() {
            let row = row.ok_or_else(|| refuse("features".into(), "none without a model that embeds tokens (embed)"))?;
            if bytes.len() % row != 0 {
                return Err(refuse(format!("{} bytes", bytes.len()), &format!("{row} bytes for each embedding")));
            }
            let rows = bytes.len() / row;
            let places: Vec<&mut u32> = prompts.iter_mut().flatten().filter(|id| **id == *token).take(rows).collect();
            if places.len() < rows {
                return Err(refuse(format!("{rows} rows for {} tokens {token}", places.len()), "as many"));
            }
            if rows > 0 {
                let first = self.features().number(bytes, rows as u32);
                places.into_iter().zip(first..).for_each(|(place, number)| *place = number);
            }
        }
        let is_left = |id: &&u32| given.iter().any(|features| features.token == **id);
        match prompts.iter().flatten().filter(is_left).count() {
            0 => Ok(()),
            left => Err(refuse(format!("{left} tokens without features"), "a row for each")),
        }
    }

    /// The embeddings of features.
    pub(super) fn feature_rows(&self, ids: &[u32]) -> Result<Bytes> {
        let row = self.row().unwrap_or_default();
        self.features().rows(ids, row)
    }
}

/// How many of the first ones are of the same kind: tokens, or rows of features.
pub(super) fn of_a_kind(pending: &[u32]) -> usize {
    let is_row = |id: &u32| *id >= FIRST;
    pending.iter().take_while(|id| is_row(id) == pending.first().is_some_and(is_row)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &[u8]) -> Arc<Bytes> {
        Arc::new(Bytes::copy_of(text).unwrap())
    }

    #[test]
    fn the_same_features_have_the_same_numbers() {
        let mut features = Features::default();
        let (mut one, mut other, mut same) = (bytes(b"abcdef"), bytes(b"ghi"), bytes(b"abcdef"));
        let numbers = [(&mut one, 2), (&mut other, 1), (&mut same, 2)].map(|(bytes, rows)| features.number(bytes, rows));
        assert_eq!(numbers, [FIRST, FIRST + 2, FIRST]);
        assert!(Arc::ptr_eq(&one, &same));
        drop(one);
        assert_eq!(features.rows(&[FIRST + 1, FIRST + 2, FIRST], 3).unwrap()[..], *b"defghiabc");
        assert!(features.rows(&[FIRST + 3], 3).is_err());
        // Nobody has them any more, and then again.
        drop(same);
        assert!(features.rows(&[FIRST], 3).is_err());
        assert_eq!(features.number(&mut bytes(b"abcdef"), 2), FIRST);
    }

    #[test]
    fn numbers_end() {
        let mut features = Features { used: FIRST - 2, ..Features::default() };
        assert_eq!((features.number(&mut bytes(b"a"), 1), features.is_worn), (u32::MAX - 1, false));
        assert_eq!((features.number(&mut bytes(b"b"), 1), features.is_worn), (FIRST, true));
        for i in 0..MOST as u32 + 3 {
            features.number(&mut bytes(&i.to_le_bytes()), 1);
        }
        assert_eq!(features.images.len(), MOST);
    }

    #[test]
    fn pieces_have_one_kind() {
        assert_eq!([of_a_kind(&[]), of_a_kind(&[1, 2, FIRST]), of_a_kind(&[FIRST, FIRST + 9, 3])], [0, 2, 2]);
    }
}
