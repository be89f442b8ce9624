#![deny(unsafe_code)]

pub mod backend;
pub mod compiler;
pub mod error;
pub mod graph;
pub mod host_memory;
pub mod memory;
pub mod timeline;
