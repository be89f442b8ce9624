//! Any bytes as an ONNX model: an error, or graphs; never a panic, a hang, or memory out of all proportion. The last bytes are also taken for
//! the sizes of open dimensions, and for values that only a run could tell.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use webnn_node::graph::Limits;
use webnn_node::onnx::{
    Bounds, ElementType, Fixed, Form, FreeDimensions, Given, Givens, InputShape, Loaded, Model, Place, Random, Size, Source,
    StepKind, Tensor, evaluate, import, import_part, read_any_structure, structure_survives, summarize,
};
use webnn_node::program::steps::Steps;

static LIMITS: LazyLock<Arc<Limits>> = LazyLock::new(|| Arc::new(Limits::everything()));

/// Parts that are imported one after the other, at most.
const MOST_PARTS: usize = 6;

fuzz_target!(|bytes: &[u8]| {
    assert_ne!(structure_survives(bytes), Some(false));
    read_any_structure(bytes, bytes);
    let _ = summarize(&Model::from_bytes(bytes.to_vec()));
    let sizes = FreeDimensions::from([("N".to_owned(), 2)]);
    let model = || Model::from_bytes(bytes.to_vec());
    let _ = import(model(), &LIMITS, &Fixed::default(), &Bounds::default());
    let _ = import(model(), &LIMITS, &Fixed { sizes, ..Fixed::default() }, &Bounds::default());
    let _ = parts(model(), &mut bytes.iter().rev().copied());
});

/// Imports a model part by part.
fn parts(model: Model, choices: &mut dyn Iterator<Item = u8>) -> Option<()> {
    let bounds = Bounds::default();
    let loaded = Loaded::new(model, Fixed::default(), &bounds).ok()?;
    let mut choose = |most: u8| choices.next().unwrap_or(1) % most;
    let mut shapes = Vec::new();
    for input in loaded.inputs() {
        let shape = |choose: &mut dyn FnMut(u8) -> u8| -> Vec<u32> {
            let size = |size: &Size| if let Size::Known(size) = size { *size } else { choose(5).into() };
            input.shape.iter().map(size).collect()
        };
        shapes.push(match input.form {
            Form { is_optional: true, .. } if choose(2) == 0 => InputShape::Nothing,
            Form { is_sequence: true, .. } => InputShape::Sequence((0..choose(4)).map(|_| shape(&mut choose)).collect()),
            _ => InputShape::Tensor(shape(&mut choose)),
        });
    }
    steps(&loaded, &bounds, &shapes, &mut choose);
    let mut given = loaded.given_of(&shapes).ok()?;
    let mut place = Place::First;
    for _ in 0..MOST_PARTS {
        let part = import_part(&Source::of(&loaded).ok()?, &LIMITS, &bounds, &given, place).ok()?;
        let next = part.next?;
        let mut later: Givens = part.exports.iter().map(|(name, export)| (name.clone(), Given::of(export, &given))).collect();
        for step in &next.steps {
            let StepKind::Operator { .. } = step.kind else { return None };
            let inputs = step.inputs.iter().map(|name| made_up(later.get(name.as_ref()?)?, &mut choose));
            let results = evaluate(step, inputs.collect(), &loaded, &LIMITS, &bounds, &mut Random::new(Some(1))).ok()?;
            for (name, tensor) in step.outputs.iter().zip(results) {
                later.insert(name.clone()?, Given::Known(tensor));
            }
        }
        for name in next.looks {
            let tensor = made_up(later.get(&name)?, &mut choose)?;
            later.insert(name, Given::Known(tensor));
        }
        (given, place) = (later, Place::Later);
    }
    None
}

/// Looks for caches in a model, and for the step that inputs of these shapes are.
fn steps(loaded: &Loaded, bounds: &Bounds, shapes: &[InputShape], choose: &mut dyn FnMut(u8) -> u8) -> Option<()> {
    let steps = Steps::of(loaded, bounds, &Arc::default()).ok()??;
    let tensor = |shape: &InputShape| if let InputShape::Tensor(shape) = shape { Some(shape.clone()) } else { None };
    let shapes: Vec<Vec<u32>> = shapes.iter().map(tensor).collect::<Option<_>>()?;
    // Small numbers, of which some are those of sequences.
    let mut told = |at: usize| {
        let count =
            shapes.get(at).map_or(1, |shape| shape.iter().fold(1usize, |all, &size| all.saturating_mul(size as usize)).min(64));
        let numbers: Vec<u8> = (0..count * 8).map(|i| if i % 8 == 0 { choose(4) } else { 0 }).collect();
        steps.value(loaded, at, &numbers)
    };
    let told: Vec<_> = steps.known().map(&mut told).collect();
    steps.call(loaded, &shapes, &told).map(drop)
}

/// A value of the shape that a part would give.
fn made_up(given: &Given, choose: &mut dyn FnMut(u8) -> u8) -> Option<Tensor> {
    match given {
        Given::Known(tensor) => Some(tensor.clone()),
        Given::Operand { element, shape } => {
            let shape: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
            let count = shape.iter().product::<usize>();
            if count > 1 << 12 {
                return None;
            }
            let numbers: Vec<i64> = (0..count).map(|_| i64::from(choose(7)) - 2).collect();
            let tensor = Tensor::from_integers(ElementType::Int64, shape, &numbers);
            Some(tensor.cast(*element))
        }
        _ => None,
    }
}
