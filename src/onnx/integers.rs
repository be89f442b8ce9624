//! Which nodes of a model multiply integers: on CPUs without instructions for that they are slow.

use super::protobuf::{GraphProto, NodeProto};
use std::collections::HashSet;

const OF_INTEGERS: [&str; 8] = [
    "ConvInteger",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "QGemm",
    "QLinearConv",
    "QLinearMatMul",
];
const OF_DEQUANTIZED: [&str; 3] = ["Conv", "Gemm", "MatMul"];

/// How many nodes of the graph are products of 8-bit integers, or of two values that were dequantized.
pub fn integer_products(graph: &GraphProto) -> usize {
    let dequantize = graph.node.iter().filter(|node| node.op_type == "DequantizeLinear");
    let dequantized: HashSet<&str> = dequantize.flat_map(|node| &node.output).map(String::as_str).collect();
    let is_product = |node: &&NodeProto| {
        let op_type = node.op_type.as_str();
        let is_dequantized = |name: &String| dequantized.contains(name.as_str());
        OF_INTEGERS.contains(&op_type)
            || (OF_DEQUANTIZED.contains(&op_type) && node.input.len() >= 2 && node.input.iter().take(2).all(is_dequantized))
    };
    graph.node.iter().filter(is_product).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_integers_are_found() {
        let node = |op_type: &str, input: &[&str], output: &str| NodeProto {
            op_type: op_type.into(),
            input: input.iter().map(|&name| name.into()).collect(),
            output: vec![output.into()],
            ..NodeProto::default()
        };
        let mut graph = GraphProto::default();
        graph.node.push(node("DequantizeLinear", &["a", "s"], "b"));
        graph.node.push(node("DequantizeLinear", &["c", "s"], "d"));
        graph.node.push(node("MatMul", &["b", "x"], "e"));
        assert_eq!(integer_products(&graph), 0);
        graph.node.push(node("MatMul", &["b", "d"], "f"));
        graph.node.push(node("QLinearConv", &["f"], "g"));
        assert_eq!(integer_products(&graph), 2);
    }
}
