//! Conversions between float32, integers and float16: quantization with one scale for all elements, casts. The results are those of
//! the reference kernels to the last bit.

use super::exact_division::Divisor;
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{Arguments, View};
use crate::graph::DataType::{Float16, Float32, Int8, Int32, Uint8};
use crate::graph::ops::elementwise::QuantizeLinear;
use crate::graph::ops::quantized::{extremes, of_range};
use crate::graph::{DataType, Op, OperandId};
use smallvec::smallvec;
use webnn_kernels::halves::{Narrow, Widen};
use webnn_kernels::isa::Isa;
use webnn_kernels::quantize::{Quantize, Scale, Steps, ToBytes, ToInt32, range};

/// `(integer - zero) * scale`, for all pieces of the output.
macro_rules! scaled {
    ($isa:expr, $integers:expr, $arguments:expr, $scale:expr, $zero:expr) => {{
        let (integers, scale, zero) = ($integers, $scale, $zero);
        for_each_piece($arguments.output().elements::<f32>(), 1, 1, |first, numbers| {
            let integers = &integers[first..][..numbers.len()];
            Scale { integers, numbers, scale, zero }.compute($isa);
        });
    }};
}

#[derive(Debug)]
struct Convert {
    isa: &'static Isa,
    conversion: Conversion,
    input: OperandId,
    from: DataType,
    to: DataType,
}

#[derive(Debug)]
enum Conversion {
    Quantize(Quantized),
    Dequantize { scale: OperandId, zero_point: OperandId },
    Cast,
}

/// A quantization.
#[derive(Clone, Debug)]
pub struct Quantized {
    scale: OperandId,
    zero_point: OperandId,
    pub to: DataType,
    /// Where both are known.
    steps: Option<Steps>,
}

impl Quantized {
    fn new(op: &QuantizeLinear, problem: &Problem<'_>) -> Quantized {
        let to = problem.output.data_type;
        let known = |id: OperandId| problem.inputs[id.0 as usize];
        let (scale, zero) = (known(op.scale), known(op.zero_point));
        let steps = scale.elements().zip(zero.bytes()).map(|(scale, zero_bytes)| {
            let zero = integer(zero.data_type, zero_bytes[0]);
            Steps { divisor: Divisor::of_many(scale[0], bounds(to, zero)), zero }
        });
        Quantized { scale: op.scale, zero_point: op.zero_point, to, steps }
    }

    /// What is done to the output of a step before, and what quantizes it then, if anything does.
    pub fn split<'a>(problem: &Problem<'a>) -> (&'a [Op], Option<Quantized>) {
        match problem.fused {
            [fused @ .., Op::QuantizeLinear(op)] => (fused, Some(Quantized::new(op, problem))),
            fused => (fused, None),
        }
    }

    pub fn steps(&self, arguments: &Arguments<'_, '_>) -> Steps {
        self.steps.unwrap_or_else(|| {
            let (scale, zero) = (arguments.input(self.scale).elements::<f32>()[0], byte(arguments.input(self.zero_point)));
            Steps { divisor: Divisor::new(scale, bounds(self.to, zero)), zero }
        })
    }
}

/// Of the number of steps, before the zero point is added.
fn bounds(to: DataType, zero: i32) -> [f32; 2] {
    let (least, most) = if to == Int8 { (-128, 127) } else { (0, 255) };
    [(least - zero) as f32, (most - zero) as f32]
}

