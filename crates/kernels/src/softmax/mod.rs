//! Softmax and normalization of rows.

pub mod attention;
pub mod columns;
pub(crate) mod row_softmax;
pub mod rows;
