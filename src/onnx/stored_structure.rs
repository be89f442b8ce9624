//! The structure of a model's file in the cache: the model without the data of its tensors, which stays where it is. A later process reads
//! it in one piece, where it would read hundreds of places between the weights.
//!
//! What is kept is the message [`Stored`]: the decoded `ModelProto`, encoded again, and for each tensor that lacks its data where that begins in
//! the file and how long it is. It is kept when a file was decoded, by the state of the file and the version of the package
//! ([`DiskCache::keep_structure`]); nothing of it depends on the processor or on options, so every load of the file has the same. Only files
//! have one whose state tells every change.
//!
//! What is read passes the checks that a model's file passes, and places must lie inside of the file. If anything is wrong, the file itself is
//! read. Data is compared with the file's state when it is read, as always.

use super::protobuf::{AttributeProto, ModelProto, SparseTensorProto, TensorProto};
use super::structure;
use crate::disk_cache::{DiskCache, MOST_OF_STRUCTURE};
use crate::memory::Place;
use bytes::Bytes;
use prost::Message;
use prost::encoding::message;
use std::sync::Arc;

/// Less data is kept with the structure: shapes and other small constants, which importing looks at.
const STAYS: usize = 1 << 10;

/// The field of [`Stored`] with the model.
const MODEL: u32 = 1;

/// What the cache has.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    /// A `ModelProto`, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    model: Bytes,
    /// Three numbers for each tensor without its data, in their order: its number among all tensors, where its data begins, and its length.
    #[prost(fixed64, repeated, tag = "2")]
    places: Vec<u64>,
}

/// Where the structure of a file in its present state is kept.
#[derive(Debug)]
pub struct StoredStructure {
    cache: Arc<DiskCache>,
    state: Vec<u8>,
    found: Option<Bytes>,
}

impl StoredStructure {
    /// That of a file in this state, if the process has a cache.
    pub fn of(state: Option<Vec<u8>>) -> Option<StoredStructure> {
        let (cache, state) = DiskCache::opened().zip(state)?;
        let found = cache.structure_of(&state).map(Bytes::from_owner);
        Some(StoredStructure { cache, state, found })
    }

    /// The state of the file.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Whether an earlier process has kept it.
    pub fn is_there(&self) -> bool {
        self.found.is_some()
    }

    /// The model of these bytes, of which the structure takes at most so much memory.
    pub fn read(&self, file: &Bytes, most: usize) -> Option<ModelProto> {
        read(self.found.clone()?, file, most)
    }

    /// Keeps the structure of what was decoded of these bytes, unless all of it is in one place of the file. The model is the same afterwards.
    pub fn keep(&self, model: &mut ModelProto, file: &Bytes) {
        if let Some(stored) = encoded(model, file) {
            self.cache.keep_structure(&self.state, stored);
        }
    }
}

/// Nothing where no tensor has its data left out, and where the rest is too large: weights in lists of numbers stay in it.
fn encoded(model: &mut ModelProto, file: &Bytes) -> Option<Vec<u8>> {
    let whole = Place::of(file);
    let (mut places, mut taken) = (Vec::new(), Vec::new());
    each_tensor(model, &mut |number, tensor| {
        let data = tensor.raw_data.take_if(|data| data.len() >= STAYS && Place::of(data).is_in(whole));
        if let Some(data) = data {
            let Place { start, length } = Place::of(&data);
            places.extend([number, start - whole.start, length].map(|number| number as u64));
            taken.push((number, data));
        }
    });
    if taken.is_empty() {
        return None;
    }
    let stored = joined(model, places);
    let mut taken = taken.into_iter().peekable();
    each_tensor(model, &mut |number, tensor| {
        if let Some((_, data)) = taken.next_if(|(of, _)| *of == number) {
            tensor.raw_data = Some(data);
        }
    });
    stored
}

/// A [`Stored`], in memory once.
fn joined(model: &ModelProto, places: Vec<u64>) -> Option<Vec<u8>> {
    let places = Stored { model: Bytes::new(), places };
    let length = message::encoded_len(MODEL, model) + places.encoded_len();
    if length > MOST_OF_STRUCTURE {
        return None;
    }
    let mut stored = Vec::new();
    stored.try_reserve_exact(length).ok()?;
    message::encode(MODEL, model, &mut stored);
    places.encode_raw(&mut stored);
    Some(stored)
}

