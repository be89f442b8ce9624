//! Long short-term memory whose hidden state is multiplied as bytes: quantized before each step by its range, as what it is multiplied with
//! was when the network was trained or converted.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, operators, rank};
use crate::graph::ops::recurrent::{RecurrentNetworkActivation, RecurrentNetworkDirection, check_activations};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};
use smallvec::smallvec;

const BYTES: DataTypes = DataTypes::of(&[DataType::Uint8, DataType::Int8]);
const FLOAT32: DataTypes = DataTypes::of(&[DataType::Float32]);

operators! {
    /// A network of long short-term memory, from what the gates have of its input on.
    pub struct QuantizedLstm: "MLOperatorOptions" in "" {
        /// What the gates have of the input, with all biases: `[steps, numDirections, batchSize, 4 * hiddenSize]`, ordered input,
        /// output, forget, cell.
        gates: OperandId,
        /// `[numDirections, 4 * hiddenSize, hiddenSize]`
        recurrent_weight: OperandId,
        /// Of the rows of the weights, `[numDirections, 4 * hiddenSize]`.
        scales: OperandId,
    } options {
        /// What is taken off the rows of the weights, `[numDirections, 4 * hiddenSize]`; default: zeros.
        zero_points: Option<OperandId> = None,
        /// As that of lstm.
        peephole_weight: Option<OperandId> = None,
        initial_hidden_state: Option<OperandId> = None,
        initial_cell_state: Option<OperandId> = None,
        return_sequence: bool = false,
        direction: RecurrentNetworkDirection = RecurrentNetworkDirection::Forward,
        activations: Option<Vec<RecurrentNetworkActivation>> = None,
    }
    [
        ("gates", Of(FLOAT32), rank(4)),
        ("recurrent_weight", Of(BYTES), rank(3)),
        ("scales", Of(FLOAT32), rank(2)),
        ("zero_points", SameAs("recurrent_weight"), rank(2)),
        ("peephole_weight", Of(FLOAT32), rank(2)),
        ("initial_hidden_state", Of(FLOAT32), rank(3)),
        ("initial_cell_state", Of(FLOAT32), rank(3)),
    ] -> Sequence [
        ("output0", Of(FLOAT32), rank(3)),
        ("output1", Of(FLOAT32), rank(3)),
        ("output2", Of(FLOAT32), rank(4)),
    ] {
        /// Runs a network of long short-term memory as lstm does, but for its products: before each step the hidden state of a
        /// direction is quantized as dynamicQuantizeLinear does it, and multiplied as bytes are in quantizedMatmul; the sums are scaled
        /// with both scales. The outputs are those of lstm.
        "quantizedLstm"
    }
}

impl Rule for QuantizedLstm {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let &[steps, directions, batches, columns] = operands.shape(self.gates) else { unreachable!("the row demands rank 4") };
        if directions != self.direction.count() || !columns.is_multiple_of(4) {
            let wanted = format!("{} directions, and four gates of units", self.direction.count());
            return Err(Error::argument("gates", format!("{directions} directions and {columns} gates of units"), wanted));
        }
        let hidden = columns / 4;
        let check = |argument: &str, id: Option<OperandId>, shape: &[u32]| match id {
            Some(id) => check_shape(argument, operands.shape(id), shape),
            None => Ok(()),
        };
        check("recurrentWeight", Some(self.recurrent_weight), &[directions, columns, hidden])?;
        check("scales", Some(self.scales), &[directions, columns])?;
        check("zeroPoints", self.zero_points, &[directions, columns])?;
        check("peepholeWeight", self.peephole_weight, &[directions, hidden * 3])?;
        check("initialHiddenState", self.initial_hidden_state, &[directions, batches, hidden])?;
        check("initialCellState", self.initial_cell_state, &[directions, batches, hidden])?;
        check_activations(self.activations.as_deref(), 3)?;
        let state = Descriptor::new(DataType::Float32, [directions, batches, hidden]);
        let mut outputs: Outputs = smallvec![state.clone(), state];
        if self.return_sequence {
            outputs.push(Descriptor::new(DataType::Float32, [steps, directions, batches, hidden]));
        }
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::{Enumerated, Value};
    use crate::graph::ops::recurrent::RecurrentNetworkDirection;
    use crate::graph::testing;
    use crate::graph::{DataType::*, OperandId};

    #[test]
    fn shapes() {
        let check = |shapes: [&'static [u32]; 7], both: bool, expected: Result<&[&str], &str>| {
            let types = [Float32, Int8, Float32, Int8, Float32, Float32, Float32];
            let operands: Vec<_> = types.into_iter().zip(shapes).collect();
            let mut values: Vec<Value> = (0..7).map(|id| Value::Operand(OperandId(id))).collect();
            let direction = if both { RecurrentNetworkDirection::Both } else { RecurrentNetworkDirection::Backward };
            values.extend([Value::Boolean(true), Value::Enumeration(direction.index())]);
            testing::check("quantizedLstm", &operands, &values, expected);
        };
        let one: [&[u32]; 7] = [&[5, 1, 2, 12], &[1, 12, 3], &[1, 12], &[1, 12], &[1, 9], &[1, 2, 3], &[1, 2, 3]];
        check(one, false, Ok(&["float32[1, 2, 3]", "float32[1, 2, 3]", "float32[5, 1, 2, 3]"]));
        let two: [&[u32]; 7] = [&[5, 2, 2, 12], &[2, 12, 3], &[2, 12], &[2, 12], &[2, 9], &[2, 2, 3], &[2, 2, 3]];
        check(two, true, Ok(&["float32[2, 2, 3]", "float32[2, 2, 3]", "float32[5, 2, 2, 3]"]));
        check(one, true, Err("gates"));
        let names = ["recurrentWeight", "scales", "zeroPoints", "peepholeWeight", "initialHiddenState", "initialCellState"];
        for (position, name) in names.into_iter().enumerate() {
            let mut shapes = one;
            shapes[position + 1] = if shapes[position + 1].len() == 2 { &[1, 13] } else { &[1, 2, 4] };
            check(shapes, false, Err(name));
        }
        let mut shapes = one;
        shapes[0] = &[5, 1, 2, 13];
        check(shapes, false, Err("gates"));
    }
}
