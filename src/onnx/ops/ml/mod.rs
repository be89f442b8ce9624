//! The operators of `ai.onnx.ml` that are arithmetic, as converters of scikit-learn, LightGBM and XGBoost write them.
//!
//! Where ONNX's text leaves something open, the results are those of onnxruntime, for which such models are made.

mod features;
mod labels;
mod linear;
mod scores;
mod svm;
mod trees;
mod versions;

pub use features::{array_feature_extractor, binarizer, imputer, normalizer, scaler};
pub use labels::{label_encoder, one_hot_encoder};
pub use linear::{linear_classifier, linear_regressor};
pub use svm::{svm_classifier, svm_regressor};
pub use versions::{prepare, tree_ensemble, tree_ensemble_classifier, tree_ensemble_regressor};

use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;

/// The first input as rows of float32 numbers; a vector is one row.
fn rows(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let input = emit.input(node, 0)?;
    let wide = emit.cast(input, DataType::Float32)?;
    match emit.shape(input)[..] {
        [_, _] => Ok(wide),
        [features] => emit.reshape(wide, &[1, features]),
        ref shape => Err(format!("an input of shape {shape:?}; allowed are rows of features").into()),
    }
}

/// A constant of float32 numbers.
fn floats(emit: &mut Emit<'_>, shape: &[usize], numbers: &[f32]) -> Mapped<OperandId> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    emit.constant(Tensor { element: ElementType::Float, shape: shape.to_vec(), bytes: bytes.into() })
}

/// A constant of int32 numbers.
fn int32s(emit: &mut Emit<'_>, shape: &[usize], numbers: &[i32]) -> Mapped<OperandId> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    emit.constant(Tensor { element: ElementType::Int32, shape: shape.to_vec(), bytes: bytes.into() })
}

/// Checks that a list has as many numbers as are needed.
pub fn check_length(name: &str, found: usize, allowed: usize) -> Mapped<()> {
    match found == allowed {
        true => Ok(()),
        false => Err(format!("attribute {name} has {found} numbers; {allowed} are needed").into()),
    }
}

/// The number of rows of a matrix with so many columns, if its elements fill them.
fn rows_of(name: &str, elements: usize, columns: u32) -> Mapped<usize> {
    match elements.checked_div(columns as usize) {
        Some(rows) if rows > 0 && rows * columns as usize == elements => {
            size(rows)?;
            Ok(rows)
        }
        _ => Err(format!("attribute {name} has {elements} numbers for {columns} features").into()),
    }
}
