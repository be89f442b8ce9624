//! Recurrent networks of float32 with constant weights.
//!
//! The weights are packed once. The inputs of many steps are multiplied in one product; then step by step the hidden state
//! is. Units are taken in blocks as wide as a tile: the products of all gates of a block, then its gates; for a batch of one
//! the products of many blocks, then the gates of them all. Weights that do not quite fit into the second-level cache are
//! walked through forwards and backwards in turn, so that each step begins with what the last one ended with.
#![allow(unsafe_code)]

use super::bf16;
use super::prefetch::{LINE, fetch, prefetch};
use super::product::{Grid, Right, RightView, cost, multiply, with_left};
use super::{Accepted, Built, Implementation, Kernel, Numbers, Problem, Reject, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::threads::{for_each_job, in_rounds};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::recurrent::{
    Gru, Lstm, RecurrentNetworkActivation, RecurrentNetworkDirection, gru_activations, lstm_activations,
};
use crate::graph::{Op, OperandId};
use crate::looks::Progress;
use smallvec::{SmallVec, smallvec};
use std::cell::LazyCell;
use std::ops::Range;
use webnn_kernels::bf16::rounding::RoundRows;
use webnn_kernels::gemm::microkernels::{Ahead, LeftRows, MOST_NUMBERS, Microkernels, Plus, Task};
use webnn_kernels::gemm::row_times_panels::{self, Source};
use webnn_kernels::output::Output;
use webnn_kernels::rnn::cells::{Activation, Gates, Strided, Unit, Units};

#[derive(Debug)]
struct Recurrent {
    gemm: &'static Microkernels,
    unit: Unit,
    input: OperandId,
    initial_hidden: Option<OperandId>,
    initial_cell: Option<OperandId>,
    directions: Vec<Direction>,
    sizes: Sizes,
    /// The output that gets the hidden state of each step.
    sequence: Option<usize>,
    threads: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    /// Blocks of units, the last one filled up.
    blocks: usize,
    /// Units of a block.
    lanes: usize,
}

/// Between the rows of a left operand, so that they do not displace each other from the first-level cache.
const APART: usize = 16;

impl Sizes {
    /// From a row of hidden states that is a left operand to the next.
    fn distance(&self) -> usize {
        self.blocks * self.lanes + APART
    }
}

/// The weights of one direction. Columns are ordered by block, gate and unit.
#[derive(Debug)]
struct Direction {
    backward: bool,
    input: Right,
    recurrent: Right,
    bias: Vec<f32>,
    /// What stays inside of a product with a gate (GRU), and peepholes (LSTM), by block and unit.
    gates: Gates,
}

/// Numbers of one product of inputs, at most: they are kept by the thread.
const MOST_INPUT_PRODUCTS: usize = 2 << 20;
/// Units are handed out to threads when a step has at least so many multiplications.
const WORTH_SHARING: usize = 64 << 10;

impl Kernel for Recurrent {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let Sizes { batch, hidden, .. } = self.sizes;
        let elements = |id| arguments.input(id).elements::<f32>();
        let input = elements(self.input);
        let (initial_hidden, initial_cell) = (self.initial_hidden.map(elements), self.initial_cell.map(elements));
        let mut outputs: SmallVec<[&mut [f32]; 3]> =
            arguments.outputs().iter_mut().map(|output| output.elements::<f32>()).collect();
        let state = batch * hidden;
        for (number, direction) in self.directions.iter().enumerate() {
            let part = |initial: Option<&'_ [f32]>| initial.map(|all| all[number * state..][..state].to_vec());
            let states = [part(initial_hidden), part(initial_cell)];
            // [steps, numDirections, batchSize, hiddenSize]
            let all_steps = self.sequence.map(|number| Output::new(outputs[number], hidden));
            let last = self.direction(direction, number, input, states, all_steps);
            for (output, last) in outputs.iter_mut().zip(last.iter().take(self.unit.states())) {
                output[number * state..][..state].copy_from_slice(last);
            }
        }
    }

    fn speed(&self) -> usize {
        bf16::speed_of(self.gemm)
    }

    fn bytes(&self) -> usize {
        let bytes = |direction: &Direction| {
            direction.input.bytes() + direction.recurrent.bytes() + direction.bias.len() * 4 + direction.gates.bytes()
        };
        self.directions.iter().map(bytes).sum()
    }
}

