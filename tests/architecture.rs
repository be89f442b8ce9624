//! The rooms of the house, held against the code: which may use which, and how large a file may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each room may use of the crate, beside itself.
const ROOMS: &[(&str, &[&str])] = &[
    // The ground.
    ("error", &[]),
    ("thread", &["error"]),
    ("runtime", &["error", "thread"]),
    ("memory", &["error", "runtime", "thread"]),
    ("host_memory", &["error", "memory"]),
    ("done", &["error"]),
    ("watch", &["error", "runtime"]),
    ("cancel", &["error", "watch"]),
    ("looks", &["cancel"]),
    ("cores", &["error"]),
    ("disk_cache", &["error", "memory", "runtime", "thread"]),
    // What stands on it.
    ("graph", &["error", "memory"]),
    ("compiler", &["error", "graph", "memory"]),
    (
        "backend",
        &[
            "cancel",
            "compiler",
            "cores",
            "disk_cache",
            "done",
            "error",
            "faults",
            "graph",
            "host_memory",
            "looks",
            "memory",
            "runtime",
            "thread",
            "watch",
        ],
    ),
    // The timeline runs the compiler's passes for its backend.
    (
        "timeline",
        &["backend", "compiler", "cores", "done", "error", "faults", "graph", "host_memory", "memory", "thread", "watch"],
    ),
    ("onnx", &["backend", "cancel", "disk_cache", "error", "graph", "looks", "memory"]),
    (
        "program",
        &["disk_cache", "done", "error", "graph", "host_memory", "memory", "onnx", "runtime", "thread", "timeline", "watch"],
    ),
    (
        "node",
        &[
            "backend",
            "cores",
            "disk_cache",
            "done",
            "error",
            "graph",
            "host_memory",
            "memory",
            "onnx",
            "program",
            "thread",
            "timeline",
            "watch",
        ],
    ),
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
        let Some((room, allowed)) = ROOMS.iter().find(|(room, _)| module(&path).first().is_some_and(|first| first == room))
        else {
            continue;
        };
        // What follows is about tests, which may look anywhere.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        if is_test(&path) {
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

/// The crate of microkernels knows slices, strides and instruction sets: no graph, no thread, no thread pool.
#[test]
fn microkernels_know_no_graph_and_make_no_threads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/kernels");
    let mut found = Vec::new();
    sources(&folder.join("src"), &mut found);
    assert!(found.len() > 20, "only {} files in {}", found.len(), folder.display());
    for path in found.into_iter().chain([folder.join("Cargo.toml")]) {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.starts_with("description"));
        let words = ["webnn_node", "webnn-node", "std::thread", "rayon", "Mutex", "OperandId"];
        let knows = code.filter(|line| words.iter().any(|word| line.contains(word))).count();
        assert_eq!(knows, 0, "{} knows more than slices, strides and instruction sets", path.display());
    }
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
        let makes = ["thread::spawn", "thread::Builder", "spawn_blocking"].iter().any(|way| code.contains(way));
        assert!(!makes || is_test(&path) || path.ends_with("thread.rs"), "{} makes a thread", path.display());
    }
}

/// Where sizes may be what somebody else decides, by file or folder, and why that is no danger: how much it is follows from
/// something that is in memory already, or memory for it was asked for before.
const SIZED: &[(&str, &str)] = &[
    ("backend/cpu/dispatch/snapshots", "networks of tests"),
    ("backend/cpu/executable/placements.rs", "one for each input of a graph"),
    (
        "backend/cpu/kernels",
        "what runs take is from scratch.rs; lists of channels and blocks when kernels are made are short beside their weights",
    ),
    ("backend/cpu/reference/accumulate.rs", "one for each dimension"),
    ("backend/cpu/reference/interpret.rs", "the oracle of tests"),
    ("backend/cpu/reference/reduce.rs", "totals of a line, from scratch.rs before"),
    ("backend/cpu/scratch.rs", "the place itself"),
    ("compiler", "`compile_within` asks for memory for each node before any pass, and `affine` for channels with their filter"),
    ("graph/mod.rs", "one for each node"),
    ("graph/ops/recurrent.rs", "one or two states"),
    ("host_memory.rs", "tests"),
    ("memory.rs", "the place itself"),
    ("node/script.rs", "a string of script's, which is as long"),
    ("onnx/fold/movement.rs", "`Folding` asks before each node"),
    ("onnx/ops/attention", "`require` before, and three parts"),
    ("onnx/ops/cells.rs", "four parts at most"),
    ("onnx/ops/columns.rs", "`require` before"),
    ("onnx/ops/functions.rs", "two directions"),
    ("onnx/ops/ml", "one for each class or node that the file lists"),
    ("onnx/ops/roi_align.rs", "`affords` and `require` before"),
    ("onnx/ops/selection.rs", "one for each slice of what is there"),
    ("onnx/ops/window.rs", "one for each dimension"),
    ("onnx/order.rs", "one for each node"),
    ("onnx/tensor.rs", "`require` before, or no longer than what was read"),
];

