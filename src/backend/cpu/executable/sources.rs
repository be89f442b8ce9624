//! Whose results a step reads: the edges of the graph that profiles show.

use super::step::{Operand, Step};
use std::ops::Range;

/// Memory that a step has written: a region, and bytes of it.
type Written = (usize, Range<usize>);

/// For each step, the earlier ones whose results it reads. Memory tells, since values that are only other views of results have no step.
pub fn of(steps: &[Step]) -> Vec<Vec<usize>> {
    let list = |operands: &[Operand]| operands.iter().filter_map(Operand::written).collect();
    let steps: Vec<[Vec<Written>; 2]> = steps.iter().map(|step| [list(&step.inputs), list(&step.outputs)]).collect();
    between(&steps)
}

/// The same, of what each step reads and writes.
fn between(steps: &[[Vec<Written>; 2]]) -> Vec<Vec<usize>> {
    // Who has written which bytes last.
    let mut writers: Vec<(Written, usize)> = Vec::new();
    let mut all = Vec::with_capacity(steps.len());
    for (number, [reads, writes]) in steps.iter().enumerate() {
        let is_read = |(region, bytes): &Written| reads.iter().any(|(other, read)| other == region && overlap(read, bytes));
        let mut sources: Vec<usize> = writers.iter().filter(|(written, _)| is_read(written)).map(|&(_, writer)| writer).collect();
        sources.sort_unstable();
        sources.dedup();
        all.push(sources);
        for (region, write) in writes {
            let remains = |((other, bytes), writer): (Written, usize)| {
                let parts = if other == *region { without(&bytes, write) } else { [bytes, 0..0] };
                parts.into_iter().filter(|part| !part.is_empty()).map(move |part| ((other, part), writer))
            };
            writers = writers.into_iter().flat_map(remains).collect();
            writers.push(((*region, write.clone()), number));
        }
    }
    all
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// What is left of bytes before and after those that are taken out of them.
fn without(bytes: &Range<usize>, taken: &Range<usize>) -> [Range<usize>; 2] {
    if overlap(bytes, taken) { [bytes.start..taken.start, taken.end..bytes.end] } else { [bytes.clone(), 0..0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_read_what_was_written_last() {
        let steps = [
            [vec![], vec![(0, 0..64)]],
            [vec![(0, 0..64)], vec![(0, 64..128)]],
            // In memory that is free again, and two halves of one value.
            [vec![(0, 64..128)], vec![(0, 0..32)]],
            [vec![(0, 64..128)], vec![(0, 32..64)]],
            [vec![(0, 0..64)], vec![(1, 0..64)]],
            [vec![(0, 0..32), (1, 0..64)], vec![(2, 0..8)]],
            // Over the end of what was there.
            [vec![(2, 0..8)], vec![(0, 16..80)]],
            [vec![(0, 16..80)], vec![(1, 0..8)]],
        ];
        let none: &[usize] = &[];
        assert_eq!(between(&steps), [none, &[0], &[1], &[1], &[2, 3], &[2, 4], &[5], &[6]]);
    }
}