/// The memory of a direction while it runs.
struct Memory<'a> {
    /// The products of the inputs, a row for each step and batch.
    inputs: &'a [f32],
    /// Hidden states as left operands, a row for each batch: those before and after a step, in turn; and those that a reset
    /// gate was applied to.
    left: [Output<'a>; 3],
    /// By batch, block and unit: hidden state, cell state (of an LSTM) or update gate (of a GRU).
    states: [Output<'a>; 2],
    /// For a batch of one: the products of the hidden state in a round, by block, gate of the phase and unit.
    products: Output<'a>,
}

/// A phase of a step, with what it reads and writes.
#[derive(Clone, Copy)]
struct Work<'a> {
    direction: &'a Direction,
    place: Place,
    memory: &'a Memory<'a>,
    /// The hidden states of all steps, where these are an output.
    sequence: Option<Output<'a>>,
    progress: Progress,
}

impl Recurrent {
    /// Runs one direction and returns its last states.
    fn direction(
        &self,
        direction: &Direction,
        number: usize,
        input: &[f32],
        initial: [Option<Vec<f32>>; 2],
        sequence: Option<Output<'_>>,
    ) -> [Vec<f32>; 2] {
        let Sizes { steps, batch, input: input_size, hidden, blocks, lanes } = self.sizes;
        let columns = self.unit.gates() * blocks * lanes;
        let together = (MOST_INPUT_PRODUCTS / (batch * columns)).clamp(1, steps);
        let (left_size, state_size) = (batch * self.sizes.distance(), batch * blocks * lanes);
        let inputs_size = together * batch * columns;
        with_scratch(inputs_size + 3 * left_size + 2 * state_size + columns, |scratch| {
            let (inputs, rest) = scratch.split_at_mut(inputs_size);
            let (left, rest) = rest.split_at_mut(3 * left_size);
            let (states, products) = rest.split_at_mut(2 * state_size);
            states.fill(0.0);
            for (state, initial) in states.chunks_exact_mut(state_size).zip(&initial) {
                if let Some(initial) = initial {
                    for (state, initial) in state.chunks_exact_mut(blocks * lanes).zip(initial.chunks_exact(hidden)) {
                        state[..hidden].copy_from_slice(initial);
                    }
                }
            }
            for (row, state) in left.chunks_exact_mut(self.sizes.distance()).zip(states.chunks_exact(blocks * lanes).take(batch))
            {
                row[..blocks * lanes].copy_from_slice(state);
            }
            for first in (0..steps).step_by(together) {
                let count = together.min(steps - first);
                // In the order of the input, whatever the order of the steps.
                let first_row = if direction.backward { steps - first - count } else { first } * batch;
                let rows = count * batch;
                let input = &input[first_row * input_size..][..rows * input_size];
                self.multiply_inputs(direction, input, rows, &mut inputs[..rows * columns]);
                let whole = |memory| Output::new(memory, self.sizes.distance());
                let mut parts = left.chunks_exact_mut(left_size).map(whole);
                let left = std::array::from_fn(|_| parts.next().expect("there are three"));
                let mut parts = states.chunks_exact_mut(state_size).map(|state| Output::new(state, blocks * lanes));
                let states = std::array::from_fn(|_| parts.next().expect("there are two"));
                let products = Output::new(products, columns);
                let memory = Memory { inputs: &inputs[..rows * columns], left, states, products };
                self.take_steps(direction, number, first..first + count, &memory, sequence);
            }
            let mut states = states.chunks_exact(state_size);
            std::array::from_fn(|_| {
                let state = states.next().expect("there are two");
                state.chunks_exact(blocks * lanes).flat_map(|row| &row[..hidden]).copied().collect()
            })
        })
    }

