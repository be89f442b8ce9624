//! Recurrent networks, and single steps of them.

use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::FLOAT;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::{check_dimension, check_length, check_shape};
use crate::graph::{Descriptor, OperandId, Operands, Shape};
use smallvec::smallvec;

enumeration! {
    /// How the gates of a GRU are ordered in weights and biases: update (z), reset (r), new (n).
    "MLGruWeightLayout" GruWeightLayout { Zrn "zrn", Rzn "rzn" }
}

impl GruWeightLayout {
    /// The positions of the update, the reset and the new gate.
    pub fn zrn(self) -> [usize; 3] {
        match self {
            GruWeightLayout::Zrn => [0, 1, 2],
            GruWeightLayout::Rzn => [1, 0, 2],
        }
    }
}

enumeration! {
    /// How the gates of an LSTM are ordered in weights and biases: input (i), output (o), forget (f), cell (g).
    "MLLstmWeightLayout" LstmWeightLayout { Iofg "iofg", Ifgo "ifgo" }
}

impl LstmWeightLayout {
    /// The positions of the input, the output, the forget and the cell gate.
    pub fn iofg(self) -> [usize; 4] {
        match self {
            LstmWeightLayout::Iofg => [0, 1, 2, 3],
            LstmWeightLayout::Ifgo => [0, 3, 1, 2],
        }
    }
}

enumeration! {
    /// What is applied to a gate.
    "MLRecurrentNetworkActivation" RecurrentNetworkActivation { Relu "relu", Sigmoid "sigmoid", Tanh "tanh" }
}

use RecurrentNetworkActivation::{Sigmoid, Tanh};

enumeration! {
    /// In which direction the steps are taken.
    "MLRecurrentNetworkDirection" RecurrentNetworkDirection { Forward "forward", Backward "backward", Both "both" }
}

impl RecurrentNetworkDirection {
    pub fn count(self) -> u32 {
        if self == RecurrentNetworkDirection::Both { 2 } else { 1 }
    }

    /// Whether the direction of that number begins with the last step.
    pub fn is_backward(self, direction: usize) -> bool {
        direction == 1 || self == RecurrentNetworkDirection::Backward
    }
}

operators! {
    /// A network of gated recurrent units.
    pub struct Gru: "MLGruOptions" in "api-mlgraphbuilder-gru" {
        input: OperandId,
        weight: OperandId,
        recurrent_weight: OperandId,
        steps: u32,
        hidden_size: u32,
    } options {
        /// The biases of the input, `[numDirections, 3 * hiddenSize]`; default: zeros.
        bias: Option<OperandId> = None,
        /// The biases of the hidden state, `[numDirections, 3 * hiddenSize]`; default: zeros.
        recurrent_bias: Option<OperandId> = None,
        /// The hidden state before the first step, `[numDirections, batchSize, hiddenSize]`; default: zeros.
        initial_hidden_state: Option<OperandId> = None,
        /// Whether the reset gate is applied after the hidden state's product with its weights, or before.
        reset_after: bool = true,
        /// Whether to return the hidden state of each step, too.
        return_sequence: bool = false,
        /// The order of the steps: from the first to the last, from the last to the first, or both ways with two networks.
        direction: RecurrentNetworkDirection = RecurrentNetworkDirection::Forward,
        /// The order of the gates in weights and biases: update (z), reset (r), new (n).
        layout: GruWeightLayout = GruWeightLayout::Zrn,
        /// Two functions: for the update and reset gates, and for the new gate. Default: sigmoid and tanh.
        activations: Option<Vec<RecurrentNetworkActivation>> = None,
    }
    [
        ("input", Of(FLOAT), rank(3)),
        ("weight", SameAs("input"), rank(3)),
        ("recurrent_weight", SameAs("input"), rank(3)),
        ("bias", SameAs("input"), rank(2)),
        ("recurrent_bias", SameAs("input"), rank(2)),
        ("initial_hidden_state", SameAs("input"), rank(3)),
    ] -> Sequence [("output0", SameAs("input"), rank(3)), ("output1", SameAs("input"), rank(4))] {
        /// Runs gated recurrent units over an input of shape `[steps, batchSize, inputSize]`. Returns the last hidden
        /// state, `[numDirections, batchSize, hiddenSize]`, and with `returnSequence` also that of each step,
        /// `[steps, numDirections, batchSize, hiddenSize]`.
        "gru"
    }
}

