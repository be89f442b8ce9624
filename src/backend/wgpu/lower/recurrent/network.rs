//! What networks share: their operands, their states from step to step, the products with what they read and with their states.

use crate::backend::wgpu::lower::kernel::{Kernel, grid};
use crate::backend::wgpu::lower::lowering::{Lowering, Tensor};
use crate::backend::wgpu::lower::product::{End, Product};
use crate::backend::wgpu::lower::workgroup::{Combination, SUMS, parameters};
use crate::backend::wgpu::shader::size;
use crate::compiler::ALIGNMENT;
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::recurrent::{RecurrentNetworkActivation, RecurrentNetworkDirection};

/// A network's operands and sizes. A single step is a network of one.
pub struct Network<'a> {
    /// [steps, batches, input size]
    pub input: &'a Tensor,
    /// [directions, gates * hidden size, input size]
    pub weight: &'a Tensor,
    /// [directions, gates * hidden size, hidden size]
    pub recurrent_weight: &'a Tensor,
    pub bias: Option<&'a Tensor>,
    pub recurrent_bias: Option<&'a Tensor>,
    pub direction: RecurrentNetworkDirection,
    pub steps: usize,
    pub hidden_size: usize,
    pub gates: usize,
}

/// Float32 memory for each of several steps, which can be bound for itself.
pub struct Sequence {
    pub tensor: Tensor,
    /// Elements of a step, and from one step to the next.
    pub length: usize,
    pub pitch: usize,
    pub slots: usize,
}

impl Sequence {
    pub fn new(lowering: &mut Lowering<'_>, slots: usize, length: usize) -> Result<Self> {
        let pitch = length.next_multiple_of(ALIGNMENT / 4);
        Ok(Sequence { tensor: lowering.temporary(DataType::Float32, &[slots, pitch])?, length, pitch, slots })
    }

    /// The memory of a step; that of an earlier one is used again when there are not as many.
    pub fn at(&self, step: usize) -> Tensor {
        let mut tensor = self.tensor.clone();
        tensor.shape = vec![self.length];
        tensor.memory.offset += step % self.slots * self.pitch * 4;
        tensor.memory.length = self.length * 4;
        tensor
    }

    /// Fills the first step with a state, or zeros.
    pub fn begin(&self, lowering: &mut Lowering<'_>, state: Option<&Tensor>) -> Result<()> {
        let kernel = Kernel::new("state");
        match state {
            Some(state) => kernel.reads(lowering, "state", state).each(lowering, &self.at(0), "return state(i);"),
            None => kernel.each(lowering, &self.at(0), "return 0.0f;"),
        }
    }
}

