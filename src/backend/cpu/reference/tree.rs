//! Ensembles of decision trees: each sample follows each tree. The weights are added up in float64.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::tree::{Aggregation, MISSING_IS_TRUE, MODE_MASK, TreeEnsemble};

/// Nanoseconds that a node takes, which is mostly somewhere else in memory than the one before.
const COST: usize = 4;

struct Trees<'a> {
    nodes: &'a [[i32; 4]],
    thresholds: &'a [f32],
    leaves: &'a [[i32; 2]],
    depth: u32,
}

pub fn tree_ensemble(op: &TreeEnsemble, arguments: &mut Arguments<'_, '_>) {
    let (input, roots) = (arguments.input(op.input), arguments.input(op.roots));
    let (weights, targets) = (arguments.input(op.weights), op.targets as usize);
    let trees = Trees {
        nodes: arguments.input(op.nodes).elements::<i32>().as_chunks().0,
        thresholds: arguments.input(op.thresholds).elements(),
        leaves: arguments.input(op.leaves).elements::<i32>().as_chunks().0,
        depth: op.depth,
    };
    let (weights, roots) = (weights.elements::<f32>(), roots.elements::<i32>());
    let features = input.shape[1];
    let rows = input.elements::<f32>();
    let cost = roots.len().saturating_mul(op.depth as usize + 1).saturating_mul(COST);
    for_each_piece(arguments.output().elements::<f32>(), targets, cost, |first, piece| {
        let mut scores = scratch::filled(None, targets);
        for (row, output) in rows[first * features..].chunks_exact(features).zip(piece.chunks_exact_mut(targets)) {
            scores.fill(None);
            for &root in roots {
                for entry in trees.leaf(root, row) {
                    let Some(score) = usize::try_from(trees.leaves[entry][0]).ok().and_then(|target| scores.get_mut(target))
                    else {
                        continue;
                    };
                    *score = Some(joined(op.aggregation, *score, weights[entry].into()));
                }
            }
            for (output, score) in output.iter_mut().zip(&scores) {
                let score = score.unwrap_or(0.0);
                *output = match op.aggregation {
                    Aggregation::Average => (score / roots.len() as f64) as f32,
                    _ => score as f32,
                };
            }
        }
    });
}

fn joined(aggregation: Aggregation, score: Option<f64>, weight: f64) -> f64 {
    let Some(score) = score else { return weight };
    match aggregation {
        Aggregation::Sum | Aggregation::Average => score + weight,
        Aggregation::Min if weight < score => weight,
        Aggregation::Max if weight > score => weight,
        Aggregation::Min | Aggregation::Max => score,
    }
}

/// Where an index leads: to itself, or the nearest place there is.
fn clamped(index: i32, count: usize) -> usize {
    usize::try_from(index).unwrap_or(0).min(count - 1)
}

