//! The CPU backend.

pub mod element;
pub mod reference;
pub mod threads;
pub mod view;