impl Rule for Gru {
    /// `#api-mlgraphbuilder-gru`, from the check of the steps on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let network = Network::new(operands, self.input, self.direction, Gates { count: 3, hidden_size: self.hidden_size });
        network.check_steps(self.steps)?;
        network.check_weights(self.weight, self.recurrent_weight)?;
        network.gates.check_size()?;
        network.check_biases(self.bias, self.recurrent_bias)?;
        network.check_state("initialHiddenState", self.initial_hidden_state)?;
        check_activations(self.activations.as_deref(), 2)?;
        Ok(network.outputs(1, self.return_sequence))
    }
}

operators! {
    /// A step of gated recurrent units.
    pub struct GruCell: "MLGruCellOptions" in "api-mlgraphbuilder-grucell" {
        input: OperandId,
        weight: OperandId,
        recurrent_weight: OperandId,
        hidden_state: OperandId,
        hidden_size: u32,
    } options {
        /// The biases of the input, `[3 * hiddenSize]`; default: zeros.
        bias: Option<OperandId> = None,
        /// The biases of the hidden state, `[3 * hiddenSize]`; default: zeros.
        recurrent_bias: Option<OperandId> = None,
        /// Whether the reset gate is applied after the hidden state's product with its weights, or before.
        reset_after: bool = true,
        /// The order of the gates in weights and biases: update (z), reset (r), new (n).
        layout: GruWeightLayout = GruWeightLayout::Zrn,
        /// Two functions: for the update and reset gates, and for the new gate. Default: sigmoid and tanh.
        activations: Option<Vec<RecurrentNetworkActivation>> = None,
    }
    [
        ("input", Of(FLOAT), rank(2)),
        ("weight", SameAs("input"), rank(2)),
        ("recurrent_weight", SameAs("input"), rank(2)),
        ("hidden_state", SameAs("input"), rank(2)),
        ("bias", SameAs("input"), rank(1)),
        ("recurrent_bias", SameAs("input"), rank(1)),
    ] -> One [("output", SameAs("input"), rank(2))] {
        /// Takes one step of gated recurrent units, with an input of shape `[batchSize, inputSize]`. Returns the new
        /// hidden state, `[batchSize, hiddenSize]`.
        "gruCell"
    }
}

impl Rule for GruCell {
    /// `#api-mlgraphbuilder-grucell`, from the check of the weight on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let cell = Network::of_cell(operands, self.input, Gates { count: 3, hidden_size: self.hidden_size });
        cell.check_weights(self.weight, self.recurrent_weight)?;
        cell.check_state("hiddenState", Some(self.hidden_state))?;
        cell.gates.check_size()?;
        cell.check_biases(self.bias, self.recurrent_bias)?;
        check_activations(self.activations.as_deref(), 2)?;
        one(cell.state())
    }
}

impl GruCell {
    /// The network of one step that this is. Its operands' shapes begin with sizes of 1 which those of a cell lack.
    pub fn network(&self) -> Gru {
        Gru {
            input: self.input,
            weight: self.weight,
            recurrent_weight: self.recurrent_weight,
            steps: 1,
            hidden_size: self.hidden_size,
            bias: self.bias,
            recurrent_bias: self.recurrent_bias,
            initial_hidden_state: Some(self.hidden_state),
            reset_after: self.reset_after,
            return_sequence: false,
            direction: RecurrentNetworkDirection::Forward,
            layout: self.layout,
            activations: self.activations.clone(),
        }
    }
}

