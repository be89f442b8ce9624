//! Transpositions of float32 whose result has an element of each of a few lines, then the next one of each, as when depth becomes
//! space.

use super::super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::copy::Places;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::strided::{Dimension, Dimensions, Strided};
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::transpose::Interleaved;

/// Shorter lines are not worth it.
const SHORTEST: usize = 8;

#[derive(Debug)]
struct Interleave {
    isa: &'static Isa,
    input: OperandId,
    /// The dimensions around the lines that are woven.
    outer: Dimensions,
    lines: usize,
    length: usize,
    /// Elements from the beginning of one line to that of the next.
    stride: usize,
}

/// Two to four lines, interleaved.
pub static INTERLEAVE: Implementation = Implementation { name: "transpose.interleave", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Transpose(op) = problem.op else { return Err(Reject("not a transpose")) };
    let mut outer = Strided::transposed(op, problem.input(op.input).shape).simplified();
    let (Some(across), Some(along)) = (outer.pop(), outer.pop()) else { return Err(Reject("a copy")) };
    let (Dimension { size: lines @ 2..=4, stride }, Dimension { size: length, stride: 1 }) = (across, along) else {
        return Err(Reject("not two to four lines that are interleaved"));
    };
    let stride = usize::try_from(stride).map_err(|_| Reject("lines that go backwards"))?;
    require(length >= SHORTEST, "lines of fewer than 8 elements")?;
    let kernel = Interleave { isa: target.isa, input: op.input, outer, lines, length, stride };
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

impl Kernel for Interleave {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let row = self.lines * self.length;
        for_each_piece(arguments.output().elements::<f32>(), row, row.div_ceil(4), |first, output| {
            let mut places = Places::new(0, &self.outer, first);
            let &Interleave { lines, length, stride, .. } = self;
            let (next, pauses) = (&mut || places.advance(), looks::pauses(row));
            Interleaved { input, lines, length, stride, next, output, pauses }.compute(self.isa);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::functions::exact_tests::{Given, check};
    use crate::graph::DataType;
    use crate::graph::ops::movement::Transpose;

    #[test]
    fn depth_becomes_space() {
        for (height, width, channels, block) in [(4, 9, 3, 2), (3, 64, 2, 3), (2, 33, 5, 4), (1, 17, 1, 2)] {
            let shape = [2, block, block, channels, height, width];
            let numbers: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32).collect();
            let op = Transpose { input: OperandId(0), permutation: Some(vec![0, 3, 4, 1, 5, 2]) };
            let made = [2, channels, height, block, width, block];
            check(op, &[Given::of(DataType::Float32, &shape, &numbers)], DataType::Float32, &made);
        }
    }
}
