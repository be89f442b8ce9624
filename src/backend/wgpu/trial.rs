//! The trial of a device's cooperative matrices: they are experimental in wgpu, so they are used only after they have
//! multiplied right.

use super::capabilities::GpuCapabilities;
use super::lower::lower;
use super::runtime::device::Device;
use super::runtime::executable::Executable;
use super::runtime::storage::DeviceStorage;
use super::runtime::waiting::PATIENCE;
use crate::backend::Bindings;
use crate::compiler::compile;
use crate::error::{Error, Kind, Result};
use crate::graph::ops::matmul::Matmul;
use crate::graph::{DataType, Descriptor, GraphBuilder, Limits};
use crate::watch::Watch;
use half::f16;
use smallvec::smallvec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wgpu::{BufferUsages, PollType};

const ROWS: usize = 80;
const DEPTH: usize = 40;
const COLUMNS: usize = 72;

/// Whether a product by them is what it should be.
pub fn multiplies(device: &Arc<Device>) -> bool {
    // wgpu panics when a device is lost while it is waited for.
    let found = catch_unwind(AssertUnwindSafe(|| product(device)));
    matches!(found, Ok(Ok(found)) if found == expected())
}

/// Small whole numbers, with which sums are exact.
fn number(i: usize) -> f32 {
    ((i * 7 + i / 13) % 5) as f32 - 2.0
}

fn left(row: usize, k: usize) -> f32 {
    number(row * DEPTH + k)
}

fn right(k: usize, column: usize) -> f32 {
    number(k * COLUMNS + column + 1)
}

fn halves(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Vec<u8> {
    let elements = (0..rows * columns).map(|i| f16::from_f32(element(i / columns, i % columns)));
    elements.flat_map(f16::to_le_bytes).collect()
}

fn expected() -> Vec<u8> {
    halves(ROWS, COLUMNS, |row, column| (0..DEPTH).map(|k| left(row, k) * right(k, column)).sum())
}

fn product(device: &Arc<Device>) -> Result<Vec<u8>> {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let matrix = |rows: usize, columns: usize| Descriptor::new(DataType::Float16, [rows as u32, columns as u32]);
    let (a, b) = (builder.input("a", matrix(ROWS, DEPTH))?, builder.input("b", matrix(DEPTH, COLUMNS))?);
    let c = builder.push_op(Matmul { a, b }, "")?[0];
    let graph = builder.build(vec![("c".to_owned(), c)])?;
    let schedule = compile(graph, &GpuCapabilities::new())?;
    let program = lower(&schedule, &device.target, &|| Ok(()))?;
    let executable = Executable::new(device.clone(), program, &Default::default(), &Arc::default(), &|| Ok(()))?;
    let input = |bytes: Vec<u8>| -> Result<Arc<DeviceStorage>> {
        let storage = device.storage(bytes.len())?;
        device.queue.write_buffer(&storage.buffer, 0, &bytes);
        Ok(Arc::new(storage))
    };
    let inputs = smallvec![input(halves(ROWS, DEPTH, left))?, input(halves(DEPTH, COLUMNS, right))?];
    let output = Arc::new(device.storage(ROWS * COLUMNS * 2)?);
    let staging = device.buffer(ROWS * COLUMNS * 2, BufferUsages::MAP_READ | BufferUsages::COPY_DST)?;
    device.checked(|| {
        let look = executable.check(&inputs)?;
        let bindings = Bindings { inputs, outputs: smallvec![Some(output.clone())] };
        let run = executable.record(&bindings, &look, &Watch::default())?.commands;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&output.buffer, 0, &staging, 0, staging.size());
        let index = device.queue.submit([run, encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, .., |_| {});
        let fail = |error: &dyn std::fmt::Display| Error::new(Kind::Operation, error.to_string());
        let wait = PollType::Wait { submission_index: Some(index), timeout: Some(PATIENCE) };
        device.device.poll(wait).map_err(|error| fail(&error))?;
        let view = staging.get_mapped_range(..).map_err(|error| fail(&error))?;
        Ok(view.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wgpu::open::open;
    use crate::backend::wgpu::runtime::adapter::AdapterRequest;

    #[test]
    fn a_device_that_multiplies_right_passes() {
        let found = open(AdapterRequest { software: true, ..AdapterRequest::default() });
        let Ok(device) = found.inspect_err(|error| println!("not tested: {}", error.message())) else { return };
        assert!(multiplies(&device));
        assert_ne!(expected(), halves(ROWS, COLUMNS, |_, _| 0.0));
    }
}
