//! The time of what is computed between two parts of a model, for who watches the run.

use crate::onnx::{Step, Tensor};
use crate::watch::{Description, DoneStep, StepNumber, Watch};
use std::time::Instant;

/// A node that is being computed.
pub struct StepBetween {
    operator: String,
    label: String,
    /// What it reads.
    inputs: Shapes,
    began: Instant,
}

/// The shapes of tensors, for people, with their bytes and the type of the first.
#[derive(Default)]
struct Shapes {
    texts: Vec<String>,
    bytes: usize,
    data_type: String,
}

impl Shapes {
    fn of<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Shapes {
        let mut shapes = Shapes::default();
        for tensor in tensors {
            if shapes.texts.is_empty() {
                shapes.data_type = tensor.element.name().to_owned();
            }
            shapes.texts.push(format!("{:?}", tensor.shape).replace(' ', ""));
            shapes.bytes += tensor.bytes.len();
        }
        shapes
    }
}

impl StepBetween {
    pub fn begin<'a>(step: &Step, inputs: impl Iterator<Item = &'a Tensor>) -> StepBetween {
        let (operator, label) = (step.node.operator.clone(), step.node.name.clone());
        let inputs = Shapes::of(inputs);
        StepBetween { operator, label, inputs, began: Instant::now() }
    }

    /// Notes it with what it has computed.
    pub fn end(self, watch: &Watch, outputs: &[Tensor]) {
        let StepBetween { operator, label, inputs, began } = self;
        let outputs = Shapes::of(outputs.iter());
        let text = format!("{operator} {} -> {} \"{label}\"", inputs.texts.join(" "), outputs.texts.join(" "));
        let description = Description {
            text,
            implementation: "between parts".into(),
            multiplications: 0,
            bytes: inputs.bytes + outputs.bytes,
            data_type: inputs.data_type.into(),
            sources: Vec::new(),
        };
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let number = StepNumber { graph: watch.graph(), step: 0 };
        watch.note(DoneStep { operator: operator.into(), label, number, began, ended: Instant::now(), thread }, description);
    }
}
