//! The compute pipelines of a device.

use super::errors::checked;
use super::loss::Loss;
use crate::error::Result;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Pipelines by the text of their shaders: equal layers of a network share one.
#[derive(Default)]
pub struct Pipelines {
    cached: Mutex<PipelineCache>,
    count: AtomicUsize,
    /// Whether some were let go since it was last asked.
    let_go: AtomicBool,
}

/// Pipelines that are kept for graphs to come, in the order in which they were made.
#[derive(Default)]
struct PipelineCache {
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

impl PipelineCache {
    /// Keeps a pipeline; the oldest ones go where there are too many. Tells whether some do.
    fn insert(&mut self, text: String, pipeline: wgpu::ComputePipeline) -> bool {
        self.bytes += estimate(&text);
        self.order.push_back(text.clone());
        if self.pipelines.insert(text, pipeline).is_some() {
            // Two threads made it at once.
            let twice = self.order.pop_back();
            self.bytes -= twice.map_or(0, |text| estimate(&text));
        }
        self.shrink(MOST_BYTES)
    }

    fn shrink(&mut self, most: usize) -> bool {
        let before = self.order.len();
        while self.bytes > most {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= estimate(&oldest);
            self.pipelines.remove(&oldest);
        }
        self.order.len() < before
    }
}

impl Pipelines {
    /// How many were made.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// There is no graph any more.
    pub fn idle(&self) {
        let let_go = self.cached.lock().unwrap_or_else(PoisonError::into_inner).shrink(MOST_BYTES_WHEN_IDLE);
        self.let_go.fetch_or(let_go, Ordering::Relaxed);
    }

    /// Whether some were let go since this was last asked.
    pub fn were_let_go(&self) -> bool {
        self.let_go.swap(false, Ordering::Relaxed)
    }

    /// How many are kept, and their bytes by estimate.
    #[cfg(test)]
    pub fn cached(&self) -> (usize, usize) {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(cached.pipelines.len(), cached.order.len());
        (cached.pipelines.len(), cached.bytes)
    }

    /// The pipeline of a shader, whose entry point is `main`.
    ///
    /// # Errors
    /// `OperationError` when the device does not take it.
    pub fn get(&self, (device, loss): (&wgpu::Device, &Loss), label: &str, text: &str) -> Result<wgpu::ComputePipeline> {
        let lock = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = lock().pipelines.get(text) {
            return Ok(pipeline.clone());
        }
        let pipeline = checked(device, loss, || {
            let source = wgpu::ShaderSource::Wgsl(text.into());
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(label), source });
            Ok(device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
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
        self.count.fetch_add(1, Ordering::Relaxed);
        let let_go = lock().insert(text.to_owned(), pipeline.clone());
        self.let_go.fetch_or(let_go, Ordering::Relaxed);
        Ok(pipeline)
    }
}
