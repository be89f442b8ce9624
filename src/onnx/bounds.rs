//! How much a model may ask for. A file of some hundred bytes can name any amount, of work at import and of memory when it runs.

use super::file::Model;
use crate::error::{Error, Kind, Result};
use std::sync::Arc;

/// What a caller decides about that.
#[derive(Clone)]
pub struct Bounds {
    /// The most bytes of weights, inputs, outputs and values in between; nothing for [`Bounds::default_bytes`].
    pub most_bytes: Option<usize>,
    /// Whether somebody still wants the model.
    pub is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { most_bytes: None, is_wanted: Arc::new(|| true) }
    }
}

impl std::fmt::Debug for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bounds({:?})", self.most_bytes)
    }
}

/// By default a model may take this, so much for each byte of its files, and so much for each byte of its inputs. Values in
/// between are at most some ten times the weights of large models, and some hundred times the picture that a small one is run on.
const BYTES: usize = 1 << 30;
const FOR_EACH_BYTE: usize = 64;
const FOR_EACH_INPUT_BYTE: usize = 256;

/// Importing may pass over so many bytes, in memory, and so many for each one of the file. A node of a model, and an operator of
/// the graph, count as [`NODE`] of them: half a microsecond or more.
const WORK: usize = 512 << 20;
const WORK_FOR_EACH_BYTE: usize = 16;
pub const NODE: usize = 512;

impl Bounds {
    /// The most bytes that a model with inputs of so many takes when it runs.
    pub fn bytes(&self, model: &Model, inputs: usize) -> usize {
        let of_file = model.read_length().saturating_mul(FOR_EACH_BYTE);
        let of_inputs = inputs.saturating_mul(FOR_EACH_INPUT_BYTE);
        self.most_bytes.unwrap_or(BYTES.saturating_add(of_file).saturating_add(of_inputs))
    }

    /// The most bytes that its nodes and attributes may take, without the weights, which stay where they are; and what importing may
    /// pass over.
    pub fn structure(&self, model: &Model) -> usize {
        let default = model.byte_length().saturating_mul(WORK_FOR_EACH_BYTE).saturating_add(WORK);
        default.max(self.most_bytes.unwrap_or(0))
    }

    /// What importing it may do. Whoever allows it more memory than the default allows it as much work.
    pub fn work(&self, model: &Model) -> Work {
        let most = self.structure(model);
        Work { left: most, most, of: model.byte_length(), asked: 0, is_wanted: self.is_wanted.clone() }
    }
}

/// What importing may still do.
pub struct Work {
    left: usize,
    most: usize,
    of: usize,
    asked: usize,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Default for Work {
    fn default() -> Self {
        Bounds::default().work(&Model::from_bytes([]))
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Work({} of {})", self.left, self.most)
    }
}

impl Work {
    /// Asked before everything whose amount the file decides, in bytes that are passed over.
    ///
    /// # Errors
    /// `OperationError` when it is too much, `InvalidStateError` when nobody wants the model any more, `UnknownError` when
    /// there is hardly any memory left.
    pub fn require(&mut self, bytes: usize) -> Result<()> {
        // To ask takes some locks.
        self.asked = self.asked.wrapping_add(1);
        if self.asked % 64 == 1 && !(self.is_wanted)() {
            return Err(Error::new(Kind::InvalidState, "the context was destroyed"));
        }
        crate::memory::check()?;
        let Some(left) = self.left.checked_sub(bytes) else {
            let Work { most, of, .. } = self;
            let message = format!(
                "importing the model would pass over more than {most} bytes of memory, which is what a file of {of} bytes is allowed; \
                 a larger maxBytes allows more"
            );
            return Err(Error::new(Kind::Operation, message));
        };
        self.left = left;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_the_file_and_the_inputs() {
        let model = Model::from_bytes(vec![0; 100]);
        let most = |most_bytes| Bounds { most_bytes, ..Bounds::default() }.bytes(&model, 10);
        assert_eq!(most(None), (1 << 30) + 6400 + 2560);
        assert_eq!(most(Some(7)), 7);
        assert_eq!(Bounds::default().bytes(&model, usize::MAX), usize::MAX);
    }

    #[test]
    fn work_comes_to_an_end() {
        let model = Model::from_bytes(vec![0; 100]);
        let mut work = Bounds::default().work(&model);
        work.require(WORK).unwrap();
        work.require(1600).unwrap();
        let error = work.require(1).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert!(error.message().contains("536872512") && error.message().contains("100 bytes"), "{error}");
        // The caller can allow more, and asks for nothing less by allowing less memory.
        let bounds = |most_bytes| Bounds { most_bytes, ..Bounds::default() };
        bounds(Some(2 << 30)).work(&model).require(2 << 30).unwrap();
        bounds(Some(1)).work(&model).require(WORK).unwrap();
    }

    #[test]
    fn work_that_nobody_wants_ends() {
        let bounds = Bounds { is_wanted: Arc::new(|| false), ..Bounds::default() };
        assert_eq!(bounds.work(&Model::from_bytes([])).require(0).unwrap_err().kind(), Kind::InvalidState);
    }
}
