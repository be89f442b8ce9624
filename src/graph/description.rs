//! A graph as bytes, for a file: operands in their order, and which of them are outputs. Constants are kept elsewhere; here they are numbers.
//!
//! What is read is applied to a builder, call by call, so that it passes every check that the calls of script do. Operators, data types and
//! values of enumerations are known by their names, so that a version which has more of them reads the same. All numbers are
//! little-endian, and a text is its length and UTF-8.

use super::attribute::{Kind, Value};
use super::operator::Operator;
use super::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Number, OperandId, Shape, Source, ops};
use crate::error::{self, Error, Result};
use std::collections::HashSet;

/// What comes next.
mod tag {
    pub const INPUT: u8 = 0;
    pub const CONSTANT: u8 = 1;
    pub const NODE: u8 = 2;
    pub const OUTPUTS: u8 = 3;
}

/// What a value is.
mod value {
    pub const ABSENT: u8 = 0;
    pub const OPERAND: u8 = 1;
    pub const OPERANDS: u8 = 2;
    pub const UNSIGNED: u8 = 3;
    pub const SIGNED: u8 = 4;
    pub const UNSIGNED_LIST: u8 = 5;
    pub const BOOLEAN: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const FLOAT_LIST: u8 = 8;
    pub const NUMBER: u8 = 9;
    pub const INTEGER: u8 = 10;
    pub const ENUMERATION: u8 = 11;
    pub const ENUMERATION_LIST: u8 = 12;
}

/// The graph of a builder as bytes, and its constants in the order in which they have numbers there.
pub fn encode(graph: &Graph) -> (Vec<u8>, Vec<ConstantBytes>) {
    let (mut out, mut constants) = (Writer::default(), Vec::new());
    for operand in &graph.operands {
        match &operand.source {
            Source::Input { name } => {
                out.byte(tag::INPUT);
                out.text(name);
                out.descriptor(&operand.descriptor);
            }
            Source::Constant(bytes) => {
                out.byte(tag::CONSTANT);
                out.descriptor(&operand.descriptor);
                out.unsigned(constants.len() as u32);
                constants.push(bytes.clone());
            }
            // A node's outputs stand one after the other.
            Source::Node { output: 1.., .. } => {}
            Source::Node { node, .. } => {
                let node = &graph.nodes[*node as usize];
                let row = node.op.row();
                out.byte(tag::NODE);
                out.text(row.name);
                out.text(&node.label);
                let (values, kinds) = (node.op.values(), kinds(row));
                out.unsigned(values.len() as u32);
                values.iter().zip(kinds).for_each(|(value, kind)| out.value(value, kind));
                out.unsigned(node.outputs.len() as u32);
                node.outputs.iter().for_each(|id| out.descriptor(graph.descriptor(*id)));
            }
        }
    }
    out.byte(tag::OUTPUTS);
    out.unsigned(graph.outputs.len() as u32);
    for (name, id) in &graph.outputs {
        out.text(name);
        out.unsigned(id.0);
    }
    (out.0, constants)
}

/// Makes the graph of these bytes with a new builder. The result says which operands are its outputs.
///
/// # Errors
/// `OperationError` when the bytes are no graph that a builder could have made here.
pub fn decode(bytes: &[u8], constants: &[ConstantBytes], builder: &mut GraphBuilder) -> Result<Vec<(String, OperandId)>> {
    let refuse = |error: Error| Error::new(error::Kind::Operation, "the graph cannot be built here").caused_by(error);
    Reader(bytes).graph(constants, builder).map_err(refuse)
}

