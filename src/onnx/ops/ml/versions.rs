//! TreeEnsembleRegressor and TreeEnsembleClassifier, whose nodes are named by a tree and a number, and TreeEnsemble of version
//! 5, whose branches and leaves are lists of their own.

use super::super::elementwise::one;
use super::rows;
use super::scores::{Labels, PostTransform, above, greatest, post_transform, second_class, with_base};
use super::trees::{Branch, Child, Ensemble, Entry, Trees, check_lengths, mode};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::tree::{Aggregation, MODES};
use crate::graph::{DataType, OperandId};
use crate::memory;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Numbers that are a list of floats, or, since version 3, a tensor.
#[derive(Debug)]
enum Numbers<'a> {
    Floats(&'a [f32]),
    Doubles(Vec<f64>),
}

impl Numbers<'_> {
    fn len(&self) -> usize {
        match self {
            Numbers::Floats(list) => list.len(),
            Numbers::Doubles(list) => list.len(),
        }
    }

    fn at(&self, position: usize) -> f64 {
        match self {
            Numbers::Floats(list) => list[position].into(),
            Numbers::Doubles(list) => list[position],
        }
    }

    fn narrow(&self) -> Vec<f32> {
        (0..self.len()).map(|i| self.at(i) as f32).collect()
    }
}

fn numbers<'a>(node: &'a Node<'_>, name: &str) -> Mapped<Numbers<'a>> {
    let as_tensor = format!("{name}_as_tensor");
    match (node.float_list(name)?, node.tensor(&as_tensor)?) {
        ([_, ..], Some(tensor)) if !tensor.is_empty() => Err(format!("both {name} and {as_tensor}").into()),
        ([], Some(tensor)) => Ok(Numbers::Doubles(tensor.floats())),
        (list, _) => Ok(Numbers::Floats(list)),
    }
}

/// Positions in lists that name a tree for each of them, by tree: in the order in which trees are first named, and in their own.
#[derive(Debug)]
struct ByTree {
    positions: Vec<u32>,
    /// Where those of each tree begin, and where the last ones end.
    starts: Vec<usize>,
}

impl ByTree {
    fn of(&self, tree: usize) -> &[u32] {
        &self.positions[self.starts[tree]..self.starts[tree + 1]]
    }

    fn trees(&self) -> usize {
        self.starts.len() - 1
    }
}

/// The trees by their names. Nodes of a tree mostly follow each other, so names are looked for where they change.
#[derive(Debug, Default)]
struct Names(HashMap<i64, u32>);

