//! Decoders that take embeddings in the place of tokens, as exports of models that see images do.
//!
//! - The graph of the model that embeds tokens stands before that of the decoder ([`Embedder::before`]). So steps take tokens, as those of
//!   others do, and what is embedded stays where steps run.
//! - Features of an image are embeddings that are given. They run in pieces of their own, by the decoder's graph alone. What else the model makes of
//!   tokens is that of the tokens in whose place they are.
//! - A model may take features besides tokens, and put them in the place of some tokens ([`crate::onnx::placed_features`]). Then the part of it
//!   that takes tokens alone stands before the decoder's graph, and features are given as above. These tokens may be negative.
//! - In a sequence each row of features has a number of its own, above those of tokens ([`super::features`]). So prompts with the same image
//!   begin alike, and those with another one do not.

use super::Decoder;
use super::features::{FIRST, Features, Grid, Looks, rows_of};
use super::inputs::{Extent, Role};
use crate::error::{Error, Kind, Result};
use crate::graph::{DataType, Graph, OperandId, Source};
use crate::memory::Bytes;
use crate::onnx::placed_features::{self, Found, PlacedFeatures, Placeholders};
use crate::onnx::{OpenInput, Part, Size, Tensor};
use crate::program::Program;
use crate::program::caches::{Importing, refused};
use std::sync::{Arc, MutexGuard, PoisonError};

/// A model that embeds tokens.
#[derive(Debug)]
pub struct Embedder {
    program: Arc<Program>,
    /// The part that takes tokens alone, of one that takes features as well.
    placed: Option<PlacedFeatures>,
}

/// Features that stand for the tokens of a number in prompts.
#[derive(Clone, Debug)]
pub struct Given {
    /// The bits of the number, which may be negative.
    pub token: u32,
    pub bytes: Arc<Bytes>,
    /// How the rows lie in images or films, one after the other, for positions of several axes.
    pub grids: Vec<Grid>,
}

impl Embedder {
    /// # Errors
    /// `NotSupportedError` for a model that takes anything else than tokens, or that does not put all of what it takes in the place of tokens.
    pub fn new(program: Arc<Program>) -> Result<Embedder> {
        let is_ids = |data_type| matches!(data_type, DataType::Int64 | DataType::Int32);
        if let [ids] = program.loaded.inputs()
            && ids.form.is_tensor()
            && ids.shape.len() == 2
            && is_ids(ids.data_type)
        {
            return Ok(Embedder { program, placed: None });
        }
        let (placed, other) = match placed_features::find(&program.loaded, &program.bounds)? {
            Found::Placed(placed) => (Some(placed), None),
            Found::Other(node) => (None, node),
        };
        let embedder = Embedder { program, placed };
        match &embedder.placed {
            Some(placed) => embedder.require_rows(placed)?,
            None => {
                let names: Vec<&str> = embedder.program.loaded.inputs().iter().map(|input| input.name.as_str()).collect();
                let place = other.map_or_else(String::new, |node| format!(", and {node}"));
                let text = format!(
                    "found a model of embeddings with the inputs {names:?}{place}, allowed one input of tokens, and features that take the \
                     place of tokens"
                );
                return Err(Error::new(Kind::NotSupported, text));
            }
        }
        Ok(embedder)
    }

    /// The tokens in whose place features are, if the model says it.
    fn placeholders(&self) -> &[Placeholders] {
        self.placed.as_ref().map_or(&[], |placed| &placed.placeholders)
    }

    /// The input of tokens.
    fn ids(&self) -> &OpenInput {
        &self.program.loaded.inputs()[self.placed.as_ref().map_or(0, |placed| placed.tokens)]
    }

    /// The graph for so many tokens, perhaps known ones, with values that are asked for.
    fn part(&self, tokens: usize, known: Vec<(String, Tensor)>, asked: &[&str]) -> Result<Part> {
        let ids = self.ids();
        // Features are not read, whatever their sizes.
        let size_of = |size: &Size| match size {
            Size::Known(size) => *size,
            size => ids.shape.iter().zip([1, tokens as u32]).find(|(own, _)| *own == size).map_or(1, |(_, size)| size),
        };
        let shape_of = |input: &OpenInput| match input.name == ids.name {
            true => vec![1, tokens as u32],
            false => input.shape.iter().map(size_of).collect(),
        };
        let shapes: Vec<Vec<u32>> = self.program.loaded.inputs().iter().map(shape_of).collect();
        let instead = self.placed.as_ref().map(|placed| (&placed.graph, asked));
        Importing { program: &self.program, caches: &[], fixed: None, instead }.part(&shapes, known, 0, tokens)
    }

