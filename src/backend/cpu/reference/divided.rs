//! A test: kernels give the same in a pool of threads, where they divide their work, as without one.

use super::testing::{Tensor, run};
use crate::graph::OperandId;
use crate::graph::attribute::Value::{self, *};

/// An operator, the shapes of its operands, and the other values of the call.
type Case<'a> = (&'a str, Vec<&'a [u32]>, Vec<Value>);

#[test]
fn results_do_not_depend_on_threads() {
    let list = |list: &[u32]| UnsignedList(list.to_vec());
    let strided = [list(&[1, 2, 2, 1]), list(&[2, 1]), list(&[1, 2])];
    let nhwc = Enumeration(1);
    let cases: Vec<Case<'_>> = vec![
        ("matmul", vec![&[150, 70], &[70, 130]], vec![]),
        ("matmul", vec![&[5, 1, 60, 30], &[7, 30, 50]], vec![]),
        ("matmul", vec![&[2, 300], &[300, 2000]], vec![]),
        ("gemm", vec![&[70, 90], &[80, 70]], vec![Absent, Double(2.0), Absent, Boolean(true), Boolean(true)]),
        ("conv2d", vec![&[2, 6, 40, 50], &[20, 6, 3, 3]], strided.to_vec()),
        ("conv2d", vec![&[2, 6, 40, 50], &[20, 3, 3, 3]], [strided.to_vec(), vec![Unsigned(2)]].concat()),
        ("conv2d", vec![&[2, 20, 40, 50], &[20, 1, 3, 3]], [strided.to_vec(), vec![Unsigned(20)]].concat()),
        ("conv2d", vec![&[2, 40, 50, 6], &[20, 3, 3, 3]], [strided.to_vec(), vec![Unsigned(2), nhwc.clone()]].concat()),
        ("conv2d", vec![&[2, 40, 50, 20], &[20, 1, 3, 3]], [strided.to_vec(), vec![Unsigned(20), nhwc.clone()]].concat()),
        ("convTranspose2d", vec![&[2, 6, 40, 50], &[6, 20, 3, 3]], strided.to_vec()),
        (
            "convTranspose2d",
            vec![&[2, 40, 50, 6], &[6, 20, 3, 3]],
            [strided.to_vec(), vec![Absent, Absent, Unsigned(2), nhwc.clone()]].concat(),
        ),
        ("averagePool2d", vec![&[2, 6, 60, 50]], vec![list(&[5, 5]), list(&[1, 2, 3, 4])]),
        ("maxPool2d", vec![&[2, 60, 50, 6]], vec![list(&[5, 5]), list(&[1, 2, 3, 4]), Absent, Absent, nhwc.clone()]),
        ("batchNormalization", vec![&[20, 30, 200], &[30], &[30], &[30], &[30]], vec![]),
        ("instanceNormalization", vec![&[20, 30, 20, 20], &[30], &[30]], vec![]),
        ("instanceNormalization", vec![&[20, 30, 20, 20], &[20], &[20]], vec![Absent, nhwc]),
        ("layerNormalization", vec![&[300, 400], &[400], &[400]], vec![]),
        ("resample2d", vec![&[2, 6, 60, 50]], vec![Enumeration(0), Absent, list(&[80, 90])]),
        ("resample2d", vec![&[2, 6, 60, 50]], vec![Enumeration(1), Absent, list(&[80, 90]), list(&[1, 3])]),
    ];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for (name, shapes, options) in cases {
        let tensor = |(i, shape): (usize, &&[u32])| {
            Tensor::of(shape, (0..shape.iter().product::<u32>()).map(|x| ((x as usize * 7 + i) * 31 % 13) as f32 + 1.0))
        };
        let inputs: Vec<Tensor> = shapes.iter().enumerate().map(tensor).collect();
        let operands = (0..inputs.len() as u32).map(|id| Operand(OperandId(id)));
        let values: Vec<Value> = operands.chain(options).collect();
        let divided = pool.install(|| run(name, &inputs, values.clone()));
        assert!(divided == run(name, &inputs, values.clone()), "{name} of {shapes:?} with {values:?}");
    }
}
