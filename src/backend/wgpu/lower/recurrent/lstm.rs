//! Long short-term memory units.

use super::network::{Network, Sequence, activate};
use crate::backend::wgpu::lower::kernel::Kernel;
use crate::backend::wgpu::lower::lowering::{Lowering, Operands, Tensor};
use crate::error::Result;
use crate::graph::ops::recurrent::{Lstm, LstmCell, RecurrentNetworkActivation, lstm_activations};

/// What LSTM units have besides the network.
struct Units<'a> {
    network: Network<'a>,
    /// The positions of the input, output, forget and cell gates.
    gates: [usize; 4],
    /// For the input, output and forget gates.
    peephole: Option<&'a Tensor>,
    activations: [RecurrentNetworkActivation; 3],
}

pub fn lstm(lowering: &mut Lowering<'_>, op: &Lstm, operands: &Operands) -> Result<()> {
    let units = Units {
        network: Network {
            input: operands.input(op.input),
            weight: operands.input(op.weight),
            recurrent_weight: operands.input(op.recurrent_weight),
            bias: operands.optional(op.bias),
            recurrent_bias: operands.optional(op.recurrent_bias),
            direction: op.direction,
            steps: op.steps as usize,
            hidden_size: op.hidden_size as usize,
            gates: 4,
        },
        gates: op.layout.iofg(),
        peephole: operands.optional(op.peephole_weight),
        activations: lstm_activations(op.activations.as_deref()),
    };
    let initial = [op.initial_hidden_state, op.initial_cell_state].map(|id| operands.optional(id));
    units.run(lowering, initial, operands.outputs())
}

pub fn lstm_cell(lowering: &mut Lowering<'_>, op: &LstmCell, operands: &Operands) -> Result<()> {
    lstm(lowering, &op.network(), operands)
}

impl Units<'_> {
    /// The outputs are the last hidden and cell states, and maybe all hidden states.
    fn run(&self, lowering: &mut Lowering<'_>, [hidden, cell]: [Option<&Tensor>; 2], outputs: &[Tensor]) -> Result<()> {
        let network = &self.network;
        let sequence = outputs.get(2).filter(|output| lowering.is_read(output));
        let projected = network.project(lowering)?;
        let hidden = network.states(lowering, sequence.is_some(), hidden)?;
        let cell = network.states(lowering, false, cell)?;
        for step in 0..network.steps {
            self.step(lowering, step, &projected, &hidden, &cell)?;
        }
        network.finish(lowering, &hidden, &outputs[0])?;
        network.finish(lowering, &cell, &outputs[1])?;
        match sequence {
            Some(output) => network.finish_all(lowering, &hidden, output),
            None => Ok(()),
        }
    }

    fn step(
        &self,
        lowering: &mut Lowering<'_>,
        step: usize,
        projected: &Sequence,
        hidden: &Sequence,
        cell: &Sequence,
    ) -> Result<()> {
        let [input_gate, output_gate, forget_gate, cell_gate] = self.gates;
        let [activation, cell_activation, state_activation] = self.activations;
        let size = self.network.hidden_size;
        let mut kernel = Kernel::new("lstm")
            .reads(lowering, "hidden", &hidden.at(step))
            .reads(lowering, "cell", &cell.at(step))
            .writes(lowering, "hidden_after", &hidden.at(step + 1))
            .writes(lowering, "cell_after", &cell.at(step + 1));
        if let Some(peephole) = self.peephole {
            kernel = kernel.reads(lowering, "peephole", peephole);
        }
        // The peepholes look at the cell state before the step, the output gate's too.
        let gate = |component: &str, gate: usize, peephole: Option<usize>, activation| {
            let mut sum = format!("of_input({gate}u, e) + sums.{component}");
            if let (Some(number), Some(_)) = (peephole, self.peephole) {
                sum.push_str(&format!(" + peephole((direction * 3u + {number}u) * {size}u + unit) * before"));
            }
            activate(activation, &sum)
        };
        let finish = format!(
            "let before = cell(e);\n\
             let i = {};\nlet o = {};\nlet f = {};\nlet g = {};\n\
             let after = f * before + i * g;\n\
             store_cell_after(e, after);\n\
             store_hidden_after(e, o * {});\n",
            gate("x", input_gate, Some(0), activation),
            gate("y", output_gate, Some(1), activation),
            gate("z", forget_gate, Some(2), activation),
            gate("w", cell_gate, None, cell_activation),
            activate(state_activation, "after"),
        );
        let sums = self.gates.map(|gate| (gate, "hidden"));
        self.network.step(lowering, kernel, &projected.at(step), &sums, &finish)
    }
}