impl Names {
    /// The positions by tree. Those of trees without a name get one where `are_new`, and are left out elsewhere.
    fn group(&mut self, trees: &[i64], are_new: bool) -> Mapped<ByTree> {
        const NONE: u32 = u32::MAX;
        u32::try_from(trees.len()).map_err(|_| "an ensemble of too many nodes")?;
        let mut last: Option<(i64, u32)> = None;
        let mut numbers = memory::filled(NONE, trees.len())?;
        for (&tree, number) in trees.iter().zip(&mut numbers) {
            *number = match last {
                Some((name, number)) if name == tree => number,
                _ => {
                    let next = self.0.len() as u32;
                    if are_new { *self.0.entry(tree).or_insert(next) } else { self.0.get(&tree).copied().unwrap_or(NONE) }
                }
            };
            last = Some((tree, *number));
        }
        let mut starts = memory::filled(0, self.0.len() + 1)?;
        for &number in numbers.iter().filter(|number| **number != NONE) {
            starts[number as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut places = starts.clone();
        let mut positions = memory::filled(0, starts[self.0.len()])?;
        for (position, &number) in (0..).zip(&numbers).filter(|(_, number)| **number != NONE) {
            let place = &mut places[number as usize];
            positions[*place] = position;
            *place += 1;
        }
        Ok(ByTree { positions, starts })
    }
}

/// The numbers of nodes within a tree: mostly from 0 on, one after the other.
#[derive(Debug, Default)]
struct Ids {
    dense: Vec<u32>,
    others: HashMap<i64, u32>,
}

impl Ids {
    const NONE: u32 = u32::MAX;

    /// Those of so many nodes.
    fn clear(&mut self, count: usize) {
        self.dense.clear();
        self.dense.resize(2 * count + 16, Ids::NONE);
        self.others.clear();
    }

    fn get(&self, id: i64) -> Option<usize> {
        let found = match usize::try_from(id).ok().and_then(|id| self.dense.get(id)) {
            Some(&found) => found,
            None => self.others.get(&id).copied().unwrap_or(Ids::NONE),
        };
        (found != Ids::NONE).then_some(found as usize)
    }

    /// Whether no node had that number before.
    fn insert(&mut self, id: i64, node: u32) -> bool {
        match usize::try_from(id).ok().and_then(|id| self.dense.get_mut(id)) {
            Some(place) => std::mem::replace(place, node) == Ids::NONE,
            None => self.others.insert(id, node).is_none(),
        }
    }
}

/// The lists that describe nodes which are named by a tree and a number.
struct NodeLists<'a> {
    trees: &'a [i64],
    ids: &'a [i64],
    features: &'a [i64],
    modes: Vec<Option<usize>>,
    children: [&'a [i64]; 2],
    values: Numbers<'a>,
    missing: &'a [i64],
}

impl<'a> NodeLists<'a> {
    fn of(node: &'a Node<'_>) -> Mapped<NodeLists<'a>> {
        let list = |name| node.int_list(name);
        let lists = NodeLists {
            trees: list("nodes_treeids")?,
            ids: list("nodes_nodeids")?,
            features: list("nodes_featureids")?,
            modes: node.string_list("nodes_modes")?.iter().map(|mode| place_of_mode(mode)).collect::<Mapped<_>>()?,
            children: [list("nodes_truenodeids")?, list("nodes_falsenodeids")?],
            values: numbers(node, "nodes_values")?,
            missing: list("nodes_missing_value_tracks_true")?,
        };
        let NodeLists { trees, ids, features, modes, children: [yes, no], values, missing } = &lists;
        check_lengths(&[
            ("nodes_treeids", trees.len()),
            ("nodes_nodeids", ids.len()),
            ("nodes_featureids", features.len()),
            ("nodes_modes", modes.len()),
            ("nodes_truenodeids", yes.len()),
            ("nodes_falsenodeids", no.len()),
            ("nodes_values", values.len()),
            ("nodes_missing_value_tracks_true", if missing.is_empty() { trees.len() } else { missing.len() }),
        ])?;
        Ok(lists)
    }
}

/// The number of a mode; nothing for a leaf.
fn place_of_mode(name: &[u8]) -> Mapped<Option<usize>> {
    if name == b"LEAF" { Ok(None) } else { mode(&String::from_utf8_lossy(name)).map(Some) }
}

/// The lists that say what leaves count for.
struct LeafLists<'a> {
    trees: &'a [i64],
    ids: &'a [i64],
    targets: &'a [i64],
    weights: Numbers<'a>,
}

impl<'a> LeafLists<'a> {
    /// Their names begin with `of_leaves`.
    fn of(node: &'a Node<'_>, of_leaves: &str) -> Mapped<LeafLists<'a>> {
        let list = |name: &str| node.int_list(&format!("{of_leaves}_{name}"));
        let (trees, ids, targets) = (list("treeids")?, list("nodeids")?, list("ids")?);
        let weights = numbers(node, &format!("{of_leaves}_weights"))?;
        check_lengths(&[("treeids", trees.len()), ("nodeids", ids.len()), ("ids", targets.len()), ("weights", weights.len())])
            .map_err(|reason| format!("of the leaves' lists ({of_leaves}_…): {}", reason.text))?;
        Ok(LeafLists { trees, ids, targets, weights })
    }

    /// Of the nodes of a tree, as `ids` numbers them, how many entries each has, and where these begin in the list of their positions,
    /// which lie by node.
    fn by_node(&self, positions: &[u32], ids: &Ids, nodes: usize) -> (Vec<u32>, Vec<u32>) {
        let mut ends = vec![0u32; nodes + 1];
        let own = || positions.iter().filter_map(|&position| Some((position, ids.get(self.ids[position as usize])?)));
        own().for_each(|(_, node)| ends[node + 1] += 1);
        for node in 0..nodes {
            ends[node + 1] += ends[node];
        }
        let mut places = ends.clone();
        let mut sorted = vec![0; ends[nodes] as usize];
        for (position, node) in own() {
            sorted[places[node] as usize] = position;
            places[node] += 1;
        }
        (ends, sorted)
    }
}

