//! Properties of all operators, drawn from the operator tables.
//!
//! * *Valid calls*: for each operator, random operands and options are computed by every runner and compared with an oracle
//!   (`oracle/`). Everything that a row offers (each data type and rank of each operand, each option absent and given, each
//!   value of an enumeration) is a wish that some call must have fulfilled; what is left over fails the test by name.
//! * *Invalid calls*: valid calls are spoilt in each way that a rule can object to, and must be refused with a `TypeError`
//!   that names the operator and its label.
//!
//! `WEBNN_SEED` repeats a run, `WEBNN_ROUNDS` makes it longer, `WEBNN_OPERATORS=add,sub` shorter.

mod call;
mod chains;
mod compare;
#[path = "../runners/dawn.rs"]
mod dawn;
mod draw;
mod families;
mod invalid;
mod limits;
mod looks;
mod magnitudes;
mod many;
mod oracle;
mod portability;
#[path = "../runners/portable.rs"]
mod portable;
mod random;
mod special;
mod tensor;
#[path = "../runners/timeline.rs"]
mod timeline;
mod wish;

use call::Call;
use compare::Allowance;
use invalid::{How, Spoilt};
use random::Random;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use tensor::Tensor;
use webnn_node::error::Kind;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::operator::Operator;
use webnn_node::graph::ops::elementwise::{Binary, BinaryKind};
use webnn_node::graph::ops::{internal_operators, operator, operators};
use webnn_node::graph::{DataType, Descriptor, FpMath, Graph, GraphBuilder, Limits, OperandId};

/// Computes the outputs of a graph from the bytes of its inputs, both in the graph's order.
type Runner = fn(&Graph, &[&[u8]]) -> Vec<Vec<u8>>;

const REFERENCE: Runner = webnn_node::backend::cpu::reference::interpret;

/// All runners that can run here, the reference first. `WEBNN_RUNNERS=cpu,wgpu,dawn` takes only these.
fn runners() -> &'static [(&'static str, Runner)] {
    static RUNNERS: LazyLock<Vec<(&str, Runner)>> = LazyLock::new(|| {
        let only = std::env::var("WEBNN_RUNNERS").ok();
        let is_wanted = |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one.trim() == name));
        let mut runners: Vec<(&str, Runner)> = vec![("reference", REFERENCE), ("cpu", timeline::cpu)];
        runners.extend(timeline::wgpu().map(|runner| ("wgpu", runner)));
        runners.retain(|(name, _)| is_wanted(name));
        // A process of its own.
        if is_wanted("dawn") {
            runners.extend(dawn::runner().map(|runner| ("dawn", runner)));
        }
        runners
    });
    &RUNNERS
}

/// How far a float32 result may be off: what a runner's kernels say of themselves.
fn allowance(runner: &str, operator: &str) -> Allowance {
    match (runner, operator) {
        // Vector kernels for large tensors, which may also lose the digits of subnormal numbers.
        ("cpu", "erf" | "exp" | "gelu" | "sigmoid" | "softmax" | "tanh") => {
            Allowance { ulps: 5, lost: f64::from(f32::MIN_POSITIVE), ..Allowance::default() }
        }
        // Subnormal numbers are zeros there: operands, products with weights whose sum is 1, and partial sums, along each of two axes.
        ("cpu", "averagePool2d" | "resample2d") => Allowance { lost: 8.0 * f64::from(f32::MIN_POSITIVE), ..Allowance::default() },
        ("wgpu" | "dawn", operator) => Allowance { ulps: wgsl_ulps(operator)[0], ..Allowance::default() },
        _ => Allowance::default(),
    }
}

/// By how many units in the last place a float32 result may be off on GPUs: on one that rounds to the nearest number, and on any that
/// WGSL allows.
fn wgsl_ulps(operator: &str) -> [i64; 2] {
    let of = |line: &str| {
        let (_, units) = line.split_once(' ').filter(|(name, _)| *name == operator)?;
        let (nearest, any) = units.split_once(' ').expect("two numbers");
        Some([nearest, any].map(|units| units.parse().expect("a number")))
    };
    include_str!("../wgsl-accuracy.txt").lines().find_map(of).unwrap_or_default()
}

