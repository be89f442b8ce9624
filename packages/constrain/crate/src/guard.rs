//! Work on a thread with room for deep recursion, whose panics are errors.

/// The library recurs for each level of what it reads. What it takes for as much as [`crate::limits`] allows is a third of this; only what is used
/// takes memory.
const STACK: usize = 256 << 20;

/// Does something on a thread of its own.
pub fn guarded<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let thread = std::thread::Builder::new().name("constrain".to_owned()).stack_size(STACK);
    let thread = thread.spawn(move || caught(work)).map_err(|error| format!("no thread: {error}"))?;
    thread.join().unwrap_or_else(|_| Err("panic (internal error)".to_owned()))
}

/// Does something whose panics are errors. Whoever calls does not use again what it has changed then.
pub fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let work = std::panic::AssertUnwindSafe(|| work().map_err(|text| Refused(text).into()));
    llguidance::panic_utils::catch_unwind(work).map_err(|error| first_lines(&error.to_string()))
}

/// A text as an error of the library's kind.
#[derive(Debug)]
struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Without the backtrace of a panic, which is how the library says that something is too much for it.
fn first_lines(text: &str) -> String {
    let text = text.split("\n<backtrace>").next().unwrap_or_default();
    text.strip_prefix("panic: ").map_or_else(|| text.to_owned(), |panic| format!("beyond what can be compiled ({panic})"))
}