impl Network<'_> {
    pub fn directions(&self) -> usize {
        self.direction.count() as usize
    }

    pub fn batches(&self) -> usize {
        self.input.shape[self.input.shape.len() - 2]
    }

    /// Elements of a state.
    pub fn state_length(&self) -> usize {
        self.directions() * self.batches() * self.hidden_size
    }

    /// An expression of the step in time at which a direction is at a position, or the other way around.
    pub fn time_step(&self, direction: &str, position: &str) -> String {
        let last = size(self.steps - 1);
        match self.direction {
            RecurrentNetworkDirection::Forward => position.to_owned(),
            RecurrentNetworkDirection::Backward => format!("({last}u - {position})"),
            RecurrentNetworkDirection::Both => format!("select({position}, {last}u - {position}, {direction} == 1u)"),
        }
    }

    /// What depends on the input, with its biases: for each step [directions, batches, gates, hidden size].
    pub fn project(&self, lowering: &mut Lowering<'_>) -> Result<Sequence> {
        let (directions, batches, steps) = (self.directions(), self.batches(), self.steps);
        let depth = *self.input.shape.last().expect("inputs have rank 2 or 3");
        let columns = self.gates * self.hidden_size;
        let projected = Sequence::new(lowering, steps, directions * batches * columns)?;
        let Sequence { length, pitch, .. } = projected;
        let rows = steps * batches;
        let mut end = End { reads: Vec::new(), text: String::new(), then: None };
        let (of_direction, of_rows) = (size(batches * columns), size(rows));
        let (pitch, batches_of) = (size(pitch), size(batches));
        // The space between steps belongs to nobody.
        let within = format!("min(i % {pitch}u, {}u)", size(length - 1));
        if let Some(bias) = self.bias {
            end.reads.push(("bias", bias));
            end.text = format!("let j = {within};\nx += bias(j / {of_direction}u * {columns}u + j % {columns}u);\n");
        }
        let product = Product {
            label: "recurrent",
            batches: directions,
            rows,
            depth,
            columns,
            by_depth: [true, true],
            reads: vec![("input", self.input), ("weight", self.weight)],
            functions: format!(
                "fn left_at(batch: u32, row: u32, k: u32) -> f32 {{\n\
                 let step = row / {batches_of}u;\n\
                 return input(({position} * {batches_of}u + row % {batches_of}u) * {depth}u + k);\n}}\n\
                 fn right_at(batch: u32, k: u32, column: u32) -> f32 {{\n\
                 return weight((batch * {columns}u + column) * {depth}u + k);\n}}\n\
                 fn place(batch: u32, row: u32, column: u32) -> u32 {{\n\
                 return row / {batches_of}u * {pitch}u + (batch * {batches_of}u + row % {batches_of}u) * {columns}u + column;\n}}\n",
                position = self.time_step("batch", "step"),
            ),
            number: format!(
                "({within} / {of_direction}u * {of_rows}u + i / {pitch}u * {batches_of}u + {within} / {columns}u % {batches_of}u) * {columns}u \
                 + {within} % {columns}u",
            ),
            end,
        };
        product.lower(lowering, &projected.tensor)?;
        Ok(projected)
    }

    /// Memory for a state before and after each step; only for two of them when the others are not wanted.
    pub fn states(&self, lowering: &mut Lowering<'_>, all: bool, initial: Option<&Tensor>) -> Result<Sequence> {
        let states = Sequence::new(lowering, if all { self.steps + 1 } else { 2 }, self.state_length())?;
        states.begin(lowering, initial)?;
        Ok(states)
    }

    /// A kernel for each unit `e` of each batch and direction: `sums` is a vector of products of rows of the recurrent
    /// weights and of vectors, given by gate and the name of what is multiplied; then `finish` is done. What is bound:
    /// `projected`, `recurrent`, `recurrent_bias`, and what the kernel has. `of_input(gate)` is what depends on the input.
    pub fn step(
        &self,
        lowering: &mut Lowering<'_>,
        kernel: Kernel,
        projected: &Tensor,
        sums: &[(usize, &str)],
        finish: &str,
    ) -> Result<()> {
        let (batches, hidden, gates) = (self.batches(), self.hidden_size, self.gates);
        let lanes = if hidden <= 32 { 32 } else { 64 };
        let units = self.state_length();
        let mut kernel = kernel.reads(lowering, "projected", projected).reads(lowering, "recurrent", self.recurrent_weight);
        let mut bias = "0.0f";
        if let Some(tensor) = self.recurrent_bias {
            kernel = kernel.reads(lowering, "recurrent_bias", tensor);
            bias = "recurrent_bias((e / OF_DIRECTION * GATES + gate) * HIDDEN + e % HIDDEN)";
        }
        let bias = bias
            .replace("OF_DIRECTION", &format!("{}u", size(batches * hidden)))
            .replace("GATES", &format!("{gates}u"))
            .replace("HIDDEN", &format!("{hidden}u"));
        let components = ["x", "y", "z", "w"];
        let mut multiply = String::new();
        let mut biases = String::new();
        for ((gate, vector), component) in sums.iter().zip(components) {
            multiply.push_str(&format!(
                "total.{component} += recurrent((direction * {}u + {}u + unit) * {hidden}u + k) * {vector}(batch * {hidden}u + k);\n",
                gates * hidden,
                gate * hidden,
            ));
            biases.push_str(&format!("sums.{component} += bias_of({gate}u, e);\n"));
        }
        let combination = Combination {
            lanes,
            array: "totals",
            value: "vec4<f32>",
            combine: &|a, b| format!("({a} + {b})"),
            in_subgroup: Some(SUMS),
        };
        let (declared, combine) = (combination.declare(), combination.text(lowering));
        let parameters = parameters(lowering);
        let (row, grid) = grid(lowering, units);
        let [row, units, batches] = [row, units, batches].map(size);
        let text = format!(
            "fn bias_of(gate: u32, e: u32) -> f32 {{ return {bias}; }}\n\
             fn of_input(gate: u32, e: u32) -> f32 {{\n\
             return projected((e / {hidden}u * {gates}u + gate) * {hidden}u + e % {hidden}u);\n}}\n\
             fn relu(x: f32) -> f32 {{ return select(x, 0.0f, x <= 0.0f); }}\n\
             {declared}\
             @compute @workgroup_size({lanes}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
             @builtin(local_invocation_index) lane: u32{parameters}) {{\n\
             let e = group.y * {row}u + group.x;\n\
             if e >= {units}u {{ return; }}\n\
             let unit = e % {hidden}u;\n\
             let batch = e / {hidden}u;\n\
             let direction = batch / {batches}u;\n\
             var total = vec4<f32>();\n\
             for (var k = lane; k < {hidden}u; k += {lanes}u) {{\n{multiply}}}\n\
             {combine}\
             if lane == 0u {{\n\
             var sums = totals[0];\n\
             {biases}{finish}}}\n}}\n"
        );
        kernel.declare(&text).run(lowering, grid)
    }

    /// Writes a state to an output.
    pub fn finish(&self, lowering: &mut Lowering<'_>, states: &Sequence, output: &Tensor) -> Result<()> {
        if !lowering.is_read(output) {
            return Ok(());
        }
        Kernel::new("state").reads(lowering, "state", &states.at(self.steps)).each(lowering, output, "return state(i);")
    }

    /// Writes the states after all steps to an output, [steps, directions, batches, hidden size].
    pub fn finish_all(&self, lowering: &mut Lowering<'_>, states: &Sequence, output: &Tensor) -> Result<()> {
        let (length, pitch) = (size(states.length), size(states.pitch));
        let step =
            self.time_step(&format!("(i % {length}u / {}u)", size(self.batches() * self.hidden_size)), &format!("i / {length}u"));
        let body = format!("return states(({step} + 1u) * {pitch}u + i % {length}u);");
        Kernel::new("states").reads(lowering, "states", &states.tensor).each(lowering, output, &body)
    }
}

/// An activation of an expression.
pub fn activate(activation: RecurrentNetworkActivation, x: &str) -> String {
    match activation {
        RecurrentNetworkActivation::Relu => format!("relu({x})"),
        RecurrentNetworkActivation::Sigmoid => format!("sigmoid_f32({x})"),
        RecurrentNetworkActivation::Tanh => format!("tanh_f32({x})"),
    }
}
