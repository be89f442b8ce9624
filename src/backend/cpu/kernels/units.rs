//! The gates of recurrent units, for a block of them: what is done with the products of a step.

use super::functions::Function;
use super::isa::{Arithmetic, Loop};
use crate::graph::ops::recurrent::{Gru, Lstm, RecurrentNetworkActivation, gru_activations, lstm_activations};

/// A kind of units.
#[derive(Debug)]
pub enum Unit {
    /// Gates: input, output, forget, cell.
    Lstm {
        positions: [usize; 4],
        /// Of the input, output and forget gates, of the cell gate, and of the cell state.
        activations: [Function; 3],
    },
    /// Gates: update, reset, new.
    Gru {
        positions: [usize; 3],
        /// Of the update and reset gates, and of the new gate.
        activations: [Function; 2],
        reset_after: bool,
    },
}

const CELL: usize = 3;
const NEW: usize = 2;

fn function(activation: &RecurrentNetworkActivation) -> Function {
    match activation {
        RecurrentNetworkActivation::Relu => Function::Relu,
        RecurrentNetworkActivation::Sigmoid => Function::Sigmoid,
        RecurrentNetworkActivation::Tanh => Function::Tanh,
    }
}

impl Unit {
    pub fn lstm(op: &Lstm) -> Unit {
        let activations = lstm_activations(op.activations.as_deref());
        Unit::Lstm { positions: op.layout.iofg(), activations: activations.each_ref().map(function) }
    }

    pub fn gru(op: &Gru) -> Unit {
        let activations = gru_activations(op.activations.as_deref());
        let activations = activations.each_ref().map(function);
        Unit::Gru { positions: op.layout.zrn(), activations, reset_after: op.reset_after }
    }

    pub fn gates(&self) -> usize {
        match self {
            Unit::Lstm { .. } => 4,
            Unit::Gru { .. } => 3,
        }
    }

    /// States that are outputs.
    pub fn states(&self) -> usize {
        match self {
            Unit::Lstm { .. } => 2,
            Unit::Gru { .. } => 1,
        }
    }

    /// Where a gate stands in the weights.
    pub fn position(&self, gate: usize) -> usize {
        match self {
            Unit::Lstm { positions, .. } => positions[gate],
            Unit::Gru { positions, .. } => positions[gate],
        }
    }

    /// How often all units have to wait for each other in a step.
    pub fn phases(&self) -> usize {
        match self {
            // The new gate multiplies the hidden state after the reset gates of all units.
            Unit::Gru { reset_after: false, .. } => 2,
            _ => 1,
        }
    }

    /// The gates whose products are needed in a phase.
    pub fn gates_of(&self, phase: usize) -> std::ops::Range<usize> {
        match (self.phases(), phase) {
            (1, _) => 0..self.gates(),
            (_, 0) => 0..NEW,
            _ => NEW..NEW + 1,
        }
    }

    /// Whether the reset gate is applied to a gate's product and its recurrent bias.
    pub fn is_inside(&self, gate: usize) -> bool {
        matches!(self, Unit::Gru { reset_after: true, .. }) && gate == NEW
    }
}

/// What units have beside their products; by unit, blocks filled up.
#[derive(Debug)]
pub struct Gates {
    /// The bias inside of the reset gate.
    pub inside: Vec<f32>,
    /// The weights of the cell state for the input, output and forget gates.
    pub peephole: Option<Vec<f32>>,
}

impl Gates {
    pub fn bytes(&self) -> usize {
        (self.inside.len() + self.peephole.as_ref().map_or(0, Vec::len)) * 4
    }

    pub fn of_block(&self, block: usize, lanes: usize) -> GatesOfBlock<'_> {
        let units = self.inside.len();
        GatesOfBlock {
            inside: &self.inside[block * lanes..][..lanes],
            peephole: self
                .peephole
                .as_deref()
                .map(|weights| std::array::from_fn(|gate| &weights[gate * units + block * lanes..][..lanes])),
        }
    }
}

#[derive(Clone, Copy)]
pub struct GatesOfBlock<'a> {
    inside: &'a [f32],
    peephole: Option<[&'a [f32]; 3]>,
}

