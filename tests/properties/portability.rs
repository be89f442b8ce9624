//! Shaders of all operators, of everything that their rows offer, for devices that are not here: phones, and GPUs that only Metal or
//! Direct3D 12 reaches.

use crate::portable::{Which, faults};
use crate::{draw, guarded, rows, seed, wish};

/// Of the graphs of each operator at most.
const MOST_SHOWN: usize = 3;

#[test]
fn shaders_are_valid_on_devices_of_all_features_within_their_limits() {
    let seed = seed();
    let (mut graphs, mut failures) = (0, Vec::new());
    for row in rows() {
        let mut random = seed.part(row.name);
        let mut of_row = Vec::new();
        for wish in wish::all(row) {
            // What cannot be drawn is another test's to tell.
            let Ok(call) = guarded(|| draw::call(row, &mut random, Some(&wish))) else { continue };
            let Ok(graph) = call.graph() else { continue };
            let found = guarded(|| faults(&graph, Which::One(graphs)));
            graphs += 1;
            if of_row.len() < MOST_SHOWN {
                of_row.extend(found.unwrap_or_else(|panic| vec![panic]).into_iter().map(|fault| format!("{call:?}: {fault}")));
            }
        }
        failures.extend(of_row);
    }
    println!("{graphs} graphs of {} operators", rows().count());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
