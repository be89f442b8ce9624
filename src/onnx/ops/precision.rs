//! float16 in operators that are put together from several: ONNX defines one operator, which is rounded once, at its end. So
//! their inputs are converted to float32 and their results back, and what lies between neither overflows nor loses digits.

use super::Entry;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Maps a node with its row of the table.
pub fn map(entry: &Entry, node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let halves = node.inputs.iter().flatten().any(|value| is_half(value, emit));
    if !halves || !is_composed(entry.domain, node, emit) {
        #[cfg(test)]
        let before = emit.builder.operand_count();
        let outputs = (entry.map)(node, emit);
        #[cfg(test)]
        if halves {
            tests::assert_rounds_once(entry.domain, node, emit, before);
        }
        return outputs;
    }
    // The input whose type is that of the results.
    let typed = match node.operator() {
        "RMSNormalization" | "SimplifiedLayerNormalization" => 1,
        "QAttention" => 3,
        "EmbedLayerNormalization" | "GatherBlockQuantized" | "MatMulIntegerToFloat" => 2,
        _ => 0,
    };
    let narrows = node.optional(typed).is_some_and(|value| is_half(value, emit));
    let inputs = node.inputs.iter().map(|value| value.as_ref().map(|value| widened(value, emit)).transpose());
    let inputs = inputs.collect::<Mapped<Vec<_>>>()?;
    let wide = Node { inputs, ..*node };
    let outputs = (entry.map)(&wide, emit)?;
    if !narrows {
        return Ok(outputs);
    }
    let statistics = |position: usize| match node.operator() {
        // Those of a layer normalization are float32 in any case.
        "LayerNormalization" => position > 0,
        // Running ones have the type of those that are given, from input 3 on.
        "BatchNormalization" if position > 0 => !node.optional(position + 2).is_some_and(|value| is_half(value, emit)),
        _ => false,
    };
    let statistics: Vec<bool> = (0..outputs.len()).map(statistics).collect();
    let narrowed = |(position, value): (usize, Value)| match value {
        value if statistics[position] => Ok(value),
        Value::Operand(id) if emit.data_type(id) == DataType::Float32 => Ok(emit.cast(id, DataType::Float16)?.into()),
        Value::Constant(constant) if constant.tensor.element == ElementType::Float => {
            Ok(constant.tensor.cast(ElementType::Float16).into())
        }
        other => Ok(other),
    };
    outputs.into_iter().enumerate().map(narrowed).collect()
}

/// Whether more than one WebNN operator that rounds is made of a node, or numbers among its attributes matter beyond the digits
/// of float16.
#[expect(clippy::too_many_lines, reason = "a table: an arm for each operator")]
fn is_composed(domain: &str, node: &Node<'_>, emit: &Emit<'_>) -> bool {
    let rank = |position: usize| node.optional(position).map_or(0, |value| value.shape(emit.builder).len());
    let flag = |name: &str| node.flag(name, false).unwrap_or(false);
    let text = |name: &str, default: &str| node.string(name, default).unwrap_or_default();
    // WebNN's operators take such numbers as float16 ones.
    let is_exact = |name: &str, default: f32| node.float(name, default).is_ok_and(|x| half::f16::from_f64(x).to_f64() == x);
    if domain == "com.microsoft" {
        return match node.operator() {
            "Attention"
            | "BiasAdd"
            | "BiasGelu"
            | "BiasSoftmax"
            | "BiasSplitGelu"
            | "EmbedLayerNormalization"
            | "FastGelu"
            | "GatherBlockQuantized"
            | "GridSample"
            | "GroupNorm"
            | "MatMulIntegerToFloat"
            | "QAttention"
            | "QuickGelu"
            | "RotaryEmbedding"
            | "SimplifiedLayerNormalization"
            | "SkipGroupNorm"
            | "SkipLayerNormalization"
            | "SkipSimplifiedLayerNormalization" => true,
            "FusedConv" => rank(0) == 5 || node.optional(3).is_some() || !text("activation", "").is_empty(),
            "FusedGemm" => !text("activation", "").is_empty(),
            "FusedMatMul" => node.float("alpha", 1.0).is_ok_and(|alpha| alpha != 1.0),
            _ => false,
        };
    }
    match node.operator() {
        "AffineGrid"
        | "CausalConvWithState"
        | "Celu"
        | "Col2Im"
        | "Cosh"
        | "CumProd"
        | "DFT"
        | "DeformConv"
        | "Det"
        | "Einsum"
        | "GRU"
        | "GlobalLpPool"
        | "GridSample"
        | "GroupNormalization"
        | "LRN"
        | "LSTM"
        | "LogSoftmax"
        | "LpNormalization"
        | "LpPool"
        | "MaxRoiPool"
        | "Mean"
        | "MeanVarianceNormalization"
        | "Mish"
        | "RMSNormalization"
        | "RNN"
        | "RotaryEmbedding"
        | "STFT"
        | "Selu"
        | "Shrink"
        | "SimplifiedLayerNormalization"
        | "Sinh"
        | "SwiGLU"
        | "Swish"
        | "ThresholdedRelu"
        | "TreeEnsemble" => true,
        // Statistics of the batch, or statistics and factors in another type than the input's.
        "BatchNormalization" => {
            let all = || node.inputs.iter().flatten().all(|value| is_half(value, emit));
            flag("training_mode") || !all()
        }
        "AveragePool" => rank(0) == 5 || flag("count_include_pad"),
        "Conv" => rank(0) == 5,
        "Elu" => !is_exact("alpha", 1.0),
        "Gelu" => text("approximate", "none") == "tanh",
        "HardSigmoid" => !is_exact("alpha", 0.2) || !is_exact("beta", 0.5),
        "LeakyRelu" => !is_exact("alpha", 0.01),
        // Scale and bias that are broadcast are operators of their own.
        "LayerNormalization" => {
            let shape = |position: usize| node.optional(position).map(|value| value.shape(emit.builder));
            let whole = shape(0).unwrap_or_default();
            [shape(1), shape(2)].into_iter().flatten().any(|shape| !whole.ends_with(&shape))
        }
        "Resize" | "Upsample" => text("mode", "nearest") != "nearest",
        "Sum" => node.inputs.len() > 2,
        _ => false,
    }
}