/// The trees of versions 1 and 3, whose leaves are nodes. The lists of weights have names that begin with `of_leaves`.
fn by_names(node: &Node<'_>, of_leaves: &str) -> Mapped<Trees> {
    let (lists, leaves) = (NodeLists::of(node)?, LeafLists::of(node, of_leaves)?);
    let mut names = Names::default();
    let nodes = names.group(lists.trees, true)?;
    let entries = names.group(leaves.trees, false)?;
    let (mut ensemble, mut ids) = (Ensemble::default(), Ids::default());
    let mut branches = 0;
    for tree in 0..nodes.trees() {
        let own = nodes.of(tree);
        ids.clear(own.len());
        for (number, &position) in (0..).zip(own) {
            let id = lists.ids[position as usize];
            if !ids.insert(id, number) {
                return Err(format!("two nodes {id} of tree {}", lists.trees[position as usize]).into());
            }
        }
        // What each node becomes. A tree begins with the first of its nodes.
        let (ends, of_nodes) = leaves.by_node(entries.of(tree), &ids, own.len());
        let mut places = Vec::with_capacity(own.len());
        for (node, &position) in own.iter().enumerate() {
            places.push(if lists.modes[position as usize].is_some() {
                branches += 1;
                Child::Node(branches - 1)
            } else {
                let first = ensemble.entries();
                push_leaf(&mut ensemble, &leaves, &of_nodes[ends[node] as usize..ends[node + 1] as usize])?;
                Child::Leaf(first)
            });
        }
        ensemble.push_root(places[0])?;
        for &position in own {
            push_branch(&mut ensemble, &lists, position as usize, |id| ids.get(id).map(|node| places[node]))?;
        }
    }
    ensemble.finish()
}

/// Adds a leaf with these entries of the lists.
fn push_leaf(ensemble: &mut Ensemble, leaves: &LeafLists<'_>, positions: &[u32]) -> Mapped<()> {
    for (number, &position) in positions.iter().enumerate() {
        let target = leaves.targets[position as usize];
        let target = u32::try_from(target).map_err(|_| format!("a leaf for target or class {target}"))?;
        let continues = number + 1 < positions.len();
        ensemble.push_entry(&Entry { target: Some(target), weight: leaves.weights.at(position as usize), continues })?;
    }
    match positions {
        [] => ensemble.push_entry(&Entry { target: None, weight: 0.0, continues: false }),
        _ => Ok(()),
    }
}

/// Adds a node of the lists, unless it is a leaf.
fn push_branch(
    ensemble: &mut Ensemble,
    lists: &NodeLists<'_>,
    position: usize,
    place: impl Fn(i64) -> Option<Child>,
) -> Mapped<()> {
    let Some(mode) = lists.modes[position] else { return Ok(()) };
    let child = |id: i64| {
        let (tree, from) = (lists.trees[position], lists.ids[position]);
        place(id).ok_or_else(|| format!("node {from} of tree {tree} refers to the missing node {id}"))
    };
    ensemble.push(&Branch {
        feature: lists.features[position],
        mode,
        threshold: lists.values.at(position),
        missing_is_true: lists.missing.get(position).is_some_and(|&flag| flag == 1),
        children: [child(lists.children[0][position])?, child(lists.children[1][position])?],
    })
}

