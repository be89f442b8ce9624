//! Runs programs: the adapters of the machine, devices with their threads, tensors' memory, pipelines. A
//! [`GpuProgram`](super::gpu_program::GpuProgram) comes here as data. Apart from tests, only this folder and what opens a device for a context
//! ([`open`](super::open), [`trial`](super::trial)) use wgpu.

pub mod adapter;
mod bound;
mod constants;
pub mod counts;
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
mod timestamps;
pub mod waiting;