    fn multiply_inputs(&self, direction: &Direction, input: &[f32], rows: usize, inputs: &mut [f32]) {
        let (gemm, depth, columns) = (self.gemm, self.sizes.input, direction.input.columns);
        let steps = gemm.steps(depth);
        let right = direction.input.view();
        let output = Output::new(inputs, columns);
        with_left(gemm, [rows, depth], columns, input.into(), [depth, 1], |left| {
            let grid = Grid::new(gemm, rows, steps, columns, self.threads);
            for_each_job(grid.count(), rows * depth * columns / 32, |number| {
                let (rows, columns) = grid.block(number);
                let first = columns.start / gemm.columns * steps * gemm.columns;
                let right = RightView { columns: columns.len(), panels: &right.panels[first..] };
                // SAFETY: the blocks of a grid do not overlap.
                let mut block = unsafe { output.block(rows, columns) };
                multiply(gemm, left, right, &mut block, Some(&direction.bias), None);
            });
        });
    }

    /// Takes some steps, numbered in the order in which they are taken.
    fn take_steps(
        &self,
        direction: &Direction,
        number: usize,
        steps: Range<usize>,
        memory: &Memory<'_>,
        sequence: Option<Output<'_>>,
    ) {
        let Sizes { batch, hidden, blocks, .. } = self.sizes;
        let is_worth_it = self.threads > 1 && self.unit.gates() * hidden * hidden * batch >= WORTH_SHARING;
        // No more than one for each thread: a round takes some microseconds, to begin and end a part a tenth of one.
        let parts = if is_worth_it { self.threads.min(blocks) } else { 1 };
        let phases = self.unit.phases();
        let progress = Progress::of(cost(batch, hidden, self.unit.gates() * blocks * self.sizes.lanes));
        in_rounds(steps.len() * phases, parts, if is_worth_it { self.threads } else { 1 }, |round, part| {
            let (step, phase) = (round / phases, round % phases);
            // Back and forth.
            let is_odd = round % 2 == 1;
            let range = part * blocks / parts..(part + 1) * blocks / parts;
            let place = Place { direction: number, step: steps.start + step, row: step, rows: steps.len(), phase };
            let work = Work { direction, place, memory, sequence, progress };
            if batch == 1 {
                // SAFETY: a part is computed once in a round, and all of a round is over when the next one begins.
                return unsafe { self.row(work, range, is_odd) };
            }
            let mut products = [[0f32; MOST_NUMBERS]; 4];
            let one = |block: usize| {
                let next = if is_odd { block.wrapping_sub(1) } else { block + 1 };
                // SAFETY: as above, a block being in one part.
                unsafe { self.block(work, block, next, &mut products) }
            };
            if is_odd { range.rev().for_each(one) } else { range.for_each(one) }
        });
    }