/// The runners whose GPU takes subnormal float32 numbers for zeros, as hardware may by WGSL's rules (15.7, Floating Point Evaluation),
/// and as some GPUs in software do. They are asked, since it decides what a test allows.
static FLUSHING: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let flushing = runners().iter().filter(|(name, runner)| is_gpu(name) && takes_subnormals_for_zeros(*runner));
    let flushing: Vec<&str> = flushing.map(|(name, _)| *name).collect();
    for name in &flushing {
        println!("{name}: this GPU takes subnormal numbers for zeros; so does what it is compared with");
    }
    flushing
});

fn is_gpu(runner: &str) -> bool {
    matches!(runner, "wgpu" | "dawn")
}

/// As the operand of a multiplication, or of a comparison.
fn takes_subnormals_for_zeros(runner: Runner) -> bool {
    let operand = |builder: &mut GraphBuilder, name| builder.input(name, Descriptor::new(DataType::Float32, [1])).unwrap();
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("one number"));
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let [a, b] = ["a", "b"].map(|name| operand(&mut builder, name));
    let product = builder.push_op(Binary { kind: BinaryKind::Mul, a, b }, "").unwrap()[0];
    let greater = builder.apply(operator("greater").unwrap(), [Value::Operand(a), Value::Operand(b)], "").unwrap()[0];
    let graph = builder.build(vec![("product".into(), product), ("greater".into(), greater)]).unwrap();
    let ran = |a: f32, b: f32| runner(&graph, &[&a.to_le_bytes(), &b.to_le_bytes()]);
    number(&ran(1e-40, 1.0)[0]) == 0.0 || ran(1e-40, 0.0)[1][0] == 0
}

/// Whether a runner can compute a graph, in this round. A GPU in software compiles for each shape anew, so it takes part in
/// the first of every four, and there in one graph of `WEBNN_SHARE`; Dawn in one of sixteen, and in all with `WEBNN_SWEEP=all`.
fn takes_part(runner: &str, graph: &Graph, round: usize) -> bool {
    let is_chosen = |usual| {
        let share = number("WEBNN_SHARE", usual) as u64;
        round.is_multiple_of(4) && (share == 1 || hash(&format!("{graph:?}")).is_multiple_of(share))
    };
    match runner {
        "wgpu" => is_chosen(1) && timeline::lacking_on_wgpu(graph).is_none(),
        "dawn" => is_chosen(if sweeps() { 1 } else { 16 }),
        _ => true,
    }
}

fn sweeps() -> bool {
    std::env::var("WEBNN_SWEEP").is_ok_and(|sweep| sweep == "all")
}

/// The same on every run.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// How often everything is wished for, unless `WEBNN_ROUNDS` says otherwise.
const ROUNDS: usize = 4;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Random numbers from the seed of this run.
fn seed() -> Random {
    let seed = number("WEBNN_SEED", 20_261_121);
    println!("WEBNN_SEED={seed}");
    Random::new(seed as u64)
}

fn rows() -> impl Iterator<Item = &'static Operator> {
    let only = std::env::var("WEBNN_OPERATORS").ok();
    let is_wanted = move |row: &&Operator| only.as_ref().is_none_or(|only| only.split(',').any(|name| name.trim() == row.name));
    operators().iter().chain(internal_operators()).copied().filter(is_wanted)
}

#[test]
fn valid_calls_compute_what_the_specification_says() {
    let seed = seed();
    let rounds = number("WEBNN_ROUNDS", ROUNDS);
    let (mut calls, mut failures) = (0, Vec::new());
    for row in rows() {
        let mut random = seed.part(row.name);
        let mut wishes = wish::all(row);
        let mut of_row = Vec::new();
        let wishes_of_rounds = (0..rounds).flat_map(|round| wish::all(row).into_iter().map(move |wish| (round, wish)));
        for (round, wish) in wishes_of_rounds {
            let call = match guarded(|| draw::call(row, &mut random, Some(&wish))) {
                Ok(call) => call,
                Err(message) => {
                    of_row.push(format!("{}: {wish:?} cannot be drawn: {message}", row.name));
                    continue;
                }
            };
            calls += 1;
            wishes.retain(|wish| !wish.is_fulfilled_by(&call));
            if of_row.len() < 5 {
                of_row.extend(check(&call, round).err().map(|reason| format!("{call:?}\n      {reason}")));
            }
        }
        // A shorter run need not draw everything.
        if !wishes.is_empty() && rounds >= ROUNDS {
            of_row.push(format!("{}: never drawn: {wishes:?}", row.name));
        }
        failures.extend(of_row);
    }
    println!("{calls} calls of {} operators", rows().count());
    assert!(failures.is_empty(), "{} failures, at most 5 of each operator:\n{}", failures.len(), failures.join("\n"));
}

