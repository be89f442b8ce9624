//! Lanes: which runs start, in which order, and on how many threads.

use super::super::streams::Performance;
use super::*;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

/// A queue, and what its runs did.
struct Harness {
    queue: RunQueue,
    runs: Runs,
    log: Sender<Event>,
    logged: Receiver<Event>,
}

/// A run by its number, and its threads.
type Event = (&'static str, u64, usize);

fn queue(cores: usize) -> RunQueue {
    RunQueue::new("webnn test", cores, false)
}

fn enter(queue: &RunQueue, threads: usize) -> Runs {
    queue.enter(Streams { threads, performance: Performance::Adaptive })
}

impl Harness {
    fn new(most: usize) -> Harness {
        let (log, logged) = unbounded();
        let queue = queue(most);
        Harness { runs: enter(&queue, most), queue, log, logged }
    }

    /// A run that ends when it is let.
    fn held(&self, number: u64) -> Sender<()> {
        self.held_of(number, Priority::Normal)
    }

    fn held_of(&self, number: u64, priority: Priority) -> Sender<()> {
        self.watched(number, priority).0
    }

    fn next(&self) -> Event {
        self.logged.recv().unwrap()
    }

    /// A run that ends when it is let, and can be given up.
    fn watched(&self, number: u64, priority: Priority) -> (Sender<()>, Watch) {
        let (end, ended) = bounded(1);
        let (log, watch) = (self.log.clone(), Watch::new(false));
        self.runs.push(number, priority, &watch, move |help, _| {
            log.send(("start", number, help)).unwrap();
            ended.recv().unwrap();
            log.send(("end", number, help)).unwrap();
        });
        (end, watch)
    }

    /// The run that starts, which has to be that of the model.
    fn starts(&self, waiting: &mut Waiting) -> Option<u64> {
        let expected = waiting.start()?;
        let (what, number, _) = self.next();
        assert_eq!((what, number), ("start", expected));
        Some(number)
    }

    /// Lets a run end; the next one.
    fn end(&self, number: u64, end: &Sender<()>, waiting: &mut Waiting) -> Option<u64> {
        end.send(()).unwrap();
        let (what, ended, _) = self.next();
        assert_eq!((what, ended), ("end", number));
        self.starts(waiting)
    }

    fn rest(self) -> Vec<Event> {
        let Harness { queue, runs, log, logged } = self;
        drop((queue, runs, log));
        logged.iter().collect()
    }
}

#[test]
fn runs_start_in_the_order_in_which_they_were_asked_for() {
    let harness = Harness::new(1);
    let first = harness.held(10);
    assert_eq!(harness.next(), ("start", 10, 1));
    // What became ready later may have been asked for earlier.
    let others: Vec<_> = [14, 12, 11, 13].map(|number| harness.held(number)).into();
    for end in others.iter().chain([&first]) {
        end.send(()).unwrap();
    }
    let rest = harness.rest();
    let expected = (10..15).flat_map(|number| [("start", number, 1), ("end", number, 1)]);
    assert!(rest.iter().copied().eq(expected.skip(1)), "{rest:?}");
}

#[test]
fn a_run_that_has_started_is_not_put_aside() {
    // Sixteen clients, each of whom asks again when a run of its has ended.
    let (clients, rounds, threads) = (16, 20, 2);
    let queue = queue(threads);
    let runs = enter(&queue, threads);
    let (ended, ends) = unbounded();
    let under_way = Arc::new(Mutex::new(Vec::<(std::thread::ThreadId, usize)>::new()));
    let ask = |client: u64, number: u64| {
        let (ended, under_way) = (ended.clone(), under_way.clone());
        runs.push(number, Priority::Normal, &Watch::default(), move |help, _| {
            let thread = std::thread::current().id();
            let mut started = under_way.lock().unwrap();
            // One run at a time on a thread, and nobody beside one that has everybody's help.
            let is_first = started.iter().all(|(other, _)| *other != thread);
            let are_apart = started.iter().all(|(_, other)| [help, *other] == [1; 2]);
            started.push((thread, help));
            drop(started);
            std::thread::yield_now();
            under_way.lock().unwrap().retain(|(other, _)| *other != thread);
            ended.send((client, number, is_first && are_apart)).unwrap();
        });
    };
    (0..clients).for_each(|client| ask(client, client));
    for heard in 1..=clients * rounds {
        let (client, number, is_right) = ends.recv().unwrap();
        assert!(is_right, "{number}");
        // All before it had started, and no more of them than there are other threads had not ended: no client is passed over.
        assert!(number + 1 < heard + threads as u64, "{number} was the end number {heard}");
        ask(client, clients + heard - 1);
    }
}

#[test]
fn a_run_alone_has_all_threads_and_many_run_side_by_side() {
    let most = 2;
    let harness = Harness::new(most);
    let alone = harness.held(0);
    assert_eq!(harness.next(), ("start", 0, most));
    let others: Vec<_> = (1..4).map(|number| harness.held(number)).collect();
    alone.send(()).unwrap();
    assert_eq!(harness.next(), ("end", 0, most));
    let mut started = [harness.next(), harness.next()];
    started.sort_by_key(|(_, number, _)| *number);
    assert_eq!(started, [("start", 1, 1), ("start", 2, 1)]);
    // One beside the last keeps both threads busy.
    others[0].send(()).unwrap();
    assert_eq!(harness.next(), ("end", 1, 1));
    assert_eq!(harness.next(), ("start", 3, 1));
    others[2].send(()).unwrap();
    assert_eq!(harness.next(), ("end", 3, 1));
    others[1].send(()).unwrap();
    assert_eq!(harness.rest(), [("end", 2, 1)]);
}

#[test]
fn few_runs_have_a_part_of_the_threads_each() {
    let harness = Harness::new(4);
    let first = harness.held(0);
    assert_eq!(harness.next(), ("start", 0, 4));
    let others: Vec<_> = (1..4).map(|number| harness.held(number)).collect();
    first.send(()).unwrap();
    assert_eq!(harness.next(), ("end", 0, 4));
    let mut started = [(); 3].map(|()| harness.next());
    started.sort_by_key(|(_, number, _)| *number);
    assert_eq!(started, [("start", 1, 1), ("start", 2, 1), ("start", 3, 2)]);
    drop(others);
}

#[test]
fn two_callers_in_turn_are_side_by_side_after_a_while() {
    let harness = Harness::new(2);
    let mut ends = vec![harness.held(0)];
    for number in 0..u64::from(COMPANY) + 1 {
        assert_eq!(harness.next(), ("start", number, 2));
        ends.push(harness.held(number + 1));
        ends[number as usize].send(()).unwrap();
        assert_eq!(harness.next(), ("end", number, 2));
    }
    // The other one is likely to come again.
    let number = u64::from(COMPANY) + 1;
    assert_eq!(harness.next(), ("start", number, 1));
    ends.push(harness.held(number + 1));
    assert_eq!(harness.next(), ("start", number + 1, 1));
    ends.drain(number as usize..).for_each(|end| end.send(()).unwrap());
    (0..2).for_each(|_| assert_eq!(harness.next().0, "end"));
    // It has not come any more.
    while !harness.runs.is_empty() {
        std::thread::yield_now();
    }
    let end = harness.held(20);
    assert_eq!(harness.next(), ("start", 20, 2));
    end.send(()).unwrap();
}

#[test]
fn contexts_share_the_cores_and_take_turns() {
    let queue = queue(2);
    let contexts = [(); 3].map(|()| enter(&queue, 2));
    let (log, logged) = unbounded();
    let held = |context: usize, number: u64| {
        let (end, ended) = bounded::<()>(1);
        let log = log.clone();
        contexts[context].push(number, Priority::Normal, &Watch::default(), move |threads, _| {
            log.send((context, number, threads)).unwrap();
            let _ = ended.recv();
        });
        end
    };
    let first = held(0, 1);
    assert_eq!(logged.recv().unwrap(), (0, 1, 2));
    let others: Vec<_> = [(0, 2), (0, 3), (0, 4), (1, 1), (2, 1), (1, 2)].map(|(context, number)| held(context, number)).into();
    drop(first);
    let mut found: Vec<_> = (0..2).map(|_| logged.recv().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, [(1, 1, 1), (2, 1, 1)]);
    assert!(logged.is_empty());
    drop(others);
    let mut found: Vec<_> = (0..4).map(|_| logged.recv().unwrap().0).collect();
    found.sort_unstable();
    assert_eq!(found, [0, 0, 0, 1]);
    assert!(queue.shared.lock().threads <= 2);
}

#[test]
fn a_context_has_no_more_threads_than_it_asked_for() {
    let queue = queue(4);
    let (one, all) = (enter(&queue, 1), enter(&queue, 4));
    let (log, logged) = unbounded();
    let held = |runs: &Runs, number: u64| {
        let (end, ended) = bounded::<()>(1);
        let log = log.clone();
        runs.push(number, Priority::Normal, &Watch::default(), move |threads, _| {
            log.send((number, threads)).unwrap();
            let _ = ended.recv();
        });
        end
    };
    let first = held(&one, 1);
    assert_eq!(logged.recv().unwrap(), (1, 1));
    let (_second, third) = (held(&one, 2), held(&all, 3));
    assert_eq!(logged.recv().unwrap(), (3, 3));
    drop(third);
    drop(first);
    assert_eq!(logged.recv().unwrap(), (2, 1));
}

#[test]
fn whoever_does_a_run_itself_has_cores_too() {
    let queue = queue(2);
    let (one, other) = (enter(&queue, 2), enter(&queue, 2));
    let alone = one.begin_alone(usize::MAX).unwrap();
    assert_eq!(alone.threads, 2);
    assert!(other.begin_alone(usize::MAX).is_none() && !one.is_empty() && other.is_empty());
    let (sender, done) = bounded(1);
    other.push(1, Priority::Normal, &Watch::default(), move |threads, _| sender.send(threads).unwrap());
    assert!(one.begin_alone(1).is_none() && done.is_empty());
    drop(alone);
    assert_eq!(done.recv().unwrap(), 2);
    while !other.is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(one.begin_alone(1).unwrap().threads, 1);
}

#[test]
fn a_context_that_has_ended_waits_for_no_other() {
    let queue = queue(1);
    let (one, other) = (enter(&queue, 1), enter(&queue, 1));
    let (end, ended) = bounded::<()>(1);
    let (begun, begins) = bounded(1);
    one.push(0, Priority::Normal, &Watch::default(), move |_, _| {
        begun.send(()).unwrap();
        let _ = ended.recv();
    });
    begins.recv().unwrap();
    let (sender, done) = unbounded();
    let push = |number: u64| {
        let sender = sender.clone();
        other.push(number, Priority::Normal, &Watch::default(), move |_, _| sender.send(number).unwrap());
    };
    (1..4).for_each(push);
    assert!(done.is_empty());
    other.give_up();
    assert_eq!([(); 3].map(|()| done.recv().unwrap()), [1, 2, 3]);
    push(4);
    assert_eq!(done.try_recv(), Ok(4));
    drop(end);
}

#[test]
fn short_runs_have_a_thread_each() {
    let queue = RunQueue::new("webnn test", 2, true);
    let runs = enter(&queue, 2);
    let (sender, begun) = bounded(2);
    let barrier = Arc::new(std::sync::Barrier::new(2));
    for number in 0..2 {
        let (sender, barrier) = (sender.clone(), barrier.clone());
        runs.push(number, Priority::Normal, &Watch::default(), move |threads, _| {
            barrier.wait();
            sender.send(threads).unwrap();
        });
    }
    assert_eq!([begun.recv().unwrap(), begun.recv().unwrap()], [1, 1]);
}

/// The numbers of runs in the order in which they started.
fn starts(log: &[Event]) -> Vec<u64> {
    log.iter().filter(|(what, ..)| *what == "start").map(|(_, number, _)| *number).collect()
}

#[test]
fn the_more_urgent_start_first_and_no_other_is_passed_over_for_ever() {
    let harness = Harness::new(1);
    let first = harness.held(0);
    harness.next();
    let ends: Vec<_> = [(1, Priority::Low), (2, Priority::Normal), (3, Priority::Low)]
        .into_iter()
        .chain((4..40).map(|number| (number, Priority::High)))
        .map(|(number, priority)| harness.held_of(number, priority))
        .collect();
    ends.iter().chain([&first]).for_each(|end| end.send(()).unwrap());
    let order = starts(&harness.rest());
    // The normal one passed the low one over, too.
    let expected: Vec<u64> = (4..12).chain([1, 2]).chain(12..19).chain([3]).chain(19..40).collect();
    assert_eq!(PASSED, 8);
    assert_eq!(order, expected);
}

/// What waits, in a model that starts one run after the other.
#[derive(Default)]
struct Waiting {
    /// By number and class, in the order of the numbers.
    runs: BTreeMap<u64, usize>,
    /// By class: how many more urgent runs have overtaken those that wait, since one of these has started.
    overtaken: [u32; CLASSES],
}

impl Waiting {
    fn has(&self, class: usize) -> bool {
        self.runs.values().any(|&own| own == class)
    }

    /// The run that has to start: the most urgent, unless a less urgent one has been overtaken often enough; of several the first.
    fn start(&mut self) -> Option<u64> {
        let is_due = |class: &usize| self.overtaken[*class] >= PASSED && self.has(*class);
        let class = (0..CLASSES).rev().find(is_due).or_else(|| (0..CLASSES).find(|&class| self.has(class)))?;
        let number = self.runs.iter().find(|(_, own)| **own == class).map(|(&number, _)| number)?;
        self.runs.remove(&number);
        self.overtaken[class] = 0;
        for other in class + 1..CLASSES {
            self.overtaken[other] = if self.has(other) { self.overtaken[other] + 1 } else { 0 };
        }
        Some(number)
    }
}

/// Random programs of runs that come, end, become more urgent and are given up. Each run starts when the model says, and none is overtaken
/// by more urgent ones more often than is promised.
#[test]
fn random_runs_start_when_a_sequential_model_says() {
    let seed = std::env::var("WEBNN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130u64);
    println!("seed {seed} (WEBNN_SEED)");
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..20 {
        random_runs(&mut random);
    }
}

fn random_runs(random: &mut impl FnMut(u64) -> u64) {
    let harness = Harness::new(1);
    let mut ends: BTreeMap<u64, (Sender<()>, Watch)> = BTreeMap::new();
    let mut waiting = Waiting::default();
    let mut running = None;
    // Some programs have few urgent runs, others hardly anything else.
    let urgency = 1 + random(4);
    for number in 0..200 {
        let class = if random(5) < urgency { 0 } else { 1 + random(2) as usize };
        let (end, watch) = harness.watched(number, Priority::ALL[class]);
        ends.insert(number, (end, watch));
        waiting.runs.insert(number, class);
        if running.is_none() {
            running = harness.starts(&mut waiting);
        }
        let some = |waiting: &Waiting, random: &mut dyn FnMut(u64) -> u64| {
            let place = random(waiting.runs.len().max(1) as u64) as usize;
            waiting.runs.keys().nth(place).copied()
        };
        if random(10) == 0
            && let Some(number) = some(&waiting, random)
        {
            let class = random(3) as usize;
            harness.runs.lift(number, Priority::ALL[class]);
            waiting.runs.entry(number).and_modify(|own| *own = class.min(*own));
        }
        if random(10) == 0
            && let Some(number) = some(&waiting, random)
        {
            // It is done at once, to tell that it is not.
            let (end, watch) = &ends[&number];
            end.send(()).unwrap();
            watch.give_up();
            waiting.runs.remove(&number);
            let told = [harness.next(), harness.next()].map(|(what, number, _)| (what, number));
            assert_eq!(told, [("start", number), ("end", number)]);
        }
        // Fewer end than come, at first.
        for _ in 0..random(if number < 100 { 2 } else { 4 }) {
            running = running.and_then(|number| harness.end(number, &ends[&number].0, &mut waiting));
        }
    }
    while let Some(number) = running {
        running = harness.end(number, &ends[&number].0, &mut waiting);
    }
    assert!(waiting.runs.is_empty() && harness.rest().is_empty());
}

#[test]
fn what_is_lifted_starts_with_the_more_urgent() {
    let harness = Harness::new(1);
    let first = harness.held(0);
    harness.next();
    let ends = [(1, Priority::Low), (2, Priority::Low), (3, Priority::High), (4, Priority::Normal)]
        .map(|(number, priority)| harness.held_of(number, priority));
    harness.runs.lift(2, Priority::High);
    harness.runs.lift(3, Priority::Normal);
    ends.iter().chain([&first]).for_each(|end| end.send(()).unwrap());
    assert_eq!(starts(&harness.rest()), [2, 3, 4, 1]);
}

/// A low run of so many steps, which gives way between them, and tells of each.
fn stepping(harness: &Harness, steps: u64) -> Sender<()> {
    let (go, goes) = unbounded();
    let log = harness.log.clone();
    harness.runs.push(100, Priority::Low, &Watch::default(), move |help, active| {
        // So that its share is no matter.
        std::thread::sleep(Duration::from_millis(50));
        for step in 0..steps {
            goes.recv().unwrap();
            active.give_way();
            log.send(("step", step, help)).unwrap();
        }
    });
    go
}

#[test]
fn a_run_gives_way_between_steps_to_the_more_urgent_on_its_thread_and_with_its_help() {
    for most in [1, 4] {
        let harness = Harness::new(most);
        let go = stepping(&harness, 3);
        go.send(()).unwrap();
        let (_, _, help) = harness.next();
        let (low, normal, high) = (harness.held_of(1, Priority::Low), harness.held(2), harness.held_of(3, Priority::High));
        [low, normal, high].iter().for_each(|end| end.send(()).unwrap());
        go.send(()).unwrap();
        let expected =
            [("start", 3), ("end", 3), ("start", 2), ("end", 2), ("step", 1)].map(|(what, number)| (what, number, help));
        assert_eq!([(); 5].map(|()| harness.next()), expected);
        // It is as urgent now.
        harness.runs.lift(100, Priority::High);
        harness.held_of(4, Priority::High).send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(harness.next().0, "step");
        let mut rest = starts(&harness.rest());
        if most > 1 {
            // They have a thread each, and either may be the first to say so.
            rest.sort_by(|a, b| b.cmp(a));
        }
        assert_eq!(rest, [4, 1]);
    }
}

#[test]
fn a_run_that_gives_way_has_its_share_of_the_time() {
    let harness = Harness::new(1);
    let (begun, begins) = bounded(1);
    let (ended, ends) = bounded(1);
    harness.runs.push(0, Priority::Low, &Watch::default(), move |_, active| {
        begins.recv().unwrap();
        let began = Instant::now();
        while began.elapsed() - active.paused() < Duration::from_millis(20) {
            active.give_way();
        }
        ended.send((began.elapsed(), active.paused())).unwrap();
    });
    // There is always something more urgent.
    for number in 1..2000 {
        let spin = move |_: usize, _: &ActiveRun| {
            let started = Instant::now();
            while started.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
        };
        harness.runs.push(number, Priority::High, &Watch::default(), spin);
    }
    begun.send(()).unwrap();
    let (all, paused) = ends.recv().unwrap();
    assert!(paused > Duration::from_millis(20), "it gave way: {paused:?}");
    // And one more than that, which a busy machine may have held up.
    assert!(paused <= PASSED * (all - paused) + Duration::from_millis(200), "{paused:?} of {all:?}");
}

#[test]
fn who_gives_a_run_up_before_its_turn_has_it_done() {
    let harness = Harness::new(1);
    let first = harness.held(0);
    assert_eq!(harness.next(), ("start", 0, 1));
    let (watch, (sender, done)) = (Watch::new(false), unbounded());
    harness.runs.push(1, Priority::Normal, &watch, move |help, _| sender.send((help, std::thread::current().id())).unwrap());
    assert!(done.is_empty());
    watch.give_up();
    assert_eq!(done.try_recv().unwrap(), (1, std::thread::current().id()));
    first.send(()).unwrap();
    assert_eq!(harness.rest(), [("end", 0, 1)]);
}

#[test]
fn everything_is_done_also_after_the_lane_was_dropped() {
    let (sender, done) = unbounded();
    let queue = queue(1);
    let runs = enter(&queue, 1);
    for number in 0..100 {
        let sender = sender.clone();
        runs.push(number, Priority::Normal, &Watch::default(), move |_, _| {
            sender.send((number, std::thread::current().name().map(String::from))).unwrap()
        });
    }
    drop((queue, runs, sender));
    assert!(done.iter().eq((0..100).map(|number| (number, Some("webnn test".into())))));
}
