//! Runs a graph on Dawn, by what a context on a `GPUDevice` of script's is: the lowering for such devices here, and `lib/webgpu/` in a
//! process of Node's (`dawn.mjs`).
//!
//! Dawn wants the package `webgpu` in `node_modules`, and an adapter: SwiftShader's, where `.ci/run` puts it, or what `VK_DRIVER_FILES`
//! names. Where there is none it is said in one line.

use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use webnn_node::backend::wgpu::Foreign;
use webnn_node::backend::wgpu::target::{Features, Target, opens_shapes};
use webnn_node::graph::Graph;

/// What runs graphs on Dawn, where there is an adapter.
pub fn runner() -> Option<crate::Runner> {
    let found = DAWN.lock().unwrap_or_else(PoisonError::into_inner);
    found.as_ref().map(|_| run as _)
}

/// Bytes of the largest tensor that its device takes.
#[allow(dead_code, reason = "not every suite has tensors so large")]
pub fn largest() -> usize {
    let found = DAWN.lock().unwrap_or_else(PoisonError::into_inner);
    found.as_ref().map_or(0, |dawn| dawn.device.limits().max_tensor_byte_length)
}

static DAWN: LazyLock<Mutex<Option<Dawn>>> =
    LazyLock::new(|| Mutex::new(Dawn::open().inspect_err(|why| println!("dawn: not tested: {why}")).ok()));

fn run(graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    // A test that failed has left the process as it was.
    let mut found = DAWN.lock().unwrap_or_else(PoisonError::into_inner);
    found.as_mut().expect("a runner only where it is").run(graph, inputs)
}

struct Dawn {
    device: Foreign,
    /// Ends when its input does.
    _process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Dawn {
    fn open() -> Result<Dawn, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("node");
        command.arg(root.join("tests/runners/dawn.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let driver = root.join("target/swiftshader/vk_swiftshader_icd.json");
        if std::env::var_os("VK_DRIVER_FILES").is_none() && driver.exists() {
            command.env("VK_DRIVER_FILES", driver);
        }
        let mut process = command.spawn().map_err(|error| format!("node: {error}"))?;
        let (to, from) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        let mut from = BufReader::new(from);
        let (found, _) = receive(&mut from)?;
        if let Some(why) = found["why"].as_str() {
            return Err(why.to_owned());
        }
        let limits: Vec<usize> = found["limits"].as_array().expect("a list").iter().map(size).collect();
        let &[binding, buffer, bindings, workgroups, shared] = limits.as_slice() else { panic!("limits: {limits:?}") };
        let is = |name: &str| found[name].as_bool().expect("a boolean");
        let device = Foreign::new(Target {
            features: Features { half: is("half"), subgroups: is("subgroups"), standard: true, matrices: None },
            max_storage_buffer_binding_size: binding,
            max_buffer_size: buffer,
            max_storage_buffers_per_shader_stage: bindings,
            max_compute_workgroups_per_dimension: workgroups,
            max_compute_workgroup_storage_size: shared,
            opens_shapes: opens_shapes(),
        });
        Ok(Dawn { device, _process: process, to, from })
    }

    fn run(&mut self, graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
        let lowered = self.device.program(crate::timeline::opened(graph), usize::MAX).unwrap_or_else(|error| panic!("{error}"));
        let program = lowered.program;
        let dispatches = program.encode_dispatches();
        let mut parts = vec![dispatches.as_slice(), program.sizes.as_slice()];
        parts.extend(program.shaders.iter().map(|shader| shader.text.as_bytes()));
        parts.extend(program.constants.iter().map(|constant| constant.as_slice()));
        parts.extend(inputs);
        let header = json!({
            "name": program.steps.first().map_or("nothing", |step| step.operator),
            "shaders": program.shaders.iter().map(|shader| shader.label).collect::<Vec<_>>(),
            "steps": program.steps.iter().map(|step| step.operator).collect::<Vec<_>>(),
            "constants": program.constants.iter().map(|constant| constant.as_slice().len()).collect::<Vec<_>>(),
            "arenaLength": program.arena_length,
            "outputLengths": program.output_lengths,
            "findings": program.findings.len(),
            "parts": parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
        });
        writeln!(self.to, "{header}").expect("the process listens");
        parts.iter().for_each(|part| self.to.write_all(part).expect("the process listens"));
        self.to.flush().expect("the process listens");
        let (answer, outputs) = receive(&mut self.from).unwrap_or_else(|why| panic!("{why}"));
        if let Some(failure) = answer["failure"].as_str() {
            panic!("{failure}");
        }
        outputs
    }
}

fn size(number: &Json) -> usize {
    number.as_f64().expect("a number") as usize
}

/// A message: its line, and its parts.
fn receive(from: &mut BufReader<ChildStdout>) -> Result<(Json, Vec<Vec<u8>>), String> {
    let mut line = String::new();
    from.read_line(&mut line).map_err(|error| error.to_string())?;
    let header: Json = serde_json::from_str(&line).map_err(|_| format!("the process of Node's ended: {line}"))?;
    let parts = header["parts"].as_array().ok_or("a message without parts")?;
    let parts = parts.iter().map(|length| {
        let mut part = vec![0; size(length)];
        from.read_exact(&mut part).map_err(|error| error.to_string())?;
        Ok(part)
    });
    let parts = parts.collect::<Result<_, String>>()?;
    Ok((header, parts))
}
