//! One error for the whole crate. A [`Kind`] is exactly one exception of the specification.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The exception that script sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `TypeError`: an argument that does not fit.
    Type,
    /// `RangeError`.
    Range,
    /// `NotSupportedError`: a context that cannot be had here.
    NotSupported,
    /// `InvalidStateError`: something was destroyed, lost, or already built.
    InvalidState,
    /// `OperationError`: an operation failed, or inherited a failure.
    Operation,
    /// `UnknownError`: memory or a readback failed by itself.
    Unknown,
    /// `QuotaExceededError`: more than a limit of script's allows.
    QuotaExceeded,
    /// `AbortError`: script does not want it any more.
    Aborted,
    /// `TimeoutError`: it had not begun in time.
    Timeout,
}

impl Kind {
    /// By the name of the exception.
    pub fn named(name: &str) -> Option<Kind> {
        use Kind::*;
        [Type, Range, NotSupported, InvalidState, Operation, Unknown, QuotaExceeded, Aborted, Timeout]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// The name of the exception.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Type => "TypeError",
            Kind::Range => "RangeError",
            Kind::NotSupported => "NotSupportedError",
            Kind::InvalidState => "InvalidStateError",
            Kind::Operation => "OperationError",
            Kind::Unknown => "UnknownError",
            Kind::QuotaExceeded => "QuotaExceededError",
            Kind::Aborted => "AbortError",
            Kind::Timeout => "TimeoutError",
        }
    }
}

/// The most errors that a chain of causes has.
const LONGEST_CHAIN: usize = 256;

/// Why script has given something up: a value of its own, which `lib/` keeps under this number for as long as an error has it.
#[derive(Debug)]
pub struct Reason(pub u64);

/// An error: its exception, a message for people, and what caused it.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: Cow<'static, str>,
    source: Option<Arc<Error>>,
    /// What script gets in the place of an exception.
    reason: Option<Arc<Reason>>,
    index: Option<IndexOutside>,
}

/// An index of a run that is not below its size, nor allowed from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOutside {
    pub index: i64,
    pub size: u32,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Work that may unwind with an error: it becomes one again. Other panics go on.
///
/// # Errors
/// Those of the work.
pub fn unwound<T, E: From<Error>>(work: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| match panic.downcast::<Error>() {
        Ok(error) => Err((*error).into()),
        Err(panic) => resume_unwind(panic),
    })
}

impl Error {
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Error { kind, message: message.into(), source: None, reason: None, index: None }
    }

    /// The same with another exception.
    pub fn as_kind(self, kind: Kind) -> Self {
        Error { kind, ..self }
    }

    /// Records the index that it is about.
    pub fn at_index(self, index: IndexOutside) -> Self {
        Error { index: Some(index), ..self }
    }

    /// A `TypeError` about one argument or option: what was found there and what is allowed.
    pub fn argument(argument: &str, found: impl fmt::Display, allowed: impl fmt::Display) -> Self {
        Error::new(Kind::Type, format!("{argument}: found {found}, allowed {allowed}"))
    }

    /// Puts the operator (or the method) and its label before the message.
    pub fn of(self, operator: &str, label: &str) -> Self {
        let message = if label.is_empty() {
            format!("{operator}: {}", self.message)
        } else {
            format!("{operator} [{}]: {}", Escaped(label), self.message)
        };
        Error { message: message.into(), ..self }
    }

    /// Records the error that led to this one. Failures can lead to failures without end; a chain that has become too long
    /// goes on with its first error.
    pub fn caused_by(self, source: Error) -> Self {
        let long = source.chain().nth(LONGEST_CHAIN - 2).is_some();
        let source = if long { source.root().clone() } else { source };
        Error { source: Some(Arc::new(source)), ..self }
    }

    /// This error, what caused it, what caused that, and so on.
    pub fn chain(&self) -> impl Iterator<Item = &Error> {
        std::iter::successors(Some(self), |error| error.cause())
    }

    /// The error that all this began with.
    pub fn root(&self) -> &Error {
        self.chain().last().unwrap_or(self)
    }

    /// An `AbortError` for which script has its own value.
    pub fn given_up(reason: Arc<Reason>) -> Self {
        Error { reason: Some(reason), ..Error::new(Kind::Aborted, "it was cancelled by its signal") }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it is about work that nobody wants any more, and that is therefore not done: no failure of the work.
    pub fn is_dropped(&self) -> bool {
        matches!(self.kind, Kind::Aborted | Kind::Timeout)
    }

    /// What script gets in its place, if script gave it.
    pub fn reason(&self) -> Option<&Arc<Reason>> {
        self.reason.as_ref()
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// The index that it is about.
    pub fn index(&self) -> Option<IndexOutside> {
        self.index
    }

    pub fn cause(&self) -> Option<&Error> {
        self.source.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}

/// A label as it may be shown: control characters and those that change the direction of writing are escaped
/// (the specification's advice on `MLOperatorOptions.label`).
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            let hidden = c.is_control()
                || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
            if hidden {
                write!(f, "\\u{{{:x}}}", c as u32)?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shown_escaped() {
        let error = Error::argument("filter", "rank 3", "rank 4").of("conv2d", "a\u{202e}b\n");
        assert_eq!(error.message(), "conv2d [a\\u{202e}b\\u{a}]: filter: found rank 3, allowed rank 4");
    }

    #[test]
    fn a_chain_of_causes_can_be_followed() {
        let first = Error::new(Kind::Operation, "first");
        let second = Error::new(Kind::Operation, "second").caused_by(first);
        assert_eq!(second.cause().unwrap().message(), "first");
    }

    #[test]
    fn a_chain_without_end_keeps_its_beginning() {
        let error = (0..100_000).fold(Error::new(Kind::Operation, "first"), |error, number| {
            Error::new(Kind::Operation, format!("after {number}")).caused_by(error)
        });
        assert!(error.chain().count() <= LONGEST_CHAIN);
        assert_eq!(error.message(), "after 99999");
        assert_eq!(error.root().message(), "first");
    }
}
