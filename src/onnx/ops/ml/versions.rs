//! TreeEnsembleRegressor and TreeEnsembleClassifier, whose nodes are named by a tree and a number, and TreeEnsemble of version
//! 5, whose branches and leaves are lists of their own.

use super::super::elementwise::one;
use super::rows;
use super::scores::{Labels, PostTransform, above, greatest, post_transform, second_class, with_base};
use super::trees::{Branch, Child, Ensemble, Entry, check_lengths, mode};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::tree::{Aggregation, MODES};
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Numbers that are a list of floats, or, since version 3, a tensor.
fn numbers(node: &Node<'_>, name: &str) -> Mapped<Vec<f64>> {
    let as_tensor = format!("{name}_as_tensor");
    match (node.floats(name)?.filter(|list| !list.is_empty()), node.tensor(&as_tensor)?) {
        (Some(_), Some(tensor)) if !tensor.is_empty() => Err(format!("both {name} and {as_tensor}").into()),
        (Some(list), _) => Ok(list.into_iter().map(f64::from).collect()),
        (None, Some(tensor)) => Ok(tensor.floats()),
        (None, None) => Ok(Vec::new()),
    }
}

fn integers(node: &Node<'_>, name: &str) -> Mapped<Vec<i64>> {
    Ok(node.ints(name)?.unwrap_or_default())
}

/// The trees of versions 1 and 3, whose leaves are nodes. The lists of weights have names that begin with `of_leaves`.
fn by_names(node: &Node<'_>, of_leaves: &str) -> Mapped<Ensemble> {
    let (trees, ids) = (integers(node, "nodes_treeids")?, integers(node, "nodes_nodeids")?);
    let (features, modes) = (integers(node, "nodes_featureids")?, node.strings("nodes_modes")?.unwrap_or_default());
    let (yes, no) = (integers(node, "nodes_truenodeids")?, integers(node, "nodes_falsenodeids")?);
    let (values, missing) = (numbers(node, "nodes_values")?, integers(node, "nodes_missing_value_tracks_true")?);
    let count = check_lengths(&[
        ("nodes_treeids", trees.len()),
        ("nodes_nodeids", ids.len()),
        ("nodes_featureids", features.len()),
        ("nodes_modes", modes.len()),
        ("nodes_truenodeids", yes.len()),
        ("nodes_falsenodeids", no.len()),
        ("nodes_values", values.len()),
        ("nodes_missing_value_tracks_true", if missing.is_empty() { trees.len() } else { missing.len() }),
    ])?;
    let mut weights: HashMap<(i64, i64), Vec<(i64, f64)>> = HashMap::new();
    let list = |name: &str| integers(node, &format!("{of_leaves}_{name}"));
    let (leaf_trees, leaf_ids, targets) = (list("treeids")?, list("nodeids")?, list("ids")?);
    let of_weights = numbers(node, &format!("{of_leaves}_weights"))?;
    check_lengths(&[
        ("treeids", leaf_trees.len()),
        ("nodeids", leaf_ids.len()),
        ("ids", targets.len()),
        ("weights", of_weights.len()),
    ])
    .map_err(|reason| format!("of the leaves' lists ({of_leaves}_…): {}", reason.text))?;
    for (((&tree, &id), &target), &weight) in leaf_trees.iter().zip(&leaf_ids).zip(&targets).zip(&of_weights) {
        weights.entry((tree, id)).or_default().push((target, weight));
    }
    // What each node becomes, and where each tree begins: with the first of its nodes.
    let mut ensemble = Ensemble::default();
    let mut places: HashMap<(i64, i64), Child> = HashMap::with_capacity(count);
    let mut known = HashSet::new();
    let mut branches = 0;
    for i in 0..count {
        let key = (trees[i], ids[i]);
        let place = if modes[i] == "LEAF" {
            let first = ensemble.entries.len();
            let own = weights.get(&key).map_or(&[][..], Vec::as_slice);
            for (position, &(target, weight)) in own.iter().enumerate() {
                let target = u32::try_from(target).map_err(|_| format!("a leaf for target or class {target}"))?;
                let continues = position + 1 < own.len();
                ensemble.entries.push(Entry { target: Some(target), weight, continues });
            }
            if own.is_empty() {
                ensemble.entries.push(Entry { target: None, weight: 0.0, continues: false });
            }
            Child::Leaf(first)
        } else {
            branches += 1;
            Child::Node(branches - 1)
        };
        if places.insert(key, place).is_some() {
            return Err(format!("two nodes {} of tree {}", key.1, key.0).into());
        }
        if known.insert(key.0) {
            ensemble.roots.push(place);
        }
    }
    for i in (0..count).filter(|&i| modes[i] != "LEAF") {
        let child = |id: i64| {
            let found = places.get(&(trees[i], id)).copied();
            found.ok_or_else(|| format!("node {} of tree {} leads to node {id}, which there is not", ids[i], trees[i]))
        };
        ensemble.branches.push(Branch {
            feature: features[i],
            mode: mode(&modes[i])?,
            threshold: values[i],
            missing_is_true: missing.get(i).is_some_and(|&flag| flag == 1),
            children: [child(yes[i])?, child(no[i])?],
        });
    }
    Ok(ensemble)
}

