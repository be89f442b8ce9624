//! Constants on a device: equal ones once, whichever models and contexts have them.

use super::device::Device;
use crate::error::Result;
use crate::graph::ConstantBytes;
use crate::memory::{Charge, Lending, Once, Usage, Use};
use std::sync::Arc;
use wgpu::{Buffer, BufferUsages};

/// A constant in a buffer, counted where it was uploaded first.
#[derive(Debug)]
pub struct Uploaded {
    buffer: Buffer,
    charge: Lending,
}

/// A constant of a graph. Another model than the first counts it as shared.
#[derive(Debug)]
pub struct Constant {
    uploaded: Arc<Uploaded>,
    _lent: Vec<Arc<Charge>>,
}

impl Constant {
    pub fn buffer(&self) -> &Buffer {
        &self.uploaded.buffer
    }
}

/// Those of a device, by what they are.
#[derive(Debug, Default)]
pub struct Constants(Once<u128, Arc<Uploaded>>);

impl Constants {
    /// The buffer of a constant.
    ///
    /// # Errors
    /// `QuotaExceededError` where the context or the model may not hold it, `UnknownError` when the device has not the memory.
    pub fn get(&self, device: &Device, constant: &ConstantBytes, usage: &Arc<Usage>) -> Result<Constant> {
        let constant = constant.briefly();
        let identity = constant.identity();
        let uploaded = match self.0.find(&identity) {
            Some(found) => found,
            None => {
                let charge = usage.reserve(Use::Packed, constant.len())?;
                let buffer = upload(device, constant.as_slice(), BufferUsages::STORAGE)?;
                // Another thread may have been faster.
                self.0.keep(identity, Arc::new(Uploaded { buffer, charge: charge.into() }), |_| true)
            }
        };
        Ok(Constant { _lent: uploaded.charge.lend(usage), uploaded })
    }
}

/// A buffer with some contents.
///
/// # Errors
/// `UnknownError` when the device has not the memory.
pub fn upload(device: &Device, bytes: &[u8], usage: BufferUsages) -> Result<Buffer> {
    let buffer = device.buffer(bytes.len(), usage | BufferUsages::COPY_DST)?;
    device.checked(|| {
        let (whole, rest) = bytes.split_at(bytes.len() & !3);
        if !whole.is_empty() {
            device.queue.write_buffer(&buffer, 0, whole);
        }
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            device.queue.write_buffer(&buffer, whole.len() as u64, &word);
        }
        Ok(())
    })?;
    Ok(buffer)
}