/// The activations of a GRU: that of the update and reset gates, and that of the new gate.
pub fn gru_activations(given: Option<&[RecurrentNetworkActivation]>) -> [RecurrentNetworkActivation; 2] {
    given.map_or([Sigmoid, Tanh], |list| [list[0], list[1]])
}

operators! {
    /// A network of long short-term memory.
    pub struct Lstm: "MLLstmOptions" in "api-mlgraphbuilder-lstm" {
        input: OperandId,
        weight: OperandId,
        recurrent_weight: OperandId,
        steps: u32,
        hidden_size: u32,
    } options {
        /// The biases of the input, `[numDirections, 4 * hiddenSize]`; default: zeros.
        bias: Option<OperandId> = None,
        /// The biases of the hidden state, `[numDirections, 4 * hiddenSize]`; default: zeros.
        recurrent_bias: Option<OperandId> = None,
        /// The weights of the cell state for the input, output and forget gates, in this order, `[numDirections, 3 * hiddenSize]`; default:
        /// zeros.
        peephole_weight: Option<OperandId> = None,
        /// The hidden state before the first step, `[numDirections, batchSize, hiddenSize]`; default: zeros.
        initial_hidden_state: Option<OperandId> = None,
        /// The cell state before the first step, `[numDirections, batchSize, hiddenSize]`; default: zeros.
        initial_cell_state: Option<OperandId> = None,
        /// Whether to return the hidden state of each step, too.
        return_sequence: bool = false,
        /// The order of the steps: from the first to the last, from the last to the first, or both ways with two networks.
        direction: RecurrentNetworkDirection = RecurrentNetworkDirection::Forward,
        /// The order of the gates in weights and biases: input (i), output (o), forget (f), cell (g).
        layout: LstmWeightLayout = LstmWeightLayout::Iofg,
        /// Three functions: for the input, forget and output gates, for the cell gate, and for the cell state. Default: sigmoid,
        /// tanh and tanh.
        activations: Option<Vec<RecurrentNetworkActivation>> = None,
    }
    [
        ("input", Of(FLOAT), rank(3)),
        ("weight", SameAs("input"), rank(3)),
        ("recurrent_weight", SameAs("input"), rank(3)),
        ("bias", SameAs("input"), rank(2)),
        ("recurrent_bias", SameAs("input"), rank(2)),
        ("peephole_weight", SameAs("input"), rank(2)),
        ("initial_hidden_state", SameAs("input"), rank(3)),
        ("initial_cell_state", SameAs("input"), rank(3)),
    ] -> Sequence [
        ("output0", SameAs("input"), rank(3)),
        ("output1", SameAs("input"), rank(3)),
        ("output2", SameAs("input"), rank(4)),
    ] {
        /// Runs a network of long short-term memory over an input of shape `[steps, batchSize, inputSize]`. Returns the
        /// last hidden state and the last cell state, each `[numDirections, batchSize, hiddenSize]`, and with
        /// `returnSequence` also the hidden state of each step, `[steps, numDirections, batchSize, hiddenSize]`.
        "lstm"
    }
}

impl Rule for Lstm {
    /// `#api-mlgraphbuilder-lstm`, from the check of the steps on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let network = Network::new(operands, self.input, self.direction, Gates { count: 4, hidden_size: self.hidden_size });
        network.check_steps(self.steps)?;
        network.check_weights(self.weight, self.recurrent_weight)?;
        network.gates.check_size()?;
        network.check_biases(self.bias, self.recurrent_bias)?;
        network.check_peephole(self.peephole_weight)?;
        network.check_state("initialHiddenState", self.initial_hidden_state)?;
        network.check_state("initialCellState", self.initial_cell_state)?;
        check_activations(self.activations.as_deref(), 3)?;
        Ok(network.outputs(2, self.return_sequence))
    }
}

