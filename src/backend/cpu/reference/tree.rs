//! Ensembles of decision trees: each sample follows each tree. The weights are added up in float64, first those of so many trees, so that
//! results do not depend on how many threads there are.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::{available, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::tree::{Aggregation, MISSING_IS_TRUE, MODE_MASK, TreeEnsemble};
use crate::looks::Looking;

/// Nanoseconds that a node takes, which is mostly somewhere else in memory than the one before.
const COST: usize = 4;
/// Trees whose weights are added up by themselves. Those of some hundred nodes stay in a core's cache for many samples.
const TREES: usize = 128;
/// Trees, or samples, that are followed at once: a core asks for the next nodes of all of them before it has the first.
const AT_ONCE: usize = 8;
/// Samples that follow the trees of a part one after the other.
const SAMPLES: usize = 64;
/// Not more sums of parts are kept.
const MOST_SUMS: usize = 1 << 20;

struct Trees<'a> {
    nodes: &'a [[i32; 4]],
    thresholds: &'a [f32],
    leaves: &'a [[i32; 2]],
    weights: &'a [f32],
    roots: &'a [i32],
    depth: u32,
    targets: usize,
    aggregation: Aggregation,
}

pub fn tree_ensemble(op: &TreeEnsemble, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let trees = Trees {
        nodes: arguments.input(op.nodes).elements::<i32>().as_chunks().0,
        thresholds: arguments.input(op.thresholds).elements(),
        leaves: arguments.input(op.leaves).elements::<i32>().as_chunks().0,
        weights: arguments.input(op.weights).elements(),
        roots: arguments.input(op.roots).elements(),
        depth: op.depth,
        targets: op.targets as usize,
        aggregation: op.aggregation,
    };
    let (rows, features) = (input.elements::<f32>(), input.shape[1]);
    let output = arguments.output().elements::<f32>();
    let parts = trees.roots.len().div_ceil(TREES);
    let sums = output.len().saturating_mul(parts);
    if parts > 1 && input.shape[0] < 4 * available() && sums <= MOST_SUMS {
        return trees.by_part(rows, features, parts, output);
    }
    let cost = trees.cost(trees.roots.len());
    for_each_piece(output, trees.targets, cost, |first, piece| {
        let rows = rows[first * features..].chunks(SAMPLES * features);
        for (rows, output) in rows.zip(piece.chunks_mut(SAMPLES * trees.targets)) {
            trees.by_sample(rows, features, output);
        }
    });
}

