//! The tables of an ensemble of trees, as the operator `treeEnsemble` takes them.

use super::{check_length, floats, int32s};
use crate::graph::OperandId;
use crate::graph::ops::tree::{Aggregation, MISSING_IS_TRUE, MODES, TreeEnsemble};
use crate::memory;
use crate::onnx::emit::Emit;
use crate::onnx::node::size;
use crate::onnx::refusal::Mapped;

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Child {
    Node(usize),
    /// The first entry of a leaf.
    Leaf(usize),
}

/// A node that is no leaf.
#[derive(Clone, Debug)]
pub struct Branch {
    pub feature: i64,
    pub mode: usize,
    pub threshold: f64,
    pub missing_is_true: bool,
    /// Where it leads if the comparison is true, and if not.
    pub children: [Child; 2],
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it counts for; nothing for a leaf that counts for nothing.
    pub target: Option<u32>,
    pub weight: f64,
    /// Whether the next entry belongs to the leaf too.
    pub continues: bool,
}

#[derive(Debug, Default)]
pub struct Ensemble {
    pub branches: Vec<Branch>,
    pub entries: Vec<Entry>,
    pub roots: Vec<Child>,
}

impl Ensemble {
    /// The scores of rows of features for each target.
    ///
    /// # Errors
    /// Nodes that lead back to themselves, and features and targets that there are not.
    pub fn scores(&self, input: OperandId, targets: u32, aggregation: Aggregation, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let features = emit.shape(input)[1];
        let (mut nodes, mut thresholds) = (Vec::new(), Vec::new());
        for branch in &self.branches {
            if !(0..i64::from(features)).contains(&branch.feature) {
                return Err(format!("a tree that compares feature {} of {features}", branch.feature).into());
            }
            let missing = if branch.missing_is_true { MISSING_IS_TRUE } else { 0 };
            let [yes, no] = branch.children.map(index);
            nodes.extend([branch.feature as i32, branch.mode as i32 | missing, yes?, no?]);
            // Of a double, rounded as the features of doubles are: what is equal stays equal.
            thresholds.push(branch.threshold as f32);
        }
        let (mut leaves, mut weights) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            if let Some(target) = entry.target.filter(|&target| target >= targets) {
                return Err(format!("a leaf for target or class {target} of {targets}").into());
            }
            leaves.extend([entry.target.map_or(Ok(-1), number)?, i32::from(entry.continues)]);
            weights.push(entry.weight as f32);
        }
        let roots = self.roots.iter().map(|&root| index(root)).collect::<Mapped<Vec<i32>>>()?;
        if roots.is_empty() {
            return Err("an ensemble without trees".into());
        }
        // There is at least one of everything.
        if thresholds.is_empty() {
            (nodes, thresholds) = (vec![0, 0, -1, -1], vec![0.0]);
        }
        if weights.is_empty() {
            (leaves, weights) = (vec![-1, 0], vec![0.0]);
        }
        let depth = size(self.depth()?)?;
        let op = TreeEnsemble {
            input,
            nodes: int32s(emit, &[thresholds.len(), 4], &nodes)?,
            thresholds: floats(emit, &[thresholds.len()], &thresholds)?,
            leaves: int32s(emit, &[weights.len(), 2], &leaves)?,
            weights: floats(emit, &[weights.len()], &weights)?,
            roots: int32s(emit, &[roots.len()], &roots)?,
            targets,
            depth,
            aggregation,
        };
        emit.push(op)
    }

    /// How many branches lie on the longest way from a root to a leaf.
    fn depth(&self) -> Mapped<usize> {
        #[derive(Clone, Copy)]
        enum State {
            New,
            /// It is on the way that is gone along.
            Open,
            Done(usize),
        }
        let mut states = vec![State::New; self.branches.len()];
        let mut stack: Vec<usize> = Vec::new();
        let mut deepest = 0;
        for root in &self.roots {
            let Child::Node(root) = *root else { continue };
            stack.push(root);
            while let Some(&node) = stack.last() {
                let branch = self.branches.get(node).ok_or_else(|| format!("a tree that leads to node {node}, which is none"))?;
                match states[node] {
                    State::Done(_) => {
                        stack.pop();
                    }
                    State::New => {
                        states[node] = State::Open;
                        for child in branch.children {
                            let Child::Node(child) = child else { continue };
                            match states.get(child) {
                                Some(State::New) | None => stack.push(child),
                                Some(State::Open) => return Err("a tree with a node that leads back to itself".into()),
                                Some(State::Done(_)) => {}
                            }
                        }
                    }
                    // All that it leads to has been seen.
                    State::Open => {
                        let below = |child: Child| match child {
                            Child::Node(child) => match states[child] {
                                State::Done(depth) => depth,
                                _ => 0,
                            },
                            Child::Leaf(_) => 0,
                        };
                        let depth = 1 + below(branch.children[0]).max(below(branch.children[1]));
                        states[node] = State::Done(depth);
                        stack.pop();
                    }
                }
            }
            if let State::Done(depth) = states[root] {
                deepest = deepest.max(depth);
            }
        }
        Ok(deepest)
    }

    /// Whether every sample has a weight for each target: some tree has one in all of its leaves.
    ///
    /// # Errors
    /// When there is no memory for so many targets.
    pub fn reaches_all(&self, targets: u32) -> Mapped<bool> {
        let mut reached = memory::filled(false, targets as usize)?;
        // Of each target the last leaf that has it, and in how many leaves of a tree it is.
        let mut found = memory::filled((usize::MAX, 0usize), targets as usize)?;
        let (mut leaf, mut visits) = (0, 0);
        for &root in &self.roots {
            let (first, mut stack) = (leaf, vec![root]);
            while let Some(child) = stack.pop() {
                match child {
                    Child::Node(node) => {
                        // More visits than nodes: some are shared, and there may be very many ways.
                        visits += 1;
                        if visits > self.branches.len() {
                            return Ok(false);
                        }
                        stack.extend(self.branches.get(node).into_iter().flat_map(|branch| branch.children));
                    }
                    Child::Leaf(entry) => {
                        for target in self.leaf(entry) {
                            if let Some((last, count)) = found.get_mut(target as usize).filter(|(last, _)| *last != leaf) {
                                *count = if *last == usize::MAX || *last < first { 1 } else { *count + 1 };
                                *last = leaf;
                            }
                        }
                        leaf += 1;
                    }
                }
            }
            for (reached, (last, count)) in reached.iter_mut().zip(&found) {
                *reached |= *last != usize::MAX && *last >= first && *count == leaf - first;
            }
        }
        Ok(reached.into_iter().all(|reached| reached))
    }

    /// The targets of a leaf.
    fn leaf(&self, entry: usize) -> impl Iterator<Item = u32> {
        let own = self.entries.get(entry..).unwrap_or_default();
        let more = own.iter().take_while(|entry| entry.continues).count();
        own.iter().take(more + 1).filter_map(|entry| entry.target)
    }

    /// The same trees, whose leaves count for each target once.
    pub fn counting(&self) -> Ensemble {
        let entries = self.entries.iter().map(|&entry| Entry { weight: 1.0, ..entry }).collect();
        Ensemble { branches: self.branches.clone(), entries, roots: self.roots.clone() }
    }
}

