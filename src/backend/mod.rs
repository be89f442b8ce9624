//! The traits that backends implement, and nothing else.

pub mod cpu;