impl Trees<'_> {
    fn cost(&self, trees: usize) -> usize {
        trees.saturating_mul(self.depth as usize + 1).saturating_mul(COST)
    }

    /// Has samples follow all trees: those of a part after those of another, and each tree by many samples while its nodes are in a cache.
    fn by_sample(&self, rows: &[f32], features: usize, output: &mut [f32]) {
        let mut scores = scratch::filled(None, output.len());
        let mut sums = scratch::filled(None, output.len());
        let samples = output.len() / self.targets;
        // The last few samples follow many trees at once instead.
        let groups = samples / AT_ONCE;
        let (of_groups, rest) = rows[..samples * features].split_at(groups * AT_ONCE * features);
        for roots in self.roots.chunks(TREES).looking(self.cost(TREES) * samples) {
            let (sums_of_groups, sums_of_rest) = sums.split_at_mut(groups * AT_ONCE * self.targets);
            self.add_up_groups(roots, of_groups, features, sums_of_groups);
            for (row, sums) in rest.chunks_exact(features).zip(sums_of_rest.chunks_exact_mut(self.targets)) {
                self.add_up(roots, row, sums);
            }
            self.join(&mut scores, &sums);
        }
        self.store(&scores, output);
    }

    /// The same with several threads for each sample.
    fn by_part(&self, rows: &[f32], features: usize, parts: usize, output: &mut [f32]) {
        let mut sums = scratch::filled(None, output.len() * parts);
        for_each_piece(&mut sums, self.targets, self.cost(TREES), |first, piece| {
            for (number, sums) in (first..).zip(piece.chunks_exact_mut(self.targets)) {
                let (sample, part) = (number / parts, number % parts);
                let roots = &self.roots[part * TREES..self.roots.len().min((part + 1) * TREES)];
                self.add_up(roots, &rows[sample * features..][..features], sums);
            }
        });
        let mut scores = scratch::filled(None, self.targets);
        let samples = sums.chunks_exact(parts * self.targets).zip(output.chunks_exact_mut(self.targets));
        for (sums, output) in samples.looking(parts * self.targets) {
            scores.fill(None);
            sums.chunks_exact(self.targets).for_each(|sums| self.join(&mut scores, sums));
            self.store(&scores, output);
        }
    }

    /// What the leaves of some trees give a sample.
    fn add_up(&self, roots: &[i32], row: &[f32], sums: &mut [Option<f64>]) {
        sums.fill(None);
        for roots in roots.chunks(AT_ONCE) {
            let mut places = [-1; AT_ONCE];
            places[..roots.len()].copy_from_slice(roots);
            self.follow(&mut places, &[row; AT_ONCE]);
            places[..roots.len()].iter().for_each(|place| self.add(*place, sums));
        }
    }

    /// The same for groups of samples: each tree by all of them, one group after the other.
    fn add_up_groups(&self, roots: &[i32], rows: &[f32], features: usize, sums: &mut [Option<f64>]) {
        sums.fill(None);
        for &root in roots {
            let groups = rows.chunks_exact(AT_ONCE * features).zip(sums.chunks_exact_mut(AT_ONCE * self.targets));
            for (rows, sums) in groups {
                let mut places = [root; AT_ONCE];
                self.follow(&mut places, &std::array::from_fn(|i| &rows[i * features..][..features]));
                for (place, sums) in places.iter().zip(sums.chunks_exact_mut(self.targets)) {
                    self.add(*place, sums);
                }
            }
        }
    }

    /// Follows trees from some places on to leaves, each with a row of features.
    fn follow(&self, places: &mut [i32; AT_ONCE], rows: &[&[f32]; AT_ONCE]) {
        for _ in 0..self.depth {
            // Negative when all are leaves. Those that are stay where they are: a branch would be guessed wrong too often.
            let mut all = -1;
            for (place, row) in places.iter_mut().zip(rows) {
                let next = self.next(*place, row);
                *place = if *place < 0 { *place } else { next };
                all &= *place;
            }
            if all < 0 {
                break;
            }
        }
    }

    /// Adds what a leaf gives.
    fn add(&self, place: i32, sums: &mut [Option<f64>]) {
        for entry in self.leaf(place) {
            let target = usize::try_from(self.leaves[entry][0]).ok();
            if let Some(sum) = target.and_then(|target| sums.get_mut(target)) {
                *sum = Some(joined(self.aggregation, *sum, self.weights[entry].into()));
            }
        }
    }

    fn join(&self, scores: &mut [Option<f64>], sums: &[Option<f64>]) {
        for (score, sum) in scores.iter_mut().zip(sums) {
            if let Some(sum) = *sum {
                *score = Some(joined(self.aggregation, *score, sum));
            }
        }
    }

    fn store(&self, scores: &[Option<f64>], output: &mut [f32]) {
        for (output, score) in output.iter_mut().zip(scores) {
            let score = score.unwrap_or(0.0);
            *output = match self.aggregation {
                Aggregation::Average => (score / self.roots.len() as f64) as f32,
                _ => score as f32,
            };
        }
    }
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

/// For each mode, how numbers that it holds for compare: less, equal, greater, or not at all.
const HOLDS: [u8; 8] = [0b0011, 0b0001, 0b0110, 0b0100, 0b0010, 0b1101, 0, 0];

