//! The tables of an ensemble of trees, as the operator `treeEnsemble` takes them: made once for a node of a model, and shared by all
//! graphs that are made of it.

use super::check_length;
use crate::graph::OperandId;
use crate::graph::ops::tree::{Aggregation, MISSING_IS_TRUE, MODES, TreeEnsemble};
use crate::memory;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::size;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use bytes::Bytes;
use std::sync::OnceLock;

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

/// Trees that are being read: 20 bytes for each branch, and 12 for each entry of a leaf.
#[derive(Debug, Default)]
pub struct Ensemble {
    /// See [`TreeEnsemble`] for these.
    nodes: Vec<[i32; 4]>,
    thresholds: Vec<f32>,
    leaves: Vec<[i32; 2]>,
    weights: Vec<f32>,
    roots: Vec<i32>,
    /// The greatest feature that is compared, and one that there cannot be.
    last_feature: i64,
    wrong_feature: Option<i64>,
    targets: Targets,
}

/// What the entries of leaves have in common.
#[derive(Clone, Copy, Debug, Default)]
struct Targets {
    least: Option<u32>,
    greatest: Option<u32>,
    has_negative: bool,
}

impl Ensemble {
    pub fn push(&mut self, branch: &Branch) -> Mapped<()> {
        match i32::try_from(branch.feature) {
            Ok(0..) => self.last_feature = self.last_feature.max(branch.feature),
            _ => self.wrong_feature = Some(branch.feature),
        }
        let missing = if branch.missing_is_true { MISSING_IS_TRUE } else { 0 };
        let [yes, no] = branch.children.map(index);
        self.nodes.push([branch.feature as i32, branch.mode as i32 | missing, yes?, no?]);
        // Of a double, rounded as the features of doubles are: what is equal stays equal.
        self.thresholds.push(branch.threshold as f32);
        Ok(())
    }

    pub fn push_entry(&mut self, entry: &Entry) -> Mapped<()> {
        self.leaves.push([entry.target.map_or(Ok(-1), number)?, i32::from(entry.continues)]);
        self.weights.push(entry.weight as f32);
        let Targets { least, greatest, has_negative } = &mut self.targets;
        if let Some(target) = entry.target {
            *least = Some(least.map_or(target, |least| least.min(target)));
            *greatest = (*greatest).max(Some(target));
        }
        *has_negative |= entry.weight < 0.0;
        Ok(())
    }

    pub fn push_root(&mut self, root: Child) -> Mapped<()> {
        self.roots.push(index(root)?);
        Ok(())
    }

    /// How many entries of leaves there are.
    pub fn entries(&self) -> usize {
        self.weights.len()
    }

    /// Compares the feature of a branch with another number too, where it is no equal: the place of the branch that does.
    pub fn or_equal(&mut self, place: usize, number: f64) -> Mapped<usize> {
        let [feature, mode, yes, no] = self.nodes[place];
        let next = self.nodes.len();
        self.nodes.push([feature, mode & !MISSING_IS_TRUE, yes, no]);
        self.thresholds.push(number as f32);
        self.nodes[place][3] = index(Child::Node(next))?;
        Ok(next)
    }

    /// The ensemble for all graphs.
    ///
    /// # Errors
    /// Nodes that lead back to themselves.
    pub fn finish(mut self) -> Mapped<Trees> {
        if self.roots.is_empty() {
            return Err("an ensemble without trees".into());
        }
        let depth = size(self.depth()?)?;
        let (branches, entries) = (self.nodes.len(), self.weights.len());
        // There is at least one of everything.
        if branches == 0 {
            (self.nodes, self.thresholds) = (vec![[0, 0, -1, -1]], vec![0.0]);
        }
        if entries == 0 {
            (self.leaves, self.weights) = (vec![[-1, 0]], vec![0.0]);
        }
        let Ensemble { nodes, thresholds, leaves, weights, roots, last_feature, wrong_feature, targets } = self;
        Ok(Trees {
            nodes: Numbers::of(nodes),
            thresholds: Numbers::of(thresholds),
            leaves: Numbers::of(leaves),
            weights: Numbers::of(weights),
            roots: Numbers::of(roots),
            branches,
            last_feature: if branches == 0 { -1 } else { last_feature },
            wrong_feature,
            targets,
            depth,
            ones: OnceLock::new(),
            all: OnceLock::new(),
        })
    }