fn narrow(numbers: Vec<f64>) -> Vec<f32> {
    numbers.into_iter().map(|x| x as f32).collect()
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
    let scores = by_names(node, "target")?.scores(input, targets, aggregation, emit)?;
    let scores = with_base(scores, "base_values", &narrow(numbers(node, "base_values")?), emit)?;
    one(post_transform(node)?.apply(scores, emit)?)
}

pub fn tree_ensemble_classifier(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let labels = Labels::of(node, "classlabels_int64s")?;
    let input = rows(node, emit)?;
    let ensemble = by_names(node, "class")?;
    let (classes, transform) = (size(labels.count())?, post_transform(node)?);
    let base = narrow(numbers(node, "base_values")?);
    let is_probability = ensemble.entries.iter().all(|entry| entry.weight >= 0.0);
    let only = |class: u32| ensemble.entries.iter().all(|entry| entry.target.is_none_or(|target| target == class));
    if classes == 2 && base.len() < 2 && only(0) {
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
        2 if base.is_empty() && only(1) => {
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
fn of_present(ensemble: &Ensemble, input: OperandId, scores: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let classes = emit.shape(scores)[1];
    if ensemble.reaches_all(classes)? {
        return Ok(scores);
    }
    let counts = ensemble.counting().scores(input, classes, Aggregation::Sum, emit)?;
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
    let scores = by_places(node)?.scores(input, targets, aggregation, emit)?;
    one(transform.apply(scores, emit)?)
}

fn by_places(node: &Node<'_>) -> Mapped<Ensemble> {
    let tensor = |name: &str| -> Mapped<Vec<f64>> { Ok(node.tensor(name)?.map_or(Vec::new(), |tensor| tensor.floats())) };
    let (features, modes) = (integers(node, "nodes_featureids")?, tensor("nodes_modes")?);
    let splits = tensor("nodes_splits")?;
    let children = [integers(node, "nodes_truenodeids")?, integers(node, "nodes_falsenodeids")?];
    let are_leaves = [integers(node, "nodes_trueleafs")?, integers(node, "nodes_falseleafs")?];
    let missing = integers(node, "nodes_missing_value_tracks_true")?;
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
    let (targets, weights) = (integers(node, "leaf_targetids")?, tensor("leaf_weights")?);
    let leaves = check_lengths(&[("leaf_targetids", targets.len()), ("leaf_weights", weights.len())])?;
    let mut ensemble = Ensemble::default();
    for (&target, &weight) in targets.iter().zip(&weights) {
        let target = Some(u32::try_from(target).map_err(|_| format!("a leaf for target {target}"))?);
        ensemble.entries.push(Entry { target, weight, continues: false });
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
                let set = sets.next().ok_or("membership_values for fewer nodes than there are")?;
                (branch.mode, branch.threshold) = (mode("BRANCH_EQ")?, set.first().copied().unwrap_or(f64::NAN));
                if set.len() > 1 {
                    more.insert(i, set[1..].to_vec());
                }
            }
            number if number >= 0.0 && number < MODES.len() as f64 => branch.mode = number as usize,
            number => return Err(format!("a node with the mode {number}; allowed are 0 to 6").into()),
        }
        ensemble.branches.push(branch);
    }
    for (i, set) in more {
        let mut last = i;
        for member in set {
            let next = Branch { threshold: member, missing_is_true: false, ..ensemble.branches[last].clone() };
            ensemble.branches.push(next);
            let place = ensemble.branches.len() - 1;
            ensemble.branches[last].children[1] = Child::Node(place);
            last = place;
        }
    }
    for &root in &integers(node, "tree_roots")? {
        ensemble.roots.push(Child::Node(place(root, count, "root")?));
    }
    Ok(ensemble)
}
