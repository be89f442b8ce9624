//! Long short-term memory whose hidden state is multiplied as bytes. The weights are packed once, their columns ordered by block, gate and
//! unit, as [`Units`] reads them; before each step the hidden state is quantized by its range.

use super::multiply::{Division, Factors, Multiplication};
use super::panels::Panels;
use super::rows::Rows;
use crate::backend::cpu::kernels::epilogue::Epilogue;
use crate::backend::cpu::kernels::exact_division::Divisor;
use crate::backend::cpu::kernels::quantize::integer;
use crate::backend::cpu::kernels::recurrent::activation;
use crate::backend::cpu::kernels::{
    Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Subnormals, Target, with_scratch,
};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::quantized::of_range;
use crate::graph::ops::recurrent::lstm_activations;
use crate::graph::{DataType, Op, OperandId};
use smallvec::SmallVec;
use webnn_kernels::int8::microkernels::Tiles;
use webnn_kernels::isa::Isa;
use webnn_kernels::output::Block;
use webnn_kernels::quantize::{Quantize, Steps, range};
use webnn_kernels::rnn::cells::{Gates, Strided, Unit, Units};

#[derive(Debug)]
struct QuantizedCells {
    isa: &'static Isa,
    tiles: &'static Tiles,
    unit: Unit,
    gates: OperandId,
    initial_hidden: Option<OperandId>,
    initial_cell: Option<OperandId>,
    directions: Vec<Direction>,
    steps: usize,
    batch: usize,
    hidden: usize,
    /// Units of a block, and of all blocks, the last one filled up.
    lanes: usize,
    padded: usize,
    /// The hidden states of a step.
    rows: Rows,
    sequence: Option<usize>,
    division: Division,
}

/// The weights of one direction; lists are by column, with those that fill up the last vector.
#[derive(Debug)]
struct Direction {
    backward: bool,
    panels: Panels,
    scales: Vec<f32>,
    /// The least and the greatest of the scales.
    bounds: [f32; 2],
    sums: Vec<i32>,
    /// Unless all are 0.
    zeros: Vec<i32>,
    gates: Gates,
}

const GATES: usize = 4;

