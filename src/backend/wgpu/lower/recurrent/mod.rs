//! Recurrent networks, and single steps of them. What depends on the input is computed for all steps at once; then each
//! step is a dispatch (or two) of the same kernel on other memory. States are float32 from step to step.

mod gru;
mod lstm;
mod network;
mod quantized_lstm;

pub use gru::{gru, gru_cell};
pub use lstm::{lstm, lstm_cell};
pub use quantized_lstm::quantized_lstm;
