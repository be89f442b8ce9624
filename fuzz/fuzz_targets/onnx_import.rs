//! Any bytes as an ONNX model: an error, or a graph; never a panic, a hang, or memory out of all proportion.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use webnn_node::graph::Limits;
use webnn_node::onnx::{Bounds, Fixed, FreeDimensions, Model, import, summarize};

static LIMITS: LazyLock<Arc<Limits>> = LazyLock::new(|| Arc::new(Limits::everything()));

fuzz_target!(|bytes: &[u8]| {
    let model = Model::from_bytes(bytes.to_vec());
    let _ = summarize(&model);
    let sizes = FreeDimensions::from([("N".to_owned(), 2)]);
    let _ = import(&model, &LIMITS, &Fixed::default(), &Bounds::default());
    let _ = import(&model, &LIMITS, &Fixed { sizes, ..Fixed::default() }, &Bounds::default());
});