impl Trees<'_> {
    /// Where a row of features comes to from a node. Without branches: which way it goes nobody can tell before.
    #[inline]
    fn next(&self, place: i32, row: &[f32]) -> i32 {
        let number = clamped(place, self.nodes.len());
        let node = &self.nodes[number];
        let [feature, mode, ..] = *node;
        let (x, threshold) = (row[clamped(feature, row.len())], self.thresholds[number]);
        let compares = u8::from(x < threshold) | u8::from(x == threshold) << 1 | u8::from(x > threshold) << 2;
        let compares = compares | u8::from(compares == 0) << 3;
        let holds = HOLDS[(mode & MODE_MASK) as usize] & compares != 0;
        let is_missing = mode & MISSING_IS_TRUE != 0 && x.is_nan();
        node[3 - usize::from(holds | is_missing)]
    }

    /// The entries of a leaf, if it is one.
    fn leaf(&self, place: i32) -> std::ops::Range<usize> {
        if place >= 0 {
            return 0..0;
        }
        let first = clamped(-1 - place, self.leaves.len());
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
            // One by one, and with so many that some follow the tree together.
            for times in [1, 3] {
                let nodes = [([0, mode, -1, -2], threshold)];
                let found = scores(&rows.repeat(times), &nodes, &leaves, &[0], (1, 1), Aggregation::Sum);
                assert_eq!(found, expected.repeat(times), "mode {mode} of {threshold}");
            }
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

    /// Many trees, whose weights no order but one adds up to the same: whether there is a sample or are many, on one thread or several.
    #[test]
    fn sums_do_not_depend_on_samples_and_threads() {
        let weights = [1e8f32, 1.0, -1e8, 3e-5, 7.0];
        let leaves: Vec<([i32; 2], f32)> =
            (0..1000).map(|i| ([i % 3, 0], weights[i as usize % 5] * (1 + i % 7) as f32)).collect();
        let roots: Vec<i32> = (0..1000).map(|i| -1 - i).collect();
        let of = |samples: usize| {
            let rows = vec![[0.0, 0.0]; samples];
            scores(&rows, &[([0, 0, -1, -1], 0.0)], &leaves, &roots, (3, 0), Aggregation::Sum)
        };
        // In float64, and those of 128 trees first.
        let mut expected = [0f64; 3];
        for leaves in leaves.chunks(128) {
            let mut sums = [0f64; 3];
            leaves.iter().for_each(|([target, _], weight)| sums[*target as usize] += f64::from(*weight));
            expected.iter_mut().zip(sums).for_each(|(expected, sum)| *expected += sum);
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for samples in [1, 2, 11, 150] {
            let expected: Vec<f32> = expected.iter().map(|&sum| sum as f32).cycle().take(3 * samples).collect();
            assert_eq!(of(samples), expected, "{samples}");
            assert_eq!(pool.install(|| of(samples)), expected, "{samples}");
        }
    }

    /// Samples together come to the leaves that each comes to alone, some sooner than others.
    #[test]
    fn samples_together_are_as_alone() {
        // A list of 20 nodes: the walk of a sample ends where its number is first not above the threshold.
        let nodes: Vec<([i32; 4], f32)> =
            (0..20).map(|i| ([i % 2, 0, -1 - i, if i < 19 { i + 1 } else { -21 }], i as f32)).collect();
        let leaves: Vec<([i32; 2], f32)> = (0..21).map(|i| ([i % 3, 0], (i * i) as f32)).collect();
        let rows: Vec<[f32; 2]> = (0..45).map(|i| [((i * 7) % 23) as f32, ((i * 11) % 25) as f32]).collect();
        let of = |rows: &[[f32; 2]]| scores(rows, &nodes, &leaves, &[0, 5, -4, 19], (3, 20), Aggregation::Sum);
        let alone: Vec<f32> = rows.iter().flat_map(|row| of(&[*row])).collect();
        assert_eq!(of(&rows), alone);
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
