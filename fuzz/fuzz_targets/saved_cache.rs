//! Any bytes as the file of a saved cache of `generate()`, and as what such a file has: nothing, or sequences that account for every byte; never a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webnn_node::disk_cache::read_whole_from;
use webnn_node::program::decoder::{Saved, saved_sequences};

const KEY: u128 = 0x0123_4567_89ab_cdef;

/// The bytes that a file has for a sequence: numbers, tokens, the sizes of rows, and the rows.
fn length_of(Saved { tokens, caches }: &Saved<'_>) -> usize {
    assert!(!tokens.is_empty() && tokens.iter().all(|&token| token < 1 << 31));
    assert!(caches.iter().all(|&(row, rows)| row * tokens.len() == rows.len()));
    16 + 4 * tokens.len() + caches.iter().map(|(_, rows)| 8 + rows.len()).sum::<usize>()
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = read_whole_from(bytes, bytes.len() as u64, KEY, 1 << 20) {
        assert!(bytes.ends_with(&found));
    }
    if let Some((_, sequences)) = saved_sequences(bytes) {
        assert_eq!(16 + sequences.iter().map(length_of).sum::<usize>(), bytes.len());
    }
});