operators! {
    /// A step of long short-term memory.
    pub struct LstmCell: "MLLstmCellOptions" in "api-mlgraphbuilder-lstmcell" {
        input: OperandId,
        weight: OperandId,
        recurrent_weight: OperandId,
        hidden_state: OperandId,
        cell_state: OperandId,
        hidden_size: u32,
    } options {
        /// The biases of the input, `[4 * hiddenSize]`; default: zeros.
        bias: Option<OperandId> = None,
        /// The biases of the hidden state, `[4 * hiddenSize]`; default: zeros.
        recurrent_bias: Option<OperandId> = None,
        /// The weights of the cell state for the input, output and forget gates, in this order, `[3 * hiddenSize]`; default:
        /// zeros.
        peephole_weight: Option<OperandId> = None,
        /// The order of the gates in weights and biases: input (i), output (o), forget (f), cell (g).
        layout: LstmWeightLayout = LstmWeightLayout::Iofg,
        /// Three functions: for the input, forget and output gates, for the cell gate, and for the cell state. Default: sigmoid,
        /// tanh and tanh.
        activations: Option<Vec<RecurrentNetworkActivation>> = None,
    }
    [
        ("input", Of(FLOAT), rank(2)),
        ("weight", SameAs("input"), rank(2)),
        ("recurrent_weight", SameAs("input"), rank(2)),
        ("hidden_state", SameAs("input"), rank(2)),
        ("cell_state", SameAs("input"), rank(2)),
        ("bias", SameAs("input"), rank(1)),
        ("recurrent_bias", SameAs("input"), rank(1)),
        ("peephole_weight", SameAs("input"), rank(1)),
    ] -> Sequence [("output0", SameAs("input"), rank(2)), ("output1", SameAs("input"), rank(2))] {
        /// Takes one step of long short-term memory, with an input of shape `[batchSize, inputSize]`. Returns the new
        /// hidden state and the new cell state, each `[batchSize, hiddenSize]`.
        "lstmCell"
    }
}

impl Rule for LstmCell {
    /// `#api-mlgraphbuilder-lstmcell`, from the check of the weight on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let cell = Network::of_cell(operands, self.input, Gates { count: 4, hidden_size: self.hidden_size });
        cell.check_weights(self.weight, self.recurrent_weight)?;
        cell.check_state("hiddenState", Some(self.hidden_state))?;
        cell.check_state("cellState", Some(self.cell_state))?;
        cell.gates.check_size()?;
        cell.check_biases(self.bias, self.recurrent_bias)?;
        cell.check_peephole(self.peephole_weight)?;
        check_activations(self.activations.as_deref(), 3)?;
        Ok(smallvec![cell.state(), cell.state()])
    }
}

impl LstmCell {
    /// The network of one step that this is, like [`GruCell::network`].
    pub fn network(&self) -> Lstm {
        Lstm {
            input: self.input,
            weight: self.weight,
            recurrent_weight: self.recurrent_weight,
            steps: 1,
            hidden_size: self.hidden_size,
            bias: self.bias,
            recurrent_bias: self.recurrent_bias,
            peephole_weight: self.peephole_weight,
            initial_hidden_state: Some(self.hidden_state),
            initial_cell_state: Some(self.cell_state),
            return_sequence: false,
            direction: RecurrentNetworkDirection::Forward,
            layout: self.layout,
            activations: self.activations.clone(),
        }
    }
}

/// The activations of an LSTM: that of the input, forget and output gates, that of the cell gate, and that of the cell
/// state.
pub fn lstm_activations(given: Option<&[RecurrentNetworkActivation]>) -> [RecurrentNetworkActivation; 3] {
    given.map_or([Sigmoid, Tanh, Tanh], |list| [list[0], list[1], list[2]])
}

pub fn check_activations(given: Option<&[RecurrentNetworkActivation]>, count: usize) -> Result<()> {
    given.map_or(Ok(()), |list| check_length("activations", list.len(), count))
}

/// The gates of a unit: their number, and that of units.
#[derive(Clone, Copy)]
struct Gates {
    count: u32,
    hidden_size: u32,
}

impl Gates {
    /// The size of a dimension of that many of the gates. One that would overflow is that of no operand.
    fn size(self, count: u32) -> u32 {
        self.hidden_size.saturating_mul(count)
    }

