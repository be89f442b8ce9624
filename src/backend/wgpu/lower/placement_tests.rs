//! An input that an output begins with may lie there from the beginning: the dispatch that copies it is told, and no other one has both.

use super::lower;
use crate::backend::cpu::Cpu;
use crate::backend::wgpu::gpu_program::{GpuProgram, Memory, Slot};
use crate::backend::wgpu::target::Target;
use crate::compiler::testing::chains_of;
use crate::compiler::{ALIGNMENT, compile};
use crate::graph::ops::elementwise::{Unary, UnaryKind};
use crate::graph::ops::movement::Concat;
use crate::graph::{DataType, Descriptor, GraphBuilder, Limits, OperandId};
use std::sync::Arc;

type Outputs = Vec<(&'static str, OperandId)>;

/// The program of a graph of two inputs with these shapes.
fn program(data_type: DataType, shapes: [&[u32]; 2], make: impl Fn(&mut GraphBuilder, [OperandId; 2]) -> Outputs) -> GpuProgram {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let [past, new] = shapes.map(|shape| Descriptor::new(data_type, shape.iter().copied()));
    let inputs = [builder.input("past", past).unwrap(), builder.input("new", new).unwrap()];
    let outputs = make(&mut builder, inputs);
    let graph = builder.build(outputs.into_iter().map(|(name, id)| (name.to_owned(), id)).collect()).unwrap();
    let schedule = compile(graph, &chains_of(&Cpu::new(1))).unwrap();
    lower(&schedule, &Target { opens_shapes: Some(false), ..super::open_tests::target(false) }, &|| Ok(())).unwrap()
}

fn concat(builder: &mut GraphBuilder, inputs: &[OperandId], axis: u32) -> OperandId {
    builder.push_op(Concat { inputs: inputs.to_vec(), axis }, "").unwrap()[0]
}

fn unary(builder: &mut GraphBuilder, kind: UnaryKind, input: OperandId) -> OperandId {
    builder.push_op(Unary { kind, input }, "").unwrap()[0]
}

/// Whether the first input may lie in the first output.
fn is_placed(program: &GpuProgram) -> bool {
    let placed = program.placements[0].is_some_and(|placement| (placement.output, placement.first) == (0, 0));
    assert!(program.placements[1].is_none());
    placed
}

#[test]
fn rows_are_appended_behind_those_that_are_there() {
    // Bytes before the new ones: a multiple of what bindings begin at, less than one, and more, in words that are shared or not.
    for (data_type, rows, width) in [
        (DataType::Float32, 64, 128),
        (DataType::Float32, 3, 4),
        (DataType::Float32, 65, 3),
        (DataType::Uint8, 257, 1),
        (DataType::Float16, 129, 3),
    ] {
        let program = program(data_type, [&[rows, width], &[2, width]], |builder, [past, new]| {
            vec![("present", concat(builder, &[past, new], 0))]
        });
        assert!(is_placed(&program), "{data_type:?}, {rows} rows of {width}");
        let [copy, append] = &program.dispatches[..] else { panic!("{:?}", program.dispatches) };
        assert_eq!((copy.places, append.places), (Some(0), None));
        let past = data_type.byte_length((rows * width) as usize).unwrap();
        let all = data_type.byte_length(((rows + 2) * width) as usize).unwrap();
        let begin = Memory { slot: Slot::Output(0), offset: 0, length: past };
        assert!(copy.bindings.contains(&begin));
        let offset = past / ALIGNMENT * ALIGNMENT;
        let rest = Memory { slot: Slot::Output(0), offset, length: all - offset };
        assert!(append.bindings.contains(&rest) && append.bindings.iter().all(|memory| memory.slot != Slot::Input(0)));
    }
}

#[test]
fn others_that_read_the_past_do_so_where_it_is() {
    let program = program(DataType::Float32, [&[4, 2], &[1, 2]], |builder, [past, new]| {
        let present = concat(builder, &[past, new], 0);
        vec![
            ("present", present),
            ("read", unary(builder, UnaryKind::Exp, past)),
            ("after", unary(builder, UnaryKind::Sin, present)),
        ]
    });
    assert!(is_placed(&program));
}

#[test]
fn what_has_other_memory_is_not_placed() {
    type Make = fn(&mut GraphBuilder, [OperandId; 2]) -> Outputs;
    let cases: [(&str, [&[u32]; 2], Make); 5] = [
        ("rows that do not come first", [&[2, 4], &[2, 1]], |builder, [past, new]| vec![("y", concat(builder, &[past, new], 1))]),
        ("a past that comes twice", [&[4], &[4]], |builder, [past, new]| vec![("y", concat(builder, &[past, new, past], 0))]),
        ("no output", [&[4], &[4]], |builder, [past, new]| {
            let joined = concat(builder, &[past, new], 0);
            vec![("y", unary(builder, UnaryKind::Sin, joined))]
        }),
        ("what is made of an input", [&[4], &[4]], |builder, [past, new]| {
            let made = unary(builder, UnaryKind::Sin, past);
            vec![("y", concat(builder, &[made, new], 0))]
        }),
        ("one dispatch that has both", [&[4], &[4]], |builder, [past, new]| {
            let present = concat(builder, &[past, new], 0);
            vec![("present", present), ("both", concat(builder, &[new, past, present], 0))]
        }),
    ];
    for (name, shapes, make) in cases {
        let program = program(DataType::Float32, shapes, make);
        assert!(program.placements[0].is_none(), "{name}: {:?}", program.placements);
    }
}