/// The sizes of lists that a line makes without a way to fail.
fn sizes_made(line: &str) -> Vec<&str> {
    let until = |text: &'static str| move |rest: &'_ str| rest.find(text);
    let mut found = Vec::new();
    for (at, _) in line.match_indices("vec![") {
        if let (Some(begin), Some(end)) = (until("; ")(&line[at..]), until("]")(&line[at..]))
            && begin < line[at..].rfind(']').unwrap_or(0)
        {
            // After what is repeated, which may have brackets of its own.
            let end = line[at + begin..].find(']').map_or(at + end, |end| at + begin + end);
            found.push(&line[at + begin + 2..end]);
        }
    }
    for (call, closing) in [("with_capacity(", ")"), (".resize(", ",")] {
        for (at, _) in line.match_indices(call) {
            let rest = &line[at + call.len()..];
            found.push(&rest[..rest.rfind(closing).unwrap_or(rest.len())]);
        }
    }
    found
}

/// Whether a size is a number, or that of something that is there, or of a shape.
fn is_harmless(size: &str) -> bool {
    let is_number = size.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase() || "_ +*<".contains(c));
    is_number || ["len()", "rank", "rank("].iter().any(|word| size.contains(word))
}

/// Memory that a model or the caller decides the size of is asked for in a way that can fail: `memory::filled`, `Bytes`, `scratch`.
#[test]
fn lists_whose_size_somebody_else_decides_can_fail() {
    let rooms = ["backend", "compiler", "graph", "host_memory.rs", "memory", "node", "onnx", "timeline"];
    let mut wrong = Vec::new();
    let mut unused: BTreeSet<&str> = SIZED.iter().map(|(path, _)| *path).collect();
    for (path, text) in all() {
        if is_test(&path)
            || path.file_stem().is_some_and(|name| name == "divided")
            || !rooms.iter().any(|room| path.starts_with(room) || path.starts_with(format!("{room}.rs")))
        {
            continue;
        }
        let code = code(&text);
        let sizes = code.lines().flat_map(|line| sizes_made(line).into_iter().map(move |size| (line, size)));
        for (line, size) in sizes.filter(|(_, size)| !is_harmless(size)) {
            match SIZED.iter().find(|(allowed, _)| path.starts_with(allowed)) {
                Some((allowed, _)) => _ = unused.remove(allowed),
                None => wrong.push(format!("{}: {size} in {}", path.display(), line.trim())),
            }
        }
    }
    assert!(wrong.is_empty(), "these could end the process:\n{}", wrong.join("\n"));
    unused.iter().for_each(|path| eprintln!("warning: nothing is left to allow in {path}"));
}

/// Folders whose files import each other in one direction only, folders in them included.
const ONE_WAY: &[&str] = &["backend/wgpu", "compiler"];

/// Whether a file, or a folder that it is in, has tests and nothing else.
fn is_test(path: &Path) -> bool {
    let names = path.with_extension("");
    names.iter().filter_map(|name| name.to_str()).any(|name| name.ends_with("tests") || name == "testing")
}

/// A file without its comments and tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The paths in a text that begin with `crate` or `super`, each as its names; those in braces one by one.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        let is_inside = |at: usize| code[..at].ends_with("::") || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        for (at, _) in code.match_indices(start).filter(|(at, _)| !is_inside(*at)) {
            expand(&code[at..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Follows the path that a text begins with; gives back what is after it.
fn expand<'a>(text: &'a str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let length = before.len();
    let mut rest = text.trim_start();
    loop {
        if let Some(list) = rest.strip_prefix('{') {
            rest = list.trim_start();
            while !rest.starts_with('}') && !rest.is_empty() {
                rest = expand(rest, before, found).trim_start();
                rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
            }
            rest = rest.strip_prefix('}').unwrap_or(rest);
            break;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 {
            found.push(before.clone());
            // A `*`, or whatever else it is.
            rest = rest.get(1..).unwrap_or("");
            break;
        }
        before.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) => rest = next,
            None => {
                found.push(before.clone());
                // `as` another name.
                rest = rest
                    .trim_start()
                    .strip_prefix("as ")
                    .map_or(rest, |name| name.trim_start_matches(|c: char| c.is_alphanumeric()));
                break;
            }
        }
    }
    before.truncate(length);
    rest
}

