//! The shaders of a model whose inputs change their shapes say nothing of them: those of every operator are the same for two sizes.

use super::lower;
use crate::backend::cpu::Cpu;
use crate::backend::wgpu::gpu_program::{GpuProgram, Slot};
use crate::backend::wgpu::target::{Features, Target};
use crate::compiler::compile;
use crate::compiler::testing::chains_of;
use crate::graph::attribute::{Kind, Value};
use crate::graph::operator::{Operator, Types};
use crate::graph::ops::{internal_operators, operator, operators};
use crate::graph::{DataType, Descriptor, Graph, GraphBuilder, Limits, Number, OperandId};
use std::collections::HashSet;
use std::sync::Arc;

const CASES: &str = include_str!("open_cases.txt");

/// Two sizes that have nothing in common, and are computed alike.
const SIZES: [u32; 2] = [40, 57];

pub fn target(half: bool) -> Target {
    Target {
        features: Features { half, subgroups: false, standard: true, matrices: None },
        max_storage_buffer_binding_size: 1 << 27,
        max_buffer_size: 1 << 28,
        max_storage_buffers_per_shader_stage: 8,
        max_compute_workgroups_per_dimension: 65535,
        max_compute_workgroup_storage_size: 16384,
        opens_shapes: None,
    }
}

/// `6`, `n`, `2n`, `n+3`, `n-1`
fn number(text: &str, n: u32) -> u32 {
    let Some((factor, rest)) = text.split_once('n') else { return text.parse().unwrap() };
    let product = n * if factor.is_empty() { 1 } else { factor.parse::<u32>().unwrap() };
    let more: i32 = if rest.is_empty() { 0 } else { rest.parse().unwrap() };
    product.checked_add_signed(more).unwrap()
}

fn list(text: &str, n: u32) -> Vec<u32> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or_else(|| panic!("{text:?}"));
    inner.split(',').map(|text| number(text, n)).collect()
}

struct Call {
    builder: GraphBuilder,
    row: &'static Operator,
    /// By operand of the row.
    types: Vec<(&'static str, DataType)>,
    n: u32,
}

impl Call {
    fn operand(&mut self, field: &str, text: &str) -> OperandId {
        let limits = self.row.operands.iter().find(|limits| limits.name == field).expect("a row has limits of its operands");
        let (name, shape) = text.split_at(text.find('[').unwrap());
        let data_type = match limits.types {
            _ if !name.is_empty() => DataType::ALL.into_iter().find(|data_type| data_type.name() == name).unwrap(),
            Types::Of(types) => types.iter().next().unwrap(),
            Types::SameAs(other) => self.types.iter().find(|(name, _)| *name == other).unwrap().1,
        };
        self.types.push((limits.name, data_type));
        let name = format!("{field}{}", self.types.len());
        self.builder.input(&name, Descriptor::new(data_type, list(shape, self.n))).unwrap()
    }

