//! Shaders: how the elements of each data type lie in memory, and the text around a kernel's own.

mod scalar;
mod walk;

pub use scalar::{Scalar, float, wrap};
pub use walk::coordinates;

use super::adapter::Features;
use super::device::Device;
use crate::error::Result;
use crate::graph::DataType;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// How the elements of a data type lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A word each.
    Words,
    /// Two words each.
    Pairs,
    /// Half a word each, and each can be written alone.
    Halves,
    /// So many to a word, which is written as a whole.
    Packed(usize),
}

impl Layout {
    pub fn of(data_type: DataType, features: Features) -> Layout {
        match data_type.bits() {
            64 => Layout::Pairs,
            32 => Layout::Words,
            16 if features.half => Layout::Halves,
            bits => Layout::Packed(32 / bits),
        }
    }

    /// Elements that are written at once.
    pub fn unit(self) -> usize {
        if let Layout::Packed(count) = self { count } else { 1 }
    }
}

/// The WGSL of the elements of an array of that data type.
pub fn memory_type(data_type: DataType, layout: Layout) -> &'static str {
    match layout {
        Layout::Words | Layout::Pairs => Scalar::of(data_type).name(),
        Layout::Halves => "f16",
        Layout::Packed(_) => "u32",
    }
}

/// Reads element `i`, as the data type's scalar, from memory whose words, as [`memory_type`] has them, are `word(number)`.
pub fn load(data_type: DataType, layout: Layout, word: &dyn Fn(&str) -> String, i: &str) -> String {
    match layout {
        Layout::Words | Layout::Pairs => word(i),
        Layout::Halves => format!("f32({})", word(i)),
        Layout::Packed(count) => {
            let (shift, mask, bits) = (count.ilog2(), count - 1, 32 / count);
            let word = word(&format!("({i}) >> {shift}u"));
            let low = format!("(({i}) & {mask}u) * {bits}u");
            match data_type {
                DataType::Float16 => format!("f32_from_half(extractBits({word}, {low}, 16u))"),
                _ if data_type.is_signed() => format!("extractBits(bitcast<i32>({word}), {low}, {bits}u)"),
                _ => format!("extractBits({word}, {low}, {bits}u)"),
            }
        }
    }
}

/// The bits of a packed element, in the lowest ones of a `u32`; what is above them is not cleared.
pub fn bits(data_type: DataType, x: &str) -> String {
    match data_type {
        DataType::Float16 => format!("half_from_f32({x})"),
        _ => Scalar::of(data_type).convert(Scalar::U32, x),
    }
}

/// What is assigned to an element of an array whose elements are written one by one.
pub fn stored(layout: Layout, x: &str) -> String {
    // The driver's conversion may round otherwise, but not what needs no rounding.
    if layout == Layout::Halves { format!("f16(round_half({x}))") } else { x.to_owned() }
}

/// The functions of the prelude by name.
static PRELUDE: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let text = include_str!("prelude.wgsl");
    let parts = text.split("\n\n").filter_map(|part| {
        let line = part.lines().find(|line| line.starts_with("fn ") || line.starts_with("struct "))?;
        let name = line.split([' ', '(', '{']).nth(1)?;
        Some((name, part))
    });
    parts.collect()
});

/// Whether a text mentions a name.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part_of_name) && !text[at + name.len()..].starts_with(part_of_name))
}

/// The functions of the prelude that a text needs, and those that these need.
fn prelude_for(text: &str) -> String {
    let mut included: Vec<bool> = vec![false; PRELUDE.len()];
    let mut waiting = vec![text];
    while let Some(text) = waiting.pop() {
        for (number, (name, part)) in PRELUDE.iter().enumerate() {
            if !included[number] && mentions(text, name) {
                included[number] = true;
                waiting.push(part);
            }
        }
    }
    let mut result = String::new();
    for ((_, part), _) in PRELUDE.iter().zip(&included).filter(|(_, included)| **included) {
        let _ = writeln!(result, "{part}\n");
    }
    result
}

/// A whole shader: what it needs of the prelude before it.
pub fn complete(features: Features, text: &str) -> String {
    let half = if features.half { "enable f16;\n" } else { "" };
    let matrices = if text.contains("coop_mat") { "enable wgpu_cooperative_matrix;\n" } else { "" };
    format!("{half}{matrices}{}{text}", prelude_for(text))
}

/// The compute pipelines of a device, by the text of their shaders: equal layers of a network share one.
#[derive(Default)]
pub struct Pipelines(Mutex<Kept>);

/// Pipelines that are kept for graphs to come, in the order in which they were made.
#[derive(Default)]
struct Kept {
    pipelines: HashMap<String, wgpu::ComputePipeline>,
    order: VecDeque<String>,
    bytes: usize,
}

/// The most memory that they take by estimate, while there are graphs and when there is none.
const MOST_BYTES: usize = 64 << 20;
const MOST_BYTES_WHEN_IDLE: usize = 16 << 20;

/// What a pipeline takes, roughly: a driver does not say it. On a software adapter graphs of a few steps took 0.3 to 3 MB.
fn estimate(text: &str) -> usize {
    (64 << 10) + 64 * text.len()
}

impl Kept {
    /// Keeps a pipeline; the oldest ones go where there are too many.
    fn insert(&mut self, text: String, pipeline: wgpu::ComputePipeline) {
        self.bytes += estimate(&text);
        self.order.push_back(text.clone());
        if self.pipelines.insert(text, pipeline).is_some() {
            // Two threads made it at once.
            let twice = self.order.pop_back();
            self.bytes -= twice.map_or(0, |text| estimate(&text));
        }
        self.shrink(MOST_BYTES);
    }

    fn shrink(&mut self, most: usize) {
        while self.bytes > most {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= estimate(&oldest);
            self.pipelines.remove(&oldest);
        }
    }
}

impl Pipelines {
    /// There is no graph any more.
    pub fn idle(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shrink(MOST_BYTES_WHEN_IDLE);
    }

    /// How many are kept, and their bytes by estimate.
    #[cfg(test)]
    pub fn kept(&self) -> (usize, usize) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(kept.pipelines.len(), kept.order.len());
        (kept.pipelines.len(), kept.bytes)
    }

    /// The pipeline of a shader, whose entry point is `main`.
    ///
    /// # Errors
    /// `OperationError` when the device does not take it.
    pub fn get(&self, device: &Device, label: &str, text: String) -> Result<wgpu::ComputePipeline> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = lock().pipelines.get(&text) {
            return Ok(pipeline.clone());
        }
        let pipeline = device.checked(|| {
            let source = wgpu::ShaderSource::Wgsl(text.as_str().into());
            let module = device.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(label), source });
            Ok(device.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(label),
                layout: None,
                module: &module,
                entry_point: Some("main"),
                // Kernels that share memory write it before they read it.
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            }))
        });
        let pipeline = pipeline.inspect_err(|_| {
            if std::env::var_os("WEBNN_LOG").is_some_and(|value| value == "shaders") {
                eprintln!("webnn: the shader of {label} was refused:\n{text}");
            }
        })?;
        lock().insert(text, pipeline.clone());
        Ok(pipeline)
    }
}