    /// How many branches lie on the longest way from a root to a leaf.
    fn depth(&self) -> Mapped<usize> {
        const NEW: u32 = 0;
        /// It is on the way that is gone along.
        const OPEN: u32 = 1;
        /// After it, how many branches lie on the longest way from it on.
        const DONE: u32 = 1;
        let mut states = memory::filled(NEW, self.nodes.len())?;
        let mut stack: Vec<i32> = Vec::new();
        let mut deepest = 0;
        for &root in self.roots.iter().filter(|root| **root >= 0) {
            stack.push(root);
            while let Some(&node) = stack.last() {
                let place = node as usize;
                let [_, _, children @ ..] =
                    self.nodes.get(place).ok_or_else(|| format!("a tree that refers to the missing node {node}"))?;
                match states[place] {
                    NEW => {
                        states[place] = OPEN;
                        for &child in children.iter().filter(|child| **child >= 0) {
                            match states.get(child as usize) {
                                Some(&NEW) | None => stack.push(child),
                                Some(&OPEN) => return Err("a tree with a cycle".into()),
                                Some(_) => {}
                            }
                        }
                    }
                    // All that it leads to has been seen.
                    OPEN => {
                        let below = |child: i32| if child < 0 { 0 } else { states[child as usize] - DONE };
                        states[place] = DONE + 1 + below(children[0]).max(below(children[1]));
                        stack.pop();
                    }
                    _ => {
                        stack.pop();
                    }
                }
            }
            deepest = deepest.max(states[root as usize] - DONE);
        }
        Ok(deepest as usize)
    }
}

/// Numbers of a table, which graphs have where they lie.
#[derive(Clone, Debug)]
struct Numbers {
    rows: usize,
    bytes: Bytes,
}

struct Rows<T>(Vec<T>);

impl<T: bytemuck::NoUninit> AsRef<[u8]> for Rows<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Numbers {
    fn of<T: bytemuck::NoUninit + Send>(rows: Vec<T>) -> Numbers {
        Numbers { rows: rows.len(), bytes: Bytes::from_owner(Rows(rows)) }
    }

    fn rows<T: bytemuck::AnyBitPattern>(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes)
    }

    /// As a constant, of so many numbers in a row if there are several.
    fn operand(&self, element: ElementType, columns: Option<usize>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let shape = std::iter::once(self.rows).chain(columns).collect();
        emit.operand(&Tensor { element, shape, bytes: self.bytes.clone().into() }.into())
    }
}

/// The trees of a node.
#[derive(Debug)]
pub struct Trees {
    nodes: Numbers,
    thresholds: Numbers,
    leaves: Numbers,
    weights: Numbers,
    roots: Numbers,
    /// Nodes that are no leaves.
    branches: usize,
    last_feature: i64,
    wrong_feature: Option<i64>,
    targets: Targets,
    depth: u32,
    /// Weights of 1.
    ones: OnceLock<Numbers>,
    /// For a number of targets, whether every sample reaches all of them.
    all: OnceLock<(u32, bool)>,
}

impl Trees {
    /// The scores of rows of features for each target.
    ///
    /// # Errors
    /// Features and targets that there are not.
    pub fn scores(&self, input: OperandId, targets: u32, aggregation: Aggregation, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        self.weighted(&self.weights, input, targets, aggregation, emit)
    }

    /// How many leaves count for each target.
    pub fn counts(&self, input: OperandId, targets: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let ones = self.ones.get_or_init(|| Numbers::of(vec![1f32; self.weights.rows]));
        self.weighted(ones, input, targets, Aggregation::Sum, emit)
    }

