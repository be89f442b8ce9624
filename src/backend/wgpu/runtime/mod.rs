//! What runs programs: the adapters of the machine, devices with their threads, tensors' memory, pipelines. The only place that knows
//! wgpu; a [`GpuProgram`](super::gpu_program::GpuProgram) comes here as data.

pub mod adapter;
pub mod device;
mod errors;
pub mod executable;
mod exit;
mod experimental;
pub mod findings;
pub mod jobs;
pub mod loss;
mod pipelines;
pub mod storage;
mod submitter;
pub mod waiting;
