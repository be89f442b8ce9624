#![deny(unsafe_code)]

pub mod backend;
pub mod error;
pub mod graph;
