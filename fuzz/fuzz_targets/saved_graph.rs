//! Any bytes as the file of a saved graph, and as the description in one: nothing, what was written, or a graph that a builder accepts; never a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use webnn_node::disk_cache::{read_anything, write_anything};
use webnn_node::graph::description::{decode, encode};
use webnn_node::graph::{ConstantBytes, GraphBuilder, Limits};

const KEY: u128 = 0x0123_4567_89ab_cdef;
const SECRET: u64 = 7;

fuzz_target!(|bytes: &[u8]| {
    assert!(!read_anything(bytes, KEY, SECRET));
    let (description, constant) = bytes.split_at(bytes.len() / 2);
    let mut file = Vec::new();
    write_anything(&mut file, KEY, description, constant, SECRET).expect("memory takes all that is written");
    assert!(read_anything(&file, KEY, SECRET));
    let place = bytes.iter().fold(bytes.len(), |place, &byte| place.wrapping_mul(31) + usize::from(byte));
    // Of the head; constants are checked when they are looked at.
    let head = 64 + u64::from_le_bytes(file[24..32].try_into().expect("eight bytes")) as usize;
    file[place % head] ^= 1 << (bytes.len() % 8);
    assert!(!read_anything(&file, KEY, SECRET));

    let new_builder = || GraphBuilder::new(Arc::new(Limits::everything().of_script()));
    let constants = [4, 16, 64].map(|length| ConstantBytes::new(vec![1; length]));
    let mut builder = new_builder();
    let Ok(outputs) = decode(bytes, &constants, &mut builder) else { return };
    let Ok(graph) = builder.build(outputs) else { return };
    let (again, constants) = encode(&graph);
    decode(&again, &constants, &mut new_builder()).expect("what is a graph is one when it is written again");
});
