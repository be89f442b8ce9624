//! The gates of recurrent units, for a block of them: what is done with the products of a step.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use crate::functions::formulas::{exp_of_near, sum};
use crate::isa::Isa;
use crate::output::Block;
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

/// Numbers of units: where those of a row, of a block and of a gate begin, one after the other so far apart.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    pub numbers: &'a [f32],
    pub rows: usize,
    pub blocks: usize,
    pub gates: usize,
}

impl<'a> Strided<'a> {
    /// The gates of a block.
    #[inline(always)]
    fn of(&self, row: usize, block: usize) -> &'a [f32] {
        &self.numbers[row * self.rows + block * self.blocks..]
    }
}

/// Consecutive blocks of units, in some rows of the batch, in a phase of a step. All rows are computed by one call, so that the units of one
/// do not wait for those before.
pub struct Units<'a> {
    pub unit: &'a Unit,
    pub phase: usize,
    pub gates: &'a Gates,
    /// How many units a block has.
    pub lanes: usize,
    /// The products of the inputs, with all biases that may be added there.
    pub input: Strided<'a>,
    /// The products of the hidden state, from the first gate of the phase on.
    pub products: Strided<'a>,
    /// Columns are units, from the first of a block to the last of another. The rows may have other numbers in each of these matrices.
    pub hidden: Block<'a>,
    /// Cell state, or update gate.
    pub other: Block<'a>,
    /// What the next product multiplies.
    pub next: Block<'a>,
    /// What the caller gets of `next`: without the units that fill up the last block.
    pub sequence: Option<Block<'a>>,
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
    fn run<V: Vector>(mut self) {
        let Units { unit, phase, gates, lanes, input, products, .. } = self;
        assert!(lanes.is_multiple_of(V::LANES), "a block is as wide as a tile");
        let columns = self.hidden.columns.clone();
        let count = self.hidden.rows.len();
        assert!([&self.other, &self.next].iter().all(|block| block.rows.len() == count && block.columns == columns));
        for row in 0..count {
            let hidden = self.hidden.row(self.hidden.rows.start + row, columns.clone());
            let other = self.other.row(self.other.rows.start + row, columns.clone());
            let next = self.next.row(self.next.rows.start + row, columns.clone());
            for (block, start) in (0..hidden.len()).step_by(lanes).enumerate() {
                let input = input.of(row, block);
                let products = products.of(row, block);
                for unit_of_block in (0..lanes).step_by(V::LANES) {
                    let j = start + unit_of_block;
                    let one = columns.start + j;
                    // No closures: they may be left out of line, and are then compiled without the instruction set.
                    let mut sums = [V::splat(0.0); 4];
                    let mut recurrent = [V::splat(0.0); 4];
                    for gate in 0..unit.gates() {
                        sums[gate] = load(input, gate * self.input.gates + unit_of_block);
                    }
                    for gate in 0..unit.gates_of(phase).len() {
                        recurrent[gate] = load(products, gate * self.products.gates + unit_of_block);
                    }
                    match unit {
                        Unit::Lstm { activations: [of_gate, of_cell, of_state], .. } => {
                            let cell = load::<V>(other, j);
                            for gate in 0..4 {
                                sums[gate] = sums[gate].add(recurrent[gate]);
                            }
                            if let Some(peephole) = &gates.peephole {
                                for gate in 0..CELL {
                                    let weight = load::<V>(peephole, gate * gates.inside.len() + one);
                                    sums[gate] = weight.mul_add(cell, sums[gate]);
                                }
                            }
                            let [i, o, f, g] = sums;
                            let added = gated(*of_gate, i, *of_cell, g);
                            let cell = activate(*of_gate, f).mul_add(cell, added);
                            store(other, j, cell);
                            let state = gated(*of_gate, o, *of_state, cell);
                            store(hidden, j, state);
                            store(next, j, state);
                        }
                        Unit::Gru { activations: [of_gate, of_new], reset_after: true, .. } => {
                            let z = activate(*of_gate, sums[0].add(recurrent[0]));
                            let r = activate(*of_gate, sums[1].add(recurrent[1]));
                            let inside = recurrent[NEW].add(load(&gates.inside, one));
                            let n = activate(*of_new, r.mul_add(inside, sums[NEW]));
                            let state = mix(z, n, load(hidden, j));
                            store(hidden, j, state);
                            store(next, j, state);
                        }
                        Unit::Gru { activations: [of_gate, _], .. } if phase == 0 => {
                            let z = activate(*of_gate, sums[0].add(recurrent[0]));
                            let r = activate(*of_gate, sums[1].add(recurrent[1]));
                            store(other, j, z);
                            store(next, j, r.mul(load(hidden, j)));
                        }
                        Unit::Gru { activations: [_, of_new], .. } => {
                            let n = activate(*of_new, sums[NEW].add(recurrent[0]));
                            let state = mix(load(other, j), n, load(hidden, j));
                            store(hidden, j, state);
                            store(next, j, state);
                        }
                    }
                }
            }
            if let Some(sequence) = &mut self.sequence {
                let (row, columns) = (sequence.rows.start + row, sequence.columns.clone());
                copy::<V>(next, sequence.row(row, columns));
            }
        }
    }
}