/// The trees of a node, read once for all graphs of its model.
fn trees(node: &Node<'_>) -> Mapped<Arc<Trees>> {
    node.model.computed_once(node.proto, || match node.operator() {
        "TreeEnsembleClassifier" => by_names(node, "class"),
        "TreeEnsembleRegressor" => by_names(node, "target"),
        _ => by_places(node),
    })
}

/// Reads the trees of a node before a graph is made of it. What is wrong with them is said then.
pub fn prepare(node: &Node<'_>) {
    let _ = trees(node);
}

pub fn tree_ensemble_regressor(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = rows(node, emit)?;
    let targets = size(node.int("n_targets", 0)?)?;
    let aggregation = match node.string("aggregate_function", "SUM")?.as_str() {
        "SUM" => Aggregation::Sum,
        "AVERAGE" => Aggregation::Average,
        "MIN" => Aggregation::Min,
        "MAX" => Aggregation::Max,
        other => return Err(format!("the aggregate_function {other:?}; allowed are SUM, AVERAGE, MIN and MAX").into()),
    };
    let scores = trees(node)?.scores(input, targets, aggregation, emit)?;
    let scores = with_base(scores, "base_values", &numbers(node, "base_values")?.narrow(), emit)?;
    one(post_transform(node)?.apply(scores, emit)?)
}

pub fn tree_ensemble_classifier(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let labels = Labels::of(node, "classlabels_int64s")?;
    let input = rows(node, emit)?;
    let ensemble = trees(node)?;
    let (classes, transform) = (size(labels.count())?, post_transform(node)?);
    let base = numbers(node, "base_values")?.narrow();
    let is_probability = ensemble.is_probability();
    if classes == 2 && base.len() < 2 && ensemble.has_only(0) {
        // One score for two classes: that of the second one, under the number of the first.
        let score = ensemble.scores(input, 1, Aggregation::Sum, emit)?;
        let score = with_base(score, "base_values", &base, emit)?;
        let result = second_class(score, is_probability, transform, emit)?;
        let threshold = if is_probability && transform != PostTransform::Logistic { 0.5 } else { 0.0 };
        return labels.outputs(node, result, |emit| above(score, threshold, emit), emit);
    }
    let scores = ensemble.scores(input, classes, Aggregation::Sum, emit)?;
    let scores = with_base(scores, "base_values", &base, emit)?;
    let result = transform.apply(scores, emit)?;
    match classes {
        1 => labels.outputs(node, result, |emit| above(scores, 0.0, emit), emit),
        2 if base.is_empty() && ensemble.has_only(1) => {
            let threshold = if is_probability { 0.5 } else { 0.0 };
            let place = |emit: &mut Emit<'_>| {
                let second = emit.slice_axis(scores, 1, 1, 1)?;
                above(second, threshold, emit)
            };
            labels.outputs(node, result, place, emit)
        }
        _ => {
            let place = |emit: &mut Emit<'_>| {
                let scores = if base.is_empty() { of_present(&ensemble, input, scores, emit)? } else { scores };
                greatest(scores, emit)
            };
            labels.outputs(node, result, place, emit)
        }
    }
}

/// Scores of which those of classes without a weight count as least, among which the greatest is looked for.
fn of_present(ensemble: &Trees, input: OperandId, scores: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let classes = emit.shape(scores)[1];
    if ensemble.reaches_all(classes)? {
        return Ok(scores);
    }
    let counts = ensemble.counts(input, classes, emit)?;
    let is_present = emit.compare(LogicalKind::Greater, counts, 0.0)?;
    let least = emit.scalar(DataType::Float32, f64::NEG_INFINITY)?;
    emit.select(is_present, scores, least)
}

/// TreeEnsemble of version 5.
pub fn tree_ensemble(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = rows(node, emit)?;
    let aggregation = match node.int("aggregate_function", 1)? {
        0 => Aggregation::Average,
        1 => Aggregation::Sum,
        2 => Aggregation::Min,
        3 => Aggregation::Max,
        other => return Err(format!("the aggregate_function {other}; allowed are 0 to 3").into()),
    };
    let transform = match node.int("post_transform", 0)? {
        0 => PostTransform::None,
        1 => PostTransform::Softmax,
        2 => PostTransform::Logistic,
        3 => PostTransform::SoftmaxZero,
        4 => PostTransform::Probit,
        other => return Err(format!("the post_transform {other}; allowed are 0 to 4").into()),
    };
    let targets = size(node.int("n_targets", 0)?)?;
    let scores = trees(node)?.scores(input, targets, aggregation, emit)?;
    one(transform.apply(scores, emit)?)
}

