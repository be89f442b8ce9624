//! Any bytes as a file of the cache, and in one: nothing, or what was written; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webnn_node::disk_cache::{checked, findings_in, wanted_in, write};
use webnn_node::onnx::read_any_structure;

const KEY: u128 = 0x0123_4567_89ab_cdef;
const SECRET: u64 = 7;

fuzz_target!(|bytes: &[u8]| {
    if let Some(found) = checked(bytes, KEY, SECRET) {
        assert!(bytes.ends_with(found));
    }
    if let Some(findings) = findings_in(bytes) {
        assert_eq!(bytes.len() % findings.len().max(1), 0);
    }
    if let Some(wanted) = wanted_in(bytes) {
        assert!(wanted.len() <= bytes.len());
    }
    let (structure, model) = bytes.split_at(bytes.len() / 2);
    read_any_structure(structure, model);
    let mut file = Vec::new();
    write(&mut file, KEY, bytes, SECRET).expect("memory takes all that is written");
    assert_eq!(checked(&file, KEY, SECRET), Some(bytes));
    let place = bytes.iter().fold(bytes.len(), |place, &byte| place.wrapping_mul(31) + usize::from(byte)) % file.len();
    file[place] ^= 1 << (bytes.len() % 8);
    assert_eq!(checked(&file, KEY, SECRET), None);
});