    /// Computes some blocks of units in a phase of a step for a batch of one.
    ///
    /// # Safety
    /// Nobody else may compute these blocks meanwhile, nor another phase or step.
    unsafe fn row(&self, work: Work<'_>, range: Range<usize>, is_backwards: bool) {
        let Work { direction, place, memory, .. } = work;
        let Sizes { hidden, blocks, lanes, .. } = self.sizes;
        let (unit, gates) = (&self.unit, self.unit.gates());
        let wanted = unit.gates_of(place.phase);
        let count = range.len() * wanted.len();
        let [from, _] = place.left(unit);
        // SAFETY: what is read was written in an earlier round.
        let row = unsafe { memory.left[from].read(0..hidden) };
        // Other cores have just written parts of it.
        prefetch(row, 0..hidden);
        // SAFETY: these blocks are nobody else's in this round.
        let mut products = unsafe {
            let first = range.start * gates * lanes;
            memory.products.from(first).block(0..1, 0..count * lanes)
        };
        let products = products.row(0, 0..count * lanes);
        let panels = direction.recurrent.view().panels;
        let length = self.gemm.steps(hidden);
        let panel = |number: usize| {
            let (block, gate) = (range.start + number / wanted.len(), wanted.start + number % wanted.len());
            &panels[(block * gates + gate) * lanes * length..][..lanes * length]
        };
        // A group at a time, the numbers of which the last one ends with first: they are in the first-level cache.
        let source = Source::Cache { backwards: is_backwards };
        let mut some = |row: &[f32], first: usize| {
            work.progress.made(cost(1, hidden, row_times_panels::MOST_PANELS * lanes));
            let output = &mut products[first * lanes..];
            let panel = |i: usize| panel(first + i);
            match count - first {
                1 => row_times_panels::multiply(self.gemm, row, &[panel(0)], output, Plus::Nothing, source),
                2 => row_times_panels::multiply(self.gemm, row, &[panel(0), panel(1)], output, Plus::Nothing, source),
                3 => row_times_panels::multiply(self.gemm, row, &[panel(0), panel(1), panel(2)], output, Plus::Nothing, source),
                _ => row_times_panels::multiply(
                    self.gemm,
                    row,
                    &[panel(0), panel(1), panel(2), panel(3)],
                    output,
                    Plus::Nothing,
                    source,
                ),
            }
        };
        self.as_left([1, hidden], (row, 0), |row, _| {
            let all = (0..count).step_by(row_times_panels::MOST_PANELS);
            if is_backwards { all.rev().for_each(|first| some(row, first)) } else { all.for_each(|first| some(row, first)) }
        });

        let units = range.start * lanes..range.end * lanes;
        let input = &memory.inputs[direction.at(place.row, place.rows) * blocks * gates * lanes..];
        let products = Strided { numbers: products, rows: 0, blocks: wanted.len() * lanes, gates: lanes };
        // SAFETY: these units are nobody else's in this round.
        unsafe { self.compute_gates(work, 0..1, units, input, products) };
    }

    /// The gates of some rows of the batch and some whole blocks of units.
    ///
    /// # Safety
    /// Nobody else may compute these units meanwhile, nor another phase or step.
    unsafe fn compute_gates(
        &self,
        work: Work<'_>,
        rows: Range<usize>,
        units: Range<usize>,
        input: &[f32],
        products: Strided<'_>,
    ) {
        let Work { direction, place, memory, sequence, .. } = work;
        let Sizes { steps, batch, hidden, blocks, lanes, .. } = self.sizes;
        let (unit, gates) = (&self.unit, self.unit.gates());
        let [_, to] = place.left(unit);
        // SAFETY: by the caller's promise; that of all steps has rows of its own for each.
        let (hidden_block, other, next, sequence) = unsafe {
            let sequence = sequence.filter(|_| place.ends_step(unit)).map(|sequence| {
                let step = direction.at(place.step, steps) * self.directions.len() + place.direction;
                let rows = step * batch + rows.start..step * batch + rows.end;
                sequence.block(rows, units.start..units.end.min(hidden))
            });
            let of_state = |number: usize| memory.states[number].block(rows.clone(), units.clone());
            (of_state(0), of_state(1), memory.left[to].block(rows.clone(), units.clone()), sequence)
        };
        let columns = gates * blocks * lanes;
        let input = Strided { numbers: &input[units.start * gates..], rows: columns, blocks: gates * lanes, gates: lanes };
        let (phase, gates) = (place.phase, &direction.gates);
        Units { unit, phase, gates, lanes, input, products, hidden: hidden_block, other, next, sequence }.compute(self.gemm.isa);
    }

    /// Calls `body` with hidden states, rows at a distance, as tiles read them: rounded where they read pairs.
    fn as_left(&self, [rows, depth]: [usize; 2], (states, distance): (&[f32], usize), body: impl FnOnce(&[f32], usize)) {
        if !self.gemm.rounds() {
            return body(states, distance);
        }
        let length = self.gemm.steps(depth);
        with_scratch(rows * length, |pairs| {
            RoundRows { rows, depth, numbers: states, strides: [distance, 1], pairs, pairs_stride: length }.compute(self.gemm);
            body(pairs, length);
        });
    }