fn is_half(value: &Value, emit: &Emit<'_>) -> bool {
    value.is_tensor() && emit.stored_element(value) == ElementType::Float16
}

fn widened(value: &Value, emit: &mut Emit<'_>) -> Mapped<Value> {
    if !is_half(value, emit) {
        return Ok(value.clone());
    }
    if let Some(tensor) = value.constant().filter(|tensor| tensor.is_empty() || emit.folding.affords(&tensor.shape)) {
        return Ok(tensor.cast(ElementType::Float).into());
    }
    let id = emit.operand(value)?;
    Ok(wide(id, emit)?.into())
}

/// A float16 value as float32; any other as it is.
pub fn wide(id: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    match emit.data_type(id) {
        DataType::Float16 => emit.cast(id, DataType::Float32),
        _ => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::protobuf::{AttributeProto, TensorProto};
    use crate::onnx::tensor::Tensor;
    use crate::onnx::testing::*;

    const HALF: i32 = 10;

    /// Operators that become several, none of which has anything to round: the parts of a number, which are whole or halves.
    const EXACT: &[&str] = &["::Cast"];

    /// Whatever a test imports: a node of float16 values that [`is_composed`] does not name becomes at most one operator that rounds them.
    pub fn assert_rounds_once(domain: &str, node: &Node<'_>, emit: &Emit<'_>, before: usize) {
        let new = (before..emit.builder.operand_count()).map(|id| OperandId(id as u32));
        let rounding: Vec<&str> = new
            .filter(|id| emit.data_type(*id) == DataType::Float16)
            .filter_map(|id| emit.builder.operator_of(id))
            .filter(|op| crate::compiler::rounds(op))
            .map(|op| op.row().name)
            .collect();
        let name = format!("{domain}::{}", node.operator());
        let rounds_once = rounding.len() < 2 || EXACT.contains(&name.as_str());
        assert!(rounds_once, "{name} rounds float16 values more than once and is not in is_composed(): {rounding:?}");
    }

    fn halves(shape: &[usize], numbers: &[f64]) -> Tensor {
        Tensor::from_floats(ElementType::Float16, shape.to_vec(), numbers)
    }

    /// The result of a node with one output for float16 inputs, all of them fed.
    fn result(opset: i64, operator: &str, inputs: &[Tensor], attributes: Vec<AttributeProto>) -> Vec<f64> {
        let names = ["a", "b", "c"];
        let mut sketch = sketch(opset);
        for (name, input) in names.iter().zip(inputs) {
            let shape: Vec<i64> = input.shape.iter().map(|&size| size as i64).collect();
            sketch = sketch.input(name, HALF, &shape);
        }
        let imported = sketch.node(operator, &names[..inputs.len()], &["y"], attributes).output("y").import().unwrap();
        let found = run(&imported, inputs).remove(0);
        assert_eq!(found.element, ElementType::Float16, "{operator}");
        found.floats()
    }

    #[track_caller]
    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 1e-3 * expected.abs();
        assert!(found.iter().zip(expected).all(near), "{found:?}, not {expected:?}");
    }

    #[test]
    fn scores_of_attention_may_exceed_float16() {
        // 64 products of 40 and 40 are 102,400.
        let (q, v) = (halves(&[1, 2, 64], &[40.0; 128]), halves(&[1, 2, 64], &[2.0; 128]));
        let inputs = [q.clone(), q, v];
        close(&result(17, "com.microsoft::MultiHeadAttention", &inputs, vec![int("num_heads", 1)]), &[2.0; 128]);
        let heads = vec![int("q_num_heads", 1), int("kv_num_heads", 1)];
        close(&result(23, "Attention", &inputs, heads.clone()), &[2.0; 128]);
        close(&result(23, "Attention", &inputs, [heads, vec![int("is_causal", 1)]].concat()), &[2.0; 128]);
    }

    #[test]
    fn sums_and_squares_on_the_way_may_exceed_float16() {
        let x = halves(&[1, 3, 1, 1], &[300.0, 10.0, 300.0]);
        let norm = |sum: f64| (1.0 + 1e-4 / 3.0 * sum).powf(0.75);
        let expected = [300.0 / norm(90_100.0), 10.0 / norm(180_100.0), 300.0 / norm(90_100.0)];
        close(&result(17, "LRN", &[x], vec![int("size", 3)]), &expected);
        let large = halves(&[2], &[40_000.0, 1.0]);
        close(&result(17, "Mean", &[large.clone(), large.clone()], vec![]), &[40_000.0, 1.0]);
        let opposite = halves(&[2], &[-40_000.0, 1.0]);
        close(&result(17, "Sum", &[large.clone(), large, opposite], vec![]), &[40_000.0, 3.0]);
        let pair = halves(&[1, 2], &[-300.0, 300.0]);
        close(&result(17, "MeanVarianceNormalization", &[pair], vec![ints("axes", &[1])]), &[-1.0, 1.0]);
        let long = halves(&[1, 4], &[40_000.0; 4]);
        close(&result(17, "LpNormalization", std::slice::from_ref(&long), vec![int("p", 2)]), &[0.5; 4]);
        close(&result(17, "LpNormalization", &[long], vec![int("p", 1)]), &[0.25; 4]);
        let image = halves(&[1, 1, 1, 2], &[600.0, 800.0]);
        close(&result(17, "LpPool", &[image], vec![ints("kernel_shape", &[1, 2]), int("p", 3)]), &[728e6f64.cbrt()]);
        let row = halves(&[1, 2], &[900.0, -900.0]);
        close(&result(23, "RMSNormalization", &[row, halves(&[2], &[2.0; 2])], vec![]), &[2.0, -2.0]);
    }

    #[test]
    fn parts_of_products_may_exceed_float16() {
        // One layer gives 60,000 each, the other takes it away.
        let volume = halves(&[1, 1, 3, 1, 1], &[200.0, 200.0, 200.0]);
        let filter = halves(&[1, 1, 3, 1, 1], &[300.0, 300.0, -300.0]);
        close(&result(17, "Conv", &[volume, filter], vec![ints("kernel_shape", &[3, 1, 1])]), &[60_000.0]);
        let (a, b, c) = (halves(&[1, 2], &[300.0; 2]), halves(&[2, 1], &[300.0; 2]), halves(&[1, 1], &[0.25]));
        let equation = AttributeProto {
            name: "equation".into(),
            r#type: crate::onnx::protobuf::attribute_type::STRING,
            s: Some(b"ij,jk,kl->il"[..].into()),
            ..Default::default()
        };
        close(&result(17, "Einsum", &[a, b, c], vec![equation]), &[45_000.0]);
    }

    /// The result of a node whose inputs are fed, with the types that they have.
    fn result_of(operator: &str, inputs: &[Tensor], known: &[Tensor], attributes: Vec<AttributeProto>) -> Vec<f64> {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut sketch = sketch(17);
        for (name, input) in names.iter().zip(inputs) {
            let shape: Vec<i64> = input.shape.iter().map(|&size| size as i64).collect();
            sketch = sketch.input(name, number_of(input.element), &shape);
        }
        for (name, tensor) in names[inputs.len()..].iter().zip(known) {
            sketch = sketch.tensor(name, tensor);
        }
        let names = &names[..inputs.len() + known.len()];
        let imported = sketch.node(operator, names, &["y"], attributes).output("y").import().unwrap();
        let found = run(&imported, inputs).remove(0);
        assert_eq!(found.element, ElementType::Float16, "{operator}");
        found.floats()
    }

    #[test]
    fn batch_normalization_with_large_statistics() {
        let x = halves(&[2, 1, 1], &[900.0, -900.0]);
        let parameters = [halves(&[1], &[1.0]), halves(&[1], &[0.0])];
        let singles = |number: f64| Tensor::from_floats(ElementType::Float, vec![1], &[number]);
        let own = [parameters.to_vec(), vec![halves(&[1], &[0.0]), halves(&[1], &[1.0])]].concat();
        close(&result_of("BatchNormalization", std::slice::from_ref(&x), &own, vec![int("training_mode", 1)]), &[1.0, -1.0]);
        // Statistics that float16 does not hold.
        let given = [parameters.to_vec(), vec![singles(0.0), singles(810_000.0)]].concat();
        close(&result_of("BatchNormalization", &[x], &given, vec![]), &[1.0, -1.0]);
    }

    #[test]
    fn products_of_quantized_weights_may_exceed_float16() {
        // 32 products of 300 and 10, less 60,000.
        let bytes = |shape: &[usize], byte: i64| {
            Tensor::from_integers(ElementType::Uint8, shape.to_vec(), &vec![byte; shape.iter().product()])
        };
        let a = halves(&[1, 32], &[300.0; 32]);
        let mut model =
            sketch(17).input("a", HALF, &[1, 32]).tensor("w", &bytes(&[1, 1, 16], 0xdd)).tensor("s", &halves(&[1], &[2.0]));
        model = model.tensor("bias", &halves(&[1], &[-60_000.0]));
        let attributes = vec![int("K", 32), int("N", 1), int("bits", 4), int("block_size", 32)];
        let node = model.node("com.microsoft::MatMulNBits", &["a", "w", "s", "", "", "bias"], &["y"], attributes).output("y");
        close(&run(&node.import().unwrap(), std::slice::from_ref(&a))[0].floats(), &[36_000.0]);
        // 4 products of 255 and 255, scaled.
        let known = [bytes(&[4, 1], 255), halves(&[], &[0.125]), halves(&[], &[0.0625])];
        close(&result_of("com.microsoft::MatMulIntegerToFloat", &[bytes(&[1, 4], 255)], &known, vec![]), &[260_100.0 / 128.0]);
    }

    /// From one node to the next, on the CPU.
    #[test]
    fn values_in_between_are_not_rounded() {
        let (scale, shrink) = (halves(&[1], &[3.0]), halves(&[1], &[6.0]));
        let model = sketch(17).input("a", HALF, &[3]).tensor("scale", &scale).tensor("shrink", &shrink);
        let model = model.node("Mul", &["a", "scale"], &["wide"], vec![]).node("Sqrt", &["wide"], &["root"], vec![]);
        let model = model.node("Mul", &["root", "root"], &["square"], vec![]).node("Div", &["square", "shrink"], &["y"], vec![]);
        let imported = model.output("y").import().unwrap();
        let found = run_compiled(&imported, &[halves(&[3], &[60_000.0, 1.0 / 3.0, 7.0])]).remove(0);
        close(&found.floats(), &[30_000.0, 1.0 / 6.0, 3.5]);
    }

    #[test]
    fn an_exponent_keeps_its_digits() {
        let exponent = Tensor::from_floats(ElementType::Float, vec![], &[0.500_06]);
        let expected = 60_000f64.powf(f64::from(0.500_06f32));
        let found = result_of("Pow", &[halves(&[1], &[60_000.0]), exponent], &[], vec![]);
        assert_eq!(found, [crate::graph::number::f16_from_f64(expected).to_f64()]);
    }

    #[test]
    fn a_small_epsilon_is_kept() {
        let row = halves(&[1, 4], &[3.0; 4]);
        let (scale, bias) = (halves(&[4], &[1.0; 4]), halves(&[4], &[0.5; 4]));
        close(&result(17, "LayerNormalization", &[row, scale, bias], vec![float("epsilon", 1e-12)]), &[0.5; 4]);
    }

    /// What is known at import is converted too.
    #[test]
    fn constants_of_float16() {
        let bytes: Vec<u8> = halves(&[2], &[3.0, 4.0]).bytes.to_vec();
        let tensor =
            TensorProto { name: "c".into(), dims: vec![2], data_type: HALF, raw_data: Some(bytes.into()), ..Default::default() };
        let mut sketch = sketch(17).input("a", HALF, &[2]);
        sketch.graph.initializer.push(tensor);
        let imported = sketch.node("Mean", &["a", "c"], &["y"], vec![]).output("y").import().unwrap();
        let found = run(&imported, &[halves(&[2], &[1.0, 60_000.0])]).remove(0);
        close(&found.floats(), &[2.0, 30_002.0]);
    }
}