    fn value(&mut self, field: &str, kind: Kind, text: &str) -> Value {
        let n = self.n;
        match kind {
            Kind::Operand => Value::Operand(self.operand(field, text)),
            Kind::Operands => Value::Operands(text.split(';').map(|text| self.operand(field, text)).collect()),
            Kind::Unsigned | Kind::UnsignedModulo => Value::Unsigned(number(text, n)),
            Kind::Signed => Value::Signed(text.parse().unwrap()),
            Kind::UnsignedOrList if !text.starts_with('[') => Value::Unsigned(number(text, n)),
            Kind::UnsignedList | Kind::UnsignedModuloList | Kind::UnsignedOrList => Value::UnsignedList(list(text, n)),
            Kind::Boolean => Value::Boolean(text == "true"),
            Kind::Double => Value::Double(text.parse().unwrap()),
            Kind::FloatList => Value::FloatList(list(text, n).into_iter().map(|value| value as f32).collect()),
            Kind::Number => Value::Number(Number::Double(text.parse().unwrap())),
            Kind::Enumeration(enumeration) => {
                Value::Enumeration(enumeration.values.iter().position(|value| *value == text).unwrap() as u32)
            }
            Kind::EnumerationList(_) => panic!("no list of an enumeration"),
        }
    }
}

/// The graph of a line of the table for a size.
fn graph(line: &str, n: u32) -> Graph {
    let mut words = line.split_whitespace();
    let row = operator(words.next().unwrap()).unwrap_or_else(|| panic!("no operator: {line}"));
    let mut call = Call { builder: GraphBuilder::new(Arc::new(Limits::everything())), row, types: Vec::new(), n };
    let given: Vec<(&str, &str)> = words.map(|word| word.split_once('=').unwrap()).collect();
    let members = || row.arguments.iter().chain(row.options);
    for (field, _) in &given {
        assert!(members().any(|member| member.field == *field), "{line}: {field}");
    }
    let values: Vec<Value> = members()
        .map(|member| match given.iter().find(|(field, _)| *field == member.field) {
            Some((_, text)) => call.value(member.field, member.kind, text),
            None => Value::Absent,
        })
        .collect();
    let op = (row.create)(&mut values.into_iter()).unwrap_or_else(|error| panic!("{line}: {error}; open_cases.txt wants a call"));
    let outputs =
        call.builder.push_op(op, "").unwrap_or_else(|error| panic!("{line}: {error}; open_cases.txt wants a call")).to_vec();
    let outputs = outputs.into_iter().enumerate().map(|(number, id)| (format!("output{number}"), id)).collect();
    call.builder.build(outputs).unwrap()
}

fn program(graph: Graph, half: bool, is_open: bool) -> GpuProgram {
    if is_open {
        graph.shared.expects_several();
    }
    let schedule = compile(graph, &chains_of(&Cpu::new(1))).unwrap();
    lower(&schedule, &target(half), &|| Ok(())).unwrap()
}

/// The lines of the table, and a few for each elementwise operator that has none.
fn cases() -> Vec<String> {
    let mut cases: Vec<String> =
        CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect();
    let named: HashSet<String> = cases.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    for row in operators().iter().chain(internal_operators()).filter(|row| !named.contains(row.name)) {
        let operands = |last: &str| {
            let count = row.operands.len();
            let shapes = row.operands.iter().enumerate().map(|(number, limits)| {
                format!(" {}={}", limits.name, if count > 1 && number + 1 == count { last } else { "[n,6]" })
            });
            format!("{}{}", row.name, shapes.collect::<String>())
        };
        cases.push(operands("[n,6]"));
        cases.push(operands("[6]"));
    }
    cases
}

fn texts(program: &GpuProgram) -> Vec<&str> {
    program.shaders.iter().map(|shader| &*shader.text).collect()
}

#[test]
fn shaders_of_every_operator_are_the_same_for_two_sizes() {
    let mut others = Vec::new();
    for line in cases() {
        for half in [false, true] {
            let [one, other] = SIZES.map(|n| program(graph(&line, n), half, true));
            if texts(&one) != texts(&other) {
                let (one, other) = (texts(&one).join("\n"), texts(&other).join("\n"));
                let difference = one.lines().zip(other.lines()).find(|(one, other)| one != other);
                others.push(format!("{line}\n    {difference:?}"));
                break;
            }
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn shaders_of_a_graph_of_its_own_have_their_shapes_in_the_text() {
    let [one, other] = SIZES.map(|n| program(graph("softmax input=[n,96] axis=1", n), false, false));
    assert_ne!(texts(&one), texts(&other));
    assert!(one.sizes.is_empty() && !texts(&one).iter().any(|text| text.contains("uniform")));
}

#[test]
fn numbers_of_equal_layers_are_kept_once() {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut x = builder.input("x", Descriptor::new(DataType::Float32, [40, 96])).unwrap();
    for axis in [1, 1, 1, 0] {
        x = builder.push_op(crate::graph::ops::softmax::Softmax { input: x, axis }, "").unwrap()[0];
    }
    let program = program(builder.build(vec![("y".to_owned(), x)]).unwrap(), false, true);
    let places = program.dispatches.iter().map(|dispatch| *dispatch.bindings.last().unwrap());
    let offsets: Vec<usize> = places.filter(|memory| memory.slot == Slot::Sizes).map(|memory| memory.offset).collect();
    assert_eq!(offsets, [0, 0, 0, 256]);
}
