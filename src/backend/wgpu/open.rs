//! Finding a device for a context.

use super::runtime::adapter::{AdapterRequest, choose, features};
use super::runtime::device::Device;
use super::target::Features;
use super::trial;
use crate::error::Result;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use wgpu::AdapterInfo;

/// What tells devices apart.
type Key = (AdapterInfo, Features);

/// Finds the adapter that is requested, and its device, which all contexts of the adapter share. The drivers are loaded
/// by the first call, which may take long.
///
/// # Errors
/// `NotSupportedError` when there is no such adapter, or it gives no device.
pub fn open(request: AdapterRequest) -> Result<Arc<Device>> {
    static OPEN: Mutex<Vec<(Key, Weak<Device>)>> = Mutex::new(Vec::new());
    // Under the lock, so that two contexts do not make two devices.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let adapter = choose(request)?;
    let features = features(&adapter);
    let key = (adapter.get_info(), features);
    open.retain(|(_, device)| device.strong_count() > 0);
    let existing = open.iter().filter(|(other, _)| *other == key).find_map(|(_, device)| device.upgrade());
    if let Some(device) = existing.filter(|device| !device.is_lost()) {
        log(&key.0, features, "again");
        return Ok(device);
    }
    let device = match Device::new(&adapter, features) {
        Ok(device) if features.matrices.is_none() || trial::multiplies(&device) => device,
        // What is experimental is refused, or does it wrong: the rest is no worse for it.
        _ if features.matrices.is_some() => Device::new(&adapter, Features { matrices: None, ..features })?,
        refused => refused?,
    };
    log(&key.0, device.target.features, "new device");
    open.push((key, Arc::downgrade(&device)));
    Ok(device)
}

/// Says on stderr what was chosen, for those who set `WEBNN_LOG`.
fn log(info: &AdapterInfo, features: Features, what: &str) {
    if std::env::var_os("WEBNN_LOG").is_some_and(|value| !value.is_empty()) {
        let AdapterInfo { name, backend, driver, driver_info, device_type, .. } = info;
        eprintln!("webnn: adapter \"{name}\" ({backend:?}, {device_type:?}, {driver} {driver_info}), {features:?}, {what}");
    }
}