impl Kernel for QuantizedCells {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let QuantizedCells { steps, batch, hidden, lanes, padded, .. } = *self;
        let elements = |id| arguments.input(id).elements::<f32>();
        let gates = elements(self.gates);
        let initial = [self.initial_hidden, self.initial_cell].map(|id| id.map(elements));
        let mut outputs: SmallVec<[&mut [f32]; 3]> =
            arguments.outputs().iter_mut().map(|output| output.elements::<f32>()).collect();
        let (columns, state, room) = (GATES * padded, batch * hidden, batch * padded);
        let lists = self.directions.iter().map(|direction| direction.sums.len()).max().unwrap_or(0);
        // Else the gates of a step are put in the order of blocks.
        let is_whole = hidden == padded;
        let to_order = if is_whole { 0 } else { batch * columns };
        with_scratch(3 * room + room.div_ceil(4) + batch * columns + to_order + 2 * lists, |scratch| {
            let (states, scratch) = scratch.split_at_mut(3 * room);
            let (bytes, scratch) = scratch.split_at_mut(room.div_ceil(4));
            let (products, scratch) = scratch.split_at_mut(batch * columns);
            let (ordered, lists_of) = scratch.split_at_mut(to_order);
            let bytes = &mut bytemuck::cast_slice_mut::<_, u8>(bytes)[..room];
            // The units that fill up the last block stay 0, whatever their gates would make of that: they are no part of the range.
            ordered.fill(0.0);
            for (number, direction) in self.directions.iter().enumerate() {
                states.fill(0.0);
                let (states_of, next) = states.split_at_mut(2 * room);
                let (hidden_states, cells) = states_of.split_at_mut(room);
                for (to, from) in [&mut *hidden_states, &mut *cells].into_iter().zip(initial) {
                    let from = from.map(|all| all[number * state..][..state].chunks_exact(hidden));
                    let rows = to.chunks_exact_mut(padded).zip(from.into_iter().flatten());
                    rows.for_each(|(to, from)| to[..hidden].copy_from_slice(from));
                }
                for i in 0..steps {
                    let step = if direction.backward { steps - 1 - i } else { i };
                    self.multiply(direction, hidden_states, bytes, lists_of, products);
                    let place = step * self.directions.len() + number;
                    let of_step = &gates[place * batch * GATES * hidden..][..batch * GATES * hidden];
                    let input = if is_whole {
                        Strided { numbers: of_step, rows: GATES * hidden, blocks: lanes, gates: hidden }
                    } else {
                        for (ordered, of_row) in ordered.chunks_exact_mut(columns).zip(of_step.chunks_exact(GATES * hidden)) {
                            for (gate, of_gate) in of_row.chunks_exact(hidden).enumerate() {
                                for (block, from) in of_gate.chunks(lanes).enumerate() {
                                    ordered[(block * GATES + gate) * lanes..][..from.len()].copy_from_slice(from);
                                }
                            }
                        }
                        Strided { numbers: ordered, rows: columns, blocks: GATES * lanes, gates: lanes }
                    };
                    let (rows, units) = (0..batch, 0..padded);
                    let sequence = self.sequence.map(|sequence| &mut outputs[sequence][place * state..][..state]);
                    let units = Units {
                        unit: &self.unit,
                        phase: 0,
                        gates: &direction.gates,
                        lanes,
                        input,
                        products: Strided { numbers: products, rows: columns, blocks: GATES * lanes, gates: lanes },
                        hidden: Block::elsewhere(rows.clone(), units.clone(), hidden_states),
                        other: Block::elsewhere(rows.clone(), units.clone(), cells),
                        next: Block::elsewhere(rows.clone(), units, next),
                        sequence: sequence.map(|sequence| Block::elsewhere(rows, 0..hidden, sequence)),
                    };
                    units.compute(self.isa);
                    if !is_whole {
                        hidden_states.chunks_exact_mut(padded).for_each(|row| row[hidden..].fill(0.0));
                    }
                }
                for (output, last) in outputs.iter_mut().zip([hidden_states, cells]) {
                    let rows = output[number * state..][..state].chunks_exact_mut(hidden).zip(last.chunks_exact(padded));
                    rows.for_each(|(to, from)| to.copy_from_slice(&from[..hidden]));
                }
            }
        });
    }

    fn bytes(&self) -> usize {
        let lists = |direction: &Direction| direction.scales.len() + direction.sums.len() + direction.zeros.len();
        let bytes =
            |direction: &Direction| direction.panels.bytes() + lists(direction) * size_of::<f32>() + direction.gates.bytes();
        self.directions.iter().map(bytes).sum()
    }
}

impl QuantizedCells {
    /// The products of the hidden states, a row for each of the batch.
    fn multiply(&self, direction: &Direction, hidden: &[f32], bytes: &mut [u8], lists: &mut [f32], products: &mut [f32]) {
        let [least, most] = range(self.isa, hidden);
        let (scale, zero_point) = of_range(least, most);
        let zero = i32::from(zero_point);
        let bounds = [-zero as f32, (255 - zero) as f32];
        let steps = Steps { divisor: Divisor::new(scale, bounds), zero };
        Quantize { numbers: hidden, bytes: &mut *bytes, steps }.compute(self.isa);
        let count = direction.sums.len();
        let (start, factors) = lists.split_at_mut(count);
        let start: &mut [i32] = bytemuck::cast_slice_mut(start);
        let depth = self.padded as i32;
        if direction.zeros.is_empty() {
            start.iter_mut().zip(&direction.sums).for_each(|(start, sum)| *start = zero.wrapping_mul(*sum).wrapping_neg());
        } else {
            for ((start, sum), own) in start.iter_mut().zip(&direction.sums).zip(&direction.zeros) {
                *start = zero.wrapping_mul(depth.wrapping_mul(*own).wrapping_sub(*sum));
            }
        }
        let factors = &mut factors[..count];
        factors.iter_mut().zip(&direction.scales).for_each(|(factor, own)| *factor = scale * own);
        let is_plain = direction.bounds.iter().all(|bound| (scale * bound).is_normal());
        Multiplication {
            isa: self.isa,
            tiles: self.tiles,
            rows: &self.rows,
            bytes,
            panels: direction.panels.view(),
            start,
            factors: if is_plain { Factors::Numbers(factors) } else { Factors::Apart(scale, &direction.scales) },
            zeros: &direction.zeros,
            epilogue: &Epilogue::default(),
            tensors: &[],
            steps: None,
            output: &SharedOutput::new(bytemuck::cast_slice_mut(products)),
            first_row: 0,
            division: self.division,
        }
        .run();
    }
}

