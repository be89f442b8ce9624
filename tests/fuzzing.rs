//! What `cargo fuzz` feeds with made-up bytes gets some here: models of nodes, as they are and with some of their bytes changed. So the target
//! compiles, and what it finds at once is found by everybody.

// The target says `libfuzzer_sys::fuzz_target!`.
extern crate self as libfuzzer_sys;

#[path = "../fuzz/fuzz_targets/onnx_import.rs"]
#[allow(unused_attributes, reason = "the target is a program without main")]
mod onnx_import;

#[path = "../fuzz/fuzz_targets/disk_cache.rs"]
#[allow(unused_attributes, reason = "the target is a program without main")]
mod disk_cache;

#[path = "../fuzz/fuzz_targets/saved_graph.rs"]
#[allow(unused_attributes, reason = "the target is a program without main")]
mod saved_graph;

#[path = "../fuzz/fuzz_targets/saved_cache.rs"]
#[allow(unused_attributes, reason = "the target is a program without main")]
mod saved_cache;

macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub fn fuzz($bytes: &[u8]) {
            $body
        }
    };
}
pub(crate) use fuzz_target;

/// Bytes in base64.
fn decoded(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|digit| {
        Some(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    });
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in digits {
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// Numbers below a limit, the same ones each time.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

#[test]
fn files_of_the_cache() {
    let mut random = numbers();
    for length in (0..200).chain([4000, 4001]) {
        let bytes: Vec<u8> = (0..length).map(|_| random(256) as u8).collect();
        disk_cache::fuzz(&bytes);
        saved_graph::fuzz(&bytes);
    }
}

/// Numbers of 8 bytes and tokens of 4, which a length may be told of wrongly.
#[test]
fn saved_caches() {
    let numbers_of = |list: &[u64]| list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let sequence = |tokens: u64, rows: &[u64]| {
        let ids = (0..tokens as u32).flat_map(|id| (id * 7).to_le_bytes());
        let bytes = rows.iter().map(|row| row * tokens).sum::<u64>();
        let head = numbers_of(&[tokens, rows.len() as u64]).into_iter();
        head.chain(ids).chain(numbers_of(rows)).chain((0..bytes).map(|byte| byte as u8)).collect::<Vec<u8>>()
    };
    let mut random = numbers();
    for _ in 0..2000 {
        let count = random(4);
        let mut file = numbers_of(&[random(2) as u64, count as u64]);
        for _ in 0..count {
            let rows: Vec<u64> = (0..random(4)).map(|_| random(9) as u64).collect();
            file.extend(sequence(1 + random(5) as u64, &rows));
        }
        assert!(webnn_node::program::decoder::saved_sequences(&file).is_some());
        saved_cache::fuzz(&file);
        for _ in 0..=random(4) {
            let place = random(file.len());
            match random(4) {
                0 => file[place] ^= 1 << random(8),
                1 => file[place] = [0, 1, 2, 127, 128, 255][random(6)],
                2 if file.len() > 1 => drop(file.remove(place)),
                _ => file.insert(place, random(256) as u8),
            }
            saved_cache::fuzz(&file);
        }
    }
}

#[test]
fn models_of_nodes_with_changed_bytes() {
    let rounds: usize = std::env::var("WEBNN_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx/nodes.json")).unwrap();
    let nodes: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut random = numbers();
    let cases = nodes["cases"].as_array().unwrap();
    assert!(cases.len() > 50);
    for case in cases {
        let model = decoded(case["model"].as_str().unwrap());
        onnx_import::fuzz(&model);
        for _ in 0..rounds {
            let mut changed = model.clone();
            for _ in 0..=random(4) {
                let place = random(changed.len());
                match random(4) {
                    0 => changed[place] ^= 1 << random(8),
                    1 => changed[place] = [0, 1, 2, 127, 128, 255][random(6)],
                    2 => drop(changed.remove(place)),
                    _ => changed.insert(place, random(256) as u8),
                }
            }
            onnx_import::fuzz(&changed);
        }
    }
}
