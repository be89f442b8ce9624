//! Memory that tensors share, and parts of tensors.

use super::*;

#[test]
fn who_is_written_first_gets_memory_of_its_own() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 1).unwrap();
    let held = || harness.tensor_bytes();
    let (a, b) = (harness.tensor(), harness.tensor());
    harness.write(a, 3);
    let before = held();
    let new = TensorId(harness.id());
    harness.share(a, new);
    harness.share(a, b);
    // b had as much as it shares now.
    assert_eq!((harness.read(new).unwrap(), held()), (3, before - 1));
    harness.write(a, 4);
    harness.dispatch(add, &[a, b], "");
    assert_eq!([a, b, new].map(|tensor| harness.read(tensor).unwrap()), [4, 4, 3]);
    assert_eq!(held(), before + 1);
    // Nobody shares it any more, so it is written in its place.
    harness.share(new, a);
    harness.send(Task::DestroyTensor { tensor: new });
    harness.write(a, 5);
    assert_eq!((harness.read(a).unwrap(), held()), (5, before));
    // What has failed has failed for all.
    let fail = harness.graph("fail", 1).unwrap();
    harness.dispatch(fail, &[a, b], "");
    harness.share(b, new);
    harness.write(b, 1);
    assert_eq!(harness.read(b).unwrap(), 1);
    assert!(harness.read(new).unwrap_err().message().contains("the kernel failed"));
    let (sender, results) = bounded(1);
    let gone = Task::Share { tensor: TensorId(harness.id()), to: a, done: Done::new(move |result| sender.send(result).unwrap()) };
    harness.send(gone);
    assert!(results.recv().unwrap().unwrap_err().message().contains("destroyed"));
}

#[test]
fn a_backend_that_copies_computes_in_the_callers_memory_all_the_same() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let inputs = [3, 4].map(|byte| {
        let (mut memory, _) = leaked(1);
        memory.as_mut_slice()[0] = byte;
        memory
    });
    let (output, address) = leaked(1);
    let (sender, receiver) = bounded(1);
    let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
    let (inputs, outputs) = (inputs.into(), vec![Some(output)]);
    harness.send(Task::Compute(compute(add, inputs, outputs, "", done)));
    receiver.recv().unwrap().unwrap();
    assert_eq!(crate::host_memory::peek(address), 7);
}

/// A tensor of four bytes, and what asks for them.
fn four(harness: &Harness, bytes: [u8; 4]) -> (TensorId, impl Fn() -> Result<[u8; 4]>) {
    let tensor = TensorId(harness.id());
    let descriptor = Descriptor::new(DataType::Uint8, [4]);
    harness.send(Task::CreateTensor { tensor, descriptor, label: String::new(), done: Done::ignored() });
    harness.send(Task::Write { tensor, bytes: Bytes::copy_of(&bytes).unwrap(), label: String::new(), charge: None });
    let read = move || {
        let (sender, receiver) = bounded(1);
        let (into, address) = leaked(4);
        let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
        harness.send(Task::Read { tensor, into, watch: Watch::default(), done });
        receiver.recv().unwrap()?;
        Ok([0, 1, 2, 3].map(|i| crate::host_memory::peek(address + i)))
    };
    (tensor, read)
}

/// A run on parts of tensors; its end comes later.
fn on_parts(harness: &Harness, graph: GraphId, inputs: &[(TensorId, usize)], output: (TensorId, usize)) -> Receiver<Result<()>> {
    let (sender, receiver) = bounded(1);
    let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
    let part = |&(tensor, first): &(TensorId, usize)| Operand::Part(Part { tensor, first });
    let (inputs, outputs) = (inputs.iter().map(part).collect(), vec![Some(part(&output))]);
    let label = String::new();
    harness.send(Task::Compute(Compute { graph, inputs, outputs, method: "compute", label, watch: Default::default(), done }));
    receiver
}