/// Of a row's arguments and options.
fn kinds(row: &'static Operator) -> impl ExactSizeIterator<Item = Kind> {
    let count = row.arguments.len();
    (0..count + row.options.len()).map(move |i| row.arguments.get(i).unwrap_or_else(|| &row.options[i - count]).kind)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn unsigned(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.unsigned(text.len() as u32);
        self.0.extend(text.as_bytes());
    }

    fn list(&mut self, list: &[u32]) {
        self.unsigned(list.len() as u32);
        list.iter().for_each(|number| self.unsigned(*number));
    }

    fn descriptor(&mut self, descriptor: &Descriptor) {
        self.text(descriptor.data_type.name());
        self.list(&descriptor.shape);
    }

    fn value(&mut self, value: &Value, kind: Kind) {
        match value {
            Value::Absent => self.byte(value::ABSENT),
            Value::Operand(id) => {
                self.byte(value::OPERAND);
                self.unsigned(id.0);
            }
            Value::Operands(ids) => {
                self.byte(value::OPERANDS);
                self.unsigned(ids.len() as u32);
                ids.iter().for_each(|id| self.unsigned(id.0));
            }
            Value::Unsigned(number) => {
                self.byte(value::UNSIGNED);
                self.unsigned(*number);
            }
            Value::Signed(number) => {
                self.byte(value::SIGNED);
                self.0.extend(number.to_le_bytes());
            }
            Value::UnsignedList(list) => {
                self.byte(value::UNSIGNED_LIST);
                self.list(list);
            }
            Value::Boolean(is) => self.0.extend([value::BOOLEAN, u8::from(*is)]),
            Value::Double(number) => {
                self.byte(value::DOUBLE);
                self.0.extend(number.to_le_bytes());
            }
            Value::FloatList(list) => {
                self.byte(value::FLOAT_LIST);
                self.unsigned(list.len() as u32);
                list.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
            }
            Value::Number(Number::Double(number)) => {
                self.byte(value::NUMBER);
                self.0.extend(number.to_le_bytes());
            }
            Value::Number(Number::Integer(number)) => {
                self.byte(value::INTEGER);
                self.0.extend(number.to_le_bytes());
            }
            Value::Enumeration(position) => {
                self.byte(value::ENUMERATION);
                self.text(names(kind)[*position as usize]);
            }
            Value::EnumerationList(list) => {
                self.byte(value::ENUMERATION_LIST);
                self.unsigned(list.len() as u32);
                list.iter().for_each(|position| self.text(names(kind)[*position as usize]));
            }
        }
    }
}

/// The values of an enumeration; none for other kinds.
fn names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration) => enumeration.values,
        _ => &[],
    }
}

