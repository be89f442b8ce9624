//! What fails, and what hears of it.

use super::*;

#[test]
fn failures_travel_and_are_cleared_by_a_write() {
    for behaviour in ["fail", "panic", "forget"] {
        let harness = Harness::new(None);
        let bad = harness.graph(behaviour, 1).unwrap();
        let add = harness.graph("add", 1).unwrap();
        let (a, b, c) = (harness.tensor(), harness.tensor(), harness.tensor());
        harness.dispatch(bad, &[a, b], "first");
        harness.dispatch(add, &[b, c], "second");
        let error = harness.read(c).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert!(error.message().contains("[second]"), "{error}");
        let chain: Vec<_> = std::iter::successors(Some(&error), |error| error.cause()).map(|error| error.message()).collect();
        assert!(chain.last().unwrap().contains("[first]"), "{chain:?}");
        let errored = harness.ask(b);
        harness.write(b, 7);
        harness.dispatch(add, &[b, c], "");
        assert!(errored.recv().unwrap().is_err());
        assert_eq!(harness.read(b).unwrap(), 7);
        assert_eq!(harness.read(c).unwrap(), 7);
    }
}

#[test]
fn a_build_that_is_refused_rejects_and_disturbs_nothing() {
    let harness = Harness::new(None);
    let error = harness.graph("refuse", 1).unwrap_err();
    assert_eq!(error.kind(), Kind::Operation);
    assert!(error.message().contains("the device refuses"));
    let tensor = harness.tensor();
    assert_eq!(harness.read(tensor).unwrap(), 0);
}

#[test]
fn a_build_hears_that_the_timeline_has_ended_meanwhile() {
    let harness = Harness::new(None);
    let (_, built) = harness.build("slow", 1);
    let Harness { timeline, slow_build, .. } = harness;
    timeline.send(Task::Stop).unwrap();
    // Its end is seen by a task that is reported.
    let (sender, ended) = bounded(1);
    while ended.is_empty() {
        let sender = sender.clone();
        let done = Done::new(move |usage: Result<_>| _ = usage.is_err().then(|| sender.try_send(())));
        timeline.send(Task::Usage { done }).unwrap();
    }
    slow_build.send(()).unwrap();
    let error = built.recv().unwrap().err().unwrap();
    assert_eq!(error.message(), "the work was lost: the context was destroyed or lost");
}

#[test]
fn what_waits_hears_what_the_timeline_panicked_of() {
    let harness = Harness::new(None);
    let slow = harness.graph("gated", 1).unwrap();
    let (a, b) = (harness.tensor(), harness.tensor());
    // Asked for while a run has the thread, so that it is there when the panic comes.
    harness.dispatch(slow, &[a, b], "");
    harness.gate.0.recv().unwrap();
    harness.send(Task::Write { tensor: a, bytes: Bytes::copy_of(&PANICS).unwrap(), label: String::new(), charge: None });
    let read = harness.ask(a);
    harness.gate.1.send(()).unwrap();
    let error = read.recv().unwrap().unwrap_err();
    let expected = "the work was lost: the context's thread panicked: assertion `left != right` failed: on purpose";
    assert!(error.message().starts_with(expected), "{error}");
}

#[test]
fn a_timeline_that_has_gone_reports_what_it_is_asked() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let (a, b) = (harness.tensor(), harness.tensor());
    harness.dispatch(add, &[a, b], "");
    let pending = harness.ask(b);
    harness.timeline.stop();
    assert!(pending.recv().unwrap().is_err());
    assert!(harness.read(a).is_err());
    drop(held);
}

#[test]
fn a_failed_compute_names_its_label() {
    let harness = Harness::new(None);
    let fail = harness.graph("fail", 1).unwrap();
    let (sender, receiver) = bounded(1);
    let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
    let (inputs, outputs) = (vec![leaked(1).0], vec![Some(leaked(1).0)]);
    harness.send(Task::Compute(compute(fail, inputs, outputs, "mine", done)));
    let error = receiver.recv().unwrap().unwrap_err();
    assert!(error.message().starts_with("compute [mine]: the kernel failed"), "{error}");
}

#[test]
fn a_graph_without_memory_is_errored_for_good() {
    let harness = Harness::new(None);
    let graph = harness.graph("exhausted", 1).unwrap();
    let (a, b) = (harness.tensor(), harness.tensor());
    for expected in ["no memory", "the graph can never run again"] {
        harness.dispatch(graph, &[a, b], "");
        let error = harness.read(b).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(error.kind(), Kind::Operation);
    }
}