/// Both operands are rounded to 8 bits; kernels take products of any size. Products of float16 are computed so too, and rounded to float16.
#[test]
fn products_by_way_of_bfloat16_are_within_their_bounds() {
    let seed = seed();
    let of_products = 2f64.powi(-7) + 2f64.powi(-16);
    let allowance = Allowance { of_products, lost: f64::from(f32::MIN_POSITIVE), ..Allowance::default() };
    for row in rows().filter(|row| ["matmul", "gemm", "conv2d"].contains(&row.name)) {
        let mut random = seed.part(row.name);
        for wish in (0..number("WEBNN_ROUNDS", ROUNDS)).flat_map(|_| wish::all(row)) {
            let call = draw::call(row, &mut random, Some(&wish));
            let expected = oracle::outputs(&call).remove(0);
            if !matches!(expected.data_type, DataType::Float32 | DataType::Float16) {
                continue;
            }
            let (graph, results) = run(&call, timeline::bf16);
            let found = tensor_of(&graph, graph.outputs[0].1, &results[0]);
            compare::output(&expected, &found, allowance).unwrap_or_else(|reason| panic!("{call:?}\n      {reason}"));
        }
    }
    assert_eq!(timeline::amx::is_emulated(), timeline::amx::products() > 0);
}

/// 'strict' is what it is without the option, by bits, also of a graph whose packed weights are shared with one that has the permission.
#[test]
fn strict_is_what_it_is_without_the_option() {
    let seed = seed();
    for row in rows() {
        let mut random = seed.part(row.name);
        for wish in wish::all(row) {
            let call = draw::call(row, &mut random, Some(&wish));
            let (graph, without) = run(&call, timeline::cpu);
            let inputs = call.inputs(&graph);
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            timeline::bf16(&graph, &inputs);
            let strict = timeline::cpu(&Graph { fp_math: FpMath::Strict, ..graph.clone() }, &inputs);
            assert!(without == strict, "{call:?}");
        }
    }
}

/// The oracle must be able to say no: of each operator some result is refused when every element is its neighbour's.
#[test]
fn wrong_results_are_noticed() {
    let seed = seed();
    for row in rows() {
        let mut random = seed.part(row.name);
        let is_noticed = (0..100).any(|_| {
            let call = draw::call(row, &mut random, None);
            let expected = oracle::outputs(&call);
            let (graph, results) = run(&call, REFERENCE);
            graph.outputs.iter().zip(results).zip(&expected).any(|(((_, id), bytes), expected)| {
                let mut found = tensor_of(&graph, *id, &bytes);
                found.elements.rotate_left(1);
                compare::output(expected, &found, Allowance::default()).is_err()
            })
        });
        assert!(is_noticed, "{}", row.name);
    }
}

#[test]
fn invalid_calls_are_refused_with_a_type_error() {
    let seed = seed();
    let rounds = number("WEBNN_ROUNDS", ROUNDS);
    let (mut calls, mut failures) = (0, Vec::new());
    for row in rows() {
        let mut random = seed.part(row.name);
        let mut required = invalid::required(row);
        let mut unspoilt: Vec<&str> = invalid::refusable(row).map(|member| member.field).collect();
        let mut has_shape = row.operands.len() == 1;
        let mut of_row = Vec::new();
        for wish in std::iter::repeat_n(wish::all(row), rounds).flatten() {
            let call = draw::call(row, &mut random, Some(&wish));
            assert!(check_refusal(&call).is_err(), "a valid call is not refused");
            for Spoilt { call, how } in invalid::all(&call) {
                calls += 1;
                required.retain(|required| *required != how);
                match how {
                    How::Value(field, _) => unspoilt.retain(|unspoilt| *unspoilt != field),
                    How::Shape(..) => has_shape = true,
                    _ => {}
                }
                if of_row.len() < 5 {
                    of_row.extend(check_refusal(&call).err().map(|reason| format!("{call:?}\n    {how:?}\n      {reason}")));
                }
            }
        }
        if !required.is_empty() || !unspoilt.is_empty() || !has_shape {
            of_row.push(format!("{}: never spoilt: {required:?}, values of {unspoilt:?}, shapes: {has_shape}", row.name));
        }
        failures.extend(of_row);
    }
    println!("{calls} invalid calls of {} operators", rows().count());
    assert!(failures.is_empty(), "{} failures, at most 5 of each operator:\n{}", failures.len(), failures.join("\n"));
}