    /// Computes one block of units in a phase of a step, and has the weights of the next one fetched meanwhile. What is in
    /// `products` does not matter.
    ///
    /// # Safety
    /// Nobody else may compute this block meanwhile, nor another phase or step.
    unsafe fn block(&self, work: Work<'_>, block: usize, next_block: usize, products: &mut [[f32; MOST_NUMBERS]; 4]) {
        let Work { direction, place, memory, .. } = work;
        let (gemm, gates) = (self.gemm, self.unit.gates());
        let Sizes { batch, hidden, blocks, lanes, .. } = self.sizes;
        let distance = self.sizes.distance();
        let columns = gates * blocks * lanes;
        let [from, _] = place.left(&self.unit);
        for first in (0..batch).step_by(gemm.rows) {
            let height = gemm.rows.min(batch - first);
            let first_input = direction.at(place.row, place.rows) * batch + first;
            for row in first_input..first_input + height {
                let start = row * columns + block * gates * lanes;
                fetch_all(&memory.inputs[start..start + gates * lanes]);
            }
            // SAFETY: what is read was written in an earlier round, or by this block.
            let left = unsafe { memory.left[from].read(first * distance..(first + height - 1) * distance + hidden) };
            self.as_left([height, hidden], (left, distance), |left, distance| {
                let left = LeftRows { elements: left, row: distance, step: 1 };
                self.multiply_block(work, [block, next_block], left, height, products);
                work.progress.made(cost(height, hidden, gates * lanes));
            });
            let products = Strided { numbers: products.as_flattened(), rows: lanes, blocks: 0, gates: MOST_NUMBERS };
            let units = block * lanes..(block + 1) * lanes;
            let input = &memory.inputs[first_input * columns..];
            // SAFETY: this block's units, which are nobody else's in this round.
            unsafe { self.compute_gates(work, first..first + height, units, input, products) };
        }
    }

    /// The products of some rows of hidden states with the weights of a block, by gate of the phase; those of the next block are fetched.
    fn multiply_block(
        &self,
        work: Work<'_>,
        [block, next_block]: [usize; 2],
        left: LeftRows<'_>,
        rows: usize,
        products: &mut [[f32; MOST_NUMBERS]; 4],
    ) {
        let (gemm, gates, lanes) = (self.gemm, self.unit.gates(), self.sizes.lanes);
        let (range, length) = (self.unit.gates_of(work.place.phase), gemm.steps(self.sizes.hidden));
        let panels = |block: usize, gate: usize| {
            let first = block.checked_mul(gates)?.checked_add(gate)?.checked_mul(lanes * length)?;
            work.direction.recurrent.view().panels.get(first..)
        };
        for (gate, products) in range.clone().zip(products) {
            let panel = panels(block, gate).expect("every block has its panels");
            let next = if gate + 1 < range.end { panels(block, gate + 1) } else { panels(next_block, range.start) };
            let next = next.map_or((panel.as_ptr(), 0), |next| (next.as_ptr(), lanes));
            let task = Task {
                rows,
                columns: lanes,
                depth: length,
                left,
                panel,
                output: products.as_mut_ptr(),
                stride: lanes,
                plus: Plus::Nothing,
                ahead: Ahead { start: next.0, step: next.1 },
            };
            // SAFETY: the array has room for the largest tile.
            unsafe { gemm.tile(task) };
        }
    }
}

impl Direction {
    /// Where a step, of so many in the order in which they are taken, is in the order of the input.
    fn at(&self, step: usize, count: usize) -> usize {
        if self.backward { count - 1 - step } else { step }
    }
}

/// Brings numbers into the second-level cache: tiles that pass through the first one displace what is there.
fn fetch_all(numbers: &[f32]) {
    (0..numbers.len()).step_by(LINE).for_each(|first| fetch::<1>(&numbers[first]));
}