    /// Both biases together must fit into one dimension.
    fn check_size(self) -> Result<()> {
        check_dimension("hiddenSize", self.hidden_size as u64 * 2 * self.count as u64).map(|_| ())
    }
}

/// What the shapes of a network's operands are made of. Those of a cell are the same without the directions and steps.
struct Network<'a> {
    operands: &'a Operands<'a>,
    input: &'a Descriptor,
    /// The number of directions; nothing for a cell.
    directions: Option<u32>,
    gates: Gates,
}

impl<'a> Network<'a> {
    fn new(operands: &'a Operands<'a>, input: OperandId, direction: RecurrentNetworkDirection, gates: Gates) -> Self {
        Network { operands, input: operands.descriptor(input), directions: Some(direction.count()), gates }
    }

    fn of_cell(operands: &'a Operands<'a>, input: OperandId, gates: Gates) -> Self {
        Network { operands, input: operands.descriptor(input), directions: None, gates }
    }

    /// `[batchSize, inputSize]`
    fn step(&self) -> [u32; 2] {
        let [.., batch_size, input_size] = self.input.shape[..] else { unreachable!("the input's rank is at least 2") };
        [batch_size, input_size]
    }

    /// These sizes, for each direction if there are directions.
    fn shape<const N: usize>(&self, sizes: [u32; N]) -> Shape {
        self.directions.into_iter().chain(sizes).collect()
    }

    fn check<const N: usize>(&self, argument: &str, operand: Option<OperandId>, sizes: [u32; N]) -> Result<()> {
        operand.map_or(Ok(()), |id| check_shape(argument, self.operands.shape(id), &self.shape(sizes)))
    }

    fn check_steps(&self, steps: u32) -> Result<()> {
        let allowed = self.input.shape[0];
        if steps == allowed {
            return Ok(());
        }
        Err(Error::argument("steps", steps, format!("the size of the input's first dimension ({allowed})")))
    }

    fn check_weights(&self, weight: OperandId, recurrent_weight: OperandId) -> Result<()> {
        let [_, input_size] = self.step();
        let rows = self.gates.size(self.gates.count);
        self.check("weight", Some(weight), [rows, input_size])?;
        self.check("recurrentWeight", Some(recurrent_weight), [rows, self.gates.hidden_size])
    }

    fn check_biases(&self, bias: Option<OperandId>, recurrent_bias: Option<OperandId>) -> Result<()> {
        let rows = self.gates.size(self.gates.count);
        self.check("bias", bias, [rows])?;
        self.check("recurrentBias", recurrent_bias, [rows])
    }

    fn check_peephole(&self, weight: Option<OperandId>) -> Result<()> {
        self.check("peepholeWeight", weight, [self.gates.size(3)])
    }

    fn check_state(&self, argument: &str, state: Option<OperandId>) -> Result<()> {
        let [batch_size, _] = self.step();
        self.check(argument, state, [batch_size, self.gates.hidden_size])
    }

    /// The descriptor of a hidden state or cell state.
    fn state(&self) -> Descriptor {
        let [batch_size, _] = self.step();
        Descriptor::new(self.input.data_type, self.shape([batch_size, self.gates.hidden_size]))
    }

    /// The last states, and where it is asked for the hidden state of each step.
    fn outputs(&self, states: usize, return_sequence: bool) -> Outputs {
        let mut outputs: Outputs = smallvec![self.state(); states];
        if return_sequence {
            let shape = [self.input.shape[0]].into_iter().chain(self.state().shape);
            outputs.push(Descriptor::new(self.input.data_type, shape));
        }
        outputs
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{self, *};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};
    use crate::graph::testing;

    const BOTH: Value = Enumeration(2);