fn by_places(node: &Node<'_>) -> Mapped<Trees> {
    let tensor = |name: &str| -> Mapped<Vec<f64>> { Ok(node.tensor(name)?.map_or(Vec::new(), |tensor| tensor.floats())) };
    let (features, modes) = (node.int_list("nodes_featureids")?, tensor("nodes_modes")?);
    let splits = tensor("nodes_splits")?;
    let children = [node.int_list("nodes_truenodeids")?, node.int_list("nodes_falsenodeids")?];
    let are_leaves = [node.int_list("nodes_trueleafs")?, node.int_list("nodes_falseleafs")?];
    let missing = node.int_list("nodes_missing_value_tracks_true")?;
    let count = check_lengths(&[
        ("nodes_featureids", features.len()),
        ("nodes_modes", modes.len()),
        ("nodes_splits", splits.len()),
        ("nodes_truenodeids", children[0].len()),
        ("nodes_falsenodeids", children[1].len()),
        ("nodes_trueleafs", are_leaves[0].len()),
        ("nodes_falseleafs", are_leaves[1].len()),
        ("nodes_missing_value_tracks_true", if missing.is_empty() { features.len() } else { missing.len() }),
    ])?;
    let (targets, weights) = (node.int_list("leaf_targetids")?, tensor("leaf_weights")?);
    let leaves = check_lengths(&[("leaf_targetids", targets.len()), ("leaf_weights", weights.len())])?;
    let mut ensemble = Ensemble::default();
    for (&target, &weight) in targets.iter().zip(&weights) {
        let target = Some(u32::try_from(target).map_err(|_| format!("a leaf for target {target}"))?);
        ensemble.push_entry(&Entry { target, weight, continues: false })?;
    }
    let place = |number: i64, limit: usize, what: &str| {
        let place = usize::try_from(number).ok().filter(|&place| place < limit);
        place.ok_or_else(|| format!("the {what} {number} of {limit}"))
    };
    // The members of sets are lists that end with NaN, one for each node that asks for them.
    let members = tensor("membership_values")?;
    let mut sets = members.split(|x| x.is_nan());
    let mut more: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for i in 0..count {
        let child = |side: usize| -> Mapped<Child> {
            let number = children[side][i];
            match are_leaves[side][i] {
                0 => Ok(Child::Node(place(number, count, "node")?)),
                _ => Ok(Child::Leaf(place(number, leaves, "leaf")?)),
            }
        };
        let mut branch = Branch {
            feature: features[i],
            mode: 0,
            threshold: splits[i],
            missing_is_true: missing.get(i).is_some_and(|&flag| flag == 1),
            children: [child(0)?, child(1)?],
        };
        match modes[i] {
            // Whether it is a member is asked one by one.
            6.0 => {
                let set = sets.next().ok_or("membership_values for too few nodes")?;
                (branch.mode, branch.threshold) = (mode("BRANCH_EQ")?, set.first().copied().unwrap_or(f64::NAN));
                if set.len() > 1 {
                    more.insert(i, set[1..].to_vec());
                }
            }
            number if number >= 0.0 && number < MODES.len() as f64 => branch.mode = number as usize,
            number => return Err(format!("a node with the mode {number}; allowed are 0 to 6").into()),
        }
        ensemble.push(&branch)?;
    }
    for (i, set) in more {
        let mut last = i;
        for member in set {
            last = ensemble.or_equal(last, member)?;
        }
    }
    for &root in node.int_list("tree_roots")? {
        ensemble.push_root(Child::Node(place(root, count, "root")?))?;
    }
    ensemble.finish()
}