/// The units of an operator.
fn lstm(op: &Lstm) -> Unit {
    Unit::Lstm { positions: op.layout.iofg(), activations: lstm_activations(op.activations.as_deref()).map(activation) }
}

fn gru(op: &Gru) -> Unit {
    let activations = gru_activations(op.activations.as_deref()).map(activation);
    Unit::Gru { positions: op.layout.zrn(), activations, reset_after: op.reset_after }
}

pub fn activation(of_operator: RecurrentNetworkActivation) -> Activation {
    match of_operator {
        RecurrentNetworkActivation::Relu => Activation::Relu,
        RecurrentNetworkActivation::Sigmoid => Activation::Sigmoid,
        RecurrentNetworkActivation::Tanh => Activation::Tanh,
    }
}

/// A phase of a step.
#[derive(Clone, Copy)]
struct Place {
    direction: usize,
    /// Number of the step, in the order in which they are taken.
    step: usize,
    /// The same among those whose inputs have been multiplied together, and how many these are.
    row: usize,
    rows: usize,
    phase: usize,
}

impl Place {
    fn ends_step(self, unit: &Unit) -> bool {
        self.phase + 1 == unit.phases()
    }

    /// Which hidden states are multiplied, and which are written.
    fn left(self, unit: &Unit) -> [usize; 2] {
        let (before, after) = (self.step % 2, 1 - self.step % 2);
        [if self.phase == 0 { before } else { 2 }, if self.ends_step(unit) { after } else { 2 }]
    }
}

/// What an operator says.
struct Network {
    unit: Unit,
    input: OperandId,
    weight: OperandId,
    recurrent_weight: OperandId,
    bias: Option<OperandId>,
    recurrent_bias: Option<OperandId>,
    peephole: Option<OperandId>,
    initial_hidden: Option<OperandId>,
    initial_cell: Option<OperandId>,
    /// By direction.
    backward: SmallVec<[bool; 2]>,
    /// The number of the output that has the hidden states of all steps.
    sequence: Option<usize>,
}

impl Network {
    fn of(op: &Op) -> Result<Network, Reject> {
        let backward = |direction: RecurrentNetworkDirection| {
            (0..direction.count() as usize).map(|number| direction.is_backward(number)).collect()
        };
        match op {
            Op::Lstm(op) => Ok(Network {
                unit: lstm(op),
                input: op.input,
                weight: op.weight,
                recurrent_weight: op.recurrent_weight,
                bias: op.bias,
                recurrent_bias: op.recurrent_bias,
                peephole: op.peephole_weight,
                initial_hidden: op.initial_hidden_state,
                initial_cell: op.initial_cell_state,
                backward: backward(op.direction),
                sequence: op.return_sequence.then_some(2),
            }),
            Op::Gru(op) => Ok(Network {
                unit: gru(op),
                input: op.input,
                weight: op.weight,
                recurrent_weight: op.recurrent_weight,
                bias: op.bias,
                recurrent_bias: op.recurrent_bias,
                peephole: None,
                initial_hidden: op.initial_hidden_state,
                initial_cell: None,
                backward: backward(op.direction),
                sequence: op.return_sequence.then_some(1),
            }),
            _ => Err(Reject("not an lstm or gru")),
        }
    }
}

/// The weights of all directions, as the model has them.
struct Weights<'a> {
    weight: Numbers<'a>,
    recurrent_weight: Numbers<'a>,
    bias: Option<Numbers<'a>>,
    recurrent_bias: Option<Numbers<'a>>,
    peephole: Option<Numbers<'a>>,
}

