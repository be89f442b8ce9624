//! What an import can say that went wrong.

use crate::error::{Error, Escaped, Kind};
use std::fmt;

/// Why an import failed.
#[derive(Clone, Debug)]
pub enum ImportError {
    /// The file, the options, or the graph as a whole.
    Model(Error),
    /// All nodes that cannot be mapped, in the order of the file.
    Nodes(Vec<RefusedNode>),
}

/// A node that cannot be mapped to WebNN.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedNode {
    /// Its name, or the name of its first output when it has none.
    pub name: String,
    pub operator: String,
    /// `ai.onnx` for the standard one.
    pub domain: String,
    /// The version of the operator set.
    pub version: i64,
    pub reason: String,
}

impl fmt::Display for RefusedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} ({} of {} version {}): {}",
            Escaped(&self.name),
            Escaped(&self.operator),
            Escaped(&self.domain),
            self.version,
            Escaped(&self.reason)
        )
    }
}

impl From<Error> for ImportError {
    fn from(error: Error) -> Self {
        ImportError::Model(error)
    }
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Error {
        match error {
            ImportError::Model(error) => error,
            ImportError::Nodes(_) => Error::new(Kind::NotSupported, error.to_string()),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Model(error) => f.write_str(error.message()),
            ImportError::Nodes(nodes) => {
                write!(f, "{} of the model's nodes cannot be run", nodes.len())?;
                for node in nodes {
                    write!(f, "\n  {node}")?;
                }
                Ok(())
            }
        }
    }
}

/// Why a node cannot be mapped.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub text: String,
    /// With what it could be, once the model runs.
    pub wants: Option<Wants>,
}

/// What a node needs that only a run can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The elements of an input.
    Elements(usize),
}

impl Reason {
    /// The same, about a part of the node.
    pub fn of(self, what: &str) -> Reason {
        Reason { text: format!("{what}: {}", self.text), ..self }
    }
}

impl From<Error> for Reason {
    fn from(error: Error) -> Self {
        error.message().into()
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Reason { text, wants: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The result of mapping a part of a node.
pub type Mapped<T> = Result<T, Reason>;