impl Trees<'_> {
    /// The entries of the leaf that a row of features comes to.
    fn leaf(&self, root: i32, row: &[f32]) -> std::ops::Range<usize> {
        let mut at = root;
        for _ in 0..self.depth {
            if at < 0 {
                break;
            }
            let number = clamped(at, self.nodes.len());
            let [feature, mode, yes, no] = self.nodes[number];
            let (x, threshold) = (row[clamped(feature, row.len())], self.thresholds[number]);
            let holds = match mode & MODE_MASK {
                0 => x <= threshold,
                1 => x < threshold,
                2 => x >= threshold,
                3 => x > threshold,
                4 => x == threshold,
                5 => x != threshold,
                _ => false,
            };
            at = if holds || mode & MISSING_IS_TRUE != 0 && x.is_nan() { yes } else { no };
        }
        if at >= 0 {
            return 0..0;
        }
        let first = clamped(-1 - at, self.leaves.len());
        let more = self.leaves[first..].iter().take_while(|[_, more]| *more != 0).count();
        first..(first + more + 1).min(self.leaves.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::{Enumerated, Value};
    use crate::graph::ops::tree::Aggregation;

    /// The scores of rows of two features, for tables of nodes, leaves and roots.
    fn scores(
        rows: &[[f32; 2]],
        nodes: &[([i32; 4], f32)],
        leaves: &[([i32; 2], f32)],
        roots: &[i32],
        (targets, depth): (u32, u32),
        aggregation: Aggregation,
    ) -> Vec<f32> {
        let count = |length: usize| length as u32;
        let inputs = [
            Tensor::of(&[count(rows.len()), 2], rows.as_flattened().iter().copied()),
            Tensor::of(&[count(nodes.len()), 4], nodes.iter().flat_map(|(node, _)| *node)),
            Tensor::of(&[count(nodes.len())], nodes.iter().map(|(_, threshold)| *threshold)),
            Tensor::of(&[count(leaves.len()), 2], leaves.iter().flat_map(|(leaf, _)| *leaf)),
            Tensor::of(&[count(leaves.len())], leaves.iter().map(|(_, weight)| *weight)),
            Tensor::of(&[count(roots.len())], roots.iter().copied()),
        ];
        let mut values: Vec<Value> = (0..6).map(|i| Value::Operand(OperandId(i))).collect();
        values.extend([Value::Unsigned(targets), Value::Unsigned(depth), Value::Enumeration(aggregation.index())]);
        run("treeEnsemble", &inputs, values)[0].elements()
    }

    #[test]
    fn every_comparison_with_numbers_and_nan() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let leaves = [([0, 0], 1.0), ([0, 0], 0.0)];
        let rows = [[1.0, 9.0], [2.0, 9.0], [3.0, 9.0], [nan, 9.0], [-inf, 9.0], [-0.0, 9.0]];
        for (mode, threshold, expected) in [
            (0, 2.0, [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
            (1, 2.0, [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]),
            (2, 2.0, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
            (3, 2.0, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
            (4, 2.0, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
            (5, 2.0, [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
            (6, 2.0, [0.0; 6]),
            (4, 0.0, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            // Nothing is equal to NaN.
            (4, nan, [0.0; 6]),
            (5, nan, [1.0; 6]),
            (8, 2.0, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
            (8 + 3, 2.0, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
            (8 + 4, nan, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        ] {
            let found = scores(&rows, &[([0, mode, -1, -2], threshold)], &leaves, &[0], (1, 1), Aggregation::Sum);
            assert_eq!(found, expected, "mode {mode} of {threshold}");
        }
    }

    #[test]
    fn weights_of_several_trees_are_joined_for_each_target() {
        // Two leaves of two entries and one of one, whose target is none.
        let leaves = [([0, 1], 2.0), ([2, 0], 5.0), ([0, 1], -3.0), ([0, 0], 4.0), ([7, 0], 1.0)];
        let nodes = [([1, 0, -1, -3], 0.5), ([0, 0, -1, -5], 0.5)];
        let of = |aggregation| scores(&[[0.0, 0.0], [1.0, 1.0]], &nodes, &leaves, &[0, 1, -1], (3, 1), aggregation);
        assert_eq!(of(Aggregation::Sum), [6.0, 0.0, 15.0, 3.0, 0.0, 5.0]);
        assert_eq!(of(Aggregation::Average), [2.0, 0.0, 5.0, 1.0, 0.0, 5.0 / 3.0]);
        assert_eq!(of(Aggregation::Min), [2.0, 0.0, 5.0, -3.0, 0.0, 5.0]);
        assert_eq!(of(Aggregation::Max), [2.0, 0.0, 5.0, 4.0, 0.0, 5.0]);
    }

    /// Whatever the tables hold, a walk ends, within them.
    #[test]
    fn indices_out_of_range_and_circles() {
        let leaves = [([0, 1], 1.0), ([-1, 1], 8.0)];
        let around = [([i32::MAX, 0, 0, 0], 0.0), ([i32::MIN, 0, i32::MIN, i32::MAX], 0.0)];
        let found = |roots: &[i32]| scores(&[[0.0, 1.0]], &around, &leaves, roots, (1, 2), Aggregation::Sum);
        assert_eq!(found(&[0]), [0.0]);
        assert_eq!(found(&[i32::MAX]), [0.0]);
        assert_eq!(found(&[-1, i32::MIN, -1]), [2.0]);
    }
}