fn malformed(what: &str) -> Error {
    Error::new(error::Kind::Operation, format!("its description is malformed: {what}"))
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(|| malformed("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH]> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(|| malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn unsigned(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str> {
        let length = self.unsigned()? as usize;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| malformed("a text that is not UTF-8"))
    }

    /// As many as the bytes say, which has to fit into what is left: each takes one at least.
    fn several<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.unsigned()? as usize;
        if count > self.0.len() {
            return Err(malformed("a list that is longer than the rest"));
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn descriptor(&mut self) -> Result<Descriptor> {
        let name = self.text()?;
        let data_type = DataType::ALL.into_iter().find(|data_type| data_type.name() == name);
        let data_type = data_type.ok_or_else(|| malformed("an unknown data type"))?;
        let shape = Shape::from_vec(self.several(Reader::unsigned)?);
        Ok(Descriptor { data_type, shape })
    }

    fn graph(mut self, constants: &[ConstantBytes], builder: &mut GraphBuilder) -> Result<Vec<(String, OperandId)>> {
        loop {
            match self.byte()? {
                tag::INPUT => {
                    let name = self.text()?;
                    builder.input(name, self.descriptor()?)?;
                }
                tag::CONSTANT => {
                    let descriptor = self.descriptor()?;
                    let bytes = constants.get(self.unsigned()? as usize).ok_or_else(|| malformed("an unknown constant"))?;
                    builder.constant(descriptor, bytes.clone())?;
                }
                tag::NODE => self.node(builder)?,
                tag::OUTPUTS => break,
                _ => return Err(malformed("an unknown kind of operand")),
            }
        }
        let outputs = self.several(|reader| Ok((reader.text()?.to_owned(), OperandId(reader.unsigned()?))))?;
        let names: HashSet<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() < outputs.len() {
            return Err(malformed("two outputs of one name"));
        }
        if self.0.is_empty() { Ok(outputs) } else { Err(malformed("it goes on after its end")) }
    }

    fn node(&mut self, builder: &mut GraphBuilder) -> Result<()> {
        let name = self.text()?;
        // Those that only the importer and the compiler use are none of a builder's.
        let row = ops::operators().iter().find(|row| row.name == name).ok_or_else(|| malformed("an unknown operator"))?;
        let label = self.text()?;
        let kinds = kinds(row);
        if self.unsigned()? as usize != kinds.len() {
            return Err(malformed(&format!("{name} with other arguments and options than it has here")));
        }
        let values: Vec<Value> = kinds.map(|kind| self.value(kind)).collect::<Result<_>>()?;
        let expected = self.several(Reader::descriptor)?;
        let outputs = builder.apply(row, values, label)?.to_vec();
        let operands = builder.operands();
        if !outputs.iter().map(|id| operands.descriptor(*id)).eq(&expected) {
            return Err(malformed(&format!("{name} with other outputs than it has here")));
        }
        Ok(())
    }

    fn value(&mut self, kind: Kind) -> Result<Value> {
        let position = |name: &str| {
            let found = names(kind).iter().position(|value| *value == name);
            found.map(|position| position as u32).ok_or_else(|| malformed("an unknown value of an enumeration"))
        };
        Ok(match self.byte()? {
            value::ABSENT => Value::Absent,
            value::OPERAND => Value::Operand(OperandId(self.unsigned()?)),
            value::OPERANDS => Value::Operands(self.several(|reader| reader.unsigned().map(OperandId))?),
            value::UNSIGNED => Value::Unsigned(self.unsigned()?),
            value::SIGNED => Value::Signed(i32::from_le_bytes(self.array()?)),
            value::UNSIGNED_LIST => Value::UnsignedList(self.several(Reader::unsigned)?),
            value::BOOLEAN => match self.byte()? {
                is @ (0 | 1) => Value::Boolean(is == 1),
                _ => return Err(malformed("a boolean that is neither")),
            },
            // WebIDL lets no others through.
            value::DOUBLE => match f64::from_le_bytes(self.array()?) {
                number if number.is_finite() => Value::Double(number),
                _ => return Err(malformed("a double that is not finite")),
            },
            value::FLOAT_LIST => match self.several(|reader| reader.array().map(f32::from_le_bytes))? {
                list if list.iter().all(|number| number.is_finite()) => Value::FloatList(list),
                _ => return Err(malformed("a float that is not finite")),
            },
            value::NUMBER => Value::Number(Number::Double(f64::from_le_bytes(self.array()?))),
            value::INTEGER => Value::Number(Number::Integer(i128::from_le_bytes(self.array()?))),
            value::ENUMERATION => Value::Enumeration(position(self.text()?)?),
            value::ENUMERATION_LIST => Value::EnumerationList(self.several(|reader| position(reader.text()?))?),
            _ => return Err(malformed("an unknown kind of value")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::check_graph;
    use super::super::{Limits, Shared};
    use super::*;
    use std::sync::Arc;

    fn new_builder() -> GraphBuilder {
        GraphBuilder::new(Arc::new(Limits::everything().of_script()))
    }

    /// Has values of most kinds, and a node of several outputs.
    fn graph() -> Graph {
        let mut builder = new_builder();
        let x = builder.input("x", Descriptor::new(DataType::Float32, [1, 2, 4, 4])).unwrap();
        let filter = ConstantBytes::new(vec![7; 4 * 2 * 3 * 3 * 2]);
        let filter = builder.constant(Descriptor::new(DataType::Float32, [4, 1, 3, 3]), filter).unwrap();
        let mut apply =
            |name: &str, values: Vec<Value>| builder.apply(ops::operator(name).unwrap(), values, "é").unwrap().to_vec();
        let operand = Value::Operand;
        let list = Value::UnsignedList;
        let conv = apply(
            "conv2d",
            vec![operand(x), operand(filter), list(vec![1; 4]), Value::Absent, Value::Absent, Value::Unsigned(2)],
        )[0];
        let parts = apply("split", vec![operand(conv), Value::Unsigned(2), Value::Unsigned(1)]);
        let whole = apply("concat", vec![Value::Operands(parts.clone()), Value::Unsigned(3)])[0];
        let clamp =
            apply("clamp", vec![operand(whole), Value::Number(Number::Double(-0.5)), Value::Number(Number::Integer(1 << 70))])[0];
        let resampled = apply("resample2d", vec![operand(parts[1]), Value::Enumeration(1), Value::FloatList(vec![2.0, 1.5])])[0];
        let outputs = [("y", clamp), ("ü", resampled), ("z", parts[0])];
        builder.build(outputs.map(|(name, id)| (name.to_owned(), id)).to_vec()).unwrap()
    }

    fn decoded(bytes: &[u8], constants: &[ConstantBytes]) -> Result<Graph> {
        let mut builder = new_builder();
        let outputs = decode(bytes, constants, &mut builder)?;
        builder.build(outputs)
    }

    #[test]
    fn a_graph_is_read_as_it_was_written() {
        let graph = graph();
        let (bytes, constants) = encode(&graph);
        assert_eq!(constants.len(), 1);
        let again = decoded(&bytes, &constants).unwrap();
        let comparable = |graph: &Graph| format!("{:?}", Graph { shared: Shared::default(), ..graph.clone() });
        assert_eq!(comparable(&again), comparable(&graph));
        check_graph(&again);
    }

    /// No bytes are followed to where they lead: all that is changed is refused, or is another valid graph.
    #[test]
    fn what_is_no_graph_is_refused() {
        let (bytes, constants) = encode(&graph());
        for length in 0..bytes.len() {
            assert!(decoded(&bytes[..length], &constants).is_err(), "cut to {length}");
        }
        assert!(decoded(&[&bytes[..], &[0]].concat(), &constants).is_err());
        assert!(decoded(&bytes, &[]).is_err(), "without its constant");
        assert!(decoded(&bytes, &[ConstantBytes::new(vec![0; 3])]).is_err(), "with another constant");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(graph) = decoded(&bytes, &constants) {
                check_graph(&graph);
            }
        }
    }
}