impl Weights<'_> {
    /// Those of a direction as its steps read them: by block of units, gate and unit.
    fn pack(&self, gemm: &'static Microkernels, unit: &Unit, sizes: &Sizes, number: usize, backward: bool) -> Direction {
        let &Sizes { input, hidden, blocks, lanes, .. } = sizes;
        let (gates, padded) = (unit.gates(), blocks * lanes);
        // The row of the weights that a packed column is made of.
        let row = |column: usize| {
            let (block, gate, lane) = (column / lanes / gates, column / lanes % gates, column % lanes);
            let one = block * lanes + lane;
            (one < hidden).then(|| ((number * gates + unit.position(gate)) * hidden + one, gate))
        };
        let columns = gates * padded;
        let pack = |weights: Numbers<'_>, depth: usize| {
            let weights = LazyCell::new(|| weights.all());
            Right::pack_with(gemm, depth, columns, |k, column| row(column).map_or(0.0, |(row, _)| weights[row * depth + k]))
        };
        let number_of = |list: Option<Numbers<'_>>, row: usize| list.map_or(0.0, |list| list.all()[row]);
        let bias = (0..columns).map(|column| {
            row(column).map_or(0.0, |(row, gate)| {
                let recurrent = if unit.is_inside(gate) { 0.0 } else { number_of(self.recurrent_bias, row) };
                number_of(self.bias, row) + recurrent
            })
        });
        let inside = (0..padded).map(|one| {
            let gate = (0..gates).find(|&gate| unit.is_inside(gate))?;
            (one < hidden).then(|| number_of(self.recurrent_bias, (number * gates + unit.position(gate)) * hidden + one))
        });
        let peephole = self.peephole.map(|weights| {
            let weight = |(gate, one): (usize, usize)| {
                if one < hidden { weights.all()[(number * 3 + gate) * hidden + one] } else { 0.0 }
            };
            (0..3 * padded).map(|i| weight((i / padded, i % padded))).collect()
        });
        Direction {
            backward,
            input: pack(self.weight, input),
            recurrent: pack(self.recurrent_weight, hidden),
            bias: bias.collect(),
            gates: Gates { inside: inside.map(|number| number.unwrap_or(0.0)).collect(), peephole },
        }
    }
}

/// LSTM and GRU over sequences: the products of all gates of a block of units, then its gates.
pub static CELLS: Implementation = Implementation { name: "recurrent.cells", accept };
/// The same with weights, inputs and hidden states rounded to bfloat16 where they are multiplied.
pub static BF16: Implementation = Implementation { name: "recurrent.bf16", accept: accept_bf16 };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    cells(target.isa.gemm, problem, target)
}

fn accept_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    cells(bf16::microkernels(target)?, problem, target)
}

fn cells<'a>(gemm: &'static Microkernels, problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let network = Network::of(problem.op)?;
    let threads = target.threads;
    let &[steps, batch, input] = problem.input(network.input).shape else { return Err(Reject("not a sequence")) };
    let hidden = problem.input(network.recurrent_weight).shape.last().copied().unwrap_or(0);
    require(hidden * (input + hidden) >= target.tuning.gate_weights && hidden >= gemm.columns / 2, "few weights")?;
    let mut consumed = smallvec![];
    let mut take = |id: Option<OperandId>| -> Result<Option<Numbers<'a>>, Reject> {
        let Some(id) = id else { return Ok(None) };
        consumed.push(id.0 as usize);
        problem.input(id).constant_numbers().map(Some)
    };
    let weights = Weights {
        weight: take(Some(network.weight))?.unwrap_or_default(),
        recurrent_weight: take(Some(network.recurrent_weight))?.unwrap_or_default(),
        bias: take(network.bias)?,
        recurrent_bias: take(network.recurrent_bias)?,
        peephole: take(network.peephole)?,
    };
    let lanes = gemm.columns;
    let sizes = Sizes { steps, batch, input, hidden, blocks: hidden.div_ceil(lanes), lanes };
    Ok(Box::new(move || {
        let Network { unit, input, initial_hidden, initial_cell, backward, sequence, .. } = network;
        let directions = backward.iter().enumerate();
        let directions = directions.map(|(number, &backward)| weights.pack(gemm, &unit, &sizes, number, backward)).collect();
        let kernel = Recurrent { gemm, unit, input, initial_hidden, initial_cell, directions, sizes, sequence, threads };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses: false })
    }))
}
