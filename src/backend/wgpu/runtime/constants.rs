//! Constants on a device: equal ones once, whichever models and contexts have them.

use crate::error::Result;
use crate::graph::ConstantBytes;
use crate::memory::{Charge, Lending, Once, Usage, Use};
use std::sync::Arc;
use wgpu::Buffer;

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
    /// The buffer of a constant, which `upload` makes of its bytes.
    ///
    /// # Errors
    /// `QuotaExceededError` where the context or the model may not hold it; those of `upload`.
    pub fn get(
        &self,
        constant: &ConstantBytes,
        usage: &Arc<Usage>,
        upload: impl FnOnce(&[u8]) -> Result<Buffer>,
    ) -> Result<Constant> {
        let constant = constant.briefly();
        let identity = constant.identity();
        let uploaded = match self.0.find(&identity) {
            Some(found) => found,
            None => {
                let charge = usage.reserve(Use::Packed, constant.len())?;
                let buffer = upload(constant.as_slice())?;
                // Another thread may have been faster.
                self.0.keep(identity, Arc::new(Uploaded { buffer, charge: charge.into() }), |_| true)
            }
        };
        Ok(Constant { _lent: uploaded.charge.lend(usage), uploaded })
    }
}