    /// Changes a valid call in one place at a time, and checks what each change leads to.
    fn check_changes(name: &str, shapes: &[&[u32]], values: &[Value], valid: &[&str], changes: &[(Change, Expected)]) {
        let operands: Vec<(DataType, &[u32])> = shapes.iter().map(|&shape| (Float32, shape)).collect();
        testing::check(name, &operands, values, Ok(valid));
        for (change, expected) in changes {
            let (mut operands, mut values) = (operands.clone(), values.to_vec());
            match change {
                Change::Shape(operand, shape) => operands[*operand].1 = shape,
                Change::Type(operand) => operands[*operand].0 = Float16,
                Change::Value(position, value) => values[*position] = value.clone(),
            }
            testing::check(name, &operands, &values, *expected);
        }
    }

    type Expected = Result<&'static [&'static str], &'static str>;

    enum Change {
        Shape(usize, &'static [u32]),
        Type(usize),
        Value(usize, Value),
    }
    use Change::{Shape, Type};

    /// The ids of operands in a row.
    fn operands(ids: std::ops::Range<u32>) -> impl Iterator<Item = Value> {
        ids.map(|id| Operand(OperandId(id)))
    }

    #[test]
    fn gru() {
        // Two directions, five steps, batches of 3, inputs of 7, 4 units.
        let shapes: &[&[u32]] = &[&[5, 3, 7], &[2, 12, 7], &[2, 12, 4], &[2, 12], &[2, 12], &[2, 3, 4]];
        let mut values: Vec<Value> = operands(0..3).chain([Unsigned(5), Unsigned(4)]).chain(operands(3..6)).collect();
        values.extend([Boolean(true), Boolean(true), BOTH, Enumeration(1), EnumerationList(vec![0, 1])]);
        let changes: &[(Change, Expected)] = &[
            (Type(1), Err("weight")),
            (Type(5), Err("initialHiddenState")),
            (Shape(0, &[3, 7]), Err("input")),
            (Shape(3, &[2, 12, 1]), Err("bias")),
            (Change::Value(3, Unsigned(0)), Err("steps")),
            (Change::Value(3, Unsigned(6)), Err("steps")),
            (Shape(1, &[1, 12, 7]), Err("weight")),
            (Shape(1, &[2, 16, 7]), Err("weight")),
            (Shape(1, &[2, 12, 8]), Err("weight")),
            (Shape(2, &[2, 12, 5]), Err("recurrentWeight")),
            (Change::Value(4, Unsigned(0)), Err("weight")),
            (Change::Value(4, Unsigned(u32::MAX)), Err("weight")),
            (Change::Value(4, Unsigned(0x5555_5559)), Err("weight")),
            (Shape(3, &[1, 12]), Err("bias")),
            (Shape(4, &[2, 4]), Err("recurrentBias")),
            (Shape(5, &[2, 1, 4]), Err("initialHiddenState")),
            (Change::Value(10, Enumeration(0)), Err("weight")),
            (Change::Value(12, EnumerationList(vec![0])), Err("activations")),
            (Change::Value(12, EnumerationList(vec![])), Err("activations")),
            (Change::Value(12, Absent), Ok(&["float32[2, 3, 4]", "float32[5, 2, 3, 4]"])),
            (Change::Value(9, Boolean(false)), Ok(&["float32[2, 3, 4]"])),
            (Change::Value(5, Absent), Ok(&["float32[2, 3, 4]", "float32[5, 2, 3, 4]"])),
        ];
        check_changes("gru", shapes, &values, &["float32[2, 3, 4]", "float32[5, 2, 3, 4]"], changes);
    }

    #[test]
    fn gru_cell() {
        let shapes: &[&[u32]] = &[&[3, 7], &[12, 7], &[12, 4], &[3, 4], &[12], &[12]];
        let mut values: Vec<Value> = operands(0..4).chain([Unsigned(4)]).chain(operands(4..6)).collect();
        values.extend([Boolean(false), Enumeration(1), EnumerationList(vec![0, 1])]);
        let changes: &[(Change, Expected)] = &[
            (Type(3), Err("hiddenState")),
            (Shape(3, &[1, 3, 4]), Err("hiddenState")),
            (Shape(1, &[7, 12]), Err("weight")),
            (Shape(2, &[12, 5]), Err("recurrentWeight")),
            (Shape(3, &[3, 5]), Err("hiddenState")),
            (Change::Value(4, Unsigned(u32::MAX)), Err("weight")),
            (Shape(4, &[4]), Err("bias")),
            (Shape(5, &[16]), Err("recurrentBias")),
            (Change::Value(9, EnumerationList(vec![0, 1, 2])), Err("activations")),
        ];
        check_changes("gruCell", shapes, &values, &["float32[3, 4]"], changes);
    }

    #[test]
    fn lstm() {
        let shapes: &[&[u32]] = &[&[5, 3, 7], &[1, 16, 7], &[1, 16, 4], &[1, 16], &[1, 16], &[1, 12], &[1, 3, 4], &[1, 3, 4]];
        let mut values: Vec<Value> = operands(0..3).chain([Unsigned(5), Unsigned(4)]).chain(operands(3..8)).collect();
        values.extend([Boolean(false), Enumeration(1), Enumeration(1), EnumerationList(vec![0, 1, 2])]);
        let states: &[&str] = &["float32[1, 3, 4]", "float32[1, 3, 4]"];
        let changes: &[(Change, Expected)] = &[
            (Type(7), Err("initialCellState")),
            (Change::Value(3, Unsigned(0)), Err("steps")),
            (Shape(1, &[1, 12, 7]), Err("weight")),
            (Shape(2, &[1, 16, 7]), Err("recurrentWeight")),
            (Shape(3, &[1, 12]), Err("bias")),
            (Shape(4, &[2, 16]), Err("recurrentBias")),
            (Shape(5, &[1, 16]), Err("peepholeWeight")),
            (Shape(6, &[1, 3, 5]), Err("initialHiddenState")),
            (Shape(7, &[2, 3, 4]), Err("initialCellState")),
            (Change::Value(11, BOTH), Err("weight")),
            (Change::Value(13, EnumerationList(vec![0, 1])), Err("activations")),
            (Change::Value(10, Boolean(true)), Ok(&["float32[1, 3, 4]", "float32[1, 3, 4]", "float32[5, 1, 3, 4]"])),
        ];
        check_changes("lstm", shapes, &values, states, changes);
    }

    #[test]
    fn lstm_cell() {
        let shapes: &[&[u32]] = &[&[3, 7], &[16, 7], &[16, 4], &[3, 4], &[3, 4], &[16], &[16], &[12]];
        let mut values: Vec<Value> = operands(0..5).chain([Unsigned(4)]).chain(operands(5..8)).collect();
        values.extend([Enumeration(1), EnumerationList(vec![0, 1, 2])]);
        let changes: &[(Change, Expected)] = &[
            (Type(4), Err("cellState")),
            (Shape(1, &[16, 6]), Err("weight")),
            (Shape(2, &[12, 4]), Err("recurrentWeight")),
            (Shape(3, &[4, 4]), Err("hiddenState")),
            (Shape(4, &[3, 3]), Err("cellState")),
            (Shape(5, &[12]), Err("bias")),
            (Shape(6, &[4]), Err("recurrentBias")),
            (Shape(7, &[16]), Err("peepholeWeight")),
            (Change::Value(10, EnumerationList(vec![0, 1])), Err("activations")),
        ];
        check_changes("lstmCell", shapes, &values, &["float32[3, 4]", "float32[3, 4]"], changes);
    }

    #[test]
    fn both_biases_must_fit_into_a_dimension() {
        // A recurrent weight of so many units cannot be made: the check is tested alone.
        assert!(super::Gates { count: 3, hidden_size: 1 << 29 }.check_size().is_err());
        assert!(super::Gates { count: 4, hidden_size: u32::MAX }.check_size().is_err());
        assert!(super::Gates { count: 4, hidden_size: (i32::MAX / 8) as u32 }.check_size().is_ok());
    }
}
