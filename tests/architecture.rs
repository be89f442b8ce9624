//! The rooms of the house, held against the code: which may use which, and how large a file may be.

use std::fs;
use std::path::{Path, PathBuf};

/// What each room may use of the crate, beside itself.
const ROOMS: &[(&str, &[&str])] = &[
    ("graph", &["error"]),
    ("compiler", &["error", "graph", "memory"]),
    // The backend reports through the timeline's `Done`.
    ("backend", &["compiler", "error", "faults", "graph", "host_memory", "memory", "thread", "timeline"]),
    // The timeline runs the compiler's passes for its backend.
    ("timeline", &["backend", "compiler", "error", "faults", "graph", "host_memory", "memory", "thread"]),
    ("onnx", &["backend", "error", "graph", "memory"]),
    ("node", &["backend", "error", "graph", "host_memory", "memory", "onnx", "thread", "timeline"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &mut found);
    found.into_iter().map(|path| (path.strip_prefix(&root).unwrap().to_owned(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn only_node_knows_node_api() {
    for (path, text) in all() {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let mentions = code.filter(|line| line.contains("napi")).count();
        assert!(mentions == 0 || path.starts_with("node"), "{} mentions napi", path.display());
    }
}

#[test]
fn rooms_use_only_the_rooms_below() {
    let mut wrong = Vec::new();
    for (path, text) in all() {
        let Some((room, allowed)) = ROOMS.iter().find(|(room, _)| path.starts_with(room)) else { continue };
        // What follows is about tests, which may look anywhere.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        if path.file_name().is_some_and(|name| name == "tests.rs" || name == "testing.rs") {
            continue;
        }
        for used in code.split("crate::").skip(1) {
            let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let is_room = ROOMS.iter().any(|(room, _)| *room == used);
            if is_room && used != *room && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file has one idea, however long; a very long one may have two. This says so and fails nothing.
#[test]
fn long_files_are_named() {
    for (path, text) in all() {
        let lines = text.lines().count();
        if lines > 600 {
            eprintln!("warning: {} has {lines} lines: has it one idea?", path.display());
        }
    }
}

/// Where a thread cannot be had, whoever waits for its work has to hear of it.
#[test]
fn threads_are_made_in_one_place() {
    for (path, text) in all() {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let is_test = path.file_stem().is_some_and(|name| name.to_str().unwrap().ends_with("tests"));
        let makes = ["thread::spawn", "thread::Builder", "spawn_blocking"].iter().any(|way| code.contains(way));
        assert!(!makes || is_test || path.ends_with("thread.rs"), "{} makes a thread", path.display());
    }
}
