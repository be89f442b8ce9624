//! Ensembles of decision trees: each score follows all trees by itself.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use crate::error::Result;
use crate::graph::ops::tree::{Aggregation, MISSING_IS_TRUE, MODE_MASK, TreeEnsemble};

pub fn tree_ensemble(lowering: &mut Lowering<'_>, op: &TreeEnsemble, operands: &Operands) -> Result<()> {
    let (input, nodes, roots) = (operands.input(op.input), operands.input(op.nodes), operands.input(op.roots));
    let (thresholds, leaves) = (operands.input(op.thresholds), operands.input(op.leaves));
    let weights = operands.input(op.weights);
    let trees = roots.count();
    // The first weight of a target is its score, whatever it is.
    let (joined, result) = match op.aggregation {
        Aggregation::Sum => ("score += weight;", "score".to_owned()),
        Aggregation::Average => ("score += weight;", format!("score / {trees}.0f")),
        Aggregation::Min => ("if !found || weight < score { score = weight; }", "score".to_owned()),
        Aggregation::Max => ("if !found || weight > score { score = weight; }", "score".to_owned()),
    };
    let text = format!(
        "fn holds(mode: i32, x: f32, y: f32) -> bool {{\n\
         if is_nan(x) || is_nan(y) {{ return (mode & {MODE_MASK}) == 5 || (is_nan(x) && (mode & {MISSING_IS_TRUE}) != 0); }}\n\
         switch mode & {MODE_MASK} {{\n\
         case 0: {{ return x <= y; }}\n\
         case 1: {{ return x < y; }}\n\
         case 2: {{ return x >= y; }}\n\
         case 3: {{ return x > y; }}\n\
         case 4: {{ return x == y; }}\n\
         case 5: {{ return x != y; }}\n\
         default: {{ return false; }}\n\
         }}\n}}\n"
    );
    let body = format!(
        "let row = i / {targets}u * {features}u;\n\
         let target_number = i32(i % {targets}u);\n\
         var score = 0.0f;\n\
         var found = false;\n\
         for (var tree = 0u; tree < {trees}u; tree += 1u) {{\n\
         var at = roots(tree);\n\
         for (var step = 0u; step < {depth}u && at >= 0; step += 1u) {{\n\
         let number = u32(min(at, {last_node}));\n\
         let feature = u32(clamp(nodes(number * 4u), 0, {last_feature}));\n\
         let is_true = holds(nodes(number * 4u + 1u), input(row + feature), thresholds(number));\n\
         at = nodes(number * 4u + select(3u, 2u, is_true));\n\
         }}\n\
         if at >= 0 {{ continue; }}\n\
         for (var entry = u32(min(-1 - at, {last_entry})); entry <= {last_entry}u; entry += 1u) {{\n\
         if leaves(entry * 2u) == target_number {{\n\
         let weight = weights(entry);\n\
         {joined}\n\
         found = true;\n\
         }}\n\
         if leaves(entry * 2u + 1u) == 0 {{ break; }}\n\
         }}\n}}\n\
         return {result};",
        targets = op.targets,
        features = input.shape[1],
        depth = op.depth,
        last_node = nodes.shape[0] - 1,
        last_feature = input.shape[1] - 1,
        last_entry = leaves.shape[0] - 1,
    );
    let kernel = Kernel::new("treeEnsemble").reads(lowering, "input", input).reads(lowering, "nodes", nodes);
    let kernel = kernel.reads(lowering, "thresholds", thresholds).reads(lowering, "leaves", leaves);
    let kernel = kernel.reads(lowering, "weights", weights).reads(lowering, "roots", roots);
    kernel.declare(&text).each(lowering, operands.output(), &body)
}
