//! The gates of recurrent units, for a block of them: what is done with the products of a step.
#![allow(unsafe_code)]

use super::formulas::{sigmoid, tanh};
use super::vector::{OnVectors, Vector};
use crate::graph::ops::recurrent::{Gru, Lstm, RecurrentNetworkActivation, gru_activations, lstm_activations};

/// A kind of units.
#[derive(Debug)]
pub enum Unit {
    /// Gates: input, output, forget, cell.
    Lstm {
        positions: [usize; 4],
        /// Of the input, output and forget gates, of the cell gate, and of the cell state.
        activations: [RecurrentNetworkActivation; 3],
    },
    /// Gates: update, reset, new.
    Gru {
        positions: [usize; 3],
        /// Of the update and reset gates, and of the new gate.
        activations: [RecurrentNetworkActivation; 2],
        reset_after: bool,
    },
}

const CELL: usize = 3;
const NEW: usize = 2;

impl Unit {
    pub fn lstm(op: &Lstm) -> Unit {
        Unit::Lstm { positions: op.layout.iofg(), activations: lstm_activations(op.activations.as_deref()) }
    }

    pub fn gru(op: &Gru) -> Unit {
        let activations = gru_activations(op.activations.as_deref());
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

impl OnVectors for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        // What is sliced below is as long as that.
        let units = self.hidden.len();
        assert!(units.is_multiple_of(V::LANES), "a block is as wide as a tile");
        let Block { unit, phase, gates, input, products, hidden, other, next } = self;
        for j in (0..units).step_by(V::LANES) {
            match unit {
                Unit::Lstm { activations: [of_gate, of_cell, of_state], .. } => {
                    let mut sums = [V::set(0.0); 4];
                    for gate in 0..4 {
                        sums[gate] = load::<V>(&input[gate * units..], j).add(load(products[gate], j));
                    }
                    let cell = load::<V>(other, j);
                    if let Some(peephole) = gates.peephole {
                        for gate in 0..CELL {
                            sums[gate] = load::<V>(peephole[gate], j).mul_add(cell, sums[gate]);
                        }
                    }
                    let [i, o, f, g] = sums;
                    let kept = activate(*of_gate, f).mul(cell);
                    let cell = activate(*of_gate, i).mul_add(activate(*of_cell, g), kept);
                    store(other, j, cell);
                    let state = activate(*of_state, cell).mul(activate(*of_gate, o));
                    store(hidden, j, state);
                    store(next, j, state);
                }
                Unit::Gru { activations: [of_gate, of_new], reset_after: true, .. } => {
                    let z = activate(*of_gate, load::<V>(input, j).add(load(products[0], j)));
                    let r = activate(*of_gate, load::<V>(&input[units..], j).add(load(products[1], j)));
                    let inside = load::<V>(products[NEW], j).add(load(gates.inside, j));
                    let n = activate(*of_new, r.mul_add(inside, load(&input[NEW * units..], j)));
                    let state = mix(z, n, load(hidden, j));
                    store(hidden, j, state);
                    store(next, j, state);
                }
                Unit::Gru { activations: [of_gate, _], .. } if phase == 0 => {
                    let z = activate(*of_gate, load::<V>(input, j).add(load(products[0], j)));
                    let r = activate(*of_gate, load::<V>(&input[units..], j).add(load(products[1], j)));
                    store(other, j, z);
                    store(next, j, r.mul(load(hidden, j)));
                }
                Unit::Gru { activations: [_, of_new], .. } => {
                    let n = activate(*of_new, load::<V>(&input[NEW * units..], j).add(load(products[NEW], j)));
                    let state = mix(load(other, j), n, load(hidden, j));
                    store(hidden, j, state);
                    store(next, j, state);
                }
            }
        }
    }
}

#[inline(always)]
fn load<V: Vector>(numbers: &[f32], first: usize) -> V {
    let numbers = &numbers[first..][..V::LANES];
    // SAFETY: a whole vector.
    unsafe { V::load(numbers.as_ptr()) }
}

#[inline(always)]
fn store<V: Vector>(to: &mut [f32], first: usize, numbers: V) {
    let to = &mut to[first..][..V::LANES];
    // SAFETY: a whole vector.
    unsafe { numbers.store(to.as_mut_ptr()) }
}

#[inline(always)]
fn activate<V: Vector>(activation: RecurrentNetworkActivation, x: V) -> V {
    match activation {
        RecurrentNetworkActivation::Relu => x.raise(V::set(0.0)),
        RecurrentNetworkActivation::Sigmoid => sigmoid(x),
        RecurrentNetworkActivation::Tanh => tanh(x),
    }
}

/// The new hidden state of a GRU.
#[inline(always)]
fn mix<V: Vector>(z: V, n: V, hidden: V) -> V {
    z.mul_add(hidden, n.mul(V::set(1.0).sub(z)))
}
