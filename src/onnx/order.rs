//! An order of execution of a model's nodes, of those that the wanted values need.

use super::protobuf::NodeProto;
use super::structure::malformed;
use crate::error::Result;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The positions of the nodes that the wanted values need, each after the nodes that it uses and otherwise in the order
/// of the file. (The format demands this order of files; some writers do not keep it, and other runtimes do not insist.)
///
/// `captured` has names that a node may use besides its inputs, where they exist; what is `known` already needs no node.
///
/// # Errors
/// `TypeError` when a value is produced twice or by nothing, or depends on itself.
pub fn order<'a>(
    nodes: &'a [NodeProto],
    captured: &HashMap<usize, Vec<String>>,
    given: &dyn Fn(&str) -> bool,
    known: &dyn Fn(&str) -> bool,
    wanted: impl Iterator<Item = &'a str>,
) -> Result<Vec<usize>> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (position, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty() && !known(name)) {
            if given(name) || producers.insert(name, position).is_some() {
                return Err(malformed(format!("the value {name:?} is produced twice")));
            }
        }
    }
    let inputs = |position: usize| {
        let captured = captured.get(&position).into_iter().flatten().filter(|name| producers.contains_key(name.as_str()));
        nodes[position].input.iter().chain(captured).map(String::as_str).filter(|name| !name.is_empty())
    };
    let producer = |name: &str, user: &str| match producers.get(name) {
        Some(&position) => Ok(Some(position)),
        None if given(name) => Ok(None),
        None => Err(malformed(format!("{user} uses the value {name:?}, which nothing produces"))),
    };

    let mut needed = vec![false; nodes.len()];
    let mut stack = Vec::new();
    for name in wanted {
        stack.extend(producer(name, "the graph's output")?);
    }
    let mut count = 0;
    while let Some(position) = stack.pop() {
        if std::mem::replace(&mut needed[position], true) {
            continue;
        }
        count += 1;
        for name in inputs(position) {
            stack.extend(producer(name, &nodes[position].op_type)?.filter(|&position| !needed[position]));
        }
    }

    let mut waiting = vec![0usize; nodes.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for position in (0..nodes.len()).filter(|&position| needed[position]) {
        for name in inputs(position) {
            if let Some(&before) = producers.get(name) {
                waiting[position] += 1;
                users[before].push(position);
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..nodes.len()).filter(|&position| needed[position] && waiting[position] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(position)) = ready.pop() {
        order.push(position);
        for &user in &users[position] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    if order.len() < count {
        let stuck = (0..nodes.len()).find(|&position| needed[position] && waiting[position] > 0).unwrap_or(0);
        return Err(malformed(format!("the node {:?} ({}) depends on itself", nodes[stuck].name, nodes[stuck].op_type)));
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(input: &[&str], output: &[&str]) -> NodeProto {
        let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        NodeProto { input: owned(input), output: owned(output), op_type: "X".into(), ..Default::default() }
    }

    fn check(nodes: &[NodeProto], expected: Result<&[usize], &str>) {
        let found = order(nodes, &HashMap::new(), &|name| name == "in", &|_| false, ["out"].into_iter());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => assert!(error.message().contains(part), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn nodes_are_sorted_and_unneeded_ones_left_out() {
        check(&[node(&["a"], &["out"]), node(&["nowhere"], &["b"]), node(&["in", "", "in"], &["a"])], Ok(&[2, 0]));
        check(&[node(&["in"], &["a"]), node(&["a", "in"], &["out", "c"])], Ok(&[0, 1]));
    }

    #[test]
    fn broken_graphs_are_refused() {
        check(&[node(&["b"], &["out"]), node(&["out"], &["b"])], Err("depends on itself"));
        check(&[node(&["out"], &["out"])], Err("depends on itself"));
        check(&[node(&["a"], &["out"])], Err("which nothing produces"));
        check(&[], Err("which nothing produces"));
        check(&[node(&[], &["out"]), node(&[], &["out"])], Err("produced twice"));
        check(&[node(&[], &["in"])], Err("produced twice"));
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let nodes: Vec<_> = (0..200_000)
            .map(|i| {
                let input = if i == 0 { "in".to_owned() } else { i.to_string() };
                let output = if i == 199_999 { "out".to_owned() } else { (i + 1).to_string() };
                node(&[&input], &[&output])
            })
            .collect();
        assert_eq!(order(&nodes, &HashMap::new(), &|name| name == "in", &|_| false, ["out"].into_iter()).unwrap().len(), 200_000);
    }
}
