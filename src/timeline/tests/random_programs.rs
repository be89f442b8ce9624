//! Random programs against a model that does one thing after the other.

use super::*;

#[test]
fn random_programs_read_what_a_sequential_model_reads() {
    let seed = std::env::var("WEBNN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121u64);
    println!("seed {seed} (WEBNN_SEED)");
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % below as u64) as usize
    };
    // On its thread, and now here and now there.
    random_program(&Harness::new(None), &mut random);
    let (harness, lent) = Harness::lent(None);
    loop {
        random_program(&harness, &mut |below| {
            if below == 9 {
                inline::begin_loop_iteration();
            }
            random(below)
        });
        // Beside other work the timeline's thread may have had the loop whenever a run was asked for.
        if !is_usual() || lent.here.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
}

fn random_program(harness: &Harness, random: &mut impl FnMut(usize) -> usize) {
    let add = harness.graph("add", 2).unwrap();
    let fail = harness.graph("fail", 2).unwrap();
    let long = harness.graph("long", 2).unwrap();
    let tensors: Vec<TensorId> = (0..5).map(|_| harness.tensor()).collect();
    let mut versions = 0;
    let mut version = || {
        versions += 1;
        versions
    };
    let mut model: Vec<Modelled> = tensors.iter().map(|_| Modelled { value: Some(0), may_fail: false, version: 0 }).collect();
    let mut answers = Vec::new();
    // What may still be given up.
    let mut watches: Vec<Watch> = Vec::new();
    for _ in 0..3000 {
        // Nothing is under way: the calling thread may do what comes next.
        if random(100) == 0 {
            tensors.iter().for_each(|tensor| _ = harness.read(*tensor));
        }
        let gives_up = random(8) == 0;
        if gives_up && !watches.is_empty() {
            watches.swap_remove(random(watches.len())).give_up();
        }
        // Of every third piece of work.
        let timeout = (random(4) == 0).then(|| random(3) as u64);
        let watch = if random(3) == 0 { watch_of(Priority::ALL[random(3)], timeout) } else { Watch::default() };
        let is_over = watch.is_watched() && random(6) == 0;
        if is_over {
            watch.give_up();
        } else if watch.is_watched() {
            watches.push(watch.clone());
        }
        match random(9) {
            0 | 1 => {
                let (i, byte) = (random(5), random(256) as u8);
                harness.write(tensors[i], byte);
                model[i] = Modelled { value: Some(byte), may_fail: false, version: version() };
            }
            2..=4 => {
                let a = random(5);
                let b = (a + 1 + random(3)) % 5;
                let out = (0..5).find(|i| *i != a && *i != b).unwrap();
                let fails = random(10) == 0;
                let graph = [add, long][usize::from(random(8) == 0)];
                let graph = if fails { fail } else { graph };
                let may_fail = watch.is_watched() || model[a].may_fail || model[b].may_fail;
                harness.dispatch_watched(graph, &[tensors[a], tensors[b], tensors[out]], "", watch);
                let sum = model[a].value.zip(model[b].value).map(|(a, b)| a.wrapping_add(b));
                let value = if fails || is_over { None } else { sum };
                model[out] = Modelled { value, may_fail, version: version() };
            }
            5 => {
                let (from, to) = (random(5), random(5));
                harness.share(tensors[from], tensors[to]);
                model[to] = model[from];
            }
            _ => {
                let i = random(5);
                let may_be_given_up = watch.is_watched();
                let expected = if is_over { Modelled { value: None, ..model[i] } } else { model[i] };
                answers.push((harness.ask_watched(tensors[i], watch), expected, may_be_given_up));
            }
        }
    }
    let mut found: Vec<Option<Option<u8>>> = vec![None; versions + 1];
    for (number, (answer, Modelled { value, may_fail, version }, may_be_given_up)) in answers.into_iter().enumerate() {
        let answer = answer.recv().unwrap().ok();
        assert!(answer == value || answer.is_none() && (may_fail || may_be_given_up), "read {number}");
        if !may_be_given_up {
            // Nothing changes between two writes, whatever is given up meanwhile.
            assert_eq!(*found[version].get_or_insert(answer), answer, "read {number}");
        }
    }
}

/// A tensor of the sequential model.
#[derive(Clone, Copy)]
struct Modelled {
    /// Nothing where it is errored in any case.
    value: Option<u8>,
    /// What it was computed from may have been given up.
    may_fail: bool,
    /// Which write it has its value from.
    version: usize,
}