/// The model that was [`encoded`]; nothing for other bytes, and for a structure that takes more memory.
fn read(stored: Bytes, file: &Bytes, most: usize) -> Option<ModelProto> {
    let Stored { model, places } = Stored::decode(stored).ok()?;
    structure::check(&model, most).ok()?;
    let mut decoded = ModelProto::decode(model).ok()?;
    let (places, rest) = places.as_chunks::<3>();
    let mut places = places.iter().peekable();
    let mut are_inside = rest.is_empty();
    each_tensor(&mut decoded, &mut |number, tensor| {
        let Some(&[_, first, length]) = places.next_if(|place| place[0] == number as u64) else { return };
        match first.checked_add(length).filter(|end| *end <= file.len() as u64) {
            // They are numbers of memory.
            Some(end) => tensor.raw_data = Some(file.slice(first as usize..end as usize)),
            None => are_inside = false,
        }
    });
    (are_inside && places.next().is_none()).then_some(decoded)
}

const MOST_OF_FUZZING: usize = 64 << 20;

/// For fuzzing: takes any bytes for a structure.
pub fn read_any_structure(stored: &[u8], file: &[u8]) -> bool {
    read(Bytes::copy_from_slice(stored), &Bytes::copy_from_slice(file), MOST_OF_FUZZING).is_some()
}

/// All tensors that were decoded, with their numbers: those of graphs within nodes are encoded still.
fn each_tensor(model: &mut ModelProto, look: &mut dyn FnMut(usize, &mut TensorProto)) {
    let mut count = 0;
    let mut one = |tensor: &mut TensorProto| {
        look(count, tensor);
        count += 1;
    };
    if let Some(graph) = &mut model.graph {
        graph.initializer.iter_mut().for_each(&mut one);
        graph.sparse_initializer.iter_mut().flat_map(parts).for_each(&mut one);
        graph.node.iter_mut().flat_map(|node| &mut node.attribute).flat_map(tensors).for_each(&mut one);
    }
    let of_functions = model.functions.iter_mut().flat_map(|function| &mut function.node);
    of_functions.flat_map(|node| &mut node.attribute).flat_map(tensors).for_each(&mut one);
}

fn parts(sparse: &mut SparseTensorProto) -> impl Iterator<Item = &mut TensorProto> {
    sparse.values.iter_mut().chain(&mut sparse.indices)
}

fn tensors(attribute: &mut AttributeProto) -> impl Iterator<Item = &mut TensorProto> {
    let sparse = attribute.sparse_tensor.iter_mut().flat_map(|sparse| parts(sparse));
    attribute.t.iter_mut().map(|tensor| &mut **tensor).chain(sparse)
}

