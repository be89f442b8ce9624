//! What is done on the calling thread.

use super::*;

#[test]
fn what_is_short_is_done_on_the_calling_thread_while_nothing_is_under_way() {
    let (sender, held) = unbounded();
    let (harness, lent) = Harness::lent(Some(sender));
    let (add, long) = (harness.graph("add", 2).unwrap(), harness.graph("long", 2).unwrap());
    let [a, b, c] = [(); 3].map(|()| harness.tensor());
    harness.write(a, 3);
    // The build may not have been heard of before.
    harness.timeline.usage();
    let here = |expected: usize| assert_eq!(lent.here.load(Ordering::Relaxed), expected);
    if !is_usual() {
        return;
    }
    // The thread may still have the loop; then it does what is asked.
    while lent.here.load(Ordering::Relaxed) == 0 {
        inline::begin_loop_iteration();
        harness.dispatch(add, &[a, a, b], "");
        if lent.here.load(Ordering::Relaxed) == 0 {
            held.recv().unwrap()();
        }
    }
    assert_eq!(harness.read(b).unwrap(), 6);
    // A long one goes to the thread, and what comes after it too, if it were ever so short.
    harness.dispatch(long, &[a, b, c], "");
    let work = held.recv().unwrap();
    harness.dispatch(add, &[c, c, b], "");
    harness.write(c, 100);
    here(1);
    work();
    held.recv().unwrap()();
    assert_eq!([harness.read(b).unwrap(), harness.read(c).unwrap()], [18, 100]);
    // Nor is anything done here where there is no time left.
    let spent = || {
        while inline::budget() != inline::Budget::For(Duration::ZERO) {
            inline::timed(std::thread::yield_now);
        }
    };
    spent();
    harness.dispatch(add, &[a, a, b], "");
    here(1);
    held.recv().unwrap()();
    assert_eq!(harness.read(b).unwrap(), 6);
    // A thread that is not script's does what the timeline's would.
    inline::as_timeline(|| harness.dispatch(add, &[a, b, c], ""));
    held.recv().unwrap()();
    assert_eq!(harness.read(c).unwrap(), 9);
}

#[test]
fn script_hands_computations_over_that_are_beside_others() {
    let (sender, held) = unbounded();
    let (harness, lent) = Harness::lent(Some(sender));
    let (long, add) = (harness.graph("long", 1).unwrap(), harness.graph("add", 1).unwrap());
    let [a, b] = [(); 2].map(|()| harness.tensor());
    let (reports, reported) = unbounded();
    let ask = |graph| {
        let ((mut input, _), (output, _)) = (leaked(1), leaked(1));
        input.as_mut_slice()[0] = 9;
        let reports = reports.clone();
        let done = Done::new(move |result: Result<()>| reports.send(result).unwrap());
        harness.send(Task::Compute(compute(graph, vec![input], vec![Some(output)], "", done)));
    };
    // The first one is the timeline's, and stays under way.
    ask(long);
    let first = held.recv().unwrap();
    if !is_usual() {
        return first();
    }
    let elsewhere = || lent.elsewhere.load(Ordering::Relaxed);
    // The thread may still have the loop; then it does what is asked.
    for _ in 0..100_000 {
        ask(long);
        held.recv().unwrap()();
        reported.recv().unwrap().unwrap();
        if elsewhere() > 0 {
            break;
        }
    }
    assert!(elsewhere() > 0);
    // What writes tensors keeps its place among others, and what is short is not worth it.
    let before = elsewhere();
    for _ in 0..20 {
        harness.dispatch(long, &[a, b], "");
        held.recv().unwrap()();
        ask(add);
        held.recv().unwrap()();
        reported.recv().unwrap().unwrap();
    }
    // Nor do others than script's thread hand anything over.
    inline::as_timeline(|| ask(long));
    held.recv().unwrap()();
    reported.recv().unwrap().unwrap();
    assert_eq!([elsewhere(), lent.here.load(Ordering::Relaxed)], [before, 0]);
    first();
    reported.recv().unwrap().unwrap();
}

#[test]
fn what_fails_on_the_calling_thread_fails_as_elsewhere() {
    for behaviour in ["fail", "panic", "forget"] {
        let (harness, _) = Harness::lent(None);
        let (bad, add) = (harness.graph(behaviour, 1).unwrap(), harness.graph("add", 1).unwrap());
        let [a, b, c] = [(); 3].map(|()| harness.tensor());
        harness.timeline.usage();
        harness.dispatch(bad, &[a, b], "first");
        harness.dispatch(add, &[b, c], "second");
        let error = harness.read(c).unwrap_err();
        let chain: Vec<_> = std::iter::successors(Some(&error), |error| error.cause()).map(|error| error.message()).collect();
        assert!(chain[0].contains("[second]") && chain.last().unwrap().contains("[first]"), "{chain:?}");
        harness.write(b, 7);
        assert_eq!(harness.read(b).unwrap(), 7);
    }
}

#[test]
fn a_panic_on_the_calling_thread_ends_the_timeline() {
    let (harness, _) = Harness::lent(None);
    let tensor = harness.tensor();
    harness.timeline.usage();
    harness.send(Task::Write { tensor, bytes: Bytes::copy_of(&PANICS).unwrap(), label: String::new(), charge: None });
    // Nothing hangs, whoever noticed first.
    let error = harness.read(tensor).unwrap_err();
    let expected = ["the context's thread panicked: assertion `left != right` failed: on purpose", task::ENDED];
    assert!(expected.iter().any(|expected| error.message().contains(expected)), "{error}");
    assert!(harness.timeline.has_ended_by(Instant::now() + Duration::from_secs(60)));
}

#[test]
fn threads_that_do_tasks_themselves_keep_the_order_of_each() {
    let (harness, _) = Harness::lent(None);
    let add = harness.graph("add", 2).unwrap();
    let tensors: Vec<[TensorId; 3]> = (0..4).map(|_| [(); 3].map(|()| harness.tensor())).collect();
    let way = harness.timeline.way();
    std::thread::scope(|scope| {
        for (number, &[one, sum, other]) in tensors.iter().enumerate() {
            let way = way.clone();
            scope.spawn(move || {
                let work = || {
                    let send = |task| way.send(task).unwrap();
                    let write = |byte| Task::Write {
                        tensor: one,
                        bytes: Bytes::copy_of(&[byte]).unwrap(),
                        label: String::new(),
                        charge: None,
                    };
                    let add = |tensors: [TensorId; 3]| Task::Dispatch {
                        graph: add,
                        tensors: tensors.into_iter().collect(),
                        label: String::new(),
                        watch: Watch::default(),
                        done: Done::ignored(),
                    };
                    for _ in 0..200 {
                        // sum becomes 2, and then 4, 6, …
                        send(write(2));
                        send(add([one, sum, other]));
                        send(write(0));
                        send(add([one, other, sum]));
                    }
                };
                // Two of them are script's, the others have themselves to themselves.
                if number % 2 == 0 {
                    inline::begin_loop_iteration();
                    work();
                } else {
                    inline::as_timeline(work);
                }
            });
        }
    });
    for [_, sum, _] in tensors {
        assert_eq!(harness.read(sum).unwrap(), (400 % 256) as u8);
    }
}