    /// Requires that features are whole rows, and in the order of the tokens: looks where the model puts them among three tokens.
    fn require_rows(&self, placed: &PlacedFeatures) -> Result<()> {
        let outputs = self.outputs()?;
        for Placeholders { tokens, places } in &placed.placeholders {
            // One that is in no other place: the embeddings of some may be nowhere.
            let (Some(token), Some(other)) = (tokens.smallest(), tokens.not().smallest()) else { continue };
            let ids = [token, other, token];
            let known = Tensor::from_integers(self.ids().element(), vec![1, ids.len()], &ids);
            let part = self.part(ids.len(), vec![(self.ids().name.clone(), known)], &[places])?;
            let widths = part.outputs.iter().filter(|output| outputs.contains(&output.name)).map(|output| output.shape.last());
            // The places of whole rows, or of each of their elements.
            let found = part.asked.first().cloned().flatten();
            let is_whole = |width: &u32| {
                let elements =
                    [0, 2].into_iter().flat_map(|row| (0..i64::from(*width)).flat_map(move |element| [0, row, element]));
                found.as_ref().is_some_and(|found| match found.shape[..] {
                    [2, 2] => found.integers() == [0, 0, 0, 2],
                    [count, 3] => count == 2 * *width as usize && found.integers().into_iter().eq(elements),
                    _ => false,
                })
            };
            if !widths.flatten().any(is_whole) {
                let text =
                    format!("found a model of embeddings that does not put whole rows in the place of the tokens {tokens}");
                return Err(Error::new(Kind::NotSupported, text));
            }
        }
        Ok(())
    }

    /// What it makes of tokens.
    ///
    /// # Errors
    /// Where the file does not say.
    pub fn outputs(&self) -> Result<Vec<String>> {
        Ok(self.program.loaded.outputs()?.iter().map(|output| output.name.clone()).collect())
    }

    /// The outputs of its graph that inputs of a decoder's graph take, in their order.
    fn taken(first: &Graph, graph: &Graph, names: &[&str]) -> Result<Vec<(OperandId, OperandId)>> {
        let mut taken = Vec::with_capacity(names.len());
        for name in names {
            let Some((_, input)) = graph.inputs.iter().find(|(input, _)| input == name) else { continue };
            let own = first.outputs.iter().find(|(output, _)| output == name);
            // The only one may have any name.
            let made = own.or(first.outputs.first().filter(|_| first.outputs.len() == 1));
            let (_, made) = made.ok_or_else(|| refused(format!("found a model of embeddings without the output {name:?}")))?;
            taken.push((*input, *made));
        }
        for (taken, made) in &taken {
            let (found, wanted) = (first.descriptor(*made), graph.descriptor(*taken));
            if found != wanted {
                return Err(refused(format!("found embeddings of {found}, allowed {wanted}, as the decoder takes them")));
            }
        }
        Ok(taken)
    }