/// For fuzzing: whether the structure of a file is read as it was decoded; nothing where it is no model, or has no large tensors.
pub fn structure_survives(file: &[u8]) -> Option<bool> {
    let file = Bytes::copy_from_slice(file);
    structure::check(&file, MOST_OF_FUZZING).ok()?;
    let mut decoded = ModelProto::decode(file.clone()).ok()?;
    let stored = encoded(&mut decoded, &file)?;
    let again = read(stored.into(), &file, MOST_OF_FUZZING);
    // As bytes: numbers that are none are equal to nothing.
    Some(again.is_some_and(|again| again.encode_to_vec() == decoded.encode_to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{FunctionProto, GraphProto, NodeProto};
    use super::*;

    const MOST: usize = 1 << 20;

    fn tensor(name: &str, data: &[u8]) -> TensorProto {
        TensorProto { name: name.to_owned(), raw_data: Some(data.to_vec().into()), ..Default::default() }
    }

    fn sparse(name: &str, data: &[u8]) -> SparseTensorProto {
        SparseTensorProto { values: Some(tensor(name, data)), indices: Some(tensor("indices", &[3; STAYS])), dims: vec![7] }
    }

    fn node(t: TensorProto) -> NodeProto {
        let attribute = |name: &str| AttributeProto { name: name.to_owned(), ..Default::default() };
        let of_tensor = AttributeProto { t: Some(Box::new(t)), ints: vec![1, -2], ..attribute("t") };
        let of_sparse = AttributeProto { sparse_tensor: Some(Box::new(sparse("s", &[5; STAYS + 1]))), ..attribute("s") };
        NodeProto { attribute: vec![of_tensor, attribute("none"), of_sparse], ..Default::default() }
    }

    /// With tensors wherever a model has some, of which each second one is small.
    fn model() -> ModelProto {
        let (large, small) = (tensor("large", &[1; STAYS]), tensor("small", &[2; STAYS - 1]));
        let lists = TensorProto { name: "lists".to_owned(), float_data: vec![vec![9; 2 * STAYS].into()], ..Default::default() };
        let graph = GraphProto {
            initializer: vec![small.clone(), large.clone(), lists, TensorProto::default(), large.clone()],
            sparse_initializer: vec![sparse("sparse", &[4; 2 * STAYS])],
            node: vec![node(small.clone()), node(large.clone())],
            ..Default::default()
        };
        let function = FunctionProto { node: vec![node(large), node(small)], ..Default::default() };
        ModelProto { producer_name: "me".to_owned(), graph: Some(graph), functions: vec![function], ..Default::default() }
    }

    /// Two initializers, two parts of the sparse one, a tensor of a graph's node and one of a function's, and two of each of four nodes.
    const LARGE: usize = 2 + 2 + 2 + 4 * 2;

    /// A file, and what was decoded of it.
    fn file() -> (Bytes, ModelProto) {
        let file = Bytes::from(model().encode_to_vec());
        (file.clone(), ModelProto::decode(file).unwrap())
    }

    #[test]
    fn a_structure_is_read_as_it_was_decoded() {
        let (file, mut decoded) = file();
        let stored = encoded(&mut decoded, &file).unwrap();
        assert_eq!(decoded, model(), "it is as before");
        assert_eq!(Stored::decode(&stored[..]).unwrap().places.len(), 3 * LARGE);
        assert!(stored.len() < file.len() / 2, "{} of {}", stored.len(), file.len());
        let again = read(stored.into(), &file, MOST).unwrap();
        assert_eq!(again, model());
        let whole = Place::of(&file);
        let mut large = 0;
        each_tensor(&mut again.clone(), &mut |_, tensor| {
            let data = tensor.raw_data.as_ref().filter(|data| data.len() >= STAYS);
            large += data.filter(|data| Place::of(data).is_in(whole)).into_iter().count();
        });
        assert_eq!(large, LARGE, "their data is where the file has it");
    }

    #[test]
    fn a_model_without_large_tensors_has_none() {
        let mut model = ModelProto { graph: Some(GraphProto::default()), ..Default::default() };
        let file = Bytes::from(model.encode_to_vec());
        assert!(encoded(&mut model, &file).is_none());
        // Nor one whose rest is too large.
        let numbers = vec![vec![0; MOST_OF_STRUCTURE].into()];
        let mut model = self::model();
        model.graph.iter_mut().for_each(|graph| graph.initializer[2].float_data.clone_from(&numbers));
        let file = Bytes::from(model.encode_to_vec());
        let mut decoded = ModelProto::decode(file.clone()).unwrap();
        assert!(encoded(&mut decoded, &file).is_none());
        assert!(decoded == model);
        // Nor is data left out that is elsewhere.
        let mut decoded = self::file().1;
        assert!(encoded(&mut decoded, &file).is_none());
        assert_eq!(decoded, self::model());
    }

    #[test]
    fn other_bytes_are_none() {
        let (file, mut decoded) = file();
        let stored = encoded(&mut decoded, &file).unwrap();
        let found = |stored: &[u8], file: &Bytes, most| read(Bytes::copy_from_slice(stored), file, most);
        assert!(found(&stored, &file.slice(..file.len() - STAYS), MOST).is_none(), "the file is shorter");
        assert!(found(&stored, &file, 1 << 10).is_none(), "it takes more memory");
        let with = |change: &dyn Fn(&mut Vec<u64>)| {
            let mut changed = Stored::decode(&stored[..]).unwrap();
            change(&mut changed.places);
            found(&changed.encode_to_vec(), &file, MOST)
        };
        assert!(with(&|_| {}).is_some());
        assert!(with(&|places| places[1] = u64::MAX).is_none());
        assert!(with(&|places| places[2] = file.len() as u64).is_none());
        assert!(with(&|places| places[0] = 1000).is_none(), "no such tensor");
        assert!(with(&|places| places.push(1)).is_none());
        assert!(
            with(&|places| drop(places.drain(..3))).is_some_and(|other| other != model()),
            "another model, in which a tensor has no data"
        );
        // Whatever is changed, nothing outside of the file is reached.
        for place in (0..stored.len()).step_by(7) {
            let mut changed = stored.clone();
            changed[place] ^= 1 << (place % 8);
            if let Some(mut other) = found(&changed, &file, MOST) {
                each_tensor(&mut other, &mut |_, tensor| {
                    assert!(tensor.raw_data.as_ref().is_none_or(|data| data.len() <= file.len()))
                });
            }
        }
        for length in 0..stored.len() {
            assert!(found(&stored[..length], &file, MOST).is_none_or(|other| other != model()), "cut to {length}");
        }
    }
}
