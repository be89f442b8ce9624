//! What profiles say of steps: their operators and shapes, and the edges of the graph of steps.

use std::ops::Range;

/// A step, for people: its operators, and the shapes of what it reads and writes.
pub fn describe<'a>(
    operators: impl Iterator<Item = &'static str>,
    inputs: impl Iterator<Item = &'a [usize]>,
    outputs: impl Iterator<Item = &'a [usize]>,
) -> String {
    let list = |shapes: &mut dyn Iterator<Item = &'a [usize]>| {
        shapes.map(|shape| format!("{shape:?}").replace(' ', "")).collect::<Vec<_>>().join(" ")
    };
    let names: Vec<&str> = operators.collect();
    format!("{} {} -> {}", names.join(" + "), list(&mut { inputs }), list(&mut { outputs }))
}

/// Memory that a step has written: a region, and bytes of it.
pub type Written = (usize, Range<usize>);

/// For each step, of which the memory is given that it reads and writes, the earlier ones whose results it reads. Memory tells, since values that
/// are only other views of results have no step.
pub fn sources(steps: &[[Vec<Written>; 2]]) -> Vec<Vec<usize>> {
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
        assert_eq!(sources(&steps), [none, &[0], &[1], &[1], &[2, 3], &[2, 4], &[5], &[6]]);
    }
}
