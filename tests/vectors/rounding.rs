//! How far the results of a case may be off where the operands of products are rounded to bfloat16.

use crate::build;
use crate::case::{Case, Tensor, number};
use serde_json::{Value as Json, json};
use webnn_node::backend::cpu::reference::interpret;
use webnn_node::graph::DataType;

/// Operators that multiply and add up.
const PRODUCTS: [&str; 4] = ["matmul", "gemm", "conv2d", "convTranspose2d"];
/// The same with what becomes of the sums, for each step of a sequence.
const RECURRENT: [&str; 4] = ["lstm", "lstmCell", "gru", "gruCell"];

/// What rounding changes an operand by at most, by its magnitude: half a unit in the last of 8 places.
const OF_OPERAND: f64 = 1.0 / 256.0;
/// Of a step of a recurrent network: so many factors of a state come from products at most.
const FACTORS: f64 = 6.0;

/// By element of an output, what rounding may change it by; nothing where a case has no products.
///
/// A product of two operands is off by 2⁻⁷ + 2⁻¹⁶ of its magnitude, and K of them are added with K roundings to float32. What follows a
/// product in a case at most doubles the largest such error. States of recurrent networks are products of sums, whose magnitude is what
/// the network makes of magnitudes where its functions are `relu`.
pub fn of(case: &Case, output: &str) -> Result<Vec<f64>, String> {
    let Some(position) = first_product(case) else { return Ok(Vec::new()) };
    let is_last = position + 1 == case.operators.len();
    let longest = case.inputs.values().map(|input| input.tensor.descriptor.element_count()).max().unwrap_or(0);
    let of_product = 2.0 * OF_OPERAND + OF_OPERAND * OF_OPERAND + (longest + 2) as f64 * 2f64.powi(-24);
    let mut factor = of_product;
    if is_one_of(&RECURRENT, &case.operators[position].name) {
        let steps = case.inputs.values().map(|input| input.tensor.descriptor.shape[0]).min().unwrap_or(1);
        factor *= FACTORS * f64::from(steps);
    }
    let name = if is_last { output } else { case.operators[position].outputs[0].as_str() };
    let errors: Vec<f64> = magnitudes(case, position, name)?.iter().map(|magnitude| factor * magnitude).collect();
    if is_last {
        return Ok(errors);
    }
    let largest = errors.iter().copied().fold(0.0, f64::max);
    Ok(vec![2.0 * largest; case.expected_outputs[output].descriptor.element_count()])
}

/// Whether operands are multiplied and added up.
pub fn has_products(case: &Case) -> bool {
    first_product(case).is_some()
}

fn first_product(case: &Case) -> Option<usize> {
    case.operators.iter().position(|call| is_one_of(&PRODUCTS, &call.name) || is_one_of(&RECURRENT, &call.name))
}

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.contains(&name)
}

/// What the operators up to a position make of the magnitudes of all operands.
fn magnitudes(case: &Case, position: usize, output: &str) -> Result<Vec<f64>, String> {
    let mut of = case.clone();
    of.operators.truncate(position + 1);
    of.inputs
        .values_mut()
        .filter(|input| is_float(&input.tensor))
        .for_each(|input| input.tensor.data = magnitude(&input.tensor.data));
    for call in &mut of.operators {
        for (name, value) in &mut call.options {
            match name.as_str() {
                "alpha" | "beta" => *value = magnitude(value),
                "activations" => value.as_array_mut().into_iter().flatten().for_each(|name| *name = json!("relu")),
                _ => {}
            }
        }
    }
    // Nothing is known of the output of an operator that others follow but its name.
    let any = case.expected_outputs.values().next().expect("a case has an output").clone();
    of.expected_outputs = [(output.to_owned(), any)].into();
    let graph = build::graph(&of)?.map_err(|error| error.to_string())?;
    let inputs: Vec<Vec<u8>> = graph.inputs.iter().map(|(name, _)| of.inputs[name].tensor.bytes()).collect();
    let bytes = interpret(&graph, &inputs.iter().map(Vec::as_slice).collect::<Vec<_>>()).remove(0);
    Ok(match graph.descriptor(graph.outputs[0].1).data_type {
        DataType::Float32 => bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()).collect(),
        DataType::Float16 => bytes.as_chunks().0.iter().map(|&bytes| half::f16::from_le_bytes(bytes).into()).collect(),
        other => return Err(format!("a product of {other}")),
    })
}

fn is_float(tensor: &Tensor) -> bool {
    matches!(tensor.descriptor.data_type, DataType::Float32 | DataType::Float16)
}

/// The magnitude of a number, or of each of a list.
fn magnitude(data: &Json) -> Json {
    match data {
        Json::Array(list) => list.iter().map(magnitude).collect(),
        one => json!(number(one).to_f64().abs()),
    }
}