fn number(number: impl TryInto<i32>) -> Mapped<i32> {
    number.try_into().map_err(|_| "an ensemble of too many nodes".into())
}

fn index(child: Child) -> Mapped<i32> {
    match child {
        Child::Node(node) => number(node),
        Child::Leaf(entry) => Ok(-1 - number(entry)?),
    }
}

/// The number of a mode, of those that have one.
pub fn mode(name: &str) -> Mapped<usize> {
    let place = MODES.iter().position(|mode| *mode == name);
    place.ok_or_else(|| format!("a node with the mode {name:?}; allowed are LEAF, {}", MODES.join(", ")).into())
}

/// Checks that all lists of nodes or leaves have one length.
pub fn check_lengths(lists: &[(&str, usize)]) -> Mapped<usize> {
    let (_, length) = lists[0];
    for (name, found) in lists {
        check_length(name, *found, length)?;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(children: [Child; 2]) -> Branch {
        Branch { feature: 0, mode: 0, threshold: 0.0, missing_is_true: false, children }
    }

    #[test]
    fn depth_of_trees_that_share_nodes_and_of_circles() {
        use Child::{Leaf, Node};
        let of = |children: &[[Child; 2]], roots: &[Child]| {
            let branches = children.iter().copied().map(branch).collect();
            Ensemble { branches, entries: vec![], roots: roots.to_vec() }.depth()
        };
        assert_eq!(of(&[], &[Leaf(0)]), Ok(0));
        // Each of forty nodes leads to the next one twice: 2⁴⁰ ways of 40 nodes.
        let ladder: Vec<[Child; 2]> = (1..=40).map(|next| if next == 40 { [Leaf(0); 2] } else { [Node(next); 2] }).collect();
        assert_eq!(of(&ladder, &[Node(0), Node(39)]), Ok(40));
        assert_eq!(of(&[[Node(2), Node(1)], [Leaf(0), Leaf(0)], [Leaf(0), Node(1)]], &[Node(0)]), Ok(3));
        for circle in [vec![[Node(0), Leaf(0)]], vec![[Leaf(0), Node(1)], [Node(2), Leaf(0)], [Leaf(0), Node(0)]]] {
            assert!(of(&circle, &[Node(0)]).is_err());
        }
        assert!(of(&[[Node(7), Leaf(0)]], &[Node(0)]).is_err());
    }
}
