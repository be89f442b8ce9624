//! Bytes of a model that arrive piece by piece, from a stream of script's: they are collected here, not in script's heap.

use super::bytes;
use super::call::{Call, stale};
use super::script::Value;
use crate::error::Result;
use crate::memory::{Held, Total, grow, require};

/// What has arrived.
pub struct Received {
    bytes: Vec<u8>,
    held: Held,
}

impl Received {
    fn new(expected: usize, total: &Total) -> Result<Received> {
        require(expected)?;
        let mut bytes = Vec::new();
        grow(&mut bytes, expected)?;
        Ok(Received { bytes, held: total.hold(0) })
    }

    fn add(&mut self, piece: &[u8]) -> Result<()> {
        if self.bytes.capacity() - self.bytes.len() < piece.len() {
            require(self.bytes.len().saturating_add(piece.len()))?;
            grow(&mut self.bytes, piece.len())?;
        }
        self.bytes.extend_from_slice(piece);
        self.held.set(self.bytes.len());
        Ok(())
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// `receiveBytes(expected)`: the handle of bytes that will arrive, of about so many.
pub fn begin<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    // `as` saturates.
    let received = Received::new(call.number(0)? as usize, &call.environment.external.total)?;
    let handle = call.environment.received.borrow_mut().insert(received);
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `receivePiece(bytes, piece)`
pub fn piece<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let handle = call.handle(0)?;
    let mut all = call.environment.received.borrow_mut();
    let received = all.get_mut(handle).ok_or_else(|| stale("model"))?;
    bytes::copy_by(call.scope, call.value(1), |piece| received.add(piece))?;
    Ok(None)
}

/// `dropReceived(bytes)`: they are not wanted.
pub fn forget<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.received.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}
