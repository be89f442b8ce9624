//! From an ONNX model to a WebNN graph.
//!
//! [`import`] reads the model's nodes in an order of execution. A value of the model is either known already (weights,
//! shapes, and what can be computed from them: [`fold`]) or an operand of the graph under construction ([`value`]). Each
//! operator has one mapping function, listed in the one table of [`ops`], which puts WebNN nodes into the graph through
//! [`crate::graph::GraphBuilder`]; so every rule of the specification is applied, and what it refuses is reported with
//! the node's name. A node that cannot be mapped does not end the import: all such nodes are reported at once.
//!
//! # Element types
//!
//! WebNN has no double and no bfloat16: both become float32, also as inputs and outputs. Truth values are uint8. Integers
//! of 16 bits are int32 where they are quantized values, and exist elsewhere only where they are known at import. Strings, sequences, maps and control flow are refused.
//!
//! # Trust
//!
//! A file may hold anything. Before memory is taken for something, its size is held against the bytes that are really
//! there ([`structure`], [`tensor`], the limits of [`fold`]), and work against a bound ([`bounds`]); external data is read only from the model's own folder
//! ([`file`]).

mod bounds;
mod branch;
mod dimensions;
mod element;
mod emit;
mod expression;
mod file;
mod fixed;
mod fold;
mod importer;
mod node;
mod ops;
mod order;
pub mod protobuf;
mod refusal;
mod shapes;
mod structure;
mod summary;
mod tensor;
mod value;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use bounds::Bounds;
pub use dimensions::{FreeDimensions, Signature};
pub use file::Model;
pub use fixed::{Fixed, FixedValue};
pub use importer::{Imported, Input, import};
pub use refusal::{ImportError, RefusedNode};
pub use summary::{Summary, summarize};

/// The versions of the standard operator set that are understood.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;