#[test]
fn what_computes_on_parts_of_a_tensor_keeps_the_order_of_all_that_uses_it() {
    let (sender, held) = unbounded::<Box<dyn FnOnce() + Send>>();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let (tensor, read) = four(&harness, [1, 2, 3, 4]);
    // Each waits for the one before, by the tensor alone.
    let first = on_parts(&harness, add, &[(tensor, 0), (tensor, 1)], (tensor, 3));
    let second = on_parts(&harness, add, &[(tensor, 3), (tensor, 2)], (tensor, 0));
    let work = held.recv().unwrap();
    assert_eq!(harness.tensor_bytes(), 4);
    assert!(held.try_recv().is_err(), "the second has begun");
    work();
    first.recv().unwrap().unwrap();
    held.recv().unwrap()();
    second.recv().unwrap().unwrap();
    assert_eq!(read().unwrap(), [6, 2, 3, 3]);
}

#[test]
fn a_failed_run_leaves_the_tensors_of_which_it_has_parts() {
    let harness = Harness::new(None);
    let (fail, add) = (harness.graph("fail", 2).unwrap(), harness.graph("add", 2).unwrap());
    let (tensor, read) = four(&harness, [1, 2, 3, 4]);
    let ended = on_parts(&harness, fail, &[(tensor, 0), (tensor, 1)], (tensor, 3)).recv().unwrap();
    assert!(ended.unwrap_err().message().contains("the kernel failed"));
    assert_eq!(read().unwrap(), [1, 2, 3, 4]);
    let refused = |inputs: [(TensorId, usize); 2], output| on_parts(&harness, add, &inputs, output).recv().unwrap().unwrap_err();
    assert!(refused([(tensor, 0), (tensor, 4)], (tensor, 3)).message().contains("memory that is not the graph's"));
    assert!(refused([(tensor, 0), (tensor, 1)], (tensor, usize::MAX)).message().contains("memory that is not the graph's"));
    assert!(refused([(TensorId(1000), 0), (tensor, 1)], (tensor, 3)).message().contains("a tensor was destroyed"));
    // What is errored is no input.
    let (other, _) = four(&harness, [0; 4]);
    let failing = harness.graph("fail", 1).unwrap();
    harness.dispatch(failing, &[tensor, other], "");
    assert!(refused([(other, 0), (tensor, 1)], (tensor, 3)).message().contains("an input is errored"));
}

#[test]
fn copies_of_parts_come_behind_what_was_asked_before() {
    let harness = Harness::new(None);
    let (tensor, _) = four(&harness, [1, 2, 3, 4]);
    let (other, read) = four(&harness, [0; 4]);
    let copy = |from: (TensorId, usize), to: (TensorId, usize), length| {
        let (sender, receiver) = bounded(1);
        let part = |(tensor, first)| Part { tensor, first };
        let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
        harness.send(Task::Copy { copies: vec![TensorCopy { from: part(from), to: part(to), length }], done });
        receiver
    };
    let add = harness.graph("add", 2).unwrap();
    let computed = on_parts(&harness, add, &[(tensor, 2), (tensor, 3)], (tensor, 1));
    let copied = copy((tensor, 1), (other, 2), 2);
    assert_eq!(read().unwrap(), [0, 0, 7, 3]);
    computed.recv().unwrap().unwrap();
    copied.recv().unwrap().unwrap();
    let gone = copy((tensor, 0), (TensorId(1000), 0), 1).recv().unwrap();
    assert!(gone.unwrap_err().message().contains("a tensor was destroyed"));
    let failing = harness.graph("fail", 1).unwrap();
    harness.dispatch(failing, &[other, tensor], "");
    let errored = copy((tensor, 0), (other, 0), 1).recv().unwrap();
    assert!(errored.unwrap_err().message().contains("a tensor is errored"));
    assert_eq!(read().unwrap(), [0, 0, 7, 3]);
}
