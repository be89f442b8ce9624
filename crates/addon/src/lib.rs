//! The addon: `webnn_node` linked to a shared library, which registers itself (`node/registration.rs`) when Node.js loads it.
extern crate webnn_node;
