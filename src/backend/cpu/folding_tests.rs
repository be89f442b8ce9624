//! What folding makes for the graphs of one model, and how often.

use super::Cpu;
use crate::backend::Backend;
use crate::compiler::{Capabilities, Filter, Pattern, Preferences, compile};
use crate::error::Result;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Binary, BinaryKind, Cast, DequantizeLinear};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout::Oihw, InputOperandLayout::Nchw};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::Transpose;
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Limits, Number, Op, OperandId, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the CPU answers, and how many nodes it has computed.
struct Counting<'a> {
    of: &'a dyn Capabilities,
    count: Arc<AtomicUsize>,
}

/// The same for later.
struct CountingLater {
    of: Arc<dyn Capabilities + Send + Sync>,
    count: Arc<AtomicUsize>,
}

impl Capabilities for Counting<'_> {
    fn preferences(&self) -> Preferences {
        self.of.preferences()
    }

    fn accepts(&self, pattern: &Pattern<'_>) -> bool {
        self.of.accepts(pattern)
    }

    fn is_quick(&self, op: &Op, number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
        self.of.is_quick(op, number)
    }

    fn is_always_fused(&self, op: &Op) -> bool {
        self.of.is_always_fused(op)
    }

    fn is_fast_convolution(&self, op: &Op, filter: Filter<'_>) -> bool {
        self.of.is_fast_convolution(op, filter)
    }

    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.of.evaluate(op, operands, outputs)
    }

    fn later(&self) -> Option<Arc<dyn Capabilities + Send + Sync>> {
        Some(Arc::new(CountingLater { of: self.of.later()?, count: self.count.clone() }))
    }
}

impl Capabilities for CountingLater {
    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.of.evaluate(op, operands, outputs)
    }
}

const CHANNELS: u32 = 32;

struct Sketch(GraphBuilder);

impl Sketch {
    fn constant(&mut self, data_type: DataType, shape: &[u32], byte: u8) -> OperandId {
        let descriptor = Descriptor::new(data_type, shape.iter().copied());
        let bytes = (0..descriptor.byte_length()).map(|i| byte.wrapping_add(i as u8 % 3)).collect::<Vec<_>>();
        self.0.constant(descriptor, ConstantBytes::new(bytes)).unwrap()
    }

    fn push(&mut self, op: impl Into<Op>) -> OperandId {
        self.0.push_op(op, "").unwrap()[0]
    }

    fn conv(&mut self, input: OperandId, filter: OperandId, groups: u32) -> OperandId {
        let (padding, strides, dilations) = ([1; 4], [1; 2], [1; 2]);
        let (input_layout, filter_layout) = (Nchw, Oihw);
        self.push(Conv2d { input, filter, padding, strides, dilations, groups, input_layout, filter_layout, bias: None })
    }

    /// A filter of bytes with a scale for each channel.
    fn dequantized(&mut self, shape: [u32; 4], byte: u8) -> OperandId {
        let input = self.constant(DataType::Int8, &shape, byte);
        let scales = [shape[0], 1, 1, 1];
        let scale = self.push_scale(&scales);
        let zero_point = self.constant(DataType::Int8, &scales, 0);
        self.push(DequantizeLinear { input, scale, zero_point })
    }

    fn push_scale(&mut self, shape: &[u32]) -> OperandId {
        let count = shape.iter().product::<u32>();
        let bytes = (0..count).flat_map(|i| (0.01 + i as f32 * 1e-4).to_le_bytes()).collect::<Vec<_>>();
        self.0.constant(Descriptor::new(DataType::Float32, shape.iter().copied()), ConstantBytes::new(bytes)).unwrap()
    }
}

/// Convolutions and a product whose weights are dequantized, converted, turned and scaled, for an image of that height.
fn graph(height: u32, shared: &Shared) -> Graph {
    let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())));
    let x = sketch.0.input("x", Descriptor::new(DataType::Float32, [1, CHANNELS, height, 16])).unwrap();
    let filter = sketch.dequantized([CHANNELS, CHANNELS, 3, 3], 5);
    let y = sketch.conv(x, filter, 1);
    let filter = sketch.dequantized([CHANNELS, 1, 3, 3], 7);
    let y = sketch.conv(y, filter, CHANNELS);
    let half = sketch.constant(DataType::Float16, &[CHANNELS, CHANNELS, 3, 3], 0x2c);
    let filter = sketch.push(Cast { input: half, data_type: DataType::Float32 });
    let y = sketch.conv(y, filter, 1);
    let bytes = sketch.constant(DataType::Uint8, &[64, 16], 2);
    let numbers = sketch.push(Cast { input: bytes, data_type: DataType::Float32 });
    let scale = sketch.0.scalar(DataType::Float32, Number::Double(0.125)).unwrap();
    let scaled = sketch.push(Binary { kind: BinaryKind::Sub, a: numbers, b: scale });
    let b = sketch.push(Transpose { input: scaled, permutation: None });
    let y = sketch.push(Matmul { a: y, b });
    let mut graph = sketch.0.build(vec![("y".into(), y)]).unwrap();
    graph.shared = shared.clone();
    graph
}

/// Constants are computed by the first graph of a model; later ones find what kernels packed of them, and compute none.
#[test]
fn graphs_of_other_shapes_compute_no_constants() {
    let cpu = Cpu::new(1);
    let shared = Shared::default();
    shared.expects_several();
    let count = Arc::new(AtomicUsize::new(0));
    let compiled = |height: u32, shared: &Shared| {
        let counting = Counting { of: cpu.capabilities(), count: count.clone() };
        let before = count.load(Ordering::Relaxed);
        let schedule = compile(graph(height, shared), &counting).unwrap();
        let executable = cpu.compile(schedule).unwrap();
        (executable, count.load(Ordering::Relaxed) - before)
    };
    let (first, computed) = compiled(16, &shared);
    assert!(computed >= 5, "{computed} nodes");
    let (second, computed) = compiled(20, &shared);
    assert_eq!(computed, 0);
    // Another model has nothing of it, and a graph alone computes all.
    assert!(compiled(20, &Shared::default()).1 >= 5);
    // When no graph has the packings any more they are made again.
    drop((first, second));
    assert!(compiled(20, &shared).1 >= 5);
}