/// Conversions between bytes, int32 or float16 and float32, with one scale if any.
pub static CONVERT: Implementation = Implementation { name: "quantize.convert", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let is_one = |id: OperandId| problem.input(id).element_count() == 1;
    let (input, conversion) = match problem.op {
        Op::QuantizeLinear(op) => {
            require(is_one(op.scale), "several scales")?;
            (op.input, Conversion::Quantize(Quantized::new(op, problem)))
        }
        Op::DequantizeLinear(op) => {
            require(is_one(op.scale), "several scales")?;
            (op.input, Conversion::Dequantize { scale: op.scale, zero_point: op.zero_point })
        }
        Op::Cast(op) => (op.input, Conversion::Cast),
        _ => return Err(Reject("not a conversion")),
    };
    let from = problem.input(input);
    let to = problem.output.data_type;
    let fits = match conversion {
        Conversion::Quantize(_) => from.data_type == Float32 && matches!(to, Int8 | Uint8),
        Conversion::Dequantize { .. } => to == Float32 && matches!(from.data_type, Int8 | Uint8),
        Conversion::Cast => {
            matches!((from.data_type, to), (Int8 | Uint8 | Int32 | Float16, Float32) | (Float32, Int8 | Uint8 | Int32 | Float16))
        }
    };
    require(fits, "other types than bytes, int32, float16 and float32")?;
    require(from.element_count() >= target.tuning.convert_elements, "few elements")?;
    require(problem.fused.is_empty(), "something is done to the elements afterwards")?;
    let kernel = Convert { isa: target.isa, conversion, input, from: from.data_type, to };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}

/// What the range of its input quantizes.
#[derive(Debug)]
struct Dynamic {
    isa: &'static Isa,
    input: OperandId,
}

/// The quantization of any number of elements by their range.
pub static DYNAMIC: Implementation = Implementation { name: "quantize.dynamic", accept: accept_dynamic };

fn accept_dynamic<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::DynamicQuantizeLinear(op) = problem.op else { return Err(Reject("not quantized by a range")) };
    let kernel = Dynamic { isa: target.isa, input: op.input };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}

/// Numbers of which the range is found at a time.
const PIECE: usize = 1 << 14;

impl Kernel for Dynamic {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let numbers = arguments.input(self.input).elements::<f32>();
        let mut ranges = vec![[0f32; 2]; numbers.len().div_ceil(PIECE)];
        for_each_piece(&mut ranges, 1, PIECE / 16, |first, ranges| {
            let pieces = numbers[first * PIECE..].chunks(PIECE);
            ranges.iter_mut().zip(pieces).for_each(|(found, piece)| *found = range(self.isa, piece));
        });
        let [least, most] = extremes(ranges.as_flattened());
        let (scale, zero_point) = of_range(least, most);
        let [output, scales, zero_points] = arguments.outputs() else { unreachable!("there are three outputs") };
        scales.elements::<f32>()[0] = scale;
        zero_points.bytes[0] = zero_point;
        let zero = i32::from(zero_point);
        let steps = Steps { divisor: Divisor::new(scale, bounds(Uint8, zero)), zero };
        for_each_piece(&mut *output.bytes, 1, 1, |first, bytes| {
            let numbers = &numbers[first..][..bytes.len()];
            Quantize { numbers, bytes, steps }.compute(self.isa);
        });
    }
}

/// The only element of an operand of one byte.
pub fn byte(view: View<'_>) -> i32 {
    integer(view.data_type, view.bytes()[0])
}

/// What a byte of either type stands for.
pub fn integer(data_type: DataType, byte: u8) -> i32 {
    if data_type == Int8 { i32::from(byte as i8) } else { i32::from(byte) }
}

