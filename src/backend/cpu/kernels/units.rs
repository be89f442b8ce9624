//! The gates of recurrent units, for a block of them: what is done with the products of a step.

use super::functions::Function;
use super::isa::{Arithmetic, Loop, MOST_COLUMNS};
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
    // Loops, and no closures: these may be left out of line, and are then compiled without the instruction set.
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Block { unit, phase, gates, input, products, hidden, other, next } = self;
        let lanes = hidden.len();
        let mut sums = [[0f32; MOST_COLUMNS]; 4];
        for (gate, input) in input.chunks_exact(lanes).enumerate() {
            for ((sum, input), product) in sums[gate].iter_mut().zip(input).zip(products[gate]) {
                *sum = input + product;
            }
        }
        match unit {
            Unit::Lstm { activations, .. } => {
                if let Some(peephole) = gates.peephole {
                    for (sums, weights) in sums.iter_mut().zip(peephole) {
                        for ((sum, weight), cell) in sums.iter_mut().zip(weights).zip(&*other) {
                            *sum += weight * cell;
                        }
                    }
                }
                for sums in &mut sums[..CELL] {
                    activations[0].apply::<A>(&mut sums[..lanes]);
                }
                activations[1].apply::<A>(&mut sums[CELL][..lanes]);
                let [i, o, f, g] = &sums;
                for (j, cell) in other.iter_mut().enumerate() {
                    *cell = f[j] * *cell + i[j] * g[j];
                }
                next.copy_from_slice(other);
                activations[2].apply::<A>(next);
                for (next, o) in next.iter_mut().zip(o) {
                    *next *= o;
                }
                hidden.copy_from_slice(next);
            }
            Unit::Gru { activations, reset_after: true, .. } => {
                for sums in &mut sums[..NEW] {
                    activations[0].apply::<A>(&mut sums[..lanes]);
                }
                let [z, r, ..] = sums;
                let n = &mut sums[NEW][..lanes];
                for (j, n) in n.iter_mut().enumerate() {
                    *n = input[NEW * lanes + j] + r[j] * (products[NEW][j] + gates.inside[j]);
                }
                activations[1].apply::<A>(n);
                mix(&z, n, hidden, next);
            }
            Unit::Gru { activations, .. } if phase == 0 => {
                for sums in &mut sums[..NEW] {
                    activations[0].apply::<A>(&mut sums[..lanes]);
                }
                let [z, r, ..] = &sums;
                other.copy_from_slice(&z[..lanes]);
                for (j, next) in next.iter_mut().enumerate() {
                    *next = r[j] * hidden[j];
                }
            }
            Unit::Gru { activations, .. } => {
                let n = &mut sums[NEW][..lanes];
                activations[1].apply::<A>(n);
                mix(other, n, hidden, next);
            }
        }
    }
}

/// The new hidden state of a GRU.
#[inline(always)]
fn mix(z: &[f32], n: &[f32], hidden: &mut [f32], next: &mut [f32]) {
    for (j, (hidden, next)) in hidden.iter_mut().zip(next).enumerate() {
        *next = z[j] * *hidden + n[j] * (1.0 - z[j]);
        *hidden = *next;
    }
}
