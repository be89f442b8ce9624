//! From an ONNX model to a WebNN graph.
//!
//! [`import_part`] reads the model's nodes in an order of execution. A value of the model is either known already (weights,
//! shapes, and what can be computed from them: [`fold`]) or an operand of the graph under construction ([`value`]). Each
//! operator has one mapping function, listed in the one table of [`ops`], which puts WebNN nodes into the graph through
//! [`crate::graph::GraphBuilder`]; so every rule of the specification is applied, and what it refuses is reported with
//! the node's name. A node that cannot be mapped does not end the import: all such nodes are reported at once.
//!
//! # Element types
//!
//! WebNN has no double and no bfloat16: both become float32, also as inputs and outputs. Truth values are uint8. Integers
//! of 16 bits are int32, and arithmetic on them is brought back to 16 ([`ops`]'s `narrow`); those of 4 bits are int32 where a run is given
//! or gives them. Strings and maps are
//! refused.
//!
//! # Shapes
//!
//! A model is decoded once ([`Loaded`]) and imported for each set of shapes that its inputs have. Where a node needs what only a run can
//! tell, the model is cut ([`part`]).
//!
//! # Trust
//!
//! A file may hold anything. Before memory is taken for something, its size is held against the bytes that are really
//! there ([`structure`], [`tensor`], the limits of [`fold`]), and work against a bound ([`bounds`]); external data is read only from the model's own folder
//! ([`file`]).

mod bounds;
mod branch;
pub mod caches;
mod dimensions;
mod element;
mod emit;
mod empty;
mod expansion;
mod expression;
mod file;
mod fixed;
pub mod fixed_caches;
mod fold;
mod importer;
mod indices;
mod integers;
mod loaded;
mod loaded_once;
mod node;
mod ops;
mod order;
mod outline;
mod part;
pub mod placed_features;
pub mod protobuf;
mod random;
mod refusal;
pub mod sequence_lengths;
mod shapes;
mod source;
mod step;
mod stored_structure;
mod structure;
mod summary;
mod tensor;
mod value;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use bounds::Bounds;
pub use caches::KvCache;
pub use dimensions::{Form, FreeDimensions, Signature, Size};
pub use element::ElementType;
pub use file::{Digests, Model, Progress};
pub use fixed::{Fixed, FixedValue};
pub use importer::{Imported, Input, Place, Source, import, import_part};
pub use integers::integer_products;
pub use loaded::{InputShape, Loaded, OpenInput, OpenOutput};
pub use loaded_once::load;
pub use outline::outline;
pub use part::{Cut, Export, Given, Givens, Next, Part};
pub use random::{Random, Stream};
pub use refusal::{ImportError, RefusedNode};
pub use source::find as find_bytes;
pub use step::{Body, Repetition, Step, StepKind, evaluate};
pub use stored_structure::{read_any_structure, structure_survives};
pub use summary::{Summary, summarize};
pub use tensor::Tensor;

/// The type and the sizes that an output declares, with 0 for those that it leaves open.
pub(crate) fn declared(info: &protobuf::ValueInfoProto) -> (ElementType, Vec<usize>) {
    let shape = dimensions::value_type(info).ok().and_then(|(.., shape)| shape).unwrap_or_default();
    let size = |dimension| if let dimensions::Dimension::Size(size) = dimension { size as usize } else { 0 };
    (dimensions::element(info).unwrap_or(ElementType::Float), shape.into_iter().map(size).collect())
}

/// Tensors one after the other along an axis.
///
/// # Errors
/// `OperationError` for tensors that do not fit together.
pub(crate) fn join(tensors: &[Tensor], axis: usize) -> crate::error::Result<Tensor> {
    let fail = |reason: refusal::Reason| crate::error::Error::new(crate::error::Kind::Operation, reason.text);
    fold::concat(&tensors.iter().collect::<Vec<_>>(), axis).map_err(fail)
}

/// What a tensor has at a place of an axis, without the axis.
pub(crate) fn slice_along(tensor: &Tensor, axis: usize, at: usize) -> Tensor {
    let ranges: Vec<(i64, i64, usize)> =
        tensor.shape.iter().enumerate().map(|(i, &size)| if i == axis { (at as i64, 1, 1) } else { (0, 1, size) }).collect();
    let mut shape = tensor.shape.clone();
    shape.remove(axis);
    fold::slice(tensor, &ranges).reshaped(shape)
}

/// The versions of the standard operator set that are understood.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;