/// A block of units in a phase of a step.
pub struct Block<'a> {
    pub unit: &'a Unit,
    pub phase: usize,
    pub gates: GatesOfBlock<'a>,
    /// The products of the inputs, one gate after the other, with all biases that may be added there.
    pub input: &'a [f32],
    /// The products of the hidden state.
    pub products: [&'a [f32]; 4],
    pub hidden: &'a mut [f32],
    /// Cell state, or update gate.
    pub other: &'a mut [f32],
    /// What the next product multiplies.
    pub next: &'a mut [f32],
}

impl Loop for Block<'_> {
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        match self.hidden.len() {
            32 => self.compute::<A, 32>(),
            16 => self.compute::<A, 16>(),
            8 => self.compute::<A, 8>(),
            _ => unreachable!("a block is as wide as a tile"),
        }
    }
}

impl Block<'_> {
    // Loops of constant length, and no closures: these may be left out of line, and are then compiled without the
    // instruction set.
    #[inline(always)]
    fn compute<A: Arithmetic, const LANES: usize>(self) {
        let Block { unit, phase, gates, input, products, hidden, other, next } = self;
        let (input, _) = input.as_chunks::<LANES>();
        let hidden: &mut [f32; LANES] = hidden.first_chunk_mut().expect("a whole block");
        let other: &mut [f32; LANES] = other.first_chunk_mut().expect("a whole block");
        let next: &mut [f32; LANES] = next.first_chunk_mut().expect("a whole block");
        let mut sums = [[0f32; LANES]; 4];
        for (gate, input) in input.iter().enumerate() {
            let product: &[f32; LANES] = products[gate].first_chunk().expect("a whole block");
            for j in 0..LANES {
                sums[gate][j] = input[j] + product[j];
            }
        }
        match unit {
            Unit::Lstm { activations, .. } => {
                if let Some(peephole) = gates.peephole {
                    for (sums, weights) in sums.iter_mut().zip(peephole) {
                        let weights: &[f32; LANES] = weights.first_chunk().expect("a whole block");
                        for j in 0..LANES {
                            sums[j] += weights[j] * other[j];
                        }
                    }
                }
                activations[0].apply::<A>(sums[..CELL].as_flattened_mut());
                activations[1].apply::<A>(&mut sums[CELL]);
                let [i, o, f, g] = &sums;
                let mut cell = *other;
                for j in 0..LANES {
                    cell[j] = f[j] * cell[j] + i[j] * g[j];
                }
                *other = cell;
                activations[2].apply::<A>(&mut cell);
                for j in 0..LANES {
                    cell[j] *= o[j];
                }
                *next = cell;
                *hidden = cell;
            }
            Unit::Gru { activations, reset_after: true, .. } => {
                activations[0].apply::<A>(sums[..NEW].as_flattened_mut());
                let product: &[f32; LANES] = products[NEW].first_chunk().expect("a whole block");
                let inside: &[f32; LANES] = gates.inside.first_chunk().expect("a whole block");
                let [z, r, ..] = sums;
                let mut n = input[NEW];
                for j in 0..LANES {
                    n[j] += r[j] * (product[j] + inside[j]);
                }
                activations[1].apply::<A>(&mut n);
                mix(&z, &n, hidden, next);
            }
            Unit::Gru { activations, .. } if phase == 0 => {
                activations[0].apply::<A>(sums[..NEW].as_flattened_mut());
                let [z, r, ..] = &sums;
                *other = *z;
                for j in 0..LANES {
                    next[j] = r[j] * hidden[j];
                }
            }
            Unit::Gru { activations, .. } => {
                let n = &mut sums[NEW];
                activations[1].apply::<A>(n);
                mix(other, n, hidden, next);
            }
        }
    }
}

/// The new hidden state of a GRU.
#[inline(always)]
fn mix<const LANES: usize>(z: &[f32; LANES], n: &[f32; LANES], hidden: &mut [f32; LANES], next: &mut [f32; LANES]) {
    let mut mixed = *hidden;
    for j in 0..LANES {
        mixed[j] = z[j] * mixed[j] + n[j] * (1.0 - z[j]);
    }
    *hidden = mixed;
    *next = mixed;
}
