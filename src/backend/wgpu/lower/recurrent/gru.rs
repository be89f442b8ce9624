//! Gated recurrent units.

use super::network::{Network, Sequence, activate};
use crate::backend::wgpu::lower::kernel::Kernel;
use crate::backend::wgpu::lower::lowering::{Lowering, Operands, Tensor};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::recurrent::{Gru, GruCell, RecurrentNetworkActivation, gru_activations};

/// What gated recurrent units have besides the network.
struct Units<'a> {
    network: Network<'a>,
    /// The positions of the update, reset and new gates.
    gates: [usize; 3],
    activations: [RecurrentNetworkActivation; 2],
    reset_after: bool,
}

pub fn gru(lowering: &mut Lowering<'_>, op: &Gru, operands: &Operands) -> Result<()> {
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
            gates: 3,
        },
        gates: op.layout.zrn(),
        activations: gru_activations(op.activations.as_deref()),
        reset_after: op.reset_after,
    };
    units.run(lowering, operands.optional(op.initial_hidden_state), operands.outputs())
}

pub fn gru_cell(lowering: &mut Lowering<'_>, op: &GruCell, operands: &Operands) -> Result<()> {
    gru(lowering, &op.network(), operands)
}

impl Units<'_> {
    /// The outputs are the last hidden state, and maybe all of them.
    fn run(&self, lowering: &mut Lowering<'_>, initial: Option<&Tensor>, outputs: &[Tensor]) -> Result<()> {
        let network = &self.network;
        let sequence = outputs.get(1).filter(|output| lowering.is_read(output));
        let projected = network.project(lowering)?;
        let hidden = network.states(lowering, sequence.is_some(), initial)?;
        // Applied before the product, the reset gates of all units are needed for each.
        let reset = if self.reset_after { None } else { Some(lowering.temporary(DataType::Float32, &[network.state_length()])?) };
        for step in 0..network.steps {
            self.step(lowering, step, &projected, &hidden, reset.as_ref())?;
        }
        network.finish(lowering, &hidden, &outputs[0])?;
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
        reset_hidden: Option<&Tensor>,
    ) -> Result<()> {
        let [update, reset, new] = self.gates;
        let [activation, new_activation] = self.activations;
        let gate = |gate: usize, component: &str| activate(activation, &format!("of_input({gate}u, e) + sums.{component}"));
        let projected = projected.at(step);
        let mut kernel = Kernel::new("gru").reads(lowering, "hidden", &hidden.at(step));
        let mut sums = vec![(update, "hidden"), (new, "hidden")];
        let mut of_hidden = "sums.y".to_owned();
        if let Some(reset_hidden) = reset_hidden {
            let kernel_before =
                Kernel::new("gru").reads(lowering, "hidden", &hidden.at(step)).writes(lowering, "reset_hidden", reset_hidden);
            let finish = format!("store_reset_hidden(e, {} * hidden(e));\n", gate(reset, "x"));
            self.network.step(lowering, kernel_before, &projected, &[(reset, "hidden")], &finish)?;
            kernel = kernel.reads(lowering, "reset_hidden", reset_hidden);
            sums[1] = (new, "reset_hidden");
        } else {
            sums.push((reset, "hidden"));
            of_hidden = format!("{} * sums.y", gate(reset, "z"));
        }
        let finish = format!(
            "let n = {};\nlet z = {};\n\
             store_hidden_after(e, z * hidden(e) + n * (1.0f - z));\n",
            activate(new_activation, &format!("of_input({new}u, e) + {of_hidden}")),
            gate(update, "x"),
        );
        let kernel = kernel.writes(lowering, "hidden_after", &hidden.at(step + 1));
        self.network.step(lowering, kernel, &projected, &sums, &finish)
    }
}
