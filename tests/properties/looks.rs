//! Kernels look whether somebody still wants what they compute, as often as their work demands.
//!
//! Looks are counted, not time: a loop over elements that never looks has too few of them on every machine. Kernels look after so many units of
//! work (`backend/cpu/looks.rs`). Here that number is small, so that small calls are enough.

use crate::draw;
use crate::{REFERENCE, rows, run, seed};
use webnn_node::graph::Graph;
use webnn_node::looks;

/// Units of work between two looks.
const LONGEST: usize = 1;
/// Elements for which there has to be a look: kernels may take several for a unit of work, and blocks of some of them without a look.
const ELEMENTS: usize = 64 * LONGEST;
/// Looks that a call has to demand to be counted. Kernels pass over short lists without any.
const DEMANDED: usize = 4;
/// Calls of each operator.
const CALLS: usize = 60;

/// Operators of which only small calls are drawn.
const SMALL: [&str; 6] = ["expertMatmul", "gru", "gruCell", "lstm", "lstmCell", "treeEnsemble"];

/// Elements that are written, or read where that is more and all of them are: a gather reads few of a table, a reduction writes few.
fn elements(graph: &Graph, results: &[Vec<u8>], is_read: bool) -> usize {
    let mut most = results.iter().map(Vec::len).sum::<usize>() / 8;
    for node in graph.nodes.iter().filter(|_| is_read) {
        node.op.visit(&mut |_, id| most = most.max(graph.descriptor(id).element_count()));
    }
    most
}

#[test]
fn kernels_look_as_often_as_their_work_demands() {
    let seed = seed();
    let mut failures = Vec::new();
    for row in rows() {
        // Others read as much of an input as their other operands say.
        let is_read = !["gather", "slice", "roi", "tree", "expert", "pad"].iter().any(|part| row.name.starts_with(part));
        let mut random = seed.part(row.name);
        let (mut of_row, mut demanded) = (Vec::new(), 0);
        for number in 0.. {
            // Until enough calls are large enough to demand something.
            if number >= CALLS && demanded >= 3 || number == 20 * CALLS {
                break;
            }
            let call = draw::call(row, &mut random, None);
            let (counted, (graph, results)) = looks::count(LONGEST, || run(&call, REFERENCE));
            let least = elements(&graph, &results, is_read) / ELEMENTS;
            demanded += usize::from(least >= DEMANDED);
            if least >= DEMANDED && counted < least && of_row.len() < 3 {
                of_row.push(format!("{counted} looks, at least {least} are needed: {call:?}"));
            }
        }
        if demanded == 0 && !SMALL.contains(&row.name) {
            of_row.push(format!("{}: no call was large enough", row.name));
        }
        failures.extend(of_row);
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