/// A call that is wrong throws a `TypeError` that names the operator and its label, and leaves the builder as it was.
fn check_refusal(call: &Call) -> Result<(), String> {
    let mut builder = call.builder();
    let next = OperandId(call.operands.len() as u32);
    let result = guarded(|| builder.apply(call.row, call.values.clone(), &call.label).map(<[OperandId]>::to_vec))?;
    let error = match result {
        Ok(outputs) => {
            let operands = builder.operands();
            let outputs: Vec<String> = outputs.iter().map(|id| operands.descriptor(*id).to_string()).collect();
            return Err(format!("accepted, with outputs {outputs:?}"));
        }
        Err(error) => error,
    };
    let name = call.row.name;
    let prefix = if call.label.is_empty() { format!("{name}: ") } else { format!("{name} [{}]: ", call.label) };
    if error.kind() != Kind::Type || !error.message().starts_with(&prefix) {
        return Err(format!("refused with {error}"));
    }
    if builder.contains(next) {
        return Err("refused, but the builder has more operands than before".to_owned());
    }
    Ok(())
}

/// Runs something that may panic, and makes its message an error.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        format!("panicked: {}", message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message"))
    })
}

/// Computes a call that is valid.
fn run(call: &Call, runner: Runner) -> (Graph, Vec<Vec<u8>>) {
    let graph = call.graph().unwrap_or_else(|error| panic!("refused: {error}"));
    let inputs = call.inputs(&graph);
    let results = runner(&graph, &inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    (graph, results)
}

fn tensor_of(graph: &Graph, id: OperandId, bytes: &[u8]) -> Tensor {
    let descriptor = graph.descriptor(id);
    let shape = descriptor.shape.iter().map(|&size| size as usize).collect();
    Tensor::from_bytes(descriptor.data_type, shape, bytes)
}

/// Whether an operator adds up numbers of which some are so small that what it computes of them on the way, such as differences from a
/// mean, may be subnormal: nothing can be said of what a device makes of that which takes subnormal numbers for zeros.
fn adds_up_tiny_numbers(call: &Call) -> bool {
    let name = call.row.name;
    let is_tiny =
        |element: &tensor::Scalar| matches!(element, tensor::Scalar::Float(x) if *x != 0.0 && x.abs() < 2f64.powi(-100));
    let has_some = |tensor: &Tensor| tensor.data_type == DataType::Float32 && tensor.elements.iter().any(is_tiny);
    (name.starts_with("reduce") || name.ends_with("Normalization"))
        && call.operands.iter().any(|operand| has_some(&operand.tensor))
}

/// Compares what each runner computes with the oracle.
fn check(call: &Call, round: usize) -> Result<(), String> {
    let expected = guarded(|| oracle::outputs(call)).map_err(|message| format!("oracle {message}"))?;
    for &(name, runner) in runners() {
        let graph = call.graph().map_err(|error| format!("refused: {error}"))?;
        if !takes_part(name, &graph, round) {
            continue;
        }
        let (graph, results) = guarded(|| run(call, runner)).map_err(|message| format!("{name} {message}"))?;
        if results.len() != expected.len() {
            return Err(format!("{} outputs, not {}", results.len(), expected.len()));
        }
        for (number, ((_, id), bytes)) in graph.outputs.iter().zip(&results).enumerate() {
            let found = tensor_of(&graph, *id, bytes);
            let mut result = compare::output(&expected[number], &found, allowance(name, call.row.name));
            if result.is_err() && FLUSHING.contains(&name) {
                let of_flushed = guarded(|| oracle::outputs(&call.flushed())).map_err(|message| format!("oracle {message}"))?;
                let largest = call.operands.iter().map(|operand| operand.tensor.elements.len()).max().unwrap_or_default();
                let terms = largest / found.elements.len().max(1);
                result = expected[number].or_flushed(&of_flushed[number], &found, wgsl_ulps(call.row.name)[1], terms);
            }
            if result.is_err() && FLUSHING.contains(&name) && adds_up_tiny_numbers(call) {
                continue;
            }
            result.map_err(|reason| format!("{name}: output {number}{reason}"))?;
        }
    }
    Ok(())
}
