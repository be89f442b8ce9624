//! A call of an operator's method: its operands with their contents, and its values.

use crate::tensor::{Scalar, Tensor};
use std::sync::Arc;
use webnn_node::error::Error;
use webnn_node::graph::attribute::{Kind, Value};
use webnn_node::graph::operator::{Member, Operator};
use webnn_node::graph::{ConstantBytes, DataType, Graph, GraphBuilder, Limits, Number, OperandId};

#[derive(Clone)]
pub struct Call {
    pub row: &'static Operator,
    /// What [`Value::Operand`] names by position.
    pub operands: Vec<Operand>,
    /// Of all arguments and then of all options, in the order of the row.
    pub values: Vec<Value>,
    pub label: String,
}

#[derive(Clone)]
pub struct Operand {
    pub tensor: Tensor,
    /// Whether it is a constant, or an input of the graph.
    pub is_constant: bool,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.row.name)?;
        for (member, value) in self.members().zip(&self.values) {
            match value {
                Value::Absent => {}
                Value::Operand(id) => write!(f, " {}={}", member.field, self.describe(*id))?,
                Value::Operands(ids) => {
                    let ids: Vec<String> = ids.iter().map(|id| self.describe(*id)).collect();
                    write!(f, " {}={ids:?}", member.field)?;
                }
                value => write!(f, " {}={value:?}", member.field)?,
            }
        }
        Ok(())
    }
}

impl Call {
    /// A call with these operands, in the order of the row, and nothing else.
    pub fn of(row: &'static Operator, operands: Vec<Tensor>) -> Call {
        let members = row.arguments.len() + row.options.len();
        let mut call = Call { row, operands: Vec::new(), values: vec![Value::Absent; members], label: String::new() };
        for (number, (limits, tensor)) in row.operands.iter().zip(operands).enumerate() {
            call.operands.push(Operand { tensor, is_constant: false });
            call.set(limits.name, Value::Operand(OperandId(number as u32)));
        }
        call
    }

    /// The same with zeros for subnormal float32 numbers.
    pub fn flushed(&self) -> Call {
        let mut call = self.clone();
        for tensor in
            call.operands.iter_mut().map(|operand| &mut operand.tensor).filter(|tensor| tensor.data_type == DataType::Float32)
        {
            for element in &mut tensor.elements {
                if let Scalar::Float(x) = element
                    && x.abs() < f64::from(f32::MIN_POSITIVE)
                {
                    *x = 0.0f64.copysign(*x);
                }
            }
        }
        call
    }

    pub fn members(&self) -> impl Iterator<Item = &'static Member> {
        self.row.arguments.iter().chain(self.row.options)
    }

    fn describe(&self, id: OperandId) -> String {
        match self.operands.get(id.0 as usize) {
            Some(operand) => {
                let source = if operand.is_constant { "constant " } else { "" };
                format!("{source}{}", operand.tensor.descriptor())
            }
            None => "none".to_owned(),
        }
    }

    fn position(&self, field: &str) -> usize {
        self.members().position(|member| member.field == field).unwrap_or_else(|| panic!("{} has no {field}", self.row.name))
    }

    pub fn value(&self, field: &str) -> &Value {
        &self.values[self.position(field)]
    }

    pub fn set(&mut self, field: &str, value: Value) {
        let position = self.position(field);
        self.values[position] = value;
    }

    /// The position of an operand among the operands, if it is there. Of a list of operands, that of the first.
    pub fn operand_number(&self, field: &str) -> Option<usize> {
        match self.value(field) {
            Value::Operand(id) => Some(id.0 as usize),
            Value::Operands(ids) => ids.first().map(|id| id.0 as usize),
            _ => None,
        }
    }

    pub fn optional(&self, field: &str) -> Option<&Tensor> {
        self.operand_number(field).map(|number| &self.operands[number].tensor)
    }

    pub fn operand(&self, field: &str) -> &Tensor {
        self.optional(field).unwrap_or_else(|| panic!("{} has no operand {field}", self.row.name))
    }

    pub fn operand_list(&self, field: &str) -> Vec<&Tensor> {
        match self.value(field) {
            Value::Operands(ids) => ids.iter().map(|id| &self.operands[id.0 as usize].tensor).collect(),
            other => panic!("{field} is {other:?}"),
        }
    }

    // The values, with the specification's default where there is one.

    pub fn unsigned(&self, field: &str) -> Option<usize> {
        match self.value(field) {
            Value::Unsigned(value) => Some(*value as usize),
            _ => None,
        }
    }

    pub fn signed(&self, field: &str) -> Option<i64> {
        match self.value(field) {
            Value::Signed(value) => Some((*value).into()),
            _ => None,
        }
    }

    pub fn list(&self, field: &str) -> Option<Vec<usize>> {
        match self.value(field) {
            Value::UnsignedList(list) => Some(list.iter().map(|&value| value as usize).collect()),
            _ => None,
        }
    }

    pub fn floats(&self, field: &str) -> Option<&[f32]> {
        match self.value(field) {
            Value::FloatList(list) => Some(list),
            _ => None,
        }
    }

    pub fn boolean(&self, field: &str, default: bool) -> bool {
        match self.value(field) {
            Value::Boolean(value) => *value,
            _ => default,
        }
    }

    pub fn double(&self, field: &str, default: f64) -> f64 {
        match self.value(field) {
            Value::Double(value) => *value,
            _ => default,
        }
    }

    pub fn number(&self, field: &str) -> Option<Number> {
        match self.value(field) {
            Value::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of an enumeration, as the specification writes it.
    pub fn enumeration(&self, field: &str, default: &'static str) -> &'static str {
        self.enumerations(field).map_or(default, |list| list[0])
    }

    pub fn enumerations(&self, field: &str) -> Option<Vec<&'static str>> {
        let position = self.position(field);
        let kind = self.members().nth(position).expect("it has a position").kind;
        let (Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration)) = kind else { panic!("{field} is {kind:?}") };
        let name = |index: &u32| enumeration.values[*index as usize];
        match &self.values[position] {
            Value::Enumeration(index) => Some(vec![name(index)]),
            Value::EnumerationList(list) => Some(list.iter().map(name).collect()),
            _ => None,
        }
    }

    pub fn data_type(&self, field: &str, default: DataType) -> DataType {
        match self.value(field) {
            Value::Enumeration(index) => DataType::from_index(*index).expect("a data type is drawn"),
            _ => default,
        }
    }

    /// A builder that has the operands.
    pub fn builder(&self) -> GraphBuilder {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        for (number, operand) in self.operands.iter().enumerate() {
            let descriptor = operand.tensor.descriptor();
            let id = match operand.is_constant {
                true => builder.constant(descriptor, ConstantBytes::new(operand.tensor.bytes())),
                false => builder.input(&format!("{number}"), descriptor),
            };
            assert_eq!(id.expect("the operand can be made"), OperandId(number as u32));
        }
        builder
    }

    /// The graph whose outputs are all outputs of the call, in their order.
    pub fn graph(&self) -> Result<Graph, Error> {
        let mut builder = self.builder();
        let outputs = builder.apply(self.row, self.values.clone(), &self.label)?.to_vec();
        builder.build(outputs.iter().enumerate().map(|(number, id)| (format!("{number}"), *id)).collect())
    }

    /// The bytes of the graph's inputs. An operand that no node needs is no input of it.
    pub fn inputs(&self, graph: &Graph) -> Vec<Vec<u8>> {
        let operand = |name: &str| &self.operands[name.parse::<usize>().expect("inputs are named by numbers")];
        graph.inputs.iter().map(|(name, _)| operand(name).tensor.bytes()).collect()
    }
}