/// Copies the numbers that there is room for.
#[inline(always)]
fn copy<V: Vector>(from: &[f32], to: &mut [f32]) {
    let from = &from[..to.len()];
    let mut i = 0;
    while i + V::LANES <= to.len() {
        store(to, i, load::<V>(from, i));
        i += V::LANES;
    }
    if i < to.len() {
        let left = to.len() - i;
        // SAFETY: so many numbers are left of both.
        unsafe { V::load_first(from.as_ptr().add(i), left).store_first(to.as_mut_ptr().add(i), left) };
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
        Activation::Sigmoid => V::splat(1.0).div(below_sigmoid(x)),
        Activation::Tanh => {
            let (above, below) = tanh_parts(x);
            above.div(below)
        }
    }
}

/// An activation times another one: a sigmoid and a tangent are divided together, since divisions take as long as all else.
#[inline(always)]
fn gated<V: Vector>(of_gate: Activation, gate: V, of_value: Activation, value: V) -> V {
    if (of_gate, of_value) == (Activation::Sigmoid, Activation::Tanh) {
        let (above, below) = tanh_parts(value);
        above.div(below.mul(below_sigmoid(gate)))
    } else {
        activate(of_gate, gate).mul(activate(of_value, value))
    }
}

/// The new hidden state of a GRU.
#[inline(always)]
fn mix<V: Vector>(z: V, n: V, hidden: V) -> V {
    z.mul_add(hidden, n.mul(V::splat(1.0).sub(z)))
}

/// What 1 is divided by for the sigmoid: `1 + e^-x`. At most about 2^115, so that products with [`tanh_parts`] are finite; a gate is off by
/// 3e-35 for that. (Kernels of recurrent networks flush subnormal numbers.)
#[inline(always)]
fn below_sigmoid<V: Vector>(x: V) -> V {
    exp_of_near(x.max(V::splat(-79.5)).min(V::splat(79.5)).negated()).add(V::splat(1.0))
}

/// Two numbers whose quotient is the hyperbolic tangent: polynomials of the square, the first times `x`. The quotient is within 2.2e-8 of the
/// tangent, relative to it, and with what rounding adds within 4e-7; it may be 2e-7 above 1.
#[inline(always)]
fn tanh_parts<V: Vector>(x: V) -> (V, V) {
    // Beyond the bounds the tangent is 1.
    let x = x.max(V::splat(-9.0)).min(V::splat(9.0));
    let square = x.mul(x);
    let above = sum(square, V::splat(1.341_979_7e-8), [2.066_124_2e-5, 3.498_994_7e-3, 0.133_839_79, 1.0]).mul(x);
    let below = sum(square, V::splat(7.804_718e-7), [3.291_036_3e-4, 2.589_020_1e-2, 0.467_173, 1.0]);
    (above, below)
}