/// The name of the module that a file is.
fn module(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = path.with_extension("").iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    if names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// Which modules each module imports from, or declares.
fn imports() -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let files: Vec<(Vec<String>, String)> = all().into_iter().map(|(path, text)| (module(&path), code(&text))).collect();
    let modules: BTreeSet<Vec<String>> = files.iter().map(|(module, _)| module.clone()).collect();
    let resolve = |own: &[String], path: &[String]| {
        let mut names = if path[0] == "super" { own[..own.len() - 1].to_vec() } else { Vec::new() };
        for name in &path[1..] {
            if name == "super" {
                names.pop();
            } else {
                names.push(name.clone());
            }
        }
        // What is after the module's name is an item.
        (0..=names.len()).rev().map(|length| names[..length].to_vec()).find(|names| modules.contains(names))
    };
    let of = |own: &Vec<String>, code: &str| -> BTreeSet<Vec<String>> {
        let declared = code.lines().filter_map(|line| {
            let name = line.trim().trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?;
            Some([&own[..], &[name.to_owned()]].concat())
        });
        let used = paths(code).into_iter().filter_map(|path| resolve(own, &path));
        used.chain(declared).filter(|other| other != own && modules.contains(other)).collect()
    };
    files.iter().map(|(own, code)| (own.clone(), of(own, code))).collect()
}

#[test]
fn files_of_these_folders_import_each_other_in_one_direction() {
    let imports = imports();
    for folder in ONE_WAY {
        let folder: Vec<String> = folder.split('/').map(str::to_owned).collect();
        // Modules whose imports are all looked at already are taken away until none is left, or only circles.
        // Tests may look at what holds them.
        let is_test = |module: &[String]| module.iter().any(|name| name.ends_with("tests"));
        let mut left: BTreeSet<&Vec<String>> =
            imports.keys().filter(|module| module.starts_with(&folder) && !is_test(module)).collect();
        assert!(left.len() > 1, "{folder:?}");
        while let Some(next) = left.iter().find(|module| imports[**module].iter().all(|other| !left.contains(other))) {
            let next = *next;
            left.remove(next);
        }
        let shown = left.iter().map(|module| {
            let others: Vec<String> =
                imports[*module].iter().filter(|other| left.contains(other)).map(|other| other.join("::")).collect();
            format!("{} imports {}", module.join("::"), others.join(", "))
        });
        assert!(left.is_empty(), "circles among, or from:\n{}", shown.collect::<Vec<_>>().join("\n"));
    }
}

/// What each layer of the GPU backend may use of the others. What is not named here puts them together.
const GPU_LAYERS: &[(&str, &[&str])] = &[
    ("target", &[]),
    ("gpu_program", &[]),
    ("shader", &["target"]),
    ("lower", &["gpu_program", "shader", "target"]),
    ("runtime", &["gpu_program", "target"]),
];

#[test]
fn layers_of_the_gpu_backend_use_only_the_layers_below() {
    let mut wrong = Vec::new();
    for (module, used) in imports().iter().filter(|(module, _)| module.starts_with(&["backend".to_owned(), "wgpu".to_owned()])) {
        let Some((layer, allowed)) = module.get(2).and_then(|name| GPU_LAYERS.iter().find(|(layer, _)| layer == name)) else {
            continue;
        };
        for other in used.iter().filter(|other| other.starts_with(&module[..2])) {
            let is_allowed = other.get(2).is_some_and(|name| name == layer || allowed.contains(&name.as_str()));
            if !is_allowed {
                wrong.push(format!("{} imports {}", module.join("::"), other.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Programs for GPUs are data: whatever runs them, wgpu or a `GPUDevice` of script's.
#[test]
fn lowering_knows_no_wgpu() {
    const LAYERS: [&str; 4] = ["gpu_program", "lower", "shader", "target"];
    let mut found = BTreeSet::new();
    for (path, text) in all() {
        let Ok(within) = path.strip_prefix("backend/wgpu") else { continue };
        let layer = module(within).first().cloned().unwrap_or_default();
        let is_test = path.file_stem().is_some_and(|name| name.to_str().unwrap().ends_with("tests"));
        if LAYERS.contains(&layer.as_str()) && !is_test {
            let rest = code(&text).replace("backend::wgpu::", "");
            assert!(!rest.contains("wgpu::"), "{} uses wgpu", path.display());
            found.insert(layer);
        }
    }
    assert!(found.iter().eq(LAYERS), "of {LAYERS:?} there are only {found:?}");
}