    /// A graph with the tokens in the place of what is made of them: of inputs of these names, the first of which then takes the tokens. With the
    /// bytes that its values may take besides.
    fn before(&self, graph: Graph, names: &[&str], tokens: usize) -> Result<(Graph, usize)> {
        let mut part = self.part(tokens, Vec::new(), &[])?;
        let mut first = part.graph.take().ok_or_else(|| refused("found a model of embeddings without a graph"))?;
        self.program.share_weights(&mut first, false);
        let Some((_, ids)) = first.inputs.first().cloned() else {
            return Err(refused("found a model of embeddings that does not read the tokens"));
        };
        let taken = Embedder::taken(&first, &graph, names)?;
        let Some(&(slot, _)) = taken.first() else {
            return Err(refused("found a decoder that does not read its embeddings"));
        };
        let made_for = |id: OperandId| taken.iter().find(|(taken, _)| *taken == id).map(|(_, made)| *made);
        let Graph { operands, nodes, inputs, outputs, shared, rounds_late, fp_math, hiding } = graph;
        let mut joined = Graph { inputs: Vec::new(), outputs: Vec::new(), shared, rounds_late, fp_math, hiding, ..first };
        let slot_name = inputs.iter().find(|(_, id)| *id == slot).map(|(name, _)| name.clone()).unwrap_or_default();
        joined.operands[ids.0 as usize].source = Source::Input { name: slot_name };
        let before = joined.nodes.len() as u32;
        let mut names = Vec::with_capacity(operands.len());
        for (position, mut operand) in operands.into_iter().enumerate() {
            if let Some(made) = made_for(OperandId(position as u32)) {
                names.push(made);
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
        let is_left = |(_, id): &(String, OperandId)| *id == slot || made_for(*id).is_none();
        let input_of = |(name, id)| (name, if id == slot { ids } else { name_of(id) });
        joined.inputs = inputs.into_iter().filter(is_left).map(input_of).collect();
        joined.outputs = outputs.into_iter().map(|(name, id)| (name, name_of(id))).collect();
        Ok((joined, part.most_bytes))
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
        // The embeddings first, unless they are given.
        let roles =
            [Role::Embeddings, Role::Embedded].into_iter().filter(|role| *role == Role::Embedded || !extent.takes_features);
        let inputs = roles.flat_map(|role| self.roles.inputs.iter().filter(move |(other, _)| *other == role));
        let names: Vec<&str> = inputs.map(|(_, input)| input.name.as_str()).collect();
        match &self.embedder {
            Some(embedder) if !names.is_empty() => {
                let (graph, more) = embedder.before(graph, &names, extent.tokens)?;
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
        let has_axes = self.roles.has_axes();
        let placeholders = self.embedder.as_ref().map_or(&[][..], Embedder::placeholders);
        // Those whose place is something else's: negative ones are no tokens of the model.
        let stands = |id: u32| id >= FIRST || placeholders.iter().any(|all| all.tokens.contains(number_of(id)));
        let is_placeholder = |id: u32| stands(id) || given.iter().any(|features| features.token == id);
        let mut left: Vec<&mut u32> = prompts.iter_mut().flatten().filter(|id| is_placeholder(**id)).collect();
        for Given { token, bytes, grids } in given.iter_mut() {
            if !placeholders.is_empty() && !placeholders.iter().any(|all| all.tokens.contains(number_of(*token))) {
                let allowed: Vec<String> = placeholders.iter().map(|all| all.tokens.to_string()).collect();
                return Err(refuse(
                    format!("features for the token {}", number_of(*token)),
                    &format!("{}, as the model of embeddings has it", allowed.join(", ")),
                ));
            }
            let row = row.ok_or_else(|| refuse("features".into(), "none without a model that embeds tokens (embed)"))?;
            if bytes.len() % row != 0 {
                return Err(refuse(format!("{} bytes", bytes.len()), &format!("{row} bytes for each embedding")));
            }
            let rows = bytes.len() / row;
            require_grids(grids, rows, has_axes)?;
            let mut places = Vec::new();
            left = left
                .into_iter()
                .filter_map(|id| {
                    if *id == *token && places.len() < rows {
                        places.push(id);
                        None
                    } else {
                        Some(id)
                    }
                })
                .collect();
            if places.len() < rows {
                return Err(refuse(format!("{rows} rows for {} tokens {}", places.len(), number_of(*token)), "as many"));
            }
            if rows > 0 {
                let first = self.features().number(bytes, Looks { token: *token, rows: rows as u32, grids: grids.clone() });
                places.into_iter().zip(first..).for_each(|(place, number)| *place = number);
            }
        }
        match left.len() {
            0 => Ok(()),
            left => Err(refuse(format!("{left} tokens without features"), "a row for each")),
        }
    }

    /// The embeddings of features.
    pub(super) fn feature_rows(&self, ids: &[u32]) -> Result<Bytes> {
        let row = self.row().unwrap_or_default();
        self.features().rows(ids, row)
    }

    /// The tokens in whose place features are.
    pub(super) fn tokens_of_features(&self, ids: &[u32]) -> Result<Vec<i64>> {
        Ok(self.features().tokens(ids)?.into_iter().map(number_of).collect())
    }

    /// The positions of tokens behind others, on each axis one after the other.
    pub(super) fn positions(&self, before: &[u32], ids: &[u32]) -> Result<Vec<i64>> {
        self.features().positions(before, ids).map(|axes| axes.concat())
    }
}

/// The number of a token, of its bits.
fn number_of(token: u32) -> i64 {
    token.cast_signed().into()
}

/// # Errors
/// `TypeError` where positions have several axes and grids do not say where each row is, or where nothing reads them.
fn require_grids(grids: &[Grid], rows: usize, has_axes: bool) -> Result<()> {
    let counted = grids.iter().fold(0, |all: u64, grid| all.saturating_add(rows_of(*grid)));
    let (found, allowed) = match (has_axes, grids.is_empty()) {
        (true, true) => ("none".to_owned(), "[frames, rows, columns] of each image, for a model whose positions have three axes"),
        (false, false) => ("some".to_owned(), "none for a model whose positions have one axis"),
        (true, false) if counted != rows as u64 => (format!("grids of {counted} places for {rows} rows"), "as many"),
        _ => return Ok(()),
    };
    Err(Error::argument("features: grid", found, allowed))
}

/// How many of the first ones are of the same kind: tokens, or rows of features.
pub(super) fn of_a_kind(pending: &[u32]) -> usize {
    let is_row = |id: &u32| *id >= FIRST;
    pending.iter().take_while(|id| is_row(id) == pending.first().is_some_and(is_row)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_one_kind() {
        assert_eq!([of_a_kind(&[]), of_a_kind(&[1, 2, FIRST]), of_a_kind(&[FIRST, FIRST + 9, 3])], [0, 2, 2]);
    }
}