impl Kernel for Convert {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input);
        let number = |id: OperandId| arguments.input(id).elements::<f32>()[0];
        match &self.conversion {
            Conversion::Quantize(quantized) => {
                let steps = quantized.steps(arguments);
                let numbers = input.elements::<f32>();
                for_each_piece(&mut *arguments.output().bytes, 1, 1, |first, bytes| {
                    let numbers = &numbers[first..][..bytes.len()];
                    Quantize { numbers, bytes, steps }.compute(self.isa);
                });
            }
            &Conversion::Dequantize { scale, zero_point } => {
                let (scale, zero) = (number(scale), byte(arguments.input(zero_point)));
                match self.from {
                    Int8 => scaled!(self.isa, input.elements::<i8>(), arguments, scale, zero),
                    _ => scaled!(self.isa, input.elements::<u8>(), arguments, scale, zero),
                }
            }
            Conversion::Cast => match self.from {
                Int8 => scaled!(self.isa, input.elements::<i8>(), arguments, 1.0, 0),
                Uint8 => scaled!(self.isa, input.elements::<u8>(), arguments, 1.0, 0),
                Int32 => scaled!(self.isa, input.elements::<i32>(), arguments, 1.0, 0),
                Float16 => {
                    let halves = input.units::<u16>();
                    for_each_piece(arguments.output().elements::<f32>(), 1, 1, |first, numbers| {
                        let (halves, count) = (&halves[first..], numbers.len());
                        Widen { halves, stride: count, width: count, numbers }.compute(self.isa);
                    });
                }
                _ => {
                    let numbers = input.elements::<f32>();
                    if self.to == Float16 {
                        for_each_piece(arguments.output().units::<u16>(), 1, 1, |first, halves| {
                            Narrow { numbers: &numbers[first..][..halves.len()], halves }.compute(self.isa);
                        });
                        return;
                    }
                    if self.to == Int32 {
                        for_each_piece(arguments.output().elements::<i32>(), 1, 1, |first, integers| {
                            ToInt32(&numbers[first..][..integers.len()], integers).compute(self.isa);
                        });
                        return;
                    }
                    let bounds = if self.to == Int8 { [-128.0, 127.0] } else { [0.0, 255.0] };
                    for_each_piece(&mut *arguments.output().bytes, 1, 1, |first, bytes| {
                        ToBytes { numbers: &numbers[first..][..bytes.len()], bytes, bounds }.compute(self.isa);
                    });
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TensorDesc;
    use super::*;
    use crate::backend::cpu::kernels::first;
    use crate::backend::cpu::kernels::tests::numbers;
    use crate::backend::cpu::reference;
    use crate::backend::cpu::view::ViewMut;
    use crate::graph::ops::elementwise::{Cast, DequantizeLinear, QuantizeLinear};
    use crate::graph::ops::quantized::DynamicQuantizeLinear;
    use webnn_kernels::isa::Isa;

    /// Compares a conversion of `input` with what the reference kernel makes of it.
    fn check(op: impl Into<Op>, inputs: &[(DataType, &[u8])], to: DataType) {
        let op = op.into();
        let count = |(data_type, bytes): &(DataType, &[u8])| bytes.len() * 8 / data_type.bits();
        let shapes: Vec<[usize; 1]> = inputs.iter().map(|input| [count(input)]).collect();
        let views: Vec<View<'_>> =
            inputs.iter().zip(&shapes).map(|(&(data_type, bytes), shape)| View::new(data_type, shape, bytes)).collect();
        let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
            let mut result = vec![0u32; shapes[0][0] * to.bits() / 32 + 1];
            let bytes = &mut bytemuck::cast_slice_mut(&mut result)[..shapes[0][0] * to.bits() / 8];
            body(&mut Arguments::new(&views, &mut [ViewMut { data_type: to, shape: &shapes[0], bytes }]));
            result
        };
        let expected = run(&|arguments| reference::execute(&op, arguments));
        let known = |view: &View<'_>| TensorDesc { data_type: view.data_type, shape: &[], constant: None, order: None };
        for isa in Isa::available() {
            let known: Vec<TensorDesc<'_>> =
                views.iter().zip(&shapes).map(|(view, shape)| TensorDesc { shape, ..known(view) }).collect();
            let output = TensorDesc { data_type: to, shape: &shapes[0], constant: None, order: None };
            let problem =
                Problem { op: &op, fused: &[], inputs: &known, output, workspace: None, prologue: &[], dequantized: &[] };
            let kernel = first(&problem, &Target::with(isa, 1)).kernel;
            assert_eq!(run(&|arguments| kernel.compute(arguments)), expected, "{}: {op:?} to {to}", isa.name);
        }
    }

    /// All three outputs, for numbers whose range lies in every part of the vectors, and those that are no numbers.
    #[test]
    fn the_range_of_the_input_quantizes_it() {
        for count in [1, 15, 64, 1000, 3 * PIECE + 77] {
            let mut data: Vec<f32> = numbers(count, 5).into_iter().map(|x| x * 7.0 + 3.0).collect();
            for extreme in [-20.0, 30.0, f32::NAN, 0.0, f32::INFINITY] {
                for at in [0, count / 2, count - 1] {
                    let before = std::mem::replace(&mut data[at], extreme);
                    let op: Op = DynamicQuantizeLinear { input: OperandId(0) }.into();
                    let shape = [count];
                    let views = [View::new(Float32, &shape, bytemuck::cast_slice(&data))];
                    let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
                        let (mut bytes, mut scale, mut zero_point) = (vec![0; count], [0u32], [0]);
                        let outputs = &mut [
                            ViewMut { data_type: Uint8, shape: &shape, bytes: &mut bytes },
                            ViewMut { data_type: Float32, shape: &[], bytes: bytemuck::cast_slice_mut(&mut scale) },
                            ViewMut { data_type: Uint8, shape: &[], bytes: &mut zero_point },
                        ];
                        body(&mut Arguments::new(&views, outputs));
                        (bytes, scale, zero_point)
                    };
                    let expected = run(&|arguments| reference::execute(&op, arguments));
                    for isa in Isa::available() {
                        let input = TensorDesc { data_type: Float32, shape: &shape, constant: None, order: None };
                        let output = TensorDesc { data_type: Uint8, shape: &shape, constant: None, order: None };
                        let (inputs, prologue) = (&[input], &[]);
                        let problem =
                            Problem { op: &op, fused: &[], inputs, output, workspace: None, prologue, dequantized: &[] };
                        let kernel = first(&problem, &Target::with(isa, 1)).kernel;
                        let found = run(&|arguments| kernel.compute(arguments));
                        assert_eq!(found, expected, "{}: {count} numbers, {extreme} at {at}", isa.name);
                    }
                    data[at] = before;
                }
            }
        }
    }

    fn various(count: usize) -> Vec<f32> {
        let special = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            -0.0,
            1e30,
            -1e30,
            2.5,
            3.5,
            -2.5,
            1e-40,
            -(i32::MIN as f32),
            i32::MIN as f32,
            2147483520.0,
            -2147483904.0,
        ];
        let numbers = numbers(count, 3).into_iter().map(|x| x * 200.0);
        numbers.enumerate().map(|(i, x)| if i % 7 == 0 { special[i / 7 % special.len()] } else { x }).collect()
    }

    #[test]
    fn the_same_bits_as_the_reference_kernels() {
        let (input, scale, zero_point) = (OperandId(0), OperandId(1), OperandId(2));
        for count in [64, 65, 127, 1000] {
            let data = various(count);
            let floats: &[u8] = bytemuck::cast_slice(&data);
            let bytes: Vec<u8> = (0..count).map(|i| (i * 37) as u8).collect();
            let integers: Vec<i32> = (0..count as i32).map(|i| i.wrapping_mul(97_654_321)).collect();
            for scale_of in [0.5f32, 1.0, 0.003, 1e-39, 0.0, f32::NAN] {
                let one = scale_of.to_le_bytes();
                let mut aligned = [0u32; 1];
                bytemuck::cast_slice_mut::<_, u8>(&mut aligned).copy_from_slice(&one);
                let one: &[u8] = bytemuck::cast_slice(&aligned);
                for (to, zeros) in [(Uint8, [0u8, 3, 128, 255]), (Int8, [0, 5, 127, 128])] {
                    for zero in zeros {
                        let op = QuantizeLinear { input, scale, zero_point };
                        check(op, &[(Float32, floats), (Float32, one), (to, &[zero])], to);
                        let op = DequantizeLinear { input, scale, zero_point };
                        check(op, &[(to, &bytes), (Float32, one), (to, &[zero])], Float32);
                    }
                }
            }
            let halves: Vec<u16> = (0..count).map(|i| (i * 65_521 / 7) as u16).collect();
            let sources: [(_, &[u8]); 4] = [
                (Uint8, &bytes),
                (Int8, &bytes),
                (Int32, bytemuck::cast_slice(&integers)),
                (Float16, bytemuck::cast_slice(&halves)),
            ];
            for (from, bytes) in sources {
                check(Cast { input, data_type: Float32 }, &[(from, bytes)], Float32);
            }
            for data_type in [Int32, Int8, Uint8, Float16] {
                check(Cast { input, data_type }, &[(Float32, floats)], data_type);
            }
        }
    }
}
