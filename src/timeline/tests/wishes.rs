//! Priorities, deadlines, and what is given up.

use super::*;

#[test]
fn what_is_given_up_before_its_turn_is_errored_in_its_turn() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let [a, b, sum, out] = [(); 4].map(|()| harness.tensor());
    harness.write(out, 5);
    harness.dispatch(add, &[a, b, sum], "");
    let before = harness.ask(out);
    let (watch, of_read) = (Watch::new(false), Watch::new(false));
    harness.dispatch_watched(add, &[a, sum, out], "mine", watch.clone());
    let after = harness.ask(out);
    let unread = harness.ask_watched(out, of_read.clone());
    let is_of = |error: &Error, watch: &Watch| Arc::ptr_eq(error.reason().unwrap(), watch.reason().unwrap());
    watch.give_up();
    of_read.give_up();
    // A read that nobody wants ends at once, though what it was to read is not there.
    let error = unread.recv().unwrap().unwrap_err();
    assert!(error.kind() == Kind::Aborted && is_of(&error, &of_read));
    assert_eq!(before.recv().unwrap().unwrap(), 5);
    assert!(after.try_recv().is_err());
    held.recv().unwrap()();
    let error = after.recv().unwrap().unwrap_err();
    assert!(error.kind() == Kind::Aborted && is_of(&error, &watch));
    assert_eq!(error.message(), "dispatch [mine]: it was cancelled by its signal");
    harness.dispatch(add, &[out, a, b], "next");
    let error = harness.read(b).unwrap_err();
    assert!(error.kind() == Kind::Operation && is_of(error.root(), &watch));
    harness.write(out, 7);
    assert_eq!(harness.read(out).unwrap(), 7);
    assert!(held.is_empty(), "it did not run");
}

#[test]
fn the_more_urgent_of_what_is_ready_goes_first() {
    let harness = Harness::new(None);
    let (gated, add) = (harness.graph("gated", 1).unwrap(), harness.graph("add", 1).unwrap());
    let tensors: Vec<[TensorId; 2]> = (0..5).map(|_| [(); 2].map(|()| harness.tensor())).collect();
    harness.dispatch(gated, &tensors[0], "");
    harness.gate.0.recv().unwrap();
    for (tensors, priority) in tensors[1..].iter().zip([Priority::Low, Priority::Normal, Priority::High, Priority::Normal]) {
        harness.dispatch_watched(add, tensors, "", watch_of(priority, None));
    }
    harness.gate.1.send(()).unwrap();
    tensors.iter().for_each(|[_, to]| assert_eq!(harness.read(*to).unwrap(), 0));
    let of = [(1, Priority::Normal), (4, Priority::High), (3, Priority::Normal), (5, Priority::Normal), (2, Priority::Low)];
    assert_eq!(*harness.urgencies.lock().unwrap(), of);
}

#[test]
fn what_the_more_urgent_wait_for_is_as_urgent() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let [a, b, c, d, e] = [(); 5].map(|()| harness.tensor());
    harness.dispatch_watched(add, &[a, b], "", watch_of(Priority::Low, None));
    harness.dispatch_watched(add, &[b, c], "", watch_of(Priority::Low, None));
    // Who reads hurries nobody, unless script says so.
    let read = harness.ask(c);
    harness.dispatch_watched(add, &[a, e], "", watch_of(Priority::Low, None));
    harness.timeline.usage();
    assert!(harness.urgencies.lock().unwrap().iter().all(|(_, priority)| *priority == Priority::Low));
    harness.dispatch_watched(add, &[c, d], "", watch_of(Priority::High, None));
    let _read = harness.ask_watched(e, watch_of(Priority::Normal, None));
    // Before anything ends.
    harness.timeline.usage();
    for _ in 0..4 {
        held.recv().unwrap()();
    }
    assert!(read.recv().unwrap().is_ok() && harness.read(d).is_ok());
    let (low, normal, high) = (Priority::Low, Priority::Normal, Priority::High);
    assert_eq!(*harness.urgencies.lock().unwrap(), [(1, low), (3, low), (1, high), (3, normal), (2, high), (4, high)]);
}

#[test]
fn what_is_overdue_before_its_turn_is_dropped() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let [a, b, c] = [(); 3].map(|()| harness.tensor());
    harness.dispatch(add, &[a, b], "");
    harness.dispatch_watched(add, &[b, c], "mine", watch_of(Priority::Normal, Some(10)));
    let error = harness.ask_watched(c, watch_of(Priority::Normal, Some(20))).recv().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Timeout, "readTensor: it had not begun after 20 ms (timeout)"));
    let read = harness.ask(c);
    held.recv().unwrap()();
    let error = read.recv().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Timeout, "dispatch [mine]: it had not begun after 10 ms (timeout)"));
    assert!(held.is_empty(), "it did not run");
}

#[test]
fn nothing_begins_of_what_was_given_up_before() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 1).unwrap();
    let [a, b] = [(); 2].map(|()| harness.tensor());
    let watch = Watch::new(false);
    watch.give_up();
    harness.dispatch_watched(add, &[a, b], "", watch.clone());
    assert_eq!(harness.read(b).unwrap_err().kind(), Kind::Aborted);
    assert_eq!(harness.ask_watched(a, watch).recv().unwrap().unwrap_err().kind(), Kind::Aborted);
    assert_eq!(harness.read(a).unwrap(), 0);
}