    fn weighted(
        &self,
        weights: &Numbers,
        input: OperandId,
        targets: u32,
        aggregation: Aggregation,
        emit: &mut Emit<'_>,
    ) -> Mapped<OperandId> {
        let features = emit.shape(input)[1];
        if let Some(feature) = self.wrong_feature.or((self.last_feature >= features.into()).then_some(self.last_feature)) {
            return Err(format!("a tree that compares feature {feature} of {features}").into());
        }
        if let Some(target) = self.targets.greatest.filter(|&target| target >= targets) {
            return Err(format!("a leaf for target or class {target} of {targets}").into());
        }
        let op = TreeEnsemble {
            input,
            nodes: self.nodes.operand(ElementType::Int32, Some(4), emit)?,
            thresholds: self.thresholds.operand(ElementType::Float, None, emit)?,
            leaves: self.leaves.operand(ElementType::Int32, Some(2), emit)?,
            weights: weights.operand(ElementType::Float, None, emit)?,
            roots: self.roots.operand(ElementType::Int32, None, emit)?,
            targets,
            depth: self.depth,
            aggregation,
        };
        emit.push(op)
    }

    /// Whether no weight is negative.
    pub fn is_probability(&self) -> bool {
        !self.targets.has_negative
    }

    /// Whether no leaf counts for another target.
    pub fn has_only(&self, target: u32) -> bool {
        [self.targets.least, self.targets.greatest].into_iter().flatten().all(|other| other == target)
    }

    /// Whether every sample has a weight for each target: some tree has one in all of its leaves.
    ///
    /// # Errors
    /// When there is no memory for so many targets.
    pub fn reaches_all(&self, targets: u32) -> Mapped<bool> {
        if let Some((_, reaches)) = self.all.get().filter(|(of, _)| *of == targets) {
            return Ok(*reaches);
        }
        let reaches = self.find_targets(targets)?;
        let _ = self.all.set((targets, reaches));
        Ok(reaches)
    }

    fn find_targets(&self, targets: u32) -> Mapped<bool> {
        let (nodes, roots) = (self.nodes.rows::<[i32; 4]>(), self.roots.rows::<i32>());
        let mut reached = memory::filled(false, targets as usize)?;
        // Of each target the last leaf that has it, and in how many leaves of a tree it is.
        let mut found = memory::filled((usize::MAX, 0usize), targets as usize)?;
        let (mut leaf, mut visits) = (0, 0);
        for &root in roots {
            let (first, mut stack) = (leaf, vec![root]);
            while let Some(child) = stack.pop() {
                if child >= 0 {
                    // More visits than nodes: some are shared, and there may be very many ways.
                    visits += 1;
                    if visits > self.branches {
                        return Ok(false);
                    }
                    stack.extend(nodes.get(child as usize).into_iter().flat_map(|[_, _, children @ ..]| children));
                } else {
                    for target in self.leaf(-1 - child) {
                        if let Some((last, count)) = found.get_mut(target as usize).filter(|(last, _)| *last != leaf) {
                            *count = if *last == usize::MAX || *last < first { 1 } else { *count + 1 };
                            *last = leaf;
                        }
                    }
                    leaf += 1;
                }
            }
            for (reached, (last, count)) in reached.iter_mut().zip(&found) {
                *reached |= *last != usize::MAX && *last >= first && *count == leaf - first;
            }
        }
        Ok(reached.into_iter().all(|reached| reached))
    }

    /// The targets of a leaf.
    fn leaf(&self, entry: i32) -> impl Iterator<Item = u32> {
        let own = self.leaves.rows::<[i32; 2]>().get(entry as usize..).unwrap_or_default();
        let more = own.iter().take_while(|[_, continues]| *continues != 0).count();
        own.iter().take(more + 1).filter_map(|[target, _]| u32::try_from(*target).ok())
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

    #[test]
    fn depth_of_trees_that_share_nodes_and_of_circles() {
        use Child::{Leaf, Node};
        let of = |children: &[[Child; 2]], roots: &[Child]| {
            let mut ensemble = Ensemble::default();
            for &children in children {
                let branch = Branch { feature: 0, mode: 0, threshold: 0.0, missing_is_true: false, children };
                ensemble.push(&branch).unwrap();
            }
            roots.iter().for_each(|&root| ensemble.push_root(root).unwrap());
            ensemble.depth()
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