/// LSTM with constant weights of 8 bits.
pub static QUANTIZED: Implementation = Implementation { name: "recurrent.quantized", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    accept_with(problem, target, None)
}

/// With these tiles, or those for the rows that there are.
pub fn accept_with<'a>(problem: &Problem<'a>, target: &Target, tiles: Option<&'static Tiles>) -> Accepted<'a> {
    let Op::QuantizedLstm(op) = problem.op else { return Err(Reject("not an lstm of bytes")) };
    let &[steps, _, batch, columns] = problem.input(op.gates).shape else { return Err(Reject("not a sequence")) };
    let Target { isa, threads, .. } = *target;
    let tiles = tiles.unwrap_or_else(|| Tiles::of(isa, batch));
    let hidden = columns / GATES;
    let weights = problem.input(op.recurrent_weight);
    let bytes = weights.bytes().ok_or(Reject("weights that are computed"))?;
    let scales = problem.input(op.scales).constant_elements()?;
    let zeros = op.zero_points.map(|id| problem.input(id).bytes().ok_or(Reject("zero points that are computed"))).transpose()?;
    let peephole = op.peephole_weight.map(|id| problem.input(id).constant_elements()).transpose()?;
    let packed = [Some(op.recurrent_weight), Some(op.scales), op.zero_points, op.peephole_weight];
    let consumed = packed.into_iter().flatten().map(|id| id.0 as usize).collect();
    // Weights without a sign are moved down by 128, and their zero points with them.
    let down = if weights.data_type == DataType::Uint8 { 128 } else { 0 };
    Ok(Box::new(move || {
        let lanes = isa.gemm.columns;
        let padded = hidden.next_multiple_of(lanes);
        let rows = Rows::matrix(batch, padded, false);
        let places: Vec<usize> = (0..padded).collect();
        let make = |number: usize| {
            // The row of the weights that a packed column is made of.
            let row = |column: usize| {
                let (block, gate, lane) = (column / lanes / GATES, column / lanes % GATES, column % lanes);
                let one = block * lanes + lane;
                (column < GATES * padded && one < hidden).then(|| (number * GATES + gate) * hidden + one)
            };
            let weight = |k: usize, column: usize| match row(column) {
                Some(row) if k < hidden => (integer(weights.data_type, bytes[row * hidden + k]) - down) as i8,
                _ => 0,
            };
            let all = (GATES * padded).next_multiple_of(tiles.lanes);
            let mut sums = vec![0i32; all];
            let panels = Panels::pack(tiles, &places, padded, weight, &mut sums[..GATES * padded]);
            let zero = |column: usize| match (row(column), zeros) {
                (None, _) => 0,
                (Some(row), Some(zeros)) => integer(weights.data_type, zeros[row]) - down,
                (Some(_), None) => -down,
            };
            let zeros: Vec<i32> = (0..all).map(zero).collect();
            let scales: Vec<f32> = (0..all).map(|column| row(column).map_or(1.0, |row| scales[row])).collect();
            let bounds = [f32::min, f32::max].map(|function| scales.iter().copied().map(f32::abs).fold(1.0, function));
            let peephole = peephole.map(|weights| {
                let weight = |(gate, one): (usize, usize)| match one < hidden {
                    true => weights[(number * 3 + gate) * hidden + one],
                    false => 0.0,
                };
                (0..3 * padded).map(|i| weight((i / padded, i % padded))).collect()
            });
            Direction {
                backward: op.direction.is_backward(number),
                panels,
                scales,
                bounds,
                sums,
                zeros: if zeros.iter().all(|&zero| zero == 0) { Vec::new() } else { zeros },
                gates: Gates { inside: vec![0.0; padded], peephole },
            }
        };
        let directions: Vec<Direction> = (0..op.direction.count() as usize).map(make).collect();
        let division = Division::new(tiles, &rows, directions[0].panels.view().count(), threads);
        let activations = lstm_activations(op.activations.as_deref()).map(activation);
        let kernel = QuantizedCells {
            isa,
            tiles,
            unit: Unit::Lstm { positions: [0, 1, 2, 3], activations },
            gates: op.gates,
            initial_hidden: op.initial_hidden_state,
            initial_cell: op.initial_cell_state,
            directions,
            steps,
            batch,
            hidden,
            lanes,
            padded,
            rows,
            sequence: op.return_sequence.then_some(2),
            division,
        };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses: false })
    }))
}
