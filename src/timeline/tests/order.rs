//! The order of what is asked.

use super::*;

#[test]
fn a_chain_of_dispatches_needs_no_waiting() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let tensors = [harness.tensor(), harness.tensor(), harness.tensor()];
    harness.write(tensors[1], 1);
    for i in 0..12 {
        harness.dispatch(add, &[tensors[i % 3], tensors[(i + 1) % 3], tensors[(i + 2) % 3]], "");
    }
    // Fibonacci: the 13th number.
    assert_eq!(harness.read(tensors[13 % 3]).unwrap(), 233);
}

/// C13.
#[test]
fn a_long_build_holds_up_no_dispatch_that_does_not_need_it() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let [a, b, sum, later] = [(); 4].map(|()| harness.tensor());
    harness.write(a, 2);
    let (slow, built) = harness.build("slow", 1);
    harness.dispatch(add, &[a, a, b], "");
    assert_eq!(harness.read(b).unwrap(), 4);
    harness.dispatch(add, &[a, b, sum], "");
    assert_eq!(harness.read(sum).unwrap(), 6);
    assert!(built.try_recv().is_err(), "the build is still under way");
    harness.slow_build.send(()).unwrap();
    built.recv().unwrap().unwrap();
    harness.dispatch(slow, &[b, later], "");
    assert_eq!(harness.read(later).unwrap(), 4);
}

/// C2.
#[test]
fn dispatches_that_share_nothing_written_run_at_the_same_time() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let shared = harness.tensor();
    for _ in 0..2 {
        harness.dispatch(add, &[shared, harness.tensor(), harness.tensor()], "");
    }
    // Both have been started although neither has ended.
    let both = [held.recv().unwrap(), held.recv().unwrap()];
    both.into_iter().for_each(|work| work());
}

#[test]
fn who_asks_for_the_memory_waits_for_no_run() {
    let harness = Harness::new(None);
    let gated = harness.graph("gated", 1).unwrap();
    let [from, to] = [(); 2].map(|()| harness.tensor());
    let idle = harness.timeline.usage();
    harness.dispatch(gated, &[from, to], "");
    harness.gate.0.recv().unwrap();
    assert_eq!(harness.timeline.usage(), idle);
    harness.gate.1.send(()).unwrap();
    assert_eq!(harness.read(to).unwrap(), 0);
}

#[test]
fn runs_are_numbered_as_they_are_asked_for() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let gated = harness.graph("gated", 1).unwrap();
    let [one, sum, twice, other] = [(); 4].map(|()| harness.tensor());
    harness.write(one, 1);
    harness.dispatch(gated, &[one, other], "");
    harness.gate.0.recv().unwrap();
    harness.dispatch(add, &[one, one, sum], "");
    harness.dispatch(add, &[sum, sum, twice], "");
    harness.dispatch(add, &[one, one, other], "");
    harness.gate.1.send(()).unwrap();
    assert_eq!([harness.read(twice).unwrap(), harness.read(other).unwrap()], [4, 2]);
    // The last one need not wait for the first sum; the number says that it was asked for later.
    assert_eq!(*harness.started.lock().unwrap(), [1, 2, 4, 3]);
}

#[test]
fn a_writer_waits_for_readers_and_readers_for_the_writer() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let (a, b, sum) = (harness.tensor(), harness.tensor(), harness.tensor());
    harness.write(a, 2);
    harness.write(b, 3);
    harness.dispatch(add, &[a, b, sum], "");
    harness.write(a, 100);
    let before = harness.ask(sum);
    harness.dispatch(add, &[a, b, sum], "");
    let after = harness.ask(sum);
    for _ in 0..2 {
        held.recv().unwrap()();
    }
    assert_eq!(before.recv().unwrap().unwrap(), 5);
    assert_eq!(after.recv().unwrap().unwrap(), 103);
}

#[test]
fn destroyed_tensors_serve_what_was_asked_before() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let (a, b, sum) = (harness.tensor(), harness.tensor(), harness.tensor());
    harness.write(a, 1);
    harness.dispatch(add, &[a, b, sum], "");
    for tensor in [a, b] {
        harness.send(Task::DestroyTensor { tensor });
    }
    harness.send(Task::DestroyGraph { graph: add });
    let answer = harness.ask(sum);
    held.recv().unwrap()();
    assert_eq!(answer.recv().unwrap().unwrap(), 1);
}

#[test]
fn recorded_dispatches_run_in_their_order() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let (a, b, c) = (harness.tensor(), harness.tensor(), harness.tensor());
    harness.write(a, 1);
    let command = |tensors: [TensorId; 3]| Command { graph: add, tensors: tensors.into_iter().collect(), label: String::new() };
    let commands: Arc<[Command]> = [command([a, b, c]), command([a, c, b])].into();
    for _ in 0..3 {
        harness.send(Task::Submit { commands: commands.clone() });
    }
    // b grows by two in each round.
    assert_eq!(harness.read(b).unwrap(), 6);
}

#[test]
fn the_end_waits_for_what_is_under_way() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let (output, address) = leaked(1);
    let (mut input, _) = leaked(1);
    input.as_mut_slice()[0] = 9;
    let (reports, reported) = bounded(1);
    let done = Done::new(move |result: Result<()>| reports.send(result).unwrap());
    harness.send(Task::Compute(compute(add, vec![input], vec![Some(output)], "", done)));
    let work = held.recv().unwrap();
    harness.timeline.stop();
    // The caller's memory is still in use, so nothing may be reported yet.
    assert!(reported.try_recv().is_err());
    work();
    let _ = reported.recv().unwrap();
    harness.timeline.join();
    let _ = address;
}
