//! Positions of extreme values.

use crate::backend::cpu::element::{Element, with_element};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::Axis;
use crate::graph::DataType;
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::looks::{self, Looking};

pub fn arg(op: &Arg, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let axis = Axis::new(input.shape, op.axis);
    with_element!(input.data_type, T => match op.kind {
        ArgKind::Min => store(input, axis, output, |x: T, best| x < best),
        ArgKind::Max => store(input, axis, output, |x: T, best| x > best),
    });
}

/// By the output's data type; the rule allows two.
fn store<T: Element>(input: View<'_>, axis: Axis, output: &mut ViewMut<'_>, better: impl Fn(T, T) -> bool + Sync) {
    match output.data_type {
        DataType::Int32 => find(input.elements(), axis, output.elements(), |position| position as i32, better),
        _ => find(input.elements(), axis, output.elements(), |position| position as i64, better),
    }
}

fn find<T: Element, P: Element>(
    input: &[T],
    axis: Axis,
    output: &mut [P],
    position: impl Fn(usize) -> P + Sync,
    better: impl Fn(T, T) -> bool + Sync,
) {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    let wins = |x: T, best: T| better(x, best) || is_nan(x) && !is_nan(best);
    let block = axis.size * axis.run;
    if axis.run == 1 {
        return for_each_piece(output, 1, block, |first, piece| {
            for (found, line) in piece.iter_mut().zip(input[first * block..].chunks_exact(block)) {
                let mut best = (0, line[0]);
                for part in looks::parts(line.len()) {
                    for (i, &x) in part.clone().zip(&line[part]) {
                        if wins(x, best.1) {
                            best = (i, x);
                        }
                    }
                }
                *found = position(best.0);
            }
        });
    }
    for_each_piece(output, axis.run, block, |first, piece| {
        let blocks = input[first * block..].chunks_exact(block);
        for (positions, block) in piece.chunks_exact_mut(axis.run).zip(blocks) {
            // Row by row, with the best values so far.
            let (initial, rows) = block.split_at(axis.run);
            let mut best = scratch::collected(axis.run, initial.iter().copied());
            looks::fill(positions, position(0));
            rows.chunks_exact(axis.run).enumerate().looking(2 * axis.run).for_each(|(i, row)| {
                positions.iter_mut().zip(&mut best).zip(row).looking_if_long(2).for_each(|((found, best), &x)| {
                    if wins(x, *best) {
                        (*found, *best) = (position(i + 1), x);
                    }
                });
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::DataType;
    use crate::graph::OperandId;
    use crate::graph::attribute::{Enumerated, Value};

    #[test]
    fn positions() {
        let nan = f32::NAN;
        let input = || Tensor::of(&[2, 3], [1.0, 3.0, 3.0, nan, -1.0, nan]);
        let arg =
            |name, axis| run(name, &[input()], vec![Value::Operand(OperandId(0)), Value::Unsigned(axis)])[0].elements::<i32>();
        assert_eq!(arg("argMax", 0), [1, 0, 1]);
        assert_eq!(arg("argMax", 1), [1, 0]);
        assert_eq!(arg("argMin", 0), [1, 1, 1]);
        assert_eq!(arg("argMin", 1), [0, 0]);
        let values = vec![
            Value::Operand(OperandId(0)),
            Value::Unsigned(1),
            Value::Boolean(true),
            Value::Enumeration(DataType::Int64.index()),
        ];
        let wide = run("argMin", &[Tensor::of(&[1, 2, 2], [u64::MAX, 1, 0, 1])], values);
        assert_eq!(wide[0], Tensor::of(&[1, 1, 2], [1i64, 0]));
    }
}
