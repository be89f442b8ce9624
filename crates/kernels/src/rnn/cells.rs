//! The gates of recurrent units, for a block of them: what is done with the products of a step.
#![allow(unsafe_code)]

use crate::functions::formulas::{sigmoid, tanh};
use crate::isa::Isa;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// A function of a gate or a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    Relu,
    Sigmoid,
    Tanh,
}

/// A kind of units.
#[derive(Debug)]
pub enum Unit {
    /// Gates: input, output, forget, cell.
    Lstm {
        positions: [usize; 4],
        /// Of the input, output and forget gates, of the cell gate, and of the cell state.
        activations: [Activation; 3],
    },
    /// Gates: update, reset, new.
    Gru {
        positions: [usize; 3],
        /// Of the update and reset gates, and of the new gate.
        activations: [Activation; 2],
        reset_after: bool,
    },
}

const CELL: usize = 3;
const NEW: usize = 2;

impl Unit {
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
}

/// Consecutive blocks of units in a phase of a step.
pub struct Units<'a> {
    pub unit: &'a Unit,
    pub phase: usize,
    pub gates: &'a Gates,
    /// The first unit of all, and how many a block has.
    pub first: usize,
    pub lanes: usize,
    /// The products of the inputs, by block, gate and unit, with all biases that may be added there.
    pub input: &'a [f32],
    /// The products of the hidden state, from the first gate of the phase on; from a block to the next, and from a gate.
    pub products: &'a [f32],
    pub distances: [usize; 2],
    pub hidden: &'a mut [f32],
    /// Cell state, or update gate.
    pub other: &'a mut [f32],
    /// What the next product multiplies.
    pub next: &'a mut [f32],
}

impl Units<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Units<'_> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn run<V: Vector>(self) {
        let Units { unit, phase, gates, first, lanes, input, products, distances, hidden, other, next } = self;
        assert!(lanes.is_multiple_of(V::LANES), "a block is as wide as a tile");
        for (block, start) in (0..hidden.len()).step_by(lanes).enumerate() {
            let input = &input[block * unit.gates() * lanes..][..unit.gates() * lanes];
            let products = &products[block * distances[0]..];
            for unit_of_block in (0..lanes).step_by(V::LANES) {
                let j = start + unit_of_block;
                // No closures: they may be left out of line, and are then compiled without the instruction set.
                let mut sums = [V::splat(0.0); 4];
                let mut made = [V::splat(0.0); 4];
                for gate in 0..unit.gates() {
                    sums[gate] = load(input, gate * lanes + unit_of_block);
                }
                for gate in 0..unit.gates_of(phase).len() {
                    made[gate] = load(products, gate * distances[1] + unit_of_block);
                }
                match unit {
                    Unit::Lstm { activations: [of_gate, of_cell, of_state], .. } => {
                        let cell = load::<V>(other, j);
                        for gate in 0..4 {
                            sums[gate] = sums[gate].add(made[gate]);
                        }
                        if let Some(peephole) = &gates.peephole {
                            for gate in 0..CELL {
                                let weight = load::<V>(peephole, gate * gates.inside.len() + first + j);
                                sums[gate] = weight.mul_add(cell, sums[gate]);
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
                        let z = activate(*of_gate, sums[0].add(made[0]));
                        let r = activate(*of_gate, sums[1].add(made[1]));
                        let inside = made[NEW].add(load(&gates.inside, first + j));
                        let n = activate(*of_new, r.mul_add(inside, sums[NEW]));
                        let state = mix(z, n, load(hidden, j));
                        store(hidden, j, state);
                        store(next, j, state);
                    }
                    Unit::Gru { activations: [of_gate, _], .. } if phase == 0 => {
                        let z = activate(*of_gate, sums[0].add(made[0]));
                        let r = activate(*of_gate, sums[1].add(made[1]));
                        store(other, j, z);
                        store(next, j, r.mul(load(hidden, j)));
                    }
                    Unit::Gru { activations: [_, of_new], .. } => {
                        let n = activate(*of_new, sums[NEW].add(made[0]));
                        let state = mix(load(other, j), n, load(hidden, j));
                        store(hidden, j, state);
                        store(next, j, state);
                    }
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
fn activate<V: Vector>(activation: Activation, x: V) -> V {
    match activation {
        Activation::Relu => x.max(V::splat(0.0)),
        Activation::Sigmoid => sigmoid(x),
        Activation::Tanh => tanh(x),
    }
}

/// The new hidden state of a GRU.
#[inline(always)]
fn mix<V: Vector>(z: V, n: V, hidden: V) -> V {
    z.mul_add(hidden, n.mul(V::splat(1.0).sub(z)))
}
